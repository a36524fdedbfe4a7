"""A project in use: results are those of the segmenter, in the order in which a person wants them."""

import time

import numpy as np
import pytest

import repri.web.session as session_module
from repri import Segmenter
from repri.runtime.errors import RepriError
from repri.web.limits import Refused
from repri.web.marks import Annotation, Mark
from repri.web.session import Session
from repri.web.settings import ClassSettings
from repri.web.support import support_of
from tests.web.make import finish, full_annotation, strokes


def index(project, n):
    """Id of scene n."""
    return next(id for id, image in project.images.items() if image.name.endswith(f"scene{n}.png"))


def events_of(session, monkeypatch):
    heard = []
    monkeypatch.setattr(session.events, "publish", lambda kind, **content: heard.append((kind, content)))
    return heard


def test_quick_results_are_those_of_the_segmenter_to_the_bit(session, scenes, segmenter):
    project, shot = session.project, index(session.project, 0)
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0])))
    finish(session)
    support = support_of(project)
    plain = Segmenter(segmenter.feature_extractor, auto=False)
    fitted = plain.fit([project.pixels(id) for id in support.ids], scribbles=list(support.maps))
    for id in project.images:
        wanted = fitted.segment(project.images[id].path)
        record = session.records[id]
        assert (record.mask == wanted.mask).all()
        assert (record.confidence, record.stage) == (wanted.confidence, "quick")
        assert record.proportions == wanted.proportions
        assert record.presences == wanted.presences


def test_after_a_pause_the_support_chooses(session, scenes, segmenter, monkeypatch):
    """The full result is that of a Segmenter that chooses its settings."""
    shot, query = index(session.project, 0), index(session.project, 1)
    session.annotate(shot, full_annotation(scenes[1][0]))
    assert session.settle() is None, "nothing is fitted yet"
    finish(session)
    monkeypatch.setattr(session_module, "PAUSE", 60.0)
    assert 0 < session.settle() <= 60
    monkeypatch.setattr(session_module, "PAUSE", 0.0)
    heard = events_of(session, monkeypatch)
    session.settle()
    assert [kind for kind, _ in heard] == ["fit"]
    fitted = segmenter.fit(session.project.pixels(shot), scenes[1][0])
    assert session.progress()["choice"] == str(fitted.choice)
    finish(session)
    assert {record.stage for record in session.records.values()} == {"full"}
    assert (session.records[query].mask == fitted.segment(session.project.pixels(query)).mask).all()
    assert session.settle() is None, "it is done once"


def test_a_newer_stroke_makes_the_choice_void(session, scenes, monkeypatch):
    monkeypatch.setattr(session_module, "PAUSE", 0.0)
    shot = index(session.project, 0)
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0])))
    finish(session)

    def draws(*arguments):
        session.annotate(shot, Annotation(marks=strokes(scenes[1][0]), revision=1))
        return session.fit.fitted

    monkeypatch.setattr(session._thorough, "fit_maps", draws)
    session.settle()
    assert session.fit.stage == "quick"
    monkeypatch.undo()
    finish(session)
    assert {record.version for record in session.records.values()} == {2}


def test_the_current_image_comes_first_then_those_on_screen(session, scenes, monkeypatch):
    ids = list(session.project.images)
    session.watch(ids[3], [ids[4], ids[2]])
    heard = events_of(session, monkeypatch)
    session.annotate(ids[0], Annotation(marks=strokes(scenes[1][4])))
    finish(session)
    order = [content["image"] for kind, content in heard if kind == "result"]
    assert order == [ids[3], ids[4], ids[2], ids[0], ids[1]]
    latency = [content["latency"] for kind, content in heard if kind == "result" and "latency" in content]
    assert len(latency) == len(session.latencies) == 1


def test_two_classes_keep_their_labels(session, scenes):
    project = session.project
    classes = [ClassSettings(name=name) for name in ("first", "unused", "third")]
    session.change(project.settings.model_copy(update={"classes": classes}))
    one, two = index(project, 0), index(project, 1)
    session.annotate(one, full_annotation(scenes[1][0], 1))
    session.annotate(two, Annotation(marks=[Mark(kind="box", label=3, points=[(0, 0), (15, 15)])]))
    finish(session)
    record = session.records[index(project, 2)]
    assert set(record.areas) == {"first", "third"}
    assert set(np.unique(record.mask)) <= {0, 1, 3}
    with pytest.raises(Refused, match="cannot be removed"):
        session.change(project.settings.model_copy(update={"classes": classes[:2]}))


def test_the_threshold_changes_the_masks(session, scenes):
    shot, query = index(session.project, 0), index(session.project, 1)
    session.annotate(shot, full_annotation(scenes[1][0]))
    finish(session)
    before = session.records[query].mask
    session.change(session.project.settings.model_copy(update={"threshold": 0.9}))
    finish(session)
    after = session.records[query].mask
    assert 0 < after.sum() < before.sum()
    assert (after <= before).all()


def test_accepted_masks_stay_until_the_image_is_annotated(session, scenes):
    shot, query = index(session.project, 0), index(session.project, 1)
    session.annotate(shot, full_annotation(scenes[1][0]))
    finish(session)
    kept = session.records[query].mask
    assert session.accept([query, "0" * 16], True) == [query]
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0]), revision=1))
    finish(session)
    assert (session.project.accepted_mask(query) == kept).all()
    assert session.records[query].version < session.version
    session.annotate(query, Annotation(marks=strokes(scenes[1][1])))
    assert session.project.accepted == set()
    finish(session)
    assert session.records[query].version == session.version


def test_an_image_that_cannot_be_read_is_left_out(project, segmenter, scenes, monkeypatch):
    broken = list(project.images)[2]
    project.images[broken].path.write_bytes(b"not an image")
    session = Session(project, segmenter)
    heard = events_of(session, monkeypatch)
    session.annotate(index(project, 0), Annotation(marks=strokes(scenes[1][0])))
    finish(session)
    assert set(session.records) == set(project.images) - {broken}
    assert "cannot be read as an image" in session.failed[broken]
    assert str(project.folder) not in session.failed[broken]
    assert [kind for kind, _ in heard].count("failed") == 1


def test_nothing_is_computed_for_nobody(session, scenes):
    """All pages have gone: the work stops until somebody asks again."""
    session.annotate(index(session.project, 0), Annotation(marks=strokes(scenes[1][0])))
    session.events._used = time.monotonic() - session_module.REST - 1
    assert session.next_step() is None
    assert session.settle() is None
    session.events.use()
    finish(session)
    assert len(session.records) == 5


def test_results_that_are_there_need_no_worker(session, scenes):
    shot, query = index(session.project, 0), index(session.project, 1)
    assert session.kept_maps(query) is None
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0])))
    finish(session)
    assert session.kept_maps(query).record is session.records[query]
    assert set(session.summaries()) == set(session.project.images)
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0])[:1], revision=1))
    session.next_step()()
    assert session.kept_maps(query) is None, "it is of an older stroke"


def test_without_marks_there_are_no_results(session, scenes):
    shot = index(session.project, 0)
    session.annotate(shot, Annotation(marks=strokes(scenes[1][0])))
    finish(session)
    session.annotate(shot, Annotation(revision=1))
    finish(session)
    assert session.records == {}
    assert session.progress()["stage"] is None
    with pytest.raises(RepriError, match="draw on an object"):
        session.maps(shot)
