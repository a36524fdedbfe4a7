"""Inputs of every usual kind."""

import numpy as np
import pytest
import torch
from PIL import Image

from repri import RepriError
from repri.segmenter.inputs import Known, as_image, as_masks, check_names, known_proportion, load_shots, name_of


def test_images_of_every_shape():
    assert as_image(np.zeros((5, 7), np.uint8)).shape == (5, 7, 3)
    assert as_image(torch.zeros(3, 5, 7)).shape == (5, 7, 3)
    assert as_image(torch.zeros(3, 50, 1)).shape == (50, 1, 3)
    assert as_image(torch.zeros(1, 5, 7)).shape == (5, 7, 3)
    assert as_image(np.zeros((5, 7, 4), np.uint8)).mean() == 255  # transparent, on white
    assert as_image(np.full((5, 7), 65535, np.uint16)).mean() == 255
    assert as_image(np.full((5, 7), True)).mean() == 255
    with pytest.raises(RepriError, match=r"An image of floats has values in \[0, 1\], got 7 … 7"):
        as_image(np.full((4, 4, 3), 7.0))
    with pytest.raises(RepriError, match=r"An image is an array \[H, W, 3\] or \[H, W\], got shape \[0, 4, 3\]"):
        as_image(np.zeros((0, 4, 3), np.uint8))


def test_meanings_of_255():
    """The object among masks of two levels; unlabelled beside masks of ids; never the object in scribbles."""
    two, ids = np.array([[0, 255]]), np.array([[0, 1]])
    assert as_masks([two, two * 0], 1)[0].tolist() == [[0, 1]]
    assert as_masks([two, ids], 1)[0].tolist() == [[0, 255]]
    assert as_masks([two.astype(float)], 1)[0].tolist() == [[0, 1]]
    assert as_masks([torch.tensor([[[0, 1]]])], 1)[0].tolist() == [[0, 1]]
    assert as_masks([Image.fromarray(np.array([[0, 255]], np.uint8)).convert("RGB")], 1)[0].tolist() == [[0, 1]]
    assert as_masks([np.array([[0.2, 255.0]])], 1)[0].dtype == np.float32
    image = np.zeros((4, 4, 3), np.uint8)
    strokes = [np.array([[0, 255, 255, 255]] * 4), np.array([[0, 1, 255, 255]] * 4)]
    _, _, maps = load_shots([image, image], {"scribbles": strokes}, None)
    assert (maps[0] == 1).sum() == 0


@pytest.mark.parametrize(
    ("values", "classes", "sentence"),
    [
        ([[0.2, 7.0]], 1, r"A soft mask holds values in \[0, 1\], or 255 for unlabelled pixels"),
        ([[-2, 1]], 1, "The mask holds the value -2: it may hold 0 … 1, and 255 for unlabelled"),
        ([[1.5, 1.0]], 2, r"The mask holds the value 1\.5: it may hold 0 … 2"),
        ([[[0, 1], [1, 0]]] * 2, 1, r"A mask is an array \[H, W\], got shape \[2, 2, 2\]"),
    ],
)
def test_masks_that_are_wrong(values, classes, sentence):
    with pytest.raises(RepriError, match=sentence):
        as_masks([np.array(values)], classes)


def test_a_mask_file_that_is_wrong_is_named(tmp_path):
    Image.fromarray(np.array([[0, 7]], np.uint8)).save(tmp_path / "mask.png")
    with pytest.raises(RepriError, match=r"mask\.png holds the value 7: it may hold 0 … 1"):
        as_masks([tmp_path / "mask.png"], 1)


def test_one_image_of_two_classes_in_any_order():
    image = np.zeros((4, 6, 3), np.uint8)
    cat, dog = np.zeros((4, 6), np.uint8), np.zeros((4, 6), np.uint8)
    cat[:2], dog[:2, 3:], dog[3] = 1, 255, 1
    for order in (("cat", "dog"), ("dog", "cat")):
        masks = {"cat": cat, "dog": dog}
        names, images, (ids,) = load_shots(
            dict.fromkeys(order, image), {"masks": {name: masks[name] for name in order}}, None
        )
        assert len(images) == 1
        assert (ids == names.index("cat") + 1).sum() == 12
        assert (ids == names.index("dog") + 1).sum() == 6
    with pytest.raises(RepriError, match="has masks of different sizes"):
        load_shots({"cat": image, "dog": image}, {"masks": {"cat": cat, "dog": dog[:3]}}, None)


def test_known_proportions():
    assert known_proportion(None, ("cat",)) == Known(None, None)
    assert known_proportion(0.2, ("cat",)) == Known((0.2,), None)
    assert known_proportion((0.1, 0.2), ("cat",)) == Known(None, (0.1, 0.2))
    assert known_proportion({"dog": 0.3, "cat": 0.2}, ("cat", "dog")) == Known((0.2, 0.3), None)


@pytest.mark.parametrize(
    ("proportion", "classes", "sentence"),
    [
        (0, ("cat",), r"A proportion lies between 0 and 1, and their sum is below 1, got \[0\.0\]"),
        (1.5, ("cat",), r"A proportion lies between 0 and 1, .* got \[1\.5\]"),
        ({"cat": 0.6, "dog": 0.5}, ("cat", "dog"), r"their sum is below 1, got \[0\.6, 0\.5\]"),
        ((0.5, 0.2), ("cat",), r"A range of proportions is \(low, high\) with 0 < low ≤ high < 1, got \(0\.5, 0\.2\)"),
        ((0.1, 0.2), ("cat", "dog"), "A range of proportions is for a single class"),
        ({"dog": 0.1}, ("cat",), "proportion must name each of cat, got dog"),
        (0.1, ("cat", "dog"), 'proportion must name each of cat, dog: {"name": 0.1, …}'),
    ],
)
def test_proportions_that_are_wrong(proportion, classes, sentence):
    with pytest.raises(RepriError, match=sentence):
        known_proportion(proportion, classes)


def test_names():
    assert check_names("cat") == ("cat",)
    assert check_names(["cat", "dog"]) == ("cat", "dog")
    with pytest.raises(RepriError, match="The classes must have different names, got none"):
        check_names(())
    assert name_of(2, np.zeros((2, 2))) == "image 3"
    assert name_of(2, "a/b.png") == "a/b.png"
