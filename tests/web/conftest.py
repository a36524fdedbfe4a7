"""What the tests of the web page share: a folder of generated scenes, and a server that needs no weights."""

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from starlette.testclient import TestClient

from repri import Segmenter, load_extractor
from repri.data.datasets.scenes import make_task
from repri.features.whitening import whitening_of
from repri.web.app import build_app
from repri.web.project import Project
from repri.web.projects import Projects
from repri.web.session import Session
from tests.web.browser import chromium
from tests.web.make import SCENES, SIDE, Client


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch):
    """The support chooses its settings after an hour, so only in tests that want it."""
    monkeypatch.setattr("repri.web.session.PAUSE", 3600.0)


@pytest.fixture(scope="session")
def scenes():
    """Images [n, H, W, 3] and masks [n, H, W] of one texture."""
    task = make_task(0, shots=SCENES - 1, size=SIDE)
    images = torch.cat([task.support, task.query[None]]).movedim(1, -1)
    masks = torch.cat([task.support_masks, task.query_mask[None]])
    return (images * 255).round().byte().contiguous().numpy(), masks.numpy()


@pytest.fixture(scope="session")
def segmenter(scenes):
    """Filters at a quarter of their size, with a whitening of their own."""
    filters = load_extractor("filters")
    filters.rule = filters.rule._replace(size=SIDE)
    views = [filters.extract(filters.view((SIDE, SIDE)).pixels(image)[None])[0].flatten(1).T for image in scenes[0][:2]]
    filters.whitening = whitening_of(F.normalize(torch.cat(views), dim=1))
    return Segmenter(filters)


@pytest.fixture
def folder(tmp_path, scenes):
    """A folder of images, one of them in a folder of its own."""
    root = tmp_path / "images"
    (root / "more").mkdir(parents=True)
    for n, image in enumerate(scenes[0]):
        Image.fromarray(image).save(root / ("more" if n == SCENES - 1 else ".") / f"scene{n}.png")
    return root


@pytest.fixture
def project(folder):
    return Project(folder)


@pytest.fixture
def session(project, segmenter):
    """A project in use without a worker: tests carry out its steps."""
    return Session(project, segmenter)


@pytest.fixture
def projects(folder, segmenter, tmp_path):
    return Projects(segmenter, tmp_path / "projects", folder)


@pytest.fixture
def client(projects):
    """A server on loopback, with its worker."""
    with TestClient(build_app(projects), base_url="http://localhost") as http:
        yield Client(http, "folder")


@pytest.fixture(scope="module")
def browser():
    """It is closed after each file, because its event loop would disturb other tests."""
    with chromium() as opened:
        yield opened
