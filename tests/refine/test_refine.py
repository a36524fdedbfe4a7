"""Refinements by name."""

import pytest
import torch

from repri.refine import REFINERS, get_refiner, register_refiner
from repri.refine.guided import guided
from repri.runtime.errors import RepriError
from tests.make import noise


def test_none_leaves_the_maps_alone():
    maps = torch.rand(2, 8, 9)
    assert get_refiner("none")(maps, noise(8, 9)) is maps


def test_guided_never_claims_more_than_everything():
    image = noise(30, 40)
    maps = torch.rand(3, 30, 40)
    maps /= maps.sum(0)
    refined = get_refiner("guided")(maps, image)
    assert refined.shape == maps.shape
    assert (refined.sum(0) <= 1 + 1e-5).all()
    alone = get_refiner("guided")(maps[:1], image)
    torch.testing.assert_close(alone, guided(maps[:1], torch.from_numpy(image).movedim(-1, 0) / 255))


def test_others_can_be_added(monkeypatch):
    monkeypatch.setattr(REFINERS, "_objects", dict(REFINERS._objects))

    @register_refiner("sharp", "probabilities become 0 or 1")
    def sharp(maps, image):
        return (maps > 0.5).float()

    assert get_refiner("sharp")(torch.tensor([[[0.2, 0.7]]]), noise(1, 2)).tolist() == [[[0.0, 1.0]]]
    assert REFINERS.about("sharp") == "probabilities become 0 or 1"


def test_an_unknown_name():
    with pytest.raises(RepriError, match="There is no refinement named 'gided', did you mean 'guided'"):
        get_refiner("gided")
