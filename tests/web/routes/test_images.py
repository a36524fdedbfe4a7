"""Addresses of images."""

import io

import numpy as np
from PIL import Image

from repri.data.io.segmentations import decode
from repri.web.marks import Annotation, Mark
from tests.web.make import full_annotation, strokes
from tests.web.test_project import content


def array(answer):
    assert answer.status_code == 200, answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def test_an_image_and_its_thumbnail(client, scenes):
    id = client.ids()[1]
    for part in ("pixels", "thumbnail"):
        answer = client.http.get(f"{client.root}/images/{id}/{part}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert np.abs(array(answer).astype(int) - scenes[0][0]).mean() < 12
    assert client.http.get(f"{client.root}/images/{'0' * 16}/pixels").status_code == 404
    assert client.http.get(f"{client.root}/images/..%2f..%2fx/pixels").status_code in (404, 422)


def test_results_in_every_form(client, scenes):
    shot, query = client.ids()[1:3]
    before = client.http.get(f"{client.root}/images/{query}/result")
    assert (before.status_code, before.json()["detail"][:17]) == (409, "Nothing is marked")
    kept = client.annotate(shot, full_annotation(scenes[1][0]))
    assert client.http.get(f"{client.root}/images/{shot}/annotation").json() == kept
    assert (array(client.http.get(f"{client.root}/images/{shot}/annotation.png")) == scenes[1][0]).all()
    client.wait()
    result = client.http.get(f"{client.root}/images/{query}/result").json()
    mask = array(client.http.get(f"{client.root}/images/{query}/result.png"))
    assert (decode(result["rle"]["object"], 64, 64) == (mask == 1)).all()
    layers = array(client.http.get(f"{client.root}/images/{query}/layers.png"))
    assert (layers[..., 0] == mask).all()
    assert ((layers[..., 1] > 128) <= (mask == 1)).all()
    assert (array(client.http.get(f"{client.root}/images/{query}/small.png")) == mask).all()
    solved = client.http.post(f"{client.root}/images/{query}/solve", json={"proportion": 0.4, "loss": "full"})
    assert solved.json()["told"] == 0.4
    assert client.read()["images"][2]["result"]["confidence"] == result["confidence"]


def test_marks_that_are_refused_are_not_kept(client, scenes):
    id = client.ids()[0]
    client.annotate(id, Annotation(marks=[Mark(kind="box", label=5, points=[(0, 0), (9, 9)])]), 422)
    region = full_annotation(np.ones((10, 10), int))
    assert "add up" in client.annotate(id, region, 422)["detail"]
    client.annotate(id, Annotation(marks=strokes(scenes[1][4])))
    assert "another window" in client.annotate(id, Annotation(), 409)["detail"]
    assert client.read()["images"][0]["annotated"]


def test_images_are_sent(client):
    files = [("files", ("<img src=x onerror=alert(1)>.png", content())), ("files", ("b.jpg", content(format="JPEG")))]
    sent = client.http.post(f"{client.root}/images", files=files)
    assert [image["name"] for image in sent.json()] == ["<img src=x onerror=alert(1)>.png", "b.jpg"]
    assert len(client.ids()) == 7
    refused = client.http.post(f"{client.root}/images", files={"files": ("a.png", b"<html>")})
    assert refused.status_code == 415
    assert "not an image" in refused.json()["detail"]
    assert len(client.ids()) == 7
