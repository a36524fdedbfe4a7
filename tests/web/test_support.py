"""From marks to a support."""

import numpy as np

from repri.web.marks import Annotation, Mark
from repri.web.settings import ClassSettings
from repri.web.support import support_of, with_marks


def box(label, left, top, right, bottom):
    return Mark(kind="box", label=label, points=[(left, top), (right, bottom)])


def test_classes_that_are_not_marked_are_left_out(project):
    first, second, third = list(project.images)[:3]
    project.change(project.settings.model_copy(update={"classes": [ClassSettings(name=n) for n in "abc"]}))
    assert support_of(project) is None
    project.annotate(first, Annotation(marks=[box(0, 0, 0, 9, 9)]))
    assert support_of(project) is None, "background alone is nothing to learn from"
    project.annotate(second, Annotation(marks=[box(3, 30, 30, 50, 50)]))
    project.annotate(third, Annotation(marks=[box(1, 30, 30, 50, 50), box(255, 0, 0, 64, 64)]))
    support = support_of(project)
    assert (support.ids, support.classes, support.labels) == ((first, second), ("c",), (3,))
    assert support.maps[1][40, 40] == 1
    assert support.maps[1][0, 0] == 0, "the edge is background"
    assert support.maps[1][20, 20] == 255
    assert support.project_labels(np.array([[0, 1]], np.uint8)).tolist() == [[0, 3]]


def test_what_was_drawn_stays(project):
    id = next(iter(project.images))
    mask = np.ones((64, 64), np.uint8)
    assert with_marks(project, id, mask) is mask
    project.annotate(id, Annotation(marks=[box(0, 0, 0, 64, 32)]))
    assert with_marks(project, id, mask).mean() == 0.5
    project.annotate(id, Annotation(marks=[box(1, 0, 0, 64, 16)], complete=True, revision=1))
    assert with_marks(project, id, mask).mean() == 0.25
