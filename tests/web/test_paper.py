"""The objective on one image."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from repri import Segmenter
from repri.web.limits import Refused
from repri.web.paper import layers, solve
from repri.web.settings import ClassSettings
from tests.web.make import finish, full_annotation


def decoded(answer):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(answer["layers"]))))


def test_layers_hold_labels_and_probabilities():
    mask, values = np.array([[0, 3]], np.uint8), np.array([[7, 250]], np.uint8)
    assert np.asarray(Image.open(io.BytesIO(layers(mask, values)))).tolist() == [[[0, 7, 0], [3, 250, 0]]]


def test_a_told_proportion_is_that_of_the_segmenter_and_moves_the_area(session, scenes, segmenter):
    shot, query = list(session.project.images)[1:3]
    session.annotate(shot, full_annotation(scenes[1][0]))
    finish(session)
    fitted = Segmenter(segmenter.feature_extractor, auto=False).fit(session.pixels(shot), scenes[1][0])
    areas = []
    for told in (0.05, 0.2, 0.5):
        answer = solve(session, query, 1, "full", told)
        wanted = fitted.segment(session.pixels(query), proportion=told)
        assert (decoded(answer)[..., 0] == wanted.mask).all()
        assert answer["steps"]["proportion"][-1] == pytest.approx(told, abs=1e-4)
        areas.append(answer["areas"]["object"])
    assert areas[0] < areas[1] < areas[2]


def test_every_loss(session, scenes):
    shot, query = list(session.project.images)[1:3]
    with pytest.raises(Refused, match="Nothing is marked"):
        solve(session, query, 1, "full", None)
    session.annotate(shot, full_annotation(scenes[1][0]))
    finish(session)
    answers = {loss: solve(session, query, 1, loss, None) for loss in ("initial", "ce", "ce_h", "full")}
    assert (decoded(answers["full"])[..., 0] == session.records[query].mask).all()
    assert answers["initial"]["steps"]["loss"] == []
    assert len({decoded(answer).tobytes() for answer in answers.values()}) == 4
    with pytest.raises(Refused, match="not marked"):
        solve(session, query, 2, "full", None)


def test_one_of_two_classes(session, scenes):
    one, two, query = list(session.project.images)[1:4]
    classes = [ClassSettings(name="a"), ClassSettings(name="b")]
    session.change(session.project.settings.model_copy(update={"classes": classes}))
    session.annotate(one, full_annotation(scenes[1][0], 1))
    session.annotate(two, full_annotation(1 - scenes[1][1], 2))
    finish(session)
    answer = solve(session, query, 2, "full", 0.3)
    assert answer["proportions"]["b"] == pytest.approx(0.3, abs=1e-4)
    assert sum(answer["proportions"].values()) < 1
