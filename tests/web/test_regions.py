"""The magic wand."""

import numpy as np
import pytest

from repri.data.io.segmentations import decode
from repri.web import regions
from repri.web.limits import Refused
from repri.web.regions import region_of, why_no_regions
from tests.regions.make import ColourRegions, two_squares


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A region model whose regions are areas of one colour, and a cache of its own."""
    made = ColourRegions()
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(regions, "load_regions", lambda: made)
    monkeypatch.setattr(regions, "regions_name", lambda: made.name)
    return made


def area(mark, shape):
    return decode({"size": list(shape), "counts": mark.counts}, *shape).astype(bool)


def test_a_click_and_a_box_mark_regions(model):
    image, mask = two_squares()
    clicked = region_of(image, [(20.0, 20.0)], None, 2)
    assert (clicked.kind, clicked.label) == ("region", 2)
    assert (area(clicked, mask.shape) == (mask == 1)).mean() > 0.97
    boxed = area(region_of(image, [], ((120.0, 95.0), (70.0, 50.0)), 1), mask.shape)
    second = np.zeros_like(mask, bool)
    second[56:88, 80:112] = True
    assert (boxed == second).mean() > 0.97
    assert model.encoded == 1


def test_places_outside_the_image_are_moved_to_its_edge(model):
    image, _ = two_squares()
    assert region_of(image, [(1e5, -1e5)], None, 1).counts
    with pytest.raises(Refused, match="The box is empty: drag it over an object"):
        region_of(image, [], ((-9.0, 4.0), (-5.0, 8.0)), 1)


def test_without_a_model_one_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    assert "run repri weights get sam2-tiny" in (why_no_regions() or "")
    with pytest.raises(Refused, match="run repri weights get sam2-tiny"):
        region_of(two_squares()[0], [(1.0, 1.0)], None, 1)


def test_the_address_answers_with_a_mark(client, model, scenes):
    id = client.ids()[0]
    answer = client.http.post(f"{client.root}/images/{id}/region", json={"label": 1, "points": [[30, 30]]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["kind"] == "region"
    kept = client.http.get(f"{client.root}/images/{id}/annotation").json()
    assert kept["marks"] == []
    changed = {"marks": [answer.json()], "complete": False, "revision": kept["revision"]}
    assert client.http.put(f"{client.root}/images/{id}/annotation", json=changed).status_code == 200
    nothing = client.http.post(f"{client.root}/images/{id}/region", json={"label": 1})
    assert nothing.status_code == 422
