"""The projects of a server."""

import asyncio

import pytest

from repri.web.limits import Limits, Refused
from repri.web.projects import FOLDER, OPEN, Projects
from tests.web.test_project import content


def test_projects_do_not_know_each_other(projects):
    a, b = projects.create("a"), projects.create("b")
    image = projects.session(a).project.add("x.png", content())
    assert projects.session(b).project.images == {}
    with pytest.raises(Refused, match="no such image"):
        projects.session(b).project.pixels(image.id)
    assert len(a) == len(b) == 32
    for id in ("..", "0" * 32, "projects", ""):
        with pytest.raises(Refused, match="no such project") as refused:
            projects.session(id)
        assert refused.value.status == 404


def test_projects_outlive_the_server(projects, segmenter):
    id = projects.create("mine")
    image = projects.session(id).project.add("x.png", content())
    again = Projects(segmenter, projects.root)
    assert again.folder is None
    assert list(again.session(id).project.images) == [image.id]
    assert again.session(id).project.settings.name == "mine"
    with pytest.raises(Refused):
        again.session(FOLDER)


def test_only_a_few_are_in_use(projects):
    ids = [projects.create() for _ in range(OPEN + 2)]
    assert len(projects.sessions()) == OPEN
    assert projects.session(FOLDER) is projects.folder
    projects.session(ids[0])  # from disk again
    assert projects.sessions()[0] is projects.session(ids[0])


def test_a_project_that_a_page_shows_comes_first(projects):
    async def scenario():
        shown, other = projects.session(projects.create()), projects.session(projects.create())
        assert projects.sessions()[0] is other
        shown.events.subscribe()
        assert projects.sessions()[0] is shown

    asyncio.run(scenario())


def test_too_many_projects(segmenter, tmp_path):
    projects = Projects(segmenter, tmp_path, None, Limits(projects=2))
    projects.create(), projects.create()
    with pytest.raises(Refused, match="at most"):
        projects.create()
