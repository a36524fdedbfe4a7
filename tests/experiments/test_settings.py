"""Settings of ``repri reproduce``."""

import pytest

from repri.experiments.settings import ReproduceSettings
from repri.runtime.errors import RepriError


def test_given_numbers_replace_those_of_the_budget():
    assert (ReproduceSettings("full").amount.runs, ReproduceSettings("full").amount.tasks) == (5, 1000)
    amount = ReproduceSettings("full", tasks=7).amount
    assert (amount.name, amount.runs, amount.tasks) == ("full", 5, 7)


def test_generated_scenes_are_always_there():
    settings = ReproduceSettings(root="voc")
    assert settings.has("scenes")
    assert settings.has("pascal")
    assert not settings.has("coco")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": 0}, "--tasks must be at least 1, got 0"),
        ({"images": -1}, "--images must be at least 1, got -1"),
        ({"protocol": "clan"}, "clean"),
        ({"preset": "orignal"}, "original"),
    ],
)
def test_mistakes_are_sentences(given, message):
    with pytest.raises(RepriError, match=message):
        ReproduceSettings(**given).check()
