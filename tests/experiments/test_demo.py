import numpy as np
import pytest
import torch
from PIL import Image

from repri.data.datasets.scenes import make_task
from repri.experiments.demo import EXTRACTOR, PHOTOS, draw, iou, mean_iou, photographs, run, scenes
from repri.models import load_extractor
from repri.models.extractors.filters import FilterBank


@pytest.fixture(scope="module")
def results():
    return run(photographs(), load_extractor(EXTRACTOR))


def test_people_are_segmented_in_photographs(results):
    assert len(results) == len(PHOTOS)
    for task in results:
        assert task.maps["CE + H + KL"].shape == task.query.mask.shape
        assert task.iou["CE + H + KL"] > 0.6
    assert mean_iou(results)["CE + H + KL"] > 0.7


def test_the_photographs_are_outlined_by_hand():
    for pair in photographs():
        for item in pair:
            assert item.image.shape[:2] == item.mask.shape
            assert 0.2 < (item.mask == 1).mean() < 0.7
            assert set(np.unique(item.mask)) == {0, 1}


def test_textures_are_found_by_filters():
    means = mean_iou(run(scenes(range(8)), FilterBank()))
    assert means["CE + H + KL"] > 0.5
    assert means["CE + H + KL"] > means["initial"]


def test_the_figure_is_written(results, tmp_path):
    draw(results[:2], tmp_path / "sub" / "demo.png")
    with Image.open(tmp_path / "sub" / "demo.png") as figure:
        assert figure.width > figure.height
        assert len(set(figure.convert("L").get_flattened_data())) > 50
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["demo.png"]


def test_scenes_are_reproducible_and_hold_the_object():
    a, b = make_task(5, shots=2, size=96), make_task(5, shots=2, size=96)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert a.support.shape == (2, 3, 96, 96)
    for mask in (*a.support_masks, a.query_mask):
        assert 0.02 < mask.float().mean() < 0.6
    assert not torch.equal(a.query, make_task(6, size=96).query)


def test_filter_bank_shapes_and_rotation():
    bank = FilterBank(channels=64, stride=4)
    images = torch.rand(2, 3, 50, 63)
    features = bank.extract(images)
    assert features.shape == (2, 64, 13, 16)
    image = make_task(0, size=96).query[None]
    turned = bank.extract(image.rot90(1, (2, 3))).rot90(-1, (2, 3))
    inner = (..., slice(6, -6), slice(6, -6))
    assert torch.nn.functional.cosine_similarity(turned, bank.extract(image), dim=1)[inner].mean() > 0.9


def test_iou():
    a = torch.tensor([True, True, False, False])
    assert iou(a, torch.tensor([1, 0, 1, 0])) == pytest.approx(1 / 3)
    assert iou(torch.zeros(2, dtype=torch.bool), torch.tensor([0, 0])) == 1.0
