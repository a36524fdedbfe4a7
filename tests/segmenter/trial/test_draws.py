"""Which images of a trial are the support and the queries."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from repri import RepriError
from repri.segmenter.trial.draws import TrialFolder, draw_support, plan_draws, read_folder, shots_text
from repri.segmenter.trial.settings import TrialSettings
from tests.make import annotated_folder, noise


def labelme(folder, name, shapes):
    folder.mkdir(exist_ok=True)
    Image.fromarray(noise(64, 64)).save(folder / f"{name}.png")
    entries = [{"label": label, "points": points, "shape_type": kind} for label, kind, points in shapes]
    content = {"shapes": entries, "imagePath": f"{name}.png", "imageHeight": 64, "imageWidth": 64}
    (folder / f"{name}.json").write_text(json.dumps(content))


AREA = ("cat", "polygon", [[5, 5], [35, 5], [35, 35], [5, 35]])


def test_the_draw_of_forty_images():
    """What `random.Random(0).shuffle` makes of forty names."""
    draw = draw_support(np.ones((40, 1), bool), 5, 0, 4)
    assert draw.support == (0, 27, 12, 21, 29)
    assert draw.queries == (15, 38, 34, 1)


@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 4), st.integers(0, 50), st.integers(1, 6))
def test_a_draw_against_a_slow_one(images, classes, shots, seed, queries):
    shows = np.random.default_rng(seed).random((images, classes)) < 0.6
    names = [f"{i:03}" for i in range(images)]
    random.Random(seed).shuffle(names)
    support, waiting = [], list(names)
    while waiting and any(sum(shows[int(n), c] for n in support) < shots for c in range(classes)):
        name = waiting.pop(0)
        wanted = [c for c in range(classes) if sum(shows[int(n), c] for n in support) < shots]
        if any(shows[int(name), c] for c in wanted):
            support.append(name)
    others = [name for name in names if name not in support][:queries]
    draw = draw_support(shows, shots, seed, queries)
    assert [f"{i:03}" for i in draw.support] == support
    assert [f"{i:03}" for i in draw.queries] == others


def test_a_folder_is_read_by_name(tmp_path):
    folder = read_folder(annotated_folder(tmp_path / "set", 3, ("red", "blue")), TrialSettings())
    assert (folder.name, folder.classes) == ("set", ("red", "blue"))
    assert folder.names((0, 2)) == ["00.png", "02.png"]
    assert folder.pixels.tolist() == [[24 * 32, 24 * 32, 64 * 96]] * 3
    assert set(np.unique(folder.mask(1))) == {0, 1, 2}
    blue = read_folder(tmp_path / "set", TrialSettings(classes=("blue",)))
    assert np.array_equal(blue.mask(1) == 1, folder.mask(1) == 2)
    with pytest.raises(RepriError, match="has no class 'green'; it has red, blue"):
        read_folder(tmp_path / "set", TrialSettings(classes=("green",)))


def test_an_empty_mask_is_an_annotation(tmp_path):
    path = annotated_folder(tmp_path / "set", 3)
    Image.new("L", (96, 64)).save(path / "masks/01.png")
    folder = read_folder(path, TrialSettings())
    assert folder.shows[:, 0].tolist() == [True, False, True]
    assert folder.notes == ()


def test_images_without_shapes_are_left_out_of_other_formats(tmp_path):
    for name, shapes in (("a", [AREA]), ("b", [AREA]), ("c", [])):
        labelme(tmp_path / "set", name, shapes)
    folder = read_folder(tmp_path / "set", TrialSettings())
    assert folder.names((0, 1)) == ["a.png", "b.png"]
    assert len(folder.items) == 2
    (note,) = folder.notes
    assert "images without any shape were left out" in note


def test_an_image_that_cannot_be_read_is_one_sentence(tmp_path):
    for name in "abc":
        labelme(tmp_path / "set", name, [AREA])
    whole = (tmp_path / "set/b.png").read_bytes()
    (tmp_path / "set/b.png").write_bytes(whole[: len(whole) // 2])
    folder = read_folder(tmp_path / "set", TrialSettings())
    assert folder.names((0, 1)) == ["a.png", "c.png"]
    (note,) = folder.notes
    assert "an image was left out, because it cannot be read" in note
    assert "b.png" in note


@pytest.mark.parametrize("kind", ["box", "scribble"])
def test_weak_annotations_cannot_be_scored(tmp_path, kind):
    weak = ("cat", {"box": "rectangle", "scribble": "linestrip"}[kind], [[40, 40], [60, 60]])
    for name, shapes in (("a", [AREA]), ("b", [AREA, weak])):
        labelme(tmp_path / "set", name, shapes)
    with pytest.raises(RepriError, match=rf"b\.png has a {kind}, which does not say exactly which pixels are right"):
        read_folder(tmp_path / "set", TrialSettings())


def test_one_image_is_not_enough(tmp_path):
    path = annotated_folder(tmp_path / "set", 1)
    with pytest.raises(RepriError, match="has 1 annotated image, and a trial needs at least 2: one for the support"):
        read_folder(path, TrialSettings())


def made(pixels, size=10_000):
    pixels = np.array(pixels)
    names = tuple("abc"[: pixels.shape[1]])
    every = np.concatenate([pixels, np.full((len(pixels), 1), size)], 1)
    return TrialFolder("set", "set", names, (), {}, every)


def test_an_image_shows_a_class_from_a_hundred_pixels_on():
    assert made([[100], [101], [0]]).shows[:, 0].tolist() == [False, True, False]
    assert made([[40], [41], [0]], size=4000).shows[:, 0].tolist() == [False, True, False]
    assert made([[3], [0], [1]]).shows[:, 0].tolist() == [True, False, True]  # it is small everywhere


def test_shots_that_are_too_many_are_left_out():
    plan = plan_draws(made([[500]] * 4), TrialSettings(shots=(5, 4, 3, 1), draws=2))
    assert list(plan.draws) == [1, 3]
    assert plan.left_out == {
        4: "no image would remain as a query (4 are annotated)",
        5: "there are only 4 annotated images",
    }
    assert [draw.seed for draw in plan.draws[3]] == [0, 1]
    assert all(len(draw.support) == 3 and len(draw.queries) == 1 for draw in plan.draws[3])
    assert all(len(draw.queries) == 3 for draw in plan.draws[1])


def test_a_rare_class_limits_the_shots():
    plan = plan_draws(made([[500, 500], [500, 0], [500, 0], [500, 0]]), TrialSettings(shots=(1, 2)))
    assert list(plan.draws) == [1]
    assert plan.left_out == {2: "only 1 image shows b"}
    assert all(0 in draw.support for draw in plan.draws[1])


def test_no_possible_number_of_shots_is_an_error():
    with pytest.raises(RepriError, match="set cannot be tried with 5 shots: there are only 4 annotated images;"):
        plan_draws(made([[500]] * 4), TrialSettings(shots=(7, 5)))


def test_numbers_of_shots_in_words():
    assert [shots_text(n) for n in (1, 2)] == ["1 shot", "2 shots"]
