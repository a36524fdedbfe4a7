"""Features of several networks together."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.joint import JointExtractor
from repri.models.stitched import StitchedExtractor
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


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "joint.yaml"
    path.write_text("parts:\n- {name: distilled}\n- {name: filters, shifts: 2}\n")
    return path


def test_a_description(described):
    joint, one = load_extractor(str(described)), load_extractor("distilled")
    image = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    found = joint.extract(image)
    assert found.shape == (1, 384 + 256, 4, 6)
    assert torch.equal(found[:, :384], one.extract(image))
    assert joint.fingerprint != one.fingerprint
    assert load_extractor(str(described), shifts=2).extract(image).shape == (1, 640, 8, 12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: []", "at least one part"),
        ("parts: distilled", "expected one key, parts, with a list"),
        ("parts: [{name: filters}]\nsize: 3", "expected one key, parts"),
        ("parts: [{name: filters, layer: [1]}]", r"part 1: unknown setting 'layer', did you mean 'layers'"),
        ("parts: [{weights: x}]", r"part 1: the setting 'name' is missing"),
        ("parts: [{name: nosuch}]", "unknown extractor 'nosuch'"),
    ],
)
def test_mistakes_in_a_description(tmp_path, text, message):
    path = tmp_path / "joint.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_extractor(str(path))


def test_nothing_is_said_twice(described):
    with pytest.raises(ValueError, match="takes no 'layers'"):
        load_extractor(str(described), layers=(-1,))
