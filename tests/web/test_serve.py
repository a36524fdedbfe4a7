"""Starting the server."""

import socket

import pytest

from repri.runtime.errors import MissingExtraError, RepriError
from repri.web.serve import _listen, data_folder, run


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RepriError, match="choose another --port"):
            _listen("127.0.0.1", taken.getsockname()[1])


def test_a_free_port():
    with _listen("127.0.0.1", 0) as listening:
        assert listening.getsockname()[1] > 0


def test_projects_lie_in_the_users_data(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("REPRI_CACHE")
    assert data_folder().name == "repri"


def test_missing_packages_are_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'repri\[web\]'"):
        run(None, "127.0.0.1", 0, "filters", lambda *arguments: None)


def test_the_server_says_where_it_is_and_ends(monkeypatch, folder):
    import uvicorn

    heard = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: [s.close() for s in sockets])
    assert run(folder, "127.0.0.1", 0, "filters", lambda *told: heard.append(told)) is None
    run(folder, "0.0.0.0", 0, "filters", lambda *told: heard.append(told))
    (here, count), (there, _) = heard
    assert (here.token, count) == (None, 5)
    assert here.url.startswith("http://127.0.0.1:")
    assert there.url.endswith(f"/?token={there.token}")
    assert len(there.token) >= 32
