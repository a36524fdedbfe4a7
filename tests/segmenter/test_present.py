"""Classes that an image is known to show."""

import numpy as np
import pytest

from repri import Segmenter
from repri.runtime.errors import RepriError
from repri.segmenter.present import read_present


@pytest.fixture(scope="module", params=[{}, {"joint": False}, {"textures": 0.7}])
def fitted(two_classes, request):
    images, masks, _, _ = two_classes
    options = {"refine": "none", "size": 192, "auto": False} | request.param
    if "textures" in options:
        del options["auto"]
    return Segmenter("filters", **options).fit(images, [masks[0], 2 * masks[1]], classes=("a", "b"))


def test_absent_classes_get_no_pixel(two_classes, fitted):
    _, _, query, truth = two_classes
    both, told = fitted.segment(query, present=["a", "b"]), fitted.segment(query, present=["b"])
    assert both.probabilities["a"].max() > 0.01
    assert both.presences == {"a": 1, "b": 1}
    assert set(np.unique(told.mask)) == {0, 2}
    assert told.probabilities["a"].max() == told.proportions["a"] == told.presences["a"] == 0
    assert told.presences["b"] == 1
    assert (told.probabilities["b"] >= both.probabilities["b"] - 1e-3).all()
    assert ((told.mask == 2) & (truth == 2)).sum() >= ((both.mask == 2) & (truth == 2)).sum()
    assert not fitted.segment(query, present=[]).mask.any()


def test_the_logistic_regression_is_told_too(two_classes, fitted):
    from dataclasses import replace

    from repri.segmenter.logistic import make_classifier

    _, _, query, _ = two_classes
    old = fitted.classifier
    classifier = make_classifier(True, old.shots, 2, old.method, old.extractor, True)
    logistic = replace(fitted, classifier=classifier)
    assert set(np.unique(logistic.segment(query, present=["a"]).mask)) <= {0, 1}


def test_each_of_many_images_has_its_own_classes(two_classes, fitted):
    _, _, query, _ = two_classes
    results = list(fitted.segment_many([query] * 3, batch=3, present={"image 1": ["a"], "image 3": ["b"]}))
    assert [2 in result.mask for result in results][::2] == [False, True]
    assert np.array_equal(results[0].mask, fitted.segment(query, present=["a"]).mask)
    assert np.array_equal(results[1].mask, fitted.segment(query).mask)


def test_a_single_class_that_is_absent(pair, extractor):
    (image, mask), (query, _) = pair
    fitted = Segmenter(extractor, auto=False).fit(image, mask)
    assert not fitted.segment(query, present=[]).mask.any()
    assert np.array_equal(fitted.segment(query, present=fitted.classes).mask, fitted.segment(query).mask)


def test_mistakes(two_classes, fitted):
    query = two_classes[2]
    with pytest.raises(RepriError, match="'c', which is no class"):
        fitted.segment(query, present=["c"])
    with pytest.raises(RepriError, match="present takes a list of classes"):
        fitted.segment(query, present="a")
    with pytest.raises(RepriError, match="proportion or present, not both"):
        fitted.segment(query, proportion={"a": 0.1, "b": 0.1}, present=["a"])


def test_a_table_is_read(tmp_path):
    file = tmp_path / "tags.csv"
    file.write_text("\ufeffimage,classes\nx.jpg,cat,dog\n\ny.jpg\n z.jpg , dog ,\n", encoding="utf-8")
    assert read_present(file, ("cat", "dog")) == {"x.jpg": ("cat", "dog"), "y.jpg": (), "z.jpg": ("dog",)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x.jpg,cow\n", "line 1: 'cow' is no class. Known: cat, dog"),
        ("x.jpg,cat\nx.jpg,dog\n", "line 2: 'x.jpg' is named twice"),
        ("image,classes\n", "names no image"),
        (",cat\n", "line 1: the name of the image is missing"),
    ],
)
def test_bad_tables(tmp_path, text, sentence):
    file = tmp_path / "tags.csv"
    file.write_text(text)
    with pytest.raises(RepriError, match=sentence):
        read_present(file, ("cat", "dog"))
