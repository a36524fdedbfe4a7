"""Fitted segmenters in files: the same masks to the bit in another process, and nothing foreign is read."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from repri import InferenceConfig, RepriError, Segmenter
from tests.make import build_quick, noise, square

FRESH = """
import sys
import numpy as np
from repri import Segmenter

image = np.load(sys.argv[1])
for path in sys.argv[2:]:
    result = Segmenter.load(path).segment(image)
    np.savez(path + ".npz", mask=result.mask, presence=result.presences["a"], **result.probabilities)
"""


def test_a_fresh_process_gives_the_same_masks_to_the_bit(two_classes, tmp_path):
    images, masks, query, _ = two_classes
    query = np.ascontiguousarray(query[:, 128:384])
    np.save(tmp_path / "query.npy", query)
    options = {"size": 97, "config": {"preset": "clean", "t_pi": [5, 10]}, "scales": (0.8, 1.0)}
    one = Segmenter("default", **options).fit(images[0], masks[0], classes=("a",))
    several = Segmenter("default", size=97, config=InferenceConfig.preset("trained")).fit(
        {"a": (images[0], masks[0]), "b": (images[1], masks[1])}
    )
    paths = [tmp_path / "one.safetensors", tmp_path / "several.safetensors"]
    for fitted, path in zip((one, several), paths, strict=True):
        fitted.save(path)
    command = [sys.executable, "-c", FRESH, str(tmp_path / "query.npy"), *map(str, paths)]
    subprocess.run(command, check=True)
    for fitted, path in zip((one, several), paths, strict=True):
        expected, saved = fitted.segment(query), np.load(f"{path}.npz")
        assert np.array_equal(saved["mask"], expected.mask)
        assert saved["presence"] == expected.presences["a"]
        for name in fitted.classes:
            assert np.array_equal(saved[name], expected.probabilities[name])
        again = Segmenter.load(path)
        assert again.classes == fitted.classes
        assert again.params["scales"] == tuple(fitted.params["scales"])
        assert np.array_equal(again.segment(query).mask, expected.mask)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A segmenter of an extractor that has no name."""
    path = tmp_path_factory.mktemp("saved") / "x.safetensors"
    Segmenter(cells()).fit(noise(), square()).save(path)
    return path


def cells(mark="a"):
    extractor = build_quick()
    extractor.name, extractor.mark = "cells", mark
    return extractor


def changed(saved, path, change):
    """A copy of a file whose tensors and content were changed."""
    with safe_open(saved, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        content = json.loads(file.metadata()["repri-segmenter"])
    change(tensors, content)
    save_file(tensors, path, {"repri-segmenter": json.dumps(content)})
    return path


def test_an_extractor_of_ones_own_is_given_again(saved):
    with pytest.raises(RepriError, match="was made with an extractor of your own, cells: give it as extractor="):
        Segmenter.load(saved)
    loaded, expected = Segmenter.load(saved, cells()), Segmenter(cells()).fit(noise(), square())
    assert np.array_equal(loaded.segment(noise(seed=1)).mask, expected.segment(noise(seed=1)).mask)


def test_another_extractor_is_refused(saved):
    sentence = (
        "holds features of cells, and cells here has other weights or settings: use the extractor that it was made"
    )
    with pytest.raises(RepriError, match=sentence):
        Segmenter.load(saved, cells("b"))
    with pytest.raises(RepriError, match="holds features of cells, and filters here has other weights or settings"):
        Segmenter.load(saved, "filters")


def test_files_that_are_missing_damaged_or_foreign(saved, tmp_path):
    (tmp_path / "cut.safetensors").write_bytes(saved.read_bytes()[:-100])
    (tmp_path / "text.safetensors").write_text("not a file of tensors")
    save_file({"weight": torch.ones(2)}, tmp_path / "foreign.safetensors")
    for name, sentence in (
        ("none", r"There is no .*file at .*none\.safetensors"),
        ("cut", r"cut\.safetensors cannot be read"),
        ("text", r"text\.safetensors cannot be read"),
        ("foreign", r"foreign\.safetensors is not a segmenter that repri saved, or it is damaged"),
    ):
        with pytest.raises(RepriError, match=sentence) as caught:
            Segmenter.load(tmp_path / f"{name}.safetensors", cells())
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t, c: c.update(format=9), r"was written by another version of repri \(format 9\)"),
        (lambda t, c: c.pop("classes"), "is not a segmenter that repri saved, or it is damaged .*'classes'"),
        (lambda t, c: t.pop("labels.0"), "is not a segmenter that repri saved, or it is damaged .'labels.0'"),
        (lambda t, c: c["params"].update(colour=1), "is not a segmenter that repri saved, or it is damaged .*colour"),
        (lambda t, c: c["params"].pop("joint"), "is not a segmenter that repri saved, or it is damaged .'joint'"),
        (lambda t, c: c["params"].update(refine="no"), "There is no refinement named 'no'"),
    ],
)
def test_content_that_was_changed(saved, tmp_path, change, sentence):
    with pytest.raises(RepriError, match=sentence):
        Segmenter.load(changed(saved, tmp_path / "x.safetensors", change), cells())


def test_the_name_of_the_file(tmp_path):
    fitted = Segmenter(cells()).fit(noise(), square())
    with pytest.raises(RepriError, match=r"A segmenter is saved as \.safetensors: give such a file name, got .*x\.pt"):
        fitted.save(tmp_path / "x.pt")
    assert not list(tmp_path.iterdir())
