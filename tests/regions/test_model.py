"""Prompts of every kind, and mistakes in them."""

import numpy as np
import pytest
import torch

from repri.runtime.errors import RepriError

from .make import ColourRegions, two_squares


@pytest.mark.parametrize("fit", ["pad", "squash"])
def test_a_click_and_a_box_give_masks_at_the_images_size(fit):
    model, (image, mask) = ColourRegions(fit), two_squares()
    embedding = model.encode(image)
    clicked = model.masks(embedding, points=[(24, 24)]).best()[0].numpy()
    assert (clicked == (mask == 1)).mean() > 0.95
    boxed = model.masks(embedding, box=(6, 6, 42, 42)).best()[0].numpy()
    assert boxed[10:38, 10:38].all()
    assert not boxed[:, 64:].any()


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ({}, "needs points, a box or a mask"),
        ({"labels": [1]}, "give points with them"),
        ({"points": [(500, 10)]}, "outside the image, which has 128×96"),
        ({"points": [(1, 2, 3)]}, r"points must have the shape \[n, 2\]"),
        ({"points": [(1, 2)], "labels": [7]}, "labels must hold"),
        ({"box": (40, 10, 20, 30)}, "left < right"),
        ({"points": [[(1, 2)], [(3, 4)]], "box": [(1, 1, 9, 9)] * 3}, "same number of prompts"),
    ],
)
def test_mistakes_in_prompts(prompt, said):
    model = ColourRegions()
    embedding = model.encode(two_squares()[0])
    with pytest.raises(RepriError, match=said):
        model.masks(embedding, **prompt)


def test_an_image_that_is_none():
    with pytest.raises(RepriError, match="uint8"):
        ColourRegions().encode(np.zeros((4, 4), np.float32))


def test_one_prompt_for_several_boxes():
    model = ColourRegions()
    found = model.masks(model.encode(two_squares()[0]), box=[(6, 6, 42, 42), (70, 50, 120, 94)])
    assert found.iou.shape == (2, 3)
    assert torch.equal(found.best()[0], found.at_size()[0, 0])
