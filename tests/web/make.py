"""What the tests of the web page do again and again."""

import time

import numpy as np

from repri.web.marks import Annotation, Mark, region_mark

__all__ = ["SCENES", "SIDE", "Client", "finish", "full_annotation", "strokes"]

SCENES = 5
"""Images of the folder."""
SIDE = 64
"""Their height and width."""


def strokes(mask, label=1):
    """A stroke along the middle row of an object, and one along the upper edge for the background."""
    rows, columns = np.nonzero(mask)
    row = int(np.median(rows))
    inside = columns[rows == row]
    return [
        Mark(
            kind="brush", label=label, width=3, points=[(float(inside.min()) + 2, row), (float(inside.max()) - 2, row)]
        ),
        Mark(kind="brush", label=0, width=3, points=[(2, 2), (mask.shape[1] - 2, 2)]),
    ]


def full_annotation(mask, label=1, revision=0):
    """The exact mask of an image."""
    return Annotation(marks=[region_mark(mask == 1, label)], complete=True, revision=revision)


def finish(session):
    """Carry out all steps of a project."""
    for _ in range(1000):
        step = session.next_step()
        if step is None:
            return
        step()
    raise AssertionError("the work never ends")


class Client:
    """A test client for one project."""

    def __init__(self, http, project):
        self.http, self.root = http, f"/api/projects/{project}"

    def read(self):
        return self.http.get(self.root).json()

    def ids(self):
        return [image["id"] for image in self.read()["images"]]

    def annotate(self, id, annotation, status=200):
        answer = self.http.put(f"{self.root}/images/{id}/annotation", json=annotation.model_dump())
        assert answer.status_code == status, answer.text
        return answer.json()

    def wait(self, seconds=30.0):
        """Until all images are segmented."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            progress = self.read()["progress"]
            if progress["stage"] and progress["segmented"] == progress["images"]:
                return progress
            time.sleep(0.05)
        raise AssertionError(f"not done after {seconds} s: {progress}")
