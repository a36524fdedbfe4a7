"""The images of a trial."""

import numpy as np
import pytest
from PIL import Image

from repri.segmenter.trial.draws import Draw, Plan, read_folder
from repri.segmenter.trial.images import COLOURS, GAP, LINE, TILE, best_and_worst, draw_curve, sheet
from repri.segmenter.trial.run import FolderResult, Outcome, ScoredDraw
from repri.segmenter.trial.settings import TrialSettings
from tests.make import annotated_folder, noise, square


def result_of(path, ious, keep=True):
    """A folder whose queries have these IoUs; the predicted masks are the true ones."""
    folder = read_folder(annotated_folder(path, len(ious) + 1), TrialSettings())
    queries = tuple(range(1, len(ious) + 1))
    masks = tuple(folder.mask(i) for i in queries) if keep else ()
    hits, unions = np.array([[round(100 * iou)] for iou in ious]), np.full((len(ious), 1), 100)
    draw = ScoredDraw(Draw(0, (0,), queries), hits, unions, 0.1, 0.1, None, masks)
    return FolderResult("set", folder, Plan({}, {}), (Outcome("auto", 1, folder.classes, (draw,)),))


def test_a_sheet_shows_outline_and_mask():
    image, mask = noise() // 4, square()
    drawn = sheet([("a", image, mask, mask), ("b", image, mask, np.zeros_like(mask))])
    assert drawn.shape == (3 * LINE + 2 * 40, 2 * TILE + GAP, 3)
    first, second = drawn[2 * LINE : 2 * LINE + 40], drawn[3 * LINE + 40 :]
    inside, colour = np.s_[13:27, 18:32], np.array(COLOURS[1])
    assert np.array_equal(first[:, :60][inside], image[inside])
    assert (first[10, 15:35] == colour).all()
    assert (first[11, 15:35] == colour).all()
    right = first[:, 60 + GAP : 120 + GAP]
    assert np.abs(right[inside].astype(int) - (0.55 * image[inside] + 0.45 * colour)).max() <= 1
    assert np.array_equal(second[:, 60 + GAP : 120 + GAP], image)


def test_pixels_without_a_label_have_no_outline():
    image = noise() // 4
    drawn = sheet([("a", image, np.where(square() == 1, 255, 0).astype(np.uint8), square() * 0)])
    assert np.array_equal(drawn[2 * LINE :, :60], image)


def test_large_images_are_reduced():
    image, mask = np.zeros((1000, 500, 3), np.uint8), np.zeros((1000, 500), np.uint8)
    assert sheet([("a", image, mask, mask[::4, ::4])]).shape == (2 * LINE + TILE, 2 * TILE + GAP, 3)


@pytest.mark.parametrize(("count", "best", "worst"), [(1, 1, 1), (3, 2, 1), (10, 4, 4)])
def test_best_and_worst(tmp_path, count, best, worst, monkeypatch):
    ious = np.linspace(0.1, 0.9, count).round(2).tolist()
    texts = []
    monkeypatch.setattr(
        "repri.segmenter.trial.images.sheet", lambda rows: texts.append([row[0].split()[-1] for row in rows])
    )
    assert list(best_and_worst(result_of(tmp_path / "set", ious))) == ["best", "worst"]
    assert texts == [[f"{x:.2f}" for x in ious[::-1][:best]], [f"{x:.2f}" for x in ious[:worst]]]


def test_no_sheets_without_masks(tmp_path):
    assert best_and_worst(result_of(tmp_path / "set", [0.5], keep=False)) == {}


def test_a_curve_for_several_folders(tmp_path):
    pytest.importorskip("matplotlib")
    result = result_of(tmp_path / "a $set", [0.5, 0.7])
    draw_curve([result] * 4, tmp_path / "curve.png")
    with Image.open(tmp_path / "curve.png") as image:
        assert image.size[0] > 900
