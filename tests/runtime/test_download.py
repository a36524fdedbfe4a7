"""Downloads against a server on this machine: what arrives, what breaks, what is said."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from repri.runtime.download import fetch, offline, without_fetching
from repri.runtime.errors import RepriError

CONTENT = os.urandom(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.ranges.append(self.headers.get("Range"))
        if self.path == "/missing":
            self.send_error(404)
            return
        start = int(self.headers["Range"].split("=")[1].rstrip("-")) if "Range" in self.headers else 0
        if self.path == "/no-resume":
            start = 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        if start:
            first = 0 if self.path == "/other-part" else start
            self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if self.path == "/garbled":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"ffff\r\nshort")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/truncated" else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.ranges = []
        running.url = f"http://127.0.0.1:{running.server_port}"
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def visible(folder):
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def test_a_file_arrives_whole(server, tmp_path):
    seen = []
    path = fetch(f"{server.url}/file", tmp_path / "new" / "w.pth", DIGEST[:8], lambda *p: seen.append(p))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert visible(path.parent) == [path]
    fetch(f"{server.url}/missing", path, DIGEST)  # already here: no request
    assert server.ranges == [None]


@pytest.mark.parametrize(("page", "range_sent"), [("file", "bytes=1000-"), ("no-resume", "bytes=1000-")])
def test_an_interrupted_file_goes_on(server, tmp_path, page, range_sent):
    (tmp_path / "w.pth.part").write_bytes(CONTENT[:1000])
    assert fetch(f"{server.url}/{page}", tmp_path / "w.pth", DIGEST).read_bytes() == CONTENT
    assert server.ranges == [range_sent]


def test_a_part_that_is_already_whole(server, tmp_path):
    (tmp_path / "w.pth.part").write_bytes(CONTENT)
    assert fetch(f"{server.url}/file", tmp_path / "w.pth", DIGEST).read_bytes() == CONTENT


def refused(message, url, path, digest=DIGEST):
    with pytest.raises(ValueError, match=message) as caught:
        fetch(url, path, digest, timeout=5)
    assert "\n" not in str(caught.value)
    assert f"put it at {path}" in str(caught.value)
    assert not path.exists()


def test_a_truncated_file_is_kept_for_the_next_try(server, tmp_path):
    refused("broke off after 1500000 of 3000000 bytes", f"{server.url}/truncated", tmp_path / "w.pth")
    assert fetch(f"{server.url}/file", tmp_path / "w.pth", DIGEST).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=1500000-"


def test_what_goes_wrong_is_said_in_one_sentence(server, tmp_path, monkeypatch):
    path = tmp_path / "w.pth"
    refused("has the sha256 .* and should have 0123abcd", f"{server.url}/file", path, "0123abcd")
    assert visible(tmp_path) == []
    refused("answered 404", f"{server.url}/missing", path)
    refused("could not be fetched .*refused", "http://127.0.0.1:9/file", path)
    refused("could not be fetched", "http://no-such-host.invalid/file", path)
    refused("could not be fetched .IncompleteRead", f"{server.url}/garbled", path)
    monkeypatch.setenv("REPRI_OFFLINE", "1")
    refused("REPRI_OFFLINE is set", f"{server.url}/file", path)


def test_another_part_than_asked_for_is_not_appended(server, tmp_path):
    (tmp_path / "w.pth.part").write_bytes(CONTENT[:1000])
    with pytest.raises(ValueError, match="sent another part"):
        fetch(f"{server.url}/other-part", tmp_path / "w.pth", DIGEST)
    assert fetch(f"{server.url}/file", tmp_path / "w.pth", DIGEST).read_bytes() == CONTENT


def test_a_file_placed_by_hand_is_never_deleted(server, tmp_path):
    (tmp_path / "w.pth").write_bytes(b"mine")
    with pytest.raises(ValueError, match="remove it and try again"):
        fetch(f"{server.url}/file", tmp_path / "w.pth", DIGEST)
    assert (tmp_path / "w.pth").read_bytes() == b"mine"


def test_two_fetches_at_once(server, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(f"{server.url}/file", tmp_path / "w.pth", DIGEST), range(4)))
    assert paths[0].read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_a_server_that_sends_too_much_is_cut_off(tmp_path, monkeypatch):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 3_000_000)
    with pytest.raises(RepriError, match=r"sends more than the 0.001 GB that are expected: it was discarded"):
        fetch(source.as_uri(), target, "0" * 64, size=1_000_000)
    monkeypatch.setenv("REPRI_MAX_DOWNLOAD_GB", "0.002")
    with pytest.raises(RepriError, match=r"sends more than the 0.002 GB .*REPRI_MAX_DOWNLOAD_GB is the limit"):
        fetch(source.as_uri(), target, "0" * 64)
    assert not target.exists()
    assert not target.with_name("target.part").exists()


def test_files_do_not_fetch_unless_it_is_allowed(monkeypatch):
    monkeypatch.delenv("REPRI_OFFLINE", raising=False)
    assert not offline()
    with without_fetching():
        assert offline()
    assert not offline()
    monkeypatch.setenv("REPRI_FETCH", "1")
    with without_fetching():
        assert not offline()
