"""A run goes on only with its own results."""

import json
import os

import numpy as np
import pytest

from repri.features import FeatureExtractor
from repri.methods.settings import MethodSettings
from repri.models.settings import ExtractorSettings
from repri.segmenter.resume import facts_of, identity_of, other_run, query_file, write_facts
from repri.segmenter.settings import SegmentSettings, WriteSettings
from repri.segmenter.shots import AnnotatedShots
from tests.make import Cells, noise, square


def shots(**changes):
    return AnnotatedShots(("cat",), [], [noise()], [square()])._replace(**changes)


def facts(settings=None, support=None, extractor: FeatureExtractor | None = None):
    return facts_of(settings or SegmentSettings(), support or shots(), extractor or Cells())


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (facts(SegmentSettings(refine="none")), "was made with refine='default', not 'none'"),
        (facts(SegmentSettings(extractor=ExtractorSettings(size=64))), "was made with extractor.size=None, not 64"),
        (facts(SegmentSettings(proportion="0.1")), "was made with proportion=None, not '0.1'"),
        (facts(support=shots(images=[noise(seed=1)])), "was made with another support"),
        (facts(support=shots(maps=[1 - square()])), "was made with another support"),
        (facts(support=shots(maps=[square().astype(np.float32)])), "was made with another support"),
        (facts(support=shots(classes=("dog",))), "has the classes cat, not dog: choose another output folder"),
        (facts(extractor=Cells(mark="b")), "was made with another extractor"),
        (facts() | {"version": "0.0.1"}, "was made with version="),
    ],
)
def test_what_decides_a_result_is_compared(tmp_path, other, sentence):
    write_facts(tmp_path, facts())
    assert other_run(tmp_path, facts()) is None
    assert sentence in str(other_run(tmp_path, other))
    assert identity_of(other) != identity_of(facts())


def test_what_does_not_change_a_mask_may_differ(tmp_path):
    write_facts(tmp_path, facts())
    settings = SegmentSettings(query="x", output="y", batch=3, write=WriteSettings(overlays=True))
    assert other_run(tmp_path, facts(settings)) is None
    assert identity_of(facts(settings)) == identity_of(facts())


def test_folders_that_do_not_say_what_made_them(tmp_path):
    assert other_run(tmp_path, facts()) is None
    (tmp_path / "run.json").write_text("{")
    assert other_run(tmp_path, facts()) is None  # damaged: each mask tells it
    (tmp_path / "run.json").write_text(json.dumps({"mine": 1}))
    assert "was not written by `repri segment`" in str(other_run(tmp_path, facts()))


def test_files_are_known_by_their_content(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"12345")
    kept = query_file(path)
    os.utime(path, (1, 1))  # a clock that is wrong, or a copy
    assert kept.is_still(path)
    path.write_bytes(b"12346")
    assert not kept.is_still(path)
    path.write_bytes(b"1234567")
    assert not kept.is_still(path)
    path.unlink()
    assert not kept.is_still(path)


def test_another_training_of_a_method(tmp_path):
    file = tmp_path / "method.safetensors"
    file.write_bytes(b"a")
    settings = [SegmentSettings(method=MethodSettings(*chosen)) for chosen in ((str(file),), ("panet", str(tmp_path)))]
    for chosen in settings:
        write_facts(tmp_path, facts(chosen))
        assert other_run(tmp_path, facts(chosen)) is None
        file.write_bytes(file.read_bytes() + b"b")
        assert "was made with another training" in str(other_run(tmp_path, facts(chosen)))
