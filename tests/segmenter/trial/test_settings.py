"""Settings of a trial."""

import pytest

from repri import RepriError
from repri.segmenter.trial.run import PARAMS
from repri.segmenter.trial.settings import TRIED, TrialSettings


def test_the_defaults_are_accepted():
    TrialSettings().check()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"draws": 0}, "--draws must be at least 1, got 0"),
        ({"queries": -1}, "--queries must be at least 1"),
        ({"batch": 0}, "--batch must be at least 1"),
        ({"shots": (0, 1)}, "--shots takes numbers of at least 1, got 0,1"),
        ({"shots": ()}, "--shots takes numbers of at least 1, got none"),
        ({"shots": (1, 2, 2)}, "--shots names 2 twice"),
        ({"methods": ()}, "--methods names no method"),
        ({"methods": ("repri",)}, "there is no method named 'repri' to try. Known: auto, told, regions, auto-ce"),
        ({"methods": ("ce", "ce")}, "--methods names ce twice"),
    ],
)
def test_values_without_sense_are_refused(values, sentence):
    with pytest.raises(RepriError, match=sentence.replace(".", r"\.")):
        TrialSettings(**values).check()


def test_each_name_has_a_segmenter():
    assert tuple(PARAMS) == TRIED
