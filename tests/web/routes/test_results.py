"""Addresses of results."""

import io
import zipfile

from tests.web.make import full_annotation


def test_accept_export_and_import(client, scenes):
    ids = client.ids()
    nothing = client.http.get(f"{client.root}/export.zip")
    assert (nothing.status_code, nothing.json()["detail"][:21]) == (409, "No image is segmented")
    client.annotate(ids[1], full_annotation(scenes[1][0]))
    client.wait()
    assert client.http.post(f"{client.root}/accept", json={"images": [ids[0]]}).json() == [ids[0]]
    several = client.http.post(f"{client.root}/accept", json={"confidence": 0.1}).json()
    assert ids[0] not in several
    assert {image["id"] for image in client.read()["images"] if image["accepted"]} == {ids[0], *several}
    back = client.http.post(f"{client.root}/accept", json={"images": [ids[0]], "accepted": False})
    assert back.json() == [ids[0]]
    answer = client.http.get(f"{client.root}/export.zip?formats=masks&formats=coco")
    assert answer.headers["content-type"] == "application/zip"
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert {"coco.json", "classes.txt", "masks/more__scene4.png"} <= set(names)
    taken = client.http.post(f"{client.root}/import", files={"files": ("a.zip", answer.content)})
    assert sorted(taken.json()) == sorted(ids)
    written = client.http.post(f"{client.root}/export", json={"formats": ["masks"]})
    assert written.json()["folder"].startswith("repri-results/")


def test_a_project_without_a_folder(client):
    id = client.http.post("/api/projects", json={}).json()["id"]
    answer = client.http.post(f"/api/projects/{id}/export", json={"formats": ["masks"]})
    assert (answer.status_code, "zip" in answer.json()["detail"]) == (409, True)
