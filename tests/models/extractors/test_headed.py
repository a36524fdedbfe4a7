"""An extractor with a head on top."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.models.extractors.headed import HeadedExtractor
from repri.models.heads.convolution import Head
from repri.models.heads.discriminant import Discriminant
from repri.runtime.errors import RepriError
from tests.models.grids import patches, places


def test_the_head_gets_the_features_below():
    under, head = patches(4, True), nn.Conv2d(3, 5, 1)
    extractor = HeadedExtractor(under, head)
    images = torch.rand(1, 3, 16, 24)
    features = under.extract(images)
    with torch.inference_mode():
        torch.testing.assert_close(extractor.extract(images), head(features).clone())
        rounded = head(features.half().float()).clone()
    assert torch.equal(extractor.finish(features), extractor.extract(images))
    torch.testing.assert_close(HeadedExtractor(under, head, rounds=True).extract(images), rounded, rtol=0, atol=0)
    assert (extractor.channels, extractor.stride, extractor.on_pixels) == (5, 4, True)
    assert extractor.cells((16, 24)) == (4, 6)


def test_names_sizes_and_classes():
    under, head = patches(4, True), nn.Conv2d(3, 5, 1)
    plain = HeadedExtractor(under, head)
    named = HeadedExtractor(under, head, size=64, name="mine", seen=["cat", "dog"])
    assert (plain.name, plain.rule, plain.seen) == ("p4 with a head", under.rule, ())
    assert (named.name, named.rule, named.seen) == ("mine", under.rule._replace(size=64), ("cat", "dog"))
    assert named.fingerprint == plain.fingerprint
    assert len({under.identity, plain.identity, HeadedExtractor(under, head, rounds=True).identity}) == 3


@pytest.mark.parametrize("on_pixels", [True, False])
def test_a_head_that_refines_the_grid(on_pixels):
    extractor = HeadedExtractor(patches(8, on_pixels), Head(3, "conv", 4, upsample=2))
    images = places(24, 32)
    assert extractor.extract(images).shape == (1, 4, 6, 8)
    assert extractor.cells((24, 32)) == (6, 8)
    assert (extractor.stride, extractor.on_pixels) == (4, False)


def test_a_refined_grid_follows_that_below():
    """25 pixels are 4 cells of 8 pixels, so they are 8 refined cells, not 7 of 4 pixels."""
    extractor = HeadedExtractor(patches(8, True), Head(3, "conv", 4, upsample=2))
    assert extractor.cells((25, 25)) == extractor.extract(places(25, 25)).shape[-2:] == (8, 8)


def test_a_discriminant_tells_the_background():
    head = Discriminant([3], 3)
    assert HeadedExtractor(patches(4, True), head).background is None  # not fitted
    head.matrix.copy_(torch.eye(3))
    head.background.copy_(F.normalize(torch.ones(3), dim=0))
    extractor = HeadedExtractor(patches(4, True), head)
    assert torch.equal(extractor.background, head.background)


def test_a_head_must_tell_its_channels():
    with pytest.raises(RepriError, match="The head on p4 must tell the number of its channels, as out_channels"):
        HeadedExtractor(patches(4, True), nn.Identity())
