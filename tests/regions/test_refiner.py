"""The refinement by regions."""

import numpy as np
import pytest
import torch

from repri.refine import Staged, get_refiner, refine_name
from repri.regions import refiner as module
from repri.regions.refiner import RegionRefiner, region_map
from repri.runtime.errors import RepriError

from .make import ColourRegions, two_squares


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


@pytest.fixture
def model():
    return ColourRegions(side=512)


@pytest.fixture
def blobs():
    """The image, its mask, and a map that is high on a part of each square."""
    image, mask = two_squares()
    p = torch.full(mask.shape, 0.05)
    p[12:24, 12:24], p[62:80, 84:100] = 0.9, 0.8
    return image, mask == 1, p


def test_a_part_of_each_object_becomes_the_whole(model, blobs):
    image, truth, p = blobs
    assert iou((p > 0.5).numpy(), truth) < 0.4
    new, regions = region_map(model, model.encode(image), p)
    assert regions.any(0).sum() > 0
    assert iou((new > 0.5).numpy(), truth) > 0.85
    assert new.min() >= 0
    assert new.max() <= 1
    assert new[15, 15] > new[38, 38] > 0.5  # the old map still tells how sure it is


def test_a_map_that_shows_nothing_stays(blobs, monkeypatch):
    image, _, p = blobs
    monkeypatch.setattr(RegionRefiner, "_model", property(lambda self: pytest.fail("no model is needed")))
    low = p[None] * 0.5
    assert torch.equal(RegionRefiner(lambda maps, image: maps, "x").choose(low, image)[0], low)


def test_every_class_has_its_own_regions(model, blobs, monkeypatch):
    image, _, _ = blobs
    image[60:90, 10:40] = (30, 200, 30)
    maps = torch.zeros(3, *image.shape[:2])
    maps[0, 12:24, 12:24], maps[1, 65:75, 15:25], maps[2] = 0.9, 0.8, 0.02
    monkeypatch.setattr(module.RegionRefiner, "_model", model)
    new = RegionRefiner(lambda maps, image: maps, "x").choose(maps, image)[0]
    assert new.sum(0).max() <= 1 + 1e-6
    assert (new[0] > 0.5)[56:88, 80:112].float().mean() > 0.8  # the other red square
    assert (new[1] > 0.5)[62:88, 12:38].all()
    assert torch.equal(new[2], maps[2] / new.sum(0).clamp_min(1)) or new[2].max() <= 0.02
    assert model.encoded == 1


def test_objects_without_a_prompt_stay(model):
    """Twenty small objects and six prompts, each of another colour: none is lost."""
    image, p = np.zeros((100, 200, 3), np.uint8), torch.zeros(100, 200)
    for k in range(20):
        row, column = divmod(k, 5)
        image[row * 25 : row * 25 + 12, column * 40 : column * 40 + 12] = (40 + 10 * k, 250 - 10 * k, 90)
        p[row * 25 + 2 : row * 25 + 10, column * 40 + 2 : column * 40 + 10] = 0.9
    new, _ = region_map(model, model.encode(image), p)
    assert all((new > 0.5)[r * 25 + 4 : r * 25 + 8, c * 40 + 4 : c * 40 + 8].all() for r in range(4) for c in range(5))


def test_large_images_take_little_longer(model):
    image, mask = (np.repeat(np.repeat(array, 15, 0), 15, 1) for array in two_squares())
    p = torch.full(mask.shape, 0.02)
    p[180:360, 180:360], p[930:1200, 1260:1500] = 0.9, 0.8
    new, _ = region_map(model, model.encode(image), p)
    assert iou((new > 0.5).numpy(), mask == 1) > 0.85


def test_names(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    with pytest.raises(RepriError, match="run repri weights get sam2-tiny"):
        get_refiner("regions")
    with pytest.raises(RepriError, match="There is no region model 'nothing'"):
        get_refiner("regions:nothing")
    with pytest.raises(RepriError, match="uses no model"):
        get_refiner("guided:sam2-tiny")
    with pytest.raises(RepriError, match="refine is 'guided'"):
        refine_name("guided", "sam2-tiny")
    for part in ("encoder", "decoder"):
        (tmp_path / f"{part}.onnx").write_bytes(b"")
    found = get_refiner(f"regions:{tmp_path}")
    assert isinstance(found, Staged)
    assert found.model == str(tmp_path)
