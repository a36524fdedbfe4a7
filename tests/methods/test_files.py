"""Files of trained methods."""

import json

import pytest
import torch

from repri.features import FeatureExtractor, InputRule
from repri.methods import Training, build_method, load_method, save_method
from repri.runtime.errors import RepriError
from repri.runtime.tensors import read_tensors, write_tensors

from .make import episode_of, make_shots


class Tiny(FeatureExtractor):
    """An extractor that is never asked for features."""

    name, channels, stride, rule = "tiny", 5, 8, InputRule(64)
    widths = (2, 3)

    def __init__(self, fingerprint="abc"):
        self.print = fingerprint

    def _forward(self, images):
        raise NotImplementedError

    @property
    def fingerprint(self):
        return self.print


@pytest.fixture
def trained(tmp_path):
    """A method and its file."""
    method = build_method("pfenet", settings={"width": 4})
    method.start((2, 3), seed=7)
    method.training = Training("tiny", "abc", (2, 3), ("cat", "dog"), 1, 40, {"size": 64})
    save_method(tmp_path / "method.safetensors", method)
    return method, tmp_path / "method.safetensors"


def test_a_file_gives_the_same_method_again(trained):
    method, path = trained
    *support, query = make_shots(3)
    episode = episode_of(support, query, (2, 3))
    wanted = method.predict(episode).logits
    for again in (
        build_method(str(path)),
        build_method(str(path.parent)),
        build_method("pfenet", weights=path),
        load_method(path),
    ):
        assert torch.equal(again.predict(episode).logits, wanted)
        assert again.training == method.training
        assert again.seen == ("cat", "dog")
        assert again.settings() == method.settings()
    said = json.loads(read_tensors(path)[1]["repri-method"])
    assert said["extractor"] == {"name": "tiny", "identity": "abc", "widths": [2, 3]}
    assert (said["method"], said["shots"], said["episodes"]) == ("pfenet", 1, 40)


def test_another_extractor_is_refused(trained):
    method = build_method(str(trained[1]))
    method.prepare(Tiny())
    with pytest.raises(RepriError, match="was trained on features of tiny, and tiny here has other weights"):
        method.prepare(Tiny("xyz"))


def test_files_that_do_not_fit(trained, tmp_path):
    _, path = trained
    state, metadata = read_tensors(path)
    with pytest.raises(RepriError, match="holds a trained pfenet, not rpmm"):
        build_method("rpmm", weights=path)
    with pytest.raises(RepriError, match="There is no weights file at"):
        build_method("pfenet", weights=tmp_path / "none.safetensors")
    with pytest.raises(RepriError, match="does not fit PFENetNetwork"):
        build_method(str(path), settings={"width": 6})
    content = json.loads(metadata["repri-method"])
    for changes in ({"method": "prototype", "settings": {}}, {"shots": -1}, {"extractor": 3}, {"method": "none"}):
        other = tmp_path / "other.safetensors"
        write_tensors(other, state, {"repri-method": json.dumps(content | changes)})
        with pytest.raises(RepriError, match=r"other\.safetensors is damaged, or holds no method that repri trained"):
            build_method(str(other))
    write_tensors(other, state, {})
    with pytest.raises(RepriError, match="holds no method that repri trained"):
        build_method(str(other))
    with pytest.raises(RuntimeError, match="has a network"):
        save_method(path, build_method("pfenet"))
