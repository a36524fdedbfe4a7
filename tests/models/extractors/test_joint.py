"""Features of several extractors side by side."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.extractors.joint import JointExtractor
from repri.models.extractors.stitched import StitchedExtractor
from repri.runtime.errors import RepriError
from tests.models.grids import patches, places


@pytest.mark.parametrize("first", [patches(4, True), patches(6, False), StitchedExtractor(patches(6, False), 3)])
@pytest.mark.parametrize("second", [patches(4, True), patches(6, False), patches(8, True)])
def test_cells_of_all_parts_lie_at_the_same_pixels(first, second):
    """Features that are the place of a pixel are the same from both parts, up to the border of the coarser one."""
    joint = JointExtractor([first, second])
    out = joint.extract(places(48, 72))[0]
    a, b = out[:2], out[3:5]
    assert out.shape[1:] == first.extract(places(48, 72)).shape[2:]
    edge = -(-12 // first.stride)
    inner = (slice(None), slice(edge, -edge), slice(edge, -edge))
    assert torch.allclose(a[inner], b[inner], atol=0.51)  # shifts are by whole pixels
    assert (joint.rule.size, joint.rule.multiple) == (32, 6 if 6 in (first.rule.multiple, second.rule.multiple) else 1)
    assert joint.widths == (3, 3)
    assert joint.cells((48, 72)) == out.shape[1:]


def test_at_least_one_part():
    with pytest.raises(RepriError, match="A joint extractor needs at least one part"):
        JointExtractor([])


@pytest.mark.filterwarnings("ignore:.*is untrained")
def test_a_coarse_joint_extractor_has_its_parts_at_the_cells_that_are_left():
    first, second = load_extractor("resnet50", layers=["layer4"]), patches(6, False)
    image = places(96, 96) / 96
    fine, coarse = JointExtractor([first, StitchedExtractor(second, 2)]), JointExtractor([first, second])
    thinned = fine.coarse(2)
    torch.testing.assert_close(thinned.extract(image)[:, 2048:], coarse.extract(image)[:, 2048:, ::2, ::2])
    assert (thinned.stride, thinned.widths, thinned.rule) == (16, fine.widths, fine.rule)
    assert fine.coarse(3) is fine
    assert JointExtractor([second, first]).coarse(2).parts[0] is second
