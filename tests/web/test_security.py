"""Who may talk to the server."""

import pytest
from starlette.testclient import TestClient

from repri.web.app import build_app
from repri.web.limits import Limits
from repri.web.projects import Projects
from repri.web.security import Guard, is_loopback


@pytest.fixture
def secret(projects):
    """A server for other machines."""
    with TestClient(build_app(projects, "192.0.2.7", "secret-token"), base_url="http://192.0.2.7:8000") as http:
        yield http


def test_which_hosts_are_this_machine():
    assert is_loopback("127.0.0.3")
    assert is_loopback("::1")
    assert not is_loopback("192.168.0.1")
    assert not is_loopback("example.org")


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:9000"])
def test_this_machine_is_answered(client, host):
    assert client.http.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "0.0.0.0"])
def test_other_host_names_are_refused(client, host):
    """Another page cannot use its own name for this machine (DNS rebinding)."""
    answer = client.http.get("/api/about", headers={"host": host})
    assert answer.status_code == 403
    assert "host name" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_other_pages_are_refused(client, headers):
    answer = client.http.post("/api/projects", json={}, headers=headers)
    assert answer.status_code == 403
    assert "Another web page" in answer.json()["detail"]
    assert client.http.post("/api/projects", json={}, headers={"origin": "http://localhost"}).status_code == 201


def test_other_pages_cannot_embed_images(client):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.http.get("/api/about", headers=headers).status_code == 403
    assert client.http.get("/", headers={**headers, "sec-fetch-mode": "navigate"}).status_code == 200


def test_the_token_is_asked_for_once(secret):
    for path in ("/", "/api/about", "/openapi.json"):
        answer = secret.get(path)
        assert answer.status_code == 401
        assert "token" in answer.json()["detail"]
    assert secret.get("/?token=wrong").status_code == 401
    assert secret.get("/api/about", headers={"cookie": "repri=wrong"}).status_code == 401
    welcome = secret.get("/?token=secret-token&a=1", follow_redirects=False)
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/?a=1")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert secret.get("/api/about").status_code == 200  # the client keeps the cookie
    secret.cookies.clear()
    assert secret.get("/api/about", headers={"authorization": "Bearer secret-token"}).status_code == 200
    assert secret.get("//evil.example/?token=secret-token", follow_redirects=False).headers["location"] == "/"


def test_a_server_for_all_addresses_answers_to_addresses_only(projects):
    guard = Guard(None, "0.0.0.0", "token", 100)
    assert guard._is_us("10.0.0.5")
    assert not guard._is_us("evil.example")
    assert not Guard(None, "10.0.0.5", "token", 100)._is_us("10.0.0.6")


def test_every_answer_has_its_headers(client):
    for path in ("/", "/js/main.js", "/api/about", "/nothing", "/api/projects/folder"):
        headers = client.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_large_requests_are_refused(segmenter, folder, tmp_path):
    known = Projects(segmenter, tmp_path / "p", folder, Limits(body=1000))
    with TestClient(build_app(known), base_url="http://localhost") as http:
        answers = [
            http.post("/api/projects/folder/images", files={"files": ("a.png", bytes(5000))}),
            http.post("/api/projects", content=(b" " * 500 for _ in range(5))),  # without a length
            http.post("/api/projects", content=b"{}", headers={"content-length": "x"}),
        ]
    assert [answer.status_code for answer in answers] == [413, 413, 400]


def test_the_page_has_no_script_or_style_of_its_own_in_it(client):
    text = client.http.get("/").text
    assert "<script>" not in text
    assert "<style" not in text
    assert "style=" not in text
    assert "http://" not in text
    assert "https://" not in text
