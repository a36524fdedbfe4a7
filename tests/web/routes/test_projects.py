"""Addresses of projects."""

import time

import pytest

from tests.web.make import full_annotation


def test_a_project_by_the_api(client):
    made = client.http.post("/api/projects", json={"name": "new", "examples": False})
    assert made.status_code == 201
    id = made.json()["id"]
    assert client.http.get(f"/api/projects/{id}").json() == made.json()
    assert made.json()["images"] == []
    assert client.http.get("/api/projects/" + "0" * 32).status_code == 404
    assert client.http.get("/api/projects/..%2f..%2fetc").status_code in (404, 422)


@pytest.mark.parametrize("reason", [None, "There is no region model in the cache yet."])
def test_the_server_says_what_it_is(client, monkeypatch, reason):
    monkeypatch.setattr("repri.web.routes.projects.why_no_regions", lambda: reason)
    about = client.http.get("/api/about").json()
    assert about["folder"]
    assert about["regions"] == reason
    assert "filters" in about["extractor"]


def test_settings_are_changed(client):
    settings = client.read()["settings"] | {"classes": [{"name": "<i>cat</i>", "colour": "#112233"}]}
    assert client.http.put(f"{client.root}/settings", json=settings).json() == settings
    assert client.read()["settings"] == settings
    refused = client.http.put(f"{client.root}/settings", json=settings | {"classes": []})
    assert refused.status_code == 422


def test_the_next_image_is_not_annotated(client, scenes):
    ids = client.ids()
    client.annotate(ids[1], full_annotation(scenes[1][0]))
    client.wait()
    wanted, until = set(ids) - {ids[1]}, time.monotonic() + 20
    while set(client.http.get(f"{client.root}/next?count=10").json()) != wanted:  # results may still come
        assert time.monotonic() < until
        time.sleep(0.1)
    assert client.http.post(f"{client.root}/watch", json={"current": ids[0], "visible": ids}).status_code == 204
