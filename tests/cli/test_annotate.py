"""``repri annotate`` from end to end."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from repri.cli import app
from repri.data.io.masks import read_mask


def annotate(folder, output, *more):
    options = ["--support", str(folder), "--output", str(output), "--extractor", "filters", *more]
    return CliRunner().invoke(app, ["annotate", *options])


def segment(tree, support, output):
    options = ["--support", str(support), "--query", str(tree / "query"), "--output", str(output)]
    return CliRunner().invoke(app, ["segment", *options, "--extractor", "filters"])


def drawn(tree, tmp_path, shapes):
    """A LabelMe file on the first support image."""
    folder = tmp_path / "drawn"
    folder.mkdir()
    (folder / "s0.png").write_bytes((tree / "support/images/s0.png").read_bytes())
    entries = [{"label": label, "points": points, "shape_type": kind} for label, kind, points in shapes]
    content = {"shapes": entries, "imagePath": "s0.png", "imageHeight": 256, "imageWidth": 256}
    (folder / "s0.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("kind", ["rectangle", "linestrip"])
def test_weak_annotations_become_masks(tree, tmp_path, kind):
    truth = read_mask(tree / "support/masks/s0.png", "auto") == 1
    rows, columns = np.nonzero(truth.any(1))[0], np.nonzero(truth.any(0))[0]
    corners = [[float(columns[0]), float(rows[0])], [float(columns[-1]) + 1, float(rows[-1]) + 1]]
    middle = (rows[0] + rows[-1]) / 2
    line = np.nonzero(truth[int(middle)])[0]
    points = corners if kind == "rectangle" else [[float(line[5]), middle], [float(line[-5]), middle]]
    folder = drawn(tree, tmp_path, [("thing", kind, points)])
    done = annotate(folder, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "1 images, thing, 1 of them completed from boxes or scribbles" in done.output
    mask = read_mask(tmp_path / "out/masks/s0.png") == 1
    assert (mask & truth).sum() / (mask | truth).sum() > 0.6
    segmented = segment(tree, tmp_path / "out", tmp_path / "masks")
    assert segmented.exit_code == 0, segmented.output


def test_weak_annotations_stay_as_they_are_if_asked(tree, tmp_path):
    folder = drawn(tree, tmp_path, [("thing", "rectangle", [[10, 10], [20, 30]])])
    done = annotate(folder, tmp_path / "raw", "--no-complete")
    assert done.exit_code == 0, done.output
    assert "completed" not in done.output
    assert (read_mask(tmp_path / "raw/masks/s0.png") == 1).sum() == 10 * 20


def test_completed_marks_leave_what_was_drawn_on_top(tree, tmp_path):
    shapes = [
        ("thing", "rectangle", [[10, 10], [250, 250]]),
        ("tag", "polygon", [[100, 100], [120, 100], [120, 120], [100, 120]]),
        ("background", "linestrip", [[2, 2], [200, 2]]),
    ]
    folder = drawn(tree, tmp_path, shapes)
    done = annotate(folder, tmp_path / "out")
    assert done.exit_code == 0, done.output
    mask = read_mask(tmp_path / "out/masks/s0.png")
    assert (tmp_path / "out/classes.txt").read_text().split() == ["tag", "thing"]
    assert (mask[100:121, 100:121] == 1).all()
    assert (mask == 2).any()
    assert not (mask == 255).any()
    refused = segment(tree, folder, tmp_path / "no")
    assert refused.exit_code == 1
    assert "boxes, which work for one class only" in str(refused.exception)


def test_annotations_that_are_not_there(tmp_path):
    done = annotate(tmp_path / "nowhere", tmp_path / "out")
    assert done.exit_code == 1
    assert "nowhere does not exist" in str(done.exception)
