"""A plain folder as a data set."""

import pytest

from repri.data.datasets.folder import open_folder
from repri.runtime.errors import RepriError
from tests.data.make import block, save_ids, save_image


def test_a_plain_folder(tmp_path):
    for n, id in enumerate((1, 4, 1)):
        save_image(tmp_path / "images" / f"{n}.jpg", seed=n)
        save_ids(tmp_path / "masks" / f"{n}.png", block(40, 60, id, 500))
    dataset = open_folder(tmp_path)
    assert dataset.classes == {1: "class 1", 4: "class 4"}
    assert dataset.folds == ((1, 4),)
    assert [sample.id for sample in dataset.samples] == ["0", "1", "2"]
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\n")
    assert open_folder(tmp_path).classes[4] == "d"
    (tmp_path / "masks" / "1.png").unlink()
    with pytest.raises(RepriError, match=r"1.jpg has no mask: .*1.png does not exist"):
        open_folder(tmp_path).mask("1")
