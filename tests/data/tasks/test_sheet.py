"""Contact sheets of tasks."""

import numpy as np
import pytest
from PIL import Image

from repri.data.datasets.open import open_dataset
from repri.data.tasks.sheet import CAPTION, GAP, OBJECT, task_sheet
from repri.data.tasks.tasks import Task
from repri.runtime.errors import RepriError
from tests.data.make import tiny_pascal


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return open_dataset("pascal", tiny_pascal(tmp_path_factory.mktemp("pascal"), classes=(1, 2)))


def test_a_row_for_each_task(dataset, tmp_path):
    tasks = [Task(1, ("01_0", "01_1"), "01_2"), Task(2, ("02_0",), "02_1")]
    task_sheet(dataset, tasks, tmp_path / "x.png", height=64)
    with Image.open(tmp_path / "x.png") as image:
        sheet = np.asarray(image)
    row = 64 + CAPTION + GAP
    assert sheet.shape == (2 * row, 3 * (64 + GAP) + 2 * GAP, 3)
    assert (sheet[row:, 2 * (64 + GAP) + 2 * GAP :] == 255).all()  # the second row is shorter
    line = CAPTION + 2048 // 64 - 1  # the lower border of the mask in the first tile
    assert sheet[line, GAP + 9].tolist() == list(OBJECT)


def test_sheets_too_large_for_jpeg(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("repri.data.tasks.sheet.MOST_JPEG", 100)
    with pytest.raises(RepriError, match=r"is too large for JPEG: draw fewer tasks or write a \.png"):
        task_sheet(dataset, [Task(1, ("01_0",), "01_2")], tmp_path / "x.jpg")
