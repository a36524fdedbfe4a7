"""The photographs that come with the package."""

from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import label

from repri.data.datasets.examples import EXAMPLES, FOLDER, copy_examples, load_example
from repri.runtime.errors import RepriError
from repri.segmenter.shots import read_support

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_each_example_has_one_annotated_image_and_queries_with_true_masks(example):
    (support,), queries = example.support(), example.queries()
    assert queries
    for item in (support, *queries):
        assert item.image.dtype == item.mask.dtype == np.uint8
        assert item.image.shape == (*item.mask.shape, 3)
        assert max(item.mask.shape) <= 640
    assert set(np.unique(support.mask)) <= {0, 1, 255}
    assert 0.01 < (support.mask == 1).mean() < 0.8
    for query in queries:
        assert set(np.unique(query.mask)) == {0, 1}
        assert 0.1 < query.mask.mean() < 0.7
        assert query.image.shape != support.image.shape or (query.image != support.image).any()


def test_the_coins_are_all_there():
    def counted(mask):
        return label(mask == 1)[1]

    one, row = EXAMPLES["coin"], EXAMPLES["coins"]
    assert [counted(item.mask) for item in one.support() + row.support()] == [1, 6]
    assert [counted(item.mask) for item in one.queries() + row.queries()] == [18, 18]
    unlabelled = label(one.support()[0].mask == 255)[1]
    assert unlabelled == 5  # the other coins of the row


def test_the_folders_are_read_by_the_commands(tmp_path):
    copy_examples(tmp_path / "new")
    (tmp_path / "new" / "coin" / "mine.txt").write_text("kept")
    copy_examples(tmp_path / "new")
    assert (tmp_path / "new" / "coin" / "mine.txt").read_text() == "kept"
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(EXAMPLES)
    for name, example in EXAMPLES.items():
        shots = read_support(tmp_path / "new" / name / "annotated")
        assert tuple(shots.classes) == (example.object,)
        assert np.array_equal(shots.maps[0] == 1, example.support()[0].mask == 1)


def test_the_source_of_every_photograph_is_named():
    assert {path.name for path in FOLDER.iterdir()} == {*EXAMPLES, "README.md"}
    notes, notice = (FOLDER / "README.md").read_text(), (ROOT / "NOTICE").read_text()
    for name in EXAMPLES:
        assert f"`{name}" in notes
        assert name in notice
    for item in EXAMPLES["people"].support() + EXAMPLES["people"].queries():
        assert f"/{item.name}`" in notes
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1e6


def test_a_name_that_is_not_there():
    with pytest.raises(RepriError, match=r"no example named 'cat'\. Known: coin, coins"):
        load_example("cat")
