"""Settings of the inference: presets, variants of them, and mistakes."""

import pytest

from repri.inference.config import PRESETS, InferenceConfig
from repri.runtime.errors import RepriError

from .make import config_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tpi": 3}, "There is no inference setting named 'tpi', did you mean 't_pi'. Known: steps"),
        ({"steps": -1}, "steps must be an integer from 0 to 100,000, got -1"),
        ({"steps": 2.5}, "steps must be an integer from 0 to 100,000, got 2.5"),
        ({"temperature": 0}, "temperature must be a finite number > 0"),
        ({"lr": float("nan")}, "lr must be a finite number ≥ 0, got"),
        ({"lambda_kl": -1}, "lambda_kl must be a finite number ≥ 0"),
        ({"t_pi": 0}, "t_pi must be None, an integer ≥ 1 or several"),
        ({"epsilon": 1e-50}, "epsilon must be 0 or at least 1e-30"),
        ({"lr": 10**400}, "lr must be a finite number ≥ 0, got"),
        ({"bias_unit": "tau"}, "bias_unit must be 'logit' or 'cosine', got 'tau'"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(RepriError, match=message):
        InferenceConfig.preset("clean").replace(**changes)


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(RepriError, match=r"There is no preset named 'offical', did you mean 'official'\? Known: clean"):
        InferenceConfig.preset("offical")
    with pytest.raises(RepriError, match="The terms that can be left out are 'h' and 'kl', got 'ce'"):
        InferenceConfig.preset("clean").without("ce")


def test_presets_derived_from_clean():
    clean, trained = InferenceConfig.preset("clean"), InferenceConfig.preset("trained")
    assert trained == clean.replace(background="support", transduction=1.0)
    assert config_of("trained-ce") == trained.replace(lambda_h=0.0, lambda_kl=0.0)
    assert config_of("trained-oracle").background == "support"
    known = trained.replace(background="known", shots_bias=1.5)
    assert InferenceConfig.preset("discriminant") == known
    assert InferenceConfig.preset("joint") == known.replace(start_bias=0.5, shots_bias=0.625)


@pytest.mark.parametrize("name", PRESETS)
def test_variants_change_nothing_else(name):
    preset = InferenceConfig.preset(name)
    assert preset.without() == preset
    assert preset.without("kl") == preset.replace(lambda_kl=0.0)
    told = preset.oracle()
    assert (told.lambda_kl, told.lambda_h, told.t_pi, told.steps) == (1.0, 0.1, None, preset.oracle_steps)
    assert told.needs_proportion
    changes = {"lambda_kl", "lambda_h", "lr", "t_pi", "steps", "needs_proportion"}
    assert told == preset.replace(**{key: getattr(told, key) for key in changes})


def test_lists_of_yaml_become_tuples():
    assert InferenceConfig(t_pi=[10, 20]) == InferenceConfig(t_pi=(10, 20))
    assert InferenceConfig(t_pi=(10, 20)).reestimations() == {9, 19}
    assert InferenceConfig(t_pi=10, schedule="paper").reestimations() == {10}
    assert InferenceConfig(t_pi=1).reestimations() == InferenceConfig(t_pi=None).reestimations() == frozenset()
