"""Projects: create one, read and change it, follow it."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from repri import __version__
from repri.web.examples import add_examples
from repri.web.projects import FOLDER
from repri.web.regions import why_no_regions
from repri.web.schemas import About, NewProject, ProjectAnswer, WatchRequest
from repri.web.session import Session
from repri.web.settings import ProjectSettings
from repri.web.suggest import suggest

from .common import PROBLEMS, InProject, KnownProjects

__all__ = ["router"]

router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["projects"])


@router.get("/about")
def about(projects: KnownProjects) -> About:
    """The server: its version, its extractor, and how quickly it answers."""
    spent = [ms for session in projects.sessions() for ms in session.latencies]
    latency = {} if not spent else {"median": float(np.median(spent)), "p95": float(np.percentile(spent, 95))}
    return About(
        version=__version__,
        extractor=projects.segmenter.feature_extractor.name,
        folder=projects.folder is not None,
        regions=why_no_regions(),
        latency={name: round(value, 1) for name, value in latency.items()},
    )


@router.post("/projects", status_code=201)
def create_project(projects: KnownProjects, wanted: NewProject) -> ProjectAnswer:
    """Begin a new project, empty or with example images."""
    session = projects.session(projects.create(wanted.name))
    if wanted.examples:
        add_examples(session.project)
        session.added()
    return _answer(session)


@router.get("/projects/{project}")
def read_project(session: InProject) -> ProjectAnswer:
    """Settings, images and results of a project."""
    return _answer(session)


@router.put("/projects/{project}/settings")
def change_settings(session: InProject, settings: ProjectSettings) -> ProjectSettings:
    """Change the name, the classes or the threshold."""
    session.change(settings)
    return session.project.settings


@router.post("/projects/{project}/watch", status_code=204)
def watch(session: InProject, seen: WatchRequest) -> None:
    """Say which images are on screen: they are segmented first."""
    session.watch(seen.current, seen.visible)


@router.get("/projects/{project}/next")
def next_image(session: InProject, count: int = 1) -> list[str]:
    """Images that are worth annotating next: they stand for uncertain objects that are unlike the annotated ones."""
    done = {*session.project.annotated, *session.project.accepted}
    return suggest(session.summaries(), done, max(1, min(count, 50)))


@router.get("/projects/{project}/events", response_class=StreamingResponse)
async def events(session: InProject, request: Request) -> StreamingResponse:
    """Results, progress and changes as server-sent events."""
    queue = session.events.subscribe()
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(session.events.follow(queue), media_type="text/event-stream", headers=headers)


def _answer(session: Session) -> ProjectAnswer:
    project, accepted, annotated = session.project, session.project.accepted, set(session.project.annotated)
    records, failed = dict(session.records), dict(session.failed)

    def entry(key: str, name: str) -> dict[str, Any]:
        result = records[key].content() if key in records else None
        flags = {"annotated": key in annotated, "accepted": key in accepted}
        return {"id": key, "name": name, **flags, "result": result, "problem": failed.get(key)}

    content = {
        "id": session.id,
        "in_folder": session.id == FOLDER,
        "settings": project.settings,
        "images": [entry(key, image.name) for key, image in project.images.items()],
        "progress": session.progress(),
    }
    return ProjectAnswer.model_validate(content)
