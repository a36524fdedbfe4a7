"""Settings of an evaluation, from a mapping as YAML gives it."""

from dataclasses import FrozenInstanceError

import pytest

from repri.data.datasets.index import MIN_PIXELS
from repri.evaluation.settings import RENAMED, EvaluationSettings
from repri.runtime.errors import RepriError
from repri.runtime.settings import as_mapping, parse


def parsed(**values):
    return parse(EvaluationSettings, values, "x.yaml", RENAMED)


def test_nothing_given_is_the_usual_protocol():
    settings = parsed()
    assert settings == EvaluationSettings()
    assert (settings.data.name, settings.data.split, settings.data.folds) == ("pascal", "val", None)
    assert settings.data.min_pixels == MIN_PIXELS
    assert (settings.tasks.runs, settings.tasks.tasks, settings.tasks.shots) == (5, 1000, (1,))
    assert (settings.method.name, settings.protocol, settings.extractor.name) == ("repri", "clean", None)


def test_sections_may_be_given_by_name_and_lists_as_on_the_command_line():
    settings = parsed(data="coco", method="ce", tasks={"shots": "1,5"}, extractor={"name": "filters", "size": 64})
    assert (settings.data.name, settings.method.name) == ("coco", "ce")
    assert settings.tasks.shots == (1, 5)
    assert parsed(data={"folds": "all"}).data.folds is None
    assert parsed(data={"folds": [0, 2]}).data.folds == (0, 2)
    assert parse(EvaluationSettings, as_mapping(settings), "again") == settings


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        EvaluationSettings().protocol = "paper"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"fold": 0}, r"x\.yaml: 'fold' is now 'data\.folds'"),
        ({"set": {"lr": 1}}, r"x\.yaml: 'set' is now 'method\.settings'"),
        ({"form": "clean"}, r"x\.yaml: 'form' is now 'method\.preset'"),
        ({"min_pixels": 3}, r"x\.yaml: 'min_pixels' is now 'data\.min_pixels'"),
        ({"protocl": "clean"}, r"x\.yaml: unknown setting 'protocl', did you mean 'protocol'"),
        ({"tasks": {"shots": "one"}}, r"x\.yaml: 'tasks\.shots' .*'one'"),
        ({"tasks": {"sampling": "evenly"}}, r"x\.yaml: 'tasks\.sampling' must be .*queries.*, got 'evenly'"),
        ({"precision": "double"}, r"x\.yaml: 'precision' must be .*half.*, got 'double'"),
    ],
)
def test_mistakes_name_the_file_and_the_setting(values, sentence):
    with pytest.raises(RepriError, match=sentence):
        parsed(**values)
