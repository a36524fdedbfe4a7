"""The server as a whole: nothing that a client sends is a bug, and a load is bounded."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from starlette.testclient import TestClient

import repri.web.routes.projects as routes
from repri.runtime.memory import peak_memory
from repri.web.app import build_app
from repri.web.limits import Limits
from repri.web.projects import Projects
from tests.web.make import full_annotation

EXAMPLES = 3
"""Requests that are made up for each address."""


def test_the_api_is_described(client):
    schema = client.http.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path} says nothing"
    assert "/api/projects/{project}/events" in schema["paths"]
    assert client.http.get("/docs").status_code == 404, "it would load scripts from elsewhere"


def test_no_request_is_a_bug(client, scenes, monkeypatch):
    """Requests that fit the description, and some that do not, on a project with results."""
    monkeypatch.setattr(routes, "add_examples", lambda project: 0)
    client.annotate(client.ids()[0], full_annotation(scenes[1][4]))
    client.wait()
    schema = schemathesis.openapi.from_dict(client.http.get("/openapi.json").json())
    tried = 0
    for operation in schema.get_all_operations():
        case_of = operation.ok()
        if case_of.path.endswith("/events"):
            continue  # it never ends
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case_of.as_strategy(generation_mode=mode))
            def try_one(case):
                nonlocal tried
                arguments = case.as_transport_kwargs(base_url="http://localhost")
                url = arguments.pop("url").replace("http://localhost", "")
                for known in ("allow_redirects", "timeout", "cookies"):
                    arguments.pop(known, None)
                if isinstance(arguments.get("data"), (bytes, str)):
                    arguments["content"] = arguments.pop("data")
                answer = client.http.request(arguments.pop("method"), url, **arguments)
                assert answer.status_code < 500, f"{case.method} {url}: {answer.text}"
                tried += 1

            with suppress(Unsatisfiable):  # nothing can be wrong about an address without parameters
                try_one()
    assert tried > 60


def test_a_bug_sends_no_traceback(projects, monkeypatch, capsys):
    def fail():
        raise RuntimeError("secret detail")

    monkeypatch.setattr(routes, "why_no_regions", fail)
    with TestClient(build_app(projects), base_url="http://localhost", raise_server_exceptions=False) as http:
        answer = http.get("/api/about")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "RuntimeError: secret detail" in capsys.readouterr().err


@pytest.fixture
def small(segmenter, folder, tmp_path):
    """A server with a short queue."""
    with TestClient(build_app(Projects(segmenter, tmp_path / "p", folder, Limits(waiting=4)))) as http:
        http.base_url = "http://localhost"
        yield http


def test_under_load_there_are_answers_and_429(small, scenes, capsys):
    """200 requests, 8 at a time."""
    root = "/api/projects/folder"
    ids = [image["id"] for image in small.get(root).json()["images"]]
    small.put(f"{root}/images/{ids[1]}/annotation", json=full_annotation(scenes[1][0]).model_dump())
    end = time.monotonic() + 30
    while small.get(root).json()["progress"]["segmented"] < 5 and time.monotonic() < end:
        time.sleep(0.05)

    def one(n):
        start = time.perf_counter()
        path = f"{root}/images/{ids[n % 5]}"
        if n % 2:
            answer = small.post(f"{path}/solve", json={"proportion": 0.01 + n / 300})
        else:
            answer = small.get(f"{path}/layers.png")
        return answer.status_code, time.perf_counter() - start, answer.headers.get("retry-after")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))
        before = peak_memory()
        answers = list(pool.map(one, range(200)))
    statuses = [status for status, _, _ in answers]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) >= 10, statuses.count(200)
    assert all(retry == "1" for status, _, retry in answers if status == 429)
    grown, spent = peak_memory() - before, np.percentile([seconds for _, seconds, _ in answers], 95)
    assert grown < 0.1
    with capsys.disabled():
        print(
            f"\nload: {statuses.count(200)} answers, {statuses.count(429)} times 429, p95 {1000 * spent:.0f} ms, "
            f"memory +{1000 * grown:.0f} MB"
        )


@pytest.mark.parametrize(
    ("path", "body", "part"),
    [
        ("settings", '{"threshold": NaN}', "threshold"),
        ("settings", '{"threshold": 1e999}', "threshold"),
        ("settings", '{"name": "\\udfff"}', "name"),
        ("settings", "[" * 9999, "the request|body|JSON"),
        (
            "images/{image}/annotation",
            '{"marks": [{"kind": "box", "label": 1, "points": [[NaN, 1], [2, 2]]}]}',
            "marks.0",
        ),
        ("images/{image}/annotation", '{"marks": [{"kind": "region", "label": 1, "counts": "\\ud800"}]}', "marks.0"),
    ],
)
def test_values_that_json_cannot_hold_are_one_sentence(client, path, body, part):
    """The values are not sent back: an answer could not hold them."""
    place = f"{client.root}/{path.format(image=client.ids()[0])}"
    answer = client.http.put(place, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert re.search(part, answer.json()["detail"])
