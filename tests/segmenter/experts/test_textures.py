"""The expert on colours and textures."""

import numpy as np
import pytest
import torch

from repri.segmenter.experts.learned import LearnSettings
from repri.segmenter.experts.textures import MOST, PIXELS, SMALL, fit_textures, sheet_of, sheets_of, working_scale

QUICK = LearnSettings(members=1, steps=60, hidden=16)


def blobs(seed=0, size=(96, 128), light=1.0):
    """An image of red discs on grey noise, and its mask."""
    rng = np.random.default_rng(seed)
    image = rng.integers(90, 130, (*size, 3)).astype(np.float32)
    rows, columns = np.ogrid[: size[0], : size[1]]
    mask = np.zeros(size, np.uint8)
    for _ in range(6):
        middle = rng.integers(8, size[0] - 8), rng.integers(8, size[1] - 8)
        mask[(rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < 40] = 1
    image[mask == 1] += (70, -50, -50)
    return (image * light).clip(0, 255).astype(np.uint8), mask


def iou(logs, mask):
    ours = logs.argmax(0).numpy() == 1
    return (ours & (mask == 1)).sum() / (ours | (mask == 1)).sum()


def fitted(images, maps, classes=1, copies=2, balanced=False):
    sheets = [sheets_of(SMALL, image, 1.0, copies, k) for k, image in enumerate(images)]
    return fit_textures(SMALL, sheets, maps, classes, 1.0, QUICK, balanced=balanced)


@pytest.mark.parametrize("light", [1.0, 0.75])
def test_small_objects_are_segmented_in_another_light(light):
    image, mask = blobs()
    query, truth = blobs(1, light=light)
    logs = fitted([image], [mask], copies=4).logs(query)
    assert logs.shape == (2, 96, 128)
    assert (logs <= 0).all()
    assert iou(logs, truth) > 0.7


def test_several_classes():
    image, mask = blobs()
    image[:30], mask[:30] = (20, 20, 200), 2
    assert (mask == 1).any()
    logs = fitted([image], [mask], 2).logs(image)
    assert (logs.argmax(0).numpy() == mask).mean() > 0.95


def test_few_scribbles_on_an_object_are_not_outvoted_by_those_on_the_background():
    image, mask = blobs()
    scribbles = np.full_like(mask, 255)
    scribbles[mask == 0] = 0
    scribbles[::2] = 255  # half of the background
    scribbles[tuple(np.argwhere(mask == 1)[::150].T)] = 1
    assert (scribbles == 1).sum() < 6
    assert iou(fitted([image], [scribbles], balanced=True).logs(image), mask) > 0.6
    assert iou(fitted([image], [scribbles]).logs(image), mask) < 0.5


def test_a_class_that_no_cell_shows_spoils_nothing():
    image, mask = blobs()
    logs = fitted([image], [mask * 2], 2).logs(image)
    assert logs.isfinite().all()
    assert ((logs.argmax(0).numpy() == 2) == (mask == 1)).mean() > 0.95


def test_scribbles_are_enough():
    image, mask = blobs()
    strokes = np.full(mask.shape, 255, np.uint8)
    strokes[::9] = mask[::9]
    assert iou(fitted([image], [strokes]).logs(image), mask) > 0.7


def test_a_known_proportion_is_used():
    image, mask = blobs()
    expert = fitted([image], [mask])
    low, high = (float(expert.logs(image, (pi,)).exp()[1].mean()) for pi in (0.02, 0.4))
    assert low < float(mask.mean()) < high


def test_the_same_image_and_seed_give_the_same_bits():
    image, mask = blobs()
    assert torch.equal(fitted([image], [mask]).logs(image), fitted([image], [mask]).logs(image))


def test_cells_that_nobody_labelled_are_left_out():
    image, mask = blobs()
    sheet = sheet_of(SMALL, image, 1.0)
    places, fractions = sheet.labelled(np.full_like(mask, 255), 1)
    assert places.shape == (0,)
    assert fractions.shape == (0, 2)
    places, fractions = sheet.labelled(mask, 1)
    assert places.tolist() == list(range(48 * 64))
    assert float(fractions[:, 1].mean()) == pytest.approx(mask.mean(), abs=1e-6)


def test_the_working_size_follows_the_object():
    def scale(longest, wide):
        mask = np.zeros((longest // 2, longest), np.uint8)
        mask[:, 10 : 10 + wide] = 1
        return working_scale([np.zeros((longest // 2, longest, 3), np.uint8)], [mask])

    assert scale(400, 60) == 1  # images are never enlarged
    usual = (PIXELS / (640 * 1280)) ** 0.5
    assert scale(1280, 300) == usual
    assert usual < scale(1280, 6) <= 1
    assert scale(8000, 2) == MOST / 8000  # no more than memory allows


def test_large_queries_are_reduced():
    sheet = sheet_of(SMALL, np.zeros((40, 2 * MOST, 3), np.uint8), 1.0)
    assert sheet.view.content[1] == MOST
