"""Every script of ``examples/`` runs as it is, without arguments, and fits one screen."""

import runpy
import sys
from functools import partial
from pathlib import Path

import pytest

from repri.data.datasets import scenes
from repri.data.io.formats import FORMATS
from repri.methods import METHODS
from repri.models.load import EXTRACTORS

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
PRINTED = {
    "add_dataset": ["fold 0, disc: mIoU", "fold 1, square: mIoU", "fold 2, cross: mIoU"],
    "add_extractor": ["colours  mIoU", "filters  mIoU"],
    "add_format": ["demo/outlines.jsonl ('person',)"],
    "add_method": ["nearest-cell mIoU", "repri        mIoU"],
    "evaluate": ["stripes, fine stripes: 1 shot, 2 runs of 10 tasks", "prototype  mIoU", "repri      mIoU"],
    "segment_folder": ["eileen_collins.png: person", "photographer.png: person", "saved demo/segment_folder/segmenter"],
}
"""Example → parts of what it prints."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One cache for all, so that scenes are drawn once."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path, cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRI_CACHE", str(cache))
    monkeypatch.setattr(scenes, "make_dataset", partial(scenes.make_dataset, train=8, val=24, size=161))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    for registry in (METHODS, EXTRACTORS, FORMATS):  # what it registers is forgotten
        monkeypatch.setattr(registry, "_objects", dict(registry._objects))
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    for part in PRINTED[path.stem]:
        assert part in printed
    assert {entry.name for entry in tmp_path.iterdir()} <= {"demo"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_fits_one_screen_and_says_what_it_does(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    assert text.startswith('"""')


def test_every_example_is_run():
    assert [path.stem for path in EXAMPLES] == sorted(PRINTED)
