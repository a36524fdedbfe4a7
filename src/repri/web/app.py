"""The server: the page, the API, and what holds for both."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from repri import __version__
from repri.runtime.errors import RepriError

from .limits import Refused
from .projects import Projects
from .routes import images, projects, results
from .security import Guard

__all__ = ["build_app"]

PAGE = Path(__file__).with_name("page")
ABOUT = """Annotate a few images of a folder, and the others are segmented.

1. `POST /api/projects` creates a project; `folder` is the one that the server was started with.
2. `POST …/images` sends images.
3. `PUT …/images/{image}/annotation` draws on an image.
4. `GET …/events` tells when results are there, and `GET …/images/{image}/result` gives them."""


def build_app(known: Projects, host: str = "127.0.0.1", token: str | None = None) -> Guard:
    """The whole application.

    Args:
        known: The projects.
        host: The host that the server listens on.
        token: The secret of the server, if other machines can reach it.

    Returns:
        An ASGI application.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        known.worker.start()
        try:
            yield
        finally:
            known.worker.stop()

    app = FastAPI(
        title="repri",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        openapi_url="/openapi.json",
    )
    app.state.projects = known
    for router in (projects.router, images.router, results.router):
        app.include_router(router)
    app.add_exception_handler(RepriError, _mistake)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    return Guard(app, host, token, known.limits.body)


def _mistake(request: Request, error: Any) -> JSONResponse:
    """One sentence, with the status that suits it."""
    status = error.status if isinstance(error, Refused) else 422
    headers = {"retry-after": "1"} if status == 429 else None
    return JSONResponse({"detail": _text(error)}, status, headers)


def _unfit(request: Request, error: Any) -> JSONResponse:
    """A body or an address whose values do not fit; the values themselves may be of any kind, so they are not sent."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")[:200]
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return JSONResponse({"detail": _text(f"{place or 'the request'}: {message[:300]}")}, 422)


def _text(sentence: object) -> str:
    """A sentence that can be sent: names of files may hold bytes that are no text."""
    return str(sentence).encode("utf-8", "backslashreplace").decode()


def _http(request: Request, error: Any) -> JSONResponse:
    """Unknown addresses, wrong methods, and mistakes that were raised while a body was read."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, Refused):
        return _mistake(request, cause)
    return JSONResponse({"detail": _text(error.detail)}, error.status_code, error.headers)


def _bug(request: Request, error: Exception) -> JSONResponse:
    """The traceback is printed here and never sent."""
    traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"detail": "This is a bug in repri; the server has printed what happened."}, 500)
