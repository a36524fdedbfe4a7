"""What the routes share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request

from repri.web.limits import Refused
from repri.web.projects import Projects
from repri.web.schemas import Problem, ProjectId
from repri.web.session import Session

__all__ = ["PROBLEMS", "InProject", "KnownProjects", "computed"]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 415, 422, 429)
}
"""Statuses of requests that are refused."""
LOOK = 0.1
"""Seconds between two looks whether somebody still waits for an answer."""


def _projects(request: Request) -> Projects:
    return request.app.state.projects


def _session(request: Request, project: ProjectId) -> Session:
    return _projects(request).session(project)


KnownProjects = Annotated[Projects, Depends(_projects)]
InProject = Annotated[Session, Depends(_session)]


async def computed(request: Request, question: Callable[[], Any]) -> Any:
    """What the worker computes for a request; the question is dropped if nobody waits for the answer any more."""
    future = _projects(request).worker.ask(question)
    waiting = asyncio.wrap_future(future)
    while not waiting.done():
        await asyncio.wait([waiting], timeout=LOOK)
        if not waiting.done() and await request.is_disconnected():
            future.cancel()
            raise Refused(400, "The page has gone away.")
    return waiting.result()
