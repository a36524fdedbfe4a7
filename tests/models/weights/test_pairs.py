"""Region models as pairs of files."""

import hashlib

import pytest

from repri.models.weights import pairs
from repri.models.weights.pairs import fetch_pair, import_pair, pair_folder, pair_in
from repri.runtime.errors import RepriError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_both_files_are_fetched_and_checked(tmp_path, monkeypatch):
    files = []
    for name, content in (("encoder.ort", b"one"), ("decoder.onnx", b"two")):
        (tmp_path / name).write_bytes(content)
        files.append(((tmp_path / name).as_uri(), hashlib.sha256(content).hexdigest(), name))
    monkeypatch.setitem(pairs.PAIRS, "sam2-tiny", pairs.PAIRS["sam2-tiny"]._replace(files=tuple(files)))
    assert fetch_pair("sam2-tiny") == pair_folder("sam2-tiny")
    assert [path.read_bytes() for path in pair_in(pair_folder("sam2-tiny"))] == [b"one", b"two"]
    wrong = tuple((url, "0" * 64, f"other-{name}") for url, _, name in files)
    monkeypatch.setitem(pairs.PAIRS, "sam2-tiny", pairs.PAIRS["sam2-tiny"]._replace(files=wrong))
    with pytest.raises(RepriError, match="it was discarded"):
        fetch_pair("sam2-tiny")


def test_a_model_without_a_link_is_imported(tmp_path):
    with pytest.raises(RepriError, match="run repri weights import FOLDER mobile-sam"):
        fetch_pair("mobile-sam")
    with pytest.raises(RepriError, match="holds no region model"):
        import_pair(tmp_path, "mine")
    for part in ("encoder", "decoder"):
        (tmp_path / f"{part}.onnx").write_bytes(part.encode())
    assert pair_in(import_pair(tmp_path, "mobile-sam")) is not None
    assert fetch_pair("mobile-sam") == pair_folder("mobile-sam")
    with pytest.raises(RepriError, match="exists already"):
        import_pair(tmp_path, "mobile-sam")
