"""An extractor on a resized input."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.extractors.joint import JointExtractor
from repri.models.extractors.lowlevel import LowLevel
from repri.models.extractors.projected import ProjectedExtractor
from repri.models.extractors.scaled import ScaledExtractor
from repri.runtime.errors import RepriError
from tests.models.grids import patches, places


@pytest.mark.parametrize("factor", [0.5, 0.65, 1.0, 1.7])
@pytest.mark.parametrize("on_pixels", [True, False])
@pytest.mark.parametrize("size", [(96, 144), (101, 83)])
def test_joint_features_lie_at_the_right_places(factor, on_pixels, size):
    """Features that are the place of a pixel stay so, whatever size the part sees."""
    first = patches(1, True)
    joint = JointExtractor([first, ScaledExtractor(patches(4, on_pixels), factor)])
    out = joint.extract(places(*size))[0]
    assert out.shape == (6, *size)
    edge = slice(round(6 / factor) + 2, -round(6 / factor) - 2)
    difference = (out[:2] - out[3:5])[:, edge, edge]
    assert difference.abs().max() < 0.05


@pytest.mark.parametrize("size", [(96, 144), (101, 83), (3, 5), (1, 40)])
@pytest.mark.parametrize("factor", [0.3, 1.7])
def test_cells_are_known_before(size, factor):
    extractor = ScaledExtractor(patches(6, False), factor)
    features = extractor.extract(torch.rand(2, 3, *size))
    assert features.shape == (2, 3, *extractor.cells(size))
    assert all(side % 6 == 0 for side in extractor.resized(size))
    view = extractor.view(size, size=max(size))
    assert view.restore(features[0]).shape == (3, *size)


def test_what_it_knows():
    under = load_extractor()
    extractor = ScaledExtractor(under, 0.65)
    assert (extractor.stride, extractor.on_pixels, extractor.channels) == (25, False, under.channels)
    assert (extractor.rule.size, extractor.rule.multiple, extractor.rule.mean) == (642, 1, under.rule.mean)
    assert (extractor.widths, extractor.seen) == (under.widths, under.seen)
    assert extractor.background is under.background
    assert extractor.whitening is under.whitening
    assert extractor.device == torch.device("cpu")
    assert extractor.name == "default at 0.65 times the size"
    half = ScaledExtractor(under, 0.5)
    assert len({under.fingerprint, extractor.fingerprint, half.fingerprint}) == 3
    assert len({under.identity, extractor.identity, half.identity}) == 3
    image = torch.rand(1, 3, 64, 96)
    assert torch.equal(ScaledExtractor(under, 1).extract(image), under.extract(image))


def test_pixels_and_a_network_side_by_side():
    """The network's part is on the grid of the pixels' part."""
    joint = JointExtractor(
        [LowLevel(), ProjectedExtractor(ScaledExtractor(load_extractor("twin", layers=["twin4"]), 0.65))]
    )
    assert joint.extract(torch.rand(2, 3, 101, 150)).shape == (2, 204, 51, 75)
    assert (joint.channels, joint.stride, joint.rule.size, joint.rule.multiple) == (204, 2, 640, 1)
    assert joint.cells((101, 150)) == (51, 75)


@pytest.mark.parametrize("factor", [0, -1.0, float("inf"), float("nan"), True, "half"])
def test_factors_that_cannot_be(factor):
    with pytest.raises(RepriError, match="factor must be a finite number above 0, got"):
        ScaledExtractor(patches(4, True), factor)
