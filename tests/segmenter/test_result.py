"""The result of one image."""

import io
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from PIL import Image

from repri import RepriError, Segmentation
from repri.data import read_mask
from tests.make import noise, square


def made(*names):
    """A result with one class for each name, in stripes."""
    mask = square(40, 60)
    for n in range(1, len(names)):
        mask[:, -5 * n :] = n + 1
    probabilities = {name: (mask == n).astype(np.float32) for n, name in enumerate(names, 1)}
    proportions = {name: float(values.mean()) for name, values in probabilities.items()}
    return Segmentation("x.png", noise(), mask, probabilities, proportions, 0.9, dict.fromkeys(names, 0.7))


def test_a_single_class_has_values_of_its_own():
    result = made("cat")
    assert result.classes == ("cat",)
    assert result.probability is result.probabilities["cat"]
    assert result.proportion == result.proportions["cat"] == pytest.approx(400 / 2400)
    assert result.presence == 0.7
    assert result.present


@pytest.mark.parametrize(
    ("one", "several"),
    [("probability", "probabilities"), ("proportion", "proportions"), ("presence", "presences")],
)
def test_several_classes_have_values_by_name(one, several):
    result = made("cat", "dog")
    assert set(getattr(result, several)) == {"cat", "dog"}
    sentence = rf"{one} is for a single class and the result has cat, dog: use {several}\[name\]"
    with pytest.raises(RepriError, match=sentence):
        getattr(result, one)


def test_presence_of_any_class_counts():
    result = made("cat", "dog")
    assert result.present
    result.presences.update(cat=0.1, dog=0.49)
    assert not result.present


def test_the_mask_is_drawn_over_the_image():
    result = made("cat")
    drawn = result.overlay()
    assert drawn.shape == result.image.shape
    assert drawn.dtype == np.uint8
    changed = (drawn != result.image).any(-1)
    assert changed[12:28, 17:33].mean() > 0.95
    assert not changed[:9].any()
    with Image.open(io.BytesIO(result._repr_png_())) as shown:
        assert shown.format == "PNG"
        assert np.array_equal(np.asarray(shown), drawn)


def test_the_mask_is_saved_as_class_ids(tmp_path):
    result = made("cat", "dog")
    result.save(tmp_path / "new" / "mask.png")
    assert np.array_equal(read_mask(tmp_path / "new" / "mask.png"), result.mask)
    result.save(str(tmp_path / "MASK.PNG"))
    with pytest.raises(
        RepriError, match=r"A mask is saved as PNG: give a file name that ends in \.png, got .*mask\.jpg"
    ):
        result.save(tmp_path / "mask.jpg")


def test_a_result_is_frozen():
    with pytest.raises(FrozenInstanceError):
        made("cat").confidence = 1.0


def test_its_repr_is_one_line_that_tells_size_proportion_and_confidence():
    mask, image = np.zeros((30, 40), np.uint8), np.zeros((30, 40, 3), np.uint8)
    result = Segmentation("a.jpg", image, mask, {"cat": mask}, {"cat": 0.25}, 0.5, {"cat": 1.0})
    assert repr(result) == "Segmentation(a.jpg: 40×30 pixels; cat 25.0%; confidence 0.50)"
