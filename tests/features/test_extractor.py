"""The interface of extractors: views, checks of their input, rounding, fingerprints."""

import numpy as np
import pytest
import torch

from repri.features.extractor import FeatureExtractor, InputRule, features_of, fingerprint_of
from repri.runtime.errors import RepriError
from tests.make import Cells, noise


def test_a_view_takes_the_extractors_own_size_and_multiple():
    view = Cells(8, size=64).view((50, 100))
    assert (view.content, view.full, view.grid.cells) == ((32, 64), (32, 64), (4, 8))
    assert Cells(8).view((50, 100), size=70).full == (40, 72)
    assert Cells(8, on_pixels=True).view((50, 100), size=70).full == (35, 70)
    assert Cells(8, on_pixels=True).cells((35, 70)) == (5, 9)


@pytest.mark.parametrize("resize", ["square", "letterbox"])
def test_a_square_input_must_be_a_multiple(resize):
    sentence = "cells takes sides that are multiples of 8, and the input has 65 pixels: set size to 64 or 72"
    with pytest.raises(RepriError, match=sentence):
        Cells(8).view((50, 100), resize, 65)
    assert Cells(8).view((50, 100), resize, 64).full == (64, 64)
    assert Cells(8, on_pixels=True).view((50, 100), resize, 65).full == (65, 65)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (torch.rand(3, 16, 16), r"cells: images must be a tensor \[B, 3, H, W\], got \[3, 16, 16\]"),
        (torch.rand(1, 4, 16, 16), r"images must be a tensor \[B, 3, H, W\], got \[1, 4, 16, 16\]"),
        (torch.rand(0, 3, 16, 16), r"images must be a tensor \[B, 3, H, W\], got \[0, 3, 16, 16\]"),
        (np.zeros((1, 3, 16, 16)), "got ndarray"),
        (torch.zeros(1, 3, 16, 16, dtype=torch.uint8), r"must be float in \[0, 1\], got torch.uint8: divide them"),
        (torch.rand(1, 3, 16, 17), "must be multiples of 8, got 16×17: resize or pad to 16×24"),
    ],
)
def test_wrong_images_are_refused(images, sentence):
    with pytest.raises(RepriError, match=sentence):
        Cells(8).extract(images)


def test_extract_normalises_and_returns_ordinary_tensors():
    class Normalised(Cells):
        def __init__(self):
            super().__init__(8)
            self.rule = InputRule(64, 8, (0.5, 0.25, 0.0), (0.5, 0.25, 1.0))

    features = Normalised().extract(torch.full((2, 3, 16, 16), 0.75, dtype=torch.float64))
    assert features.dtype == torch.float32
    torch.testing.assert_close(features[0, :3, 0, 0], torch.tensor([0.5, 2.0, 0.75]))
    features.requires_grad_()  # which tensors of inference mode refuse


def test_new_features_are_rounded_like_stored_ones():
    extractor, image = Cells(8), noise(40, 60)
    view = extractor.view((40, 60))
    exact = extractor.extract(view.pixels(image)[None])[0]
    assert torch.equal(features_of(extractor, image, view), exact.half())
    assert torch.equal(features_of(extractor, image, view, "single"), exact)


def test_features_that_are_wrong_are_told():
    class Broken(Cells):
        def _forward(self, images):
            return super()._forward(images) * float("inf")

    class Lying(Cells):
        def cells(self, pixels):
            return 3, 3

    image = noise(40, 60)
    for precision, advice in (("half", "use single precision or another extractor"), ("single", "use another")):
        with pytest.raises(RepriError, match=f"cells gives features that are NaN or infinite: {advice}"):
            features_of(Broken(), image, Broken().view((40, 60)), precision)
    with pytest.raises(RuntimeError, match=r"its method cells\(\) is wrong"):  # a bug of whoever wrote it
        features_of(Lying(), image, Lying().view((40, 60)))


def test_what_an_extractor_says_by_default():
    extractor = Cells()
    assert extractor.widths == (4,)
    assert extractor.identity == extractor.fingerprint == "a"
    assert extractor.coarse(2) is extractor
    assert extractor.default_preset == "clean"
    extractor.background = torch.ones(4)
    assert extractor.default_preset == "discriminant"
    extractor.networks = 2
    assert extractor.default_preset == "joint"
    with pytest.raises(TypeError, match="Can't instantiate abstract class FeatureExtractor"):
        FeatureExtractor()


def test_a_fingerprint_depends_on_everything():
    tensors = {"w": torch.arange(6.0).reshape(2, 3)}
    same = fingerprint_of(["net", 3], tensors.items())
    assert same == fingerprint_of(("net", 3), [("w", torch.arange(6.0).reshape(2, 3))])
    others = [
        fingerprint_of(["net", 4], tensors.items()),
        fingerprint_of(["net", 3], [("v", tensors["w"])]),
        fingerprint_of(["net", 3], [("w", tensors["w"].reshape(3, 2))]),
        fingerprint_of(["net", 3], [("w", tensors["w"] + 1)]),
        fingerprint_of(["net", 3], [("w", tensors["w"].half())]),
    ]
    assert len({same, *others}) == 6
