"""A trial: scores, intervals, the sentence of advice, and runs of small folders."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from repri import RepriError, Segmenter
from repri.segmenter.experts.blend import Choice
from repri.segmenter.trial import run as trial
from repri.segmenter.trial.draws import Draw, plan_draws, read_folder
from repri.segmenter.trial.run import (
    Outcome,
    ScoredDraw,
    advice,
    count_classes,
    mean_figure,
    run_draw,
    segmenters,
)
from repri.segmenter.trial.settings import TRIED, TrialSettings
from tests.make import annotated_folder, build_quick


def scored(hits, unions, seed=0, choice=None):
    """A draw with these counts [queries, classes]."""
    queries = tuple(range(1, len(hits) + 1))
    return ScoredDraw(Draw(seed, (0,), queries), np.array(hits), np.array(unions), 1.0, 0.5, choice)


def outcome(*draws, method="auto", shots=1, classes=("cat",)):
    return Outcome(method, shots, classes, draws)


def flat(iou, shots=1, method="auto"):
    """An outcome whose queries lie around an IoU."""
    return outcome(scored([[100 * iou - 5], [100 * iou + 5]], [[100], [100]]), shots=shots, method=method)


@given(st.integers(0, 1000), st.integers(1, 3))
def test_counts_against_loops_over_pixels(seed, classes):
    rng = np.random.default_rng(seed)
    mask, truth = rng.integers(0, classes + 1, (2, 5, 7))
    truth[rng.random((5, 7)) < 0.2] = 255
    hits, unions = [0] * classes, [0] * classes
    for a, b in zip(mask.ravel().tolist(), truth.ravel().tolist(), strict=True):
        for n in range(1, classes + 1):
            if b != 255:
                hits[n - 1] += a == n and b == n
                unions[n - 1] += a == n or b == n
    assert count_classes(mask, truth, classes) == (hits, unions)


@given(st.integers(0, 1000))
def test_scores_against_a_slow_implementation(seed):
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(3):
        unions = rng.integers(0, 50, (4, 2)) * rng.integers(0, 2, 2)
        draws.append((rng.integers(0, unions + 1), unions))
    expected = []
    for hits, unions in draws:
        ious = [sum(hits[:, c]) / sum(unions[:, c]) for c in range(2) if sum(unions[:, c])]
        if ious:
            expected.append(sum(ious) / len(ious))
    result = outcome(*(scored(hits, unions) for hits, unions in draws), classes=("cat", "dog"))
    if not expected:
        assert math.isnan(result.iou)
        return
    mean = sum(expected) / len(expected)
    assert result.iou == pytest.approx(mean)
    if len(expected) > 1:
        assert result.std == pytest.approx((sum((x - mean) ** 2 for x in expected) / len(expected)) ** 0.5)
    low, high = result.figure.interval
    assert math.isnan(low) or low <= high


def test_the_interval_against_a_slow_bootstrap():
    rng = np.random.default_rng(0)
    draws = []
    for seed in range(2):
        unions = rng.integers(50, 100, (12, 2))
        draws.append(scored(rng.integers(10, unions), unions, seed))
    low, high = outcome(*draws, classes=("cat", "dog")).figure.interval
    samples = []
    for _ in range(2000):
        ious = []
        for draw in draws:
            chosen = rng.integers(0, 12, 12)
            ious.append(np.mean(draw.hits[chosen].sum(0) / draw.unions[chosen].sum(0)))
        samples.append(np.mean(ious))
    assert (low, high) == pytest.approx(np.percentile(samples, [2.5, 97.5]), abs=0.015)


def test_figures_of_classes_and_queries():
    result = outcome(scored([[1, 0], [3, 0]], [[2, 0], [4, 0]]), classes=("cat", "dog"))
    assert result.class_figures["cat"].iou == pytest.approx(4 / 6)
    assert math.isnan(result.class_figures["dog"].iou)
    assert result.iou == pytest.approx(4 / 6)
    assert result.draws[0].query_ious.tolist() == [0.5, 0.75]
    assert math.isnan(result.std)
    assert (result.fit_s, result.query_s) == (1.0, 0.5)


def test_one_query_has_no_interval():
    assert all(math.isnan(value) for value in outcome(scored([[1]], [[2]])).figure.interval)


def test_the_interval_is_the_same_every_time():
    first, second = (outcome(scored([[1], [3], [5]], [[9], [9], [9]])).figure for _ in range(2))
    assert first == second


def test_the_mean_over_folders():
    figure = mean_figure([flat(0.4), flat(0.6)])
    assert figure.iou == pytest.approx(0.5)
    assert 0.45 <= figure.interval[0] < 0.5 < figure.interval[1] <= 0.55


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (0.50, "; from 2 to 5 it rose by 0.10, so more annotation is still worth it."),
        (0.59, "; from 2 to 5 it hardly changed, so more annotation will help little."),
        (0.70, "; from 2 to 5 it fell by 0.10, so better images help more than further ones."),
    ],
)
def test_the_advice_is_about_the_last_step(before, end):
    sentence = advice({"set": [flat(0.2, 1), flat(before, 2), flat(0.6, 5), flat(0.3, 5, "forest")]})
    start = "With 5 annotated images and the method auto expect an IoU of about 0.60 (0.55 to 0.65)"
    assert sentence == start + end


def test_the_advice_of_other_trials():
    assert advice({"set": [flat(0.6)]}).startswith("With 1 annotated image and the method auto expect an IoU of about")
    both = advice({"a": [flat(0.6), flat(0.7, 5)], "b": [flat(0.4)]})
    assert both == (
        "With 1 annotated image and the method auto expect an IoU of about 0.50 (0.45 to 0.55), as a mean over the 2 "
        "folders."
    )
    assert "no number of shots in common" in advice({"a": [flat(0.6, 1)], "b": [flat(0.4, 2)]})
    assert "No query shows an object" in advice({"a": [outcome(scored([[0]], [[0]]))]})
    classes = advice({"a": [outcome(scored([[1, 1]], [[2, 2]]), classes=("cat", "dog"))]})
    assert "With 1 annotated image of each class and the method auto expect an IoU of about 0.50." in classes


@pytest.mark.parametrize("name", [name for name in TRIED if name not in ("forest", "regions")])
def test_each_method_has_a_segmenter(name):
    made = segmenters(name, build_quick())
    assert isinstance(made, Segmenter)
    assert made.method == {"auto": "repri", "told": "repri", "default": "repri"}.get(name, name.removeprefix("auto-"))
    assert made.auto == name.startswith(("auto", "told"))


def test_an_extractor_that_does_not_exist_is_told_early():
    with pytest.raises(RepriError, match="nowhere"):
        segmenters("default", "nowhere")


@pytest.mark.parametrize("classes", [("red",), ("red", "blue")])
@pytest.mark.parametrize("scribbles", [False, True])
def test_a_run_finds_the_squares(tmp_path, classes, scribbles):
    settings = TrialSettings(shots=(2,), draws=1, scribbles=scribbles)
    folder = read_folder(annotated_folder(tmp_path / "set", 5, classes), settings)
    (draw,) = plan_draws(folder, settings).draws[2]
    result = run_draw(segmenters("ce", build_quick()), folder, draw, settings, keep=True)
    assert result.hits.shape == result.unions.shape == (3, len(classes))
    assert result.query_ious.min() > 0.4
    assert [mask.shape for mask in result.masks] == [(64, 96)] * 3
    assert result.fit_s > 0
    assert result.query_s > 0
    for row, place in enumerate(draw.queries):
        assert count_classes(result.masks[row], folder.mask(place), len(classes)) == (
            result.hits[row].tolist(),
            result.unions[row].tolist(),
        )


def test_pixels_without_a_label_do_not_count(tmp_path):
    settings = TrialSettings(shots=(1,), draws=1)
    path = annotated_folder(tmp_path / "set", 3)
    folder = read_folder(path, settings)
    (draw,) = plan_draws(folder, settings).draws[1]
    segmenter = segmenters("ce", build_quick())
    before = run_draw(segmenter, folder, draw, settings, keep=True)
    query = draw.queries[0]
    mask = folder.mask(query)
    mask[(before.masks[0] == 1) != (mask == 1)] = 255  # all that was wrong
    Image.fromarray(mask).save(path / "masks" / folder.items[query].image.name)
    after = run_draw(segmenter, read_folder(path, settings), draw, settings)
    assert after.query_ious[0] == 1
    assert after.query_ious[1] == before.query_ious[1]
    assert after.masks == ()


def test_the_choice_of_a_segmenter_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Choice, "__str__", lambda choice: "It took the forest.")
    settings = TrialSettings(shots=(1,), draws=1, queries=1)
    folder = read_folder(annotated_folder(tmp_path / "set", 3), settings)
    (draw,) = plan_draws(folder, settings).draws[1]
    assert len(draw.queries) == 1
    assert run_draw(segmenters("auto", build_quick()), folder, draw, settings).choice == "It took the forest."


def test_masks_of_large_images_are_reduced():
    assert trial._reduced(np.zeros((2000, 1000), np.uint8)).shape == (trial.KEPT, trial.KEPT // 2)
