"""What decides a result changes its key, and nothing else does."""

import copy

from repri.experiments.identity import identity_of, key_of, result_identity
from repri.inference import InferenceConfig

CONFIG = {
    "data": {"name": "pascal", "root": "a", "split": "val", "test_data": None, "min_pixels": 2048},
    "tasks": {"shots": 1, "runs": 5, "tasks": 1000, "seed": 0, "sampling": "queries", "task_list": None},
    "extractor": {"name": "x", "layers": None, "combine": "concat", "shifts": 1, "size": None},
    "method": {"name": "repri", "preset": "clean", "settings": {"lr": 0.005, "steps": 50}},
    "protocol": "clean",
    "refine": "guided",
    "precision": "half",
}


def changed(path, value):
    config = copy.deepcopy(CONFIG)
    place = config
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return key_of(identity_of(config, 0, "f" * 64))


def test_key():
    key = key_of(identity_of(CONFIG, 0, "f" * 64))
    for path, value in (
        (("tasks", "tasks"), 10),
        (("tasks", "shots"), 5),
        (("method", "settings", "lr"), 0.01),
        (("protocol",), "paper"),
        (("refine",), "none"),
        (("extractor", "size"), 300),
    ):
        assert changed(path, value) != key, path
    assert key_of(identity_of(CONFIG, 1, "f" * 64)) != key
    assert key_of(identity_of(CONFIG, 0, "e" * 64)) != key
    assert key_of(identity_of(CONFIG, 0, "f" * 64, images=15)) != key
    assert changed(("data", "root"), "somewhere/else") == key
    assert changed(("extractor", "name"), "another/folder") == key  # its fingerprint counts


def test_a_setting_that_a_former_version_did_not_have_counts_by_its_default():
    assert InferenceConfig().epsilon == 0.0
    assert changed(("method", "settings", "epsilon"), 0.0) == key_of(identity_of(CONFIG, 0, "f" * 64))


def test_files_of_former_versions_have_no_identity():
    assert result_identity({"config": {"method": "repri", "tasks": 1000}}, "0") is None
