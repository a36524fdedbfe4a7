"""Settings from the support."""

from dataclasses import replace

import numpy as np
import pytest

from repri import RepriError, Segmenter
from repri.segmenter.experts.blend import ALIKE
from repri.segmenter.experts.choose import (
    ALIKE_IN_DOUBT,
    LARGER,
    LARGER_OF_CLASSES,
    WEIGHTS,
    WEIGHTS_OF_ONE,
    WEIGHTS_OF_THIN,
    _far_of_scribbles,
    choose,
)
from repri.segmenter.experts.compare import Compare
from repri.segmenter.experts.scores import CLEARLY
from repri.segmenter.experts.textures import SMALL
from tests.make import build_quick, square
from tests.segmenter.experts.test_textures import blobs


@pytest.fixture(scope="module")
def support():
    pairs = [blobs(seed) for seed in range(3)]
    return [image for image, _ in pairs], [mask for _, mask in pairs]


def comparison(images, maps, **options):
    segmenter = Segmenter(build_quick(), **options)
    return Compare(segmenter._look(), SMALL, images, maps, 1, segmenter.inference, True, "none")


@pytest.mark.parametrize("shots", [1, 3])
def test_textures_are_chosen_for_small_discs(support, shots):
    images, maps = (part[:shots] for part in support)
    choice, textures = choose(comparison(images, maps))
    assert choice.weight > 0
    assert textures is not None
    scores = list(choice.scores.values())
    assert max(scores) > scores[0] + CLEARLY
    assert choice.least == pytest.approx(min(mask.mean() for mask in maps) / 2)


def test_a_fitted_segmenter_uses_and_tells_its_choice(support):
    images, maps = support
    query, truth = blobs(9)
    results = {}
    for auto in (False, True):
        fitted = Segmenter(build_quick(), refine="none", auto=auto).fit(images, maps)
        mask = fitted.segment(query).mask
        results[auto] = ((mask == 1) & (truth == 1)).sum() / ((mask == 1) | (truth == 1)).sum()
    assert "textures (weight" in str(fitted.choice)
    assert results[True] > results[False] + 0.1
    assert results[True] > 0.7


@pytest.mark.parametrize(
    ("gain", "weight", "alike"), [(0.01, 0.0, None), (0.06, 0.7, ALIKE_IN_DOUBT), (0.25, 0.7, ALIKE)]
)
def test_in_doubt_textures_of_one_image_count_only_for_queries_that_are_very_like_it(
    support, monkeypatch, gain, weight, alike
):
    monkeypatch.setattr(Compare, "uniform", False)
    monkeypatch.setattr(
        "repri.segmenter.experts.choose.score", lambda pixels, setting, free: 0.5 + gain * bool(setting.weight)
    )
    choice, textures = choose(comparison(support[0][:1], support[1][:1]))
    assert choice.weight == weight
    assert (textures is None) == (weight == 0)
    assert alike is None or choice.alike == pytest.approx(alike)


def test_a_weight_that_is_given_is_taken(support):
    images, maps = support
    fitted = Segmenter(build_quick(), textures=0.4).fit(images, maps)
    assert fitted.choice.weight == 0.4
    assert fitted.choice.scores == {}
    assert Segmenter(build_quick(), textures=0.0).fit(images, maps).textures is None


def test_a_size_that_is_given_is_kept(support):
    images, maps = (part[:2] for part in support)
    choice, _ = choose(comparison(images, maps), fixed_size=True)
    assert choice.size is None
    assert len(choice.scores) == len(WEIGHTS)


@pytest.mark.parametrize(("side", "small"), [(60, False), (8, True)])
def test_the_filter_follows_the_size_of_the_object(side, small):
    image, mask = blobs(0)
    compare = comparison([image], [square(*mask.shape, 20, 30, side)])
    assert compare.small_objects == small
    assert choose(compare)[0].size is None
    assert replace(compare, refine="guided").better_refine == ("fine" if small else None)


def test_very_thin_objects_of_one_image_get_more_weight_of_textures():
    image, mask = blobs(0)
    thin, wide = (square(*mask.shape, 20, 30, side) for side in (1, 20))
    weights = [{name.split(",")[0] for name in choose(comparison([image], [m]))[0].scores} for m in (thin, wide)]
    assert weights == [{f"textures {w:g}" for w in used} for used in (WEIGHTS_OF_THIN, WEIGHTS_OF_ONE)]


def test_a_thin_object_of_one_image_of_one_kind_takes_textures_whatever_its_few_pixels_say(monkeypatch):
    image, mask = blobs(0)
    monkeypatch.setattr(
        "repri.segmenter.experts.choose.score", lambda pixels, setting, free: 0.3 - 0.2 * bool(setting.weight)
    )
    weights = {}
    for uniform in (False, True):
        monkeypatch.setattr(Compare, "uniform", uniform)
        for side in (1, 20):
            weights[uniform, side] = choose(comparison([image], [square(*mask.shape, 20, 30, side)]))[0].weight
    assert weights == {(False, 1): 0.0, (False, 20): 0.0, (True, 1): WEIGHTS_OF_THIN[-1], (True, 20): 0.0}


@pytest.mark.parametrize(("shots", "uniform", "expected"), [(1, False, False), (1, True, True), (3, False, True)])
def test_halves_of_a_photograph_are_compared_as_they_are(support, monkeypatch, shots, uniform, expected):
    asked = set()

    def score(pixels, setting, free):
        asked.add(free)
        return 0.5

    monkeypatch.setattr(Compare, "uniform", uniform)
    monkeypatch.setattr("repri.segmenter.experts.choose.score", score)
    choose(comparison(*(part[:shots] for part in support)))
    assert asked == {expected}


@pytest.mark.parametrize(("classes", "factor"), [(1, LARGER), (2, LARGER_OF_CLASSES)])
def test_a_larger_size_is_tried_where_textures_do_not_count(support, monkeypatch, classes, factor):
    images, maps = ([*part, *part] for part in support)
    maps = [np.where(mask == 1, 1 + (k % classes), mask).astype(np.uint8) for k, mask in enumerate(maps)]
    compare = replace(comparison(images, maps), classes=classes)
    sizes = {}
    for gain in (0.4, -0.4):  # of textures
        monkeypatch.setattr(
            "repri.segmenter.experts.choose.score", lambda pixels, setting, free, g=gain: 0.5 + g * setting.weight
        )
        choice, _ = choose(compare)
        sizes[gain] = {name.split(", ")[1] for name in choice.scores}
    own = compare.look.size
    assert sizes == {0.4: {f"{own} pixels"}, -0.4: {f"{own} pixels", f"{round(factor * own)} pixels"}}


def test_scribbles_that_all_settings_are_right_about_choose_textures_in_uniform_images(support, monkeypatch):
    images, maps = (part[:1] for part in support)
    monkeypatch.setattr("repri.segmenter.experts.choose.score", lambda pixels, setting, **options: 1.0)
    scribbles = [np.where(np.random.default_rng(0).random(mask.shape) < 0.9, 255, mask) for mask in maps]
    for uniform, drawn, expected in ((0.0, maps, 0.0), (0.0, scribbles, 0.7), (1.0, scribbles, 0.0)):
        monkeypatch.setattr("repri.segmenter.experts.compare.UNIFORM", uniform)
        assert choose(comparison(images, drawn))[0].weight == expected


@pytest.mark.parametrize(
    ("default", "uniform", "single", "expected"),
    [
        (0.2, False, True, 0.14),
        (0.9, False, False, 0.05),
        (0.99, False, True, 0.04),
        (0.9, True, False, -0.02),
        (0.9, True, True, -1.0),
    ],
)
def test_held_out_scribbles_are_too_easy_to_ask_for_a_large_gain(default, uniform, single, expected):
    assert _far_of_scribbles(0.14, default, uniform, single) == pytest.approx(expected)


def test_terms_of_the_method_are_those_of_the_textures(support):
    images, maps = (part[:1] for part in support)
    steps = comparison(images, maps, method="ce").steps
    assert (steps.lambda_h, steps.lambda_kl) == (0.0, 0.0)
    steps = comparison(images, maps, method="ce_h").steps
    assert (steps.lambda_h, steps.lambda_kl) == (None, 0.0)


def test_other_methods_choose_nothing(support):
    images, maps = support
    fitted = Segmenter(build_quick(), method="prototype").fit(images, maps)
    assert fitted.choice.scores == {}
    assert fitted.textures is None


def test_a_weight_outside_its_range_is_refused():
    with pytest.raises(RepriError, match="textures is a weight between 0 and 1, got 2"):
        Segmenter("filters", textures=2)


def test_classes_that_one_image_shows_and_others_do_not():
    (first, one), (second, two) = blobs(0), blobs(1)
    second = np.ascontiguousarray(second[:, :, ::-1])
    fitted = Segmenter(build_quick()).fit_maps([first, second], [one, two * 2], ("red", "blue"))
    assert fitted.segment(first).mask.max() <= 2
