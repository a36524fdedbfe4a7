"""Results of a project: accept them, export them, and take masks back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, UploadFile
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from repri.web.export import Format, archive, write_into_folder
from repri.web.imports import import_masks
from repri.web.limits import Refused
from repri.web.projects import FOLDER
from repri.web.schemas import AcceptRequest, ExportRequest

from .common import PROBLEMS, InProject

__all__ = ["router"]

router = APIRouter(prefix="/api/projects/{project}", responses=PROBLEMS, tags=["results"])


@router.post("/accept")
def accept(session: InProject, wanted: AcceptRequest) -> list[str]:
    """Accept masks one by one, or all from a confidence on; returns the images that are concerned."""
    ids = list(wanted.images)
    for id in ids:
        session.project.image(id)
    if wanted.confidence is not None:
        records, done = dict(session.records), session.project.accepted
        ids += [id for id, r in records.items() if r.confidence >= wanted.confidence and any(r.areas.values())]
        ids = [id for id in dict.fromkeys(ids) if (id in done) != wanted.accepted]
    return session.accept(ids, wanted.accepted)


@router.get("/export.zip", response_class=FileResponse, responses={200: {"content": {"application/zip": {}}}})
def export(
    session: InProject,
    formats: Annotated[list[Format], Query(min_length=1, max_length=6)] = ["masks"],  # noqa: B006
    accepted_only: bool = False,
) -> FileResponse:
    """All results as a zip file."""
    path = archive(session, list(dict.fromkeys(formats)), accepted_only)
    return FileResponse(
        path,
        media_type="application/zip",
        filename="repri-results.zip",
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


@router.post("/export", status_code=201)
def export_into_folder(session: InProject, wanted: ExportRequest) -> dict[str, str]:
    """Write all results into a new folder beside the images."""
    if session.id != FOLDER:
        raise Refused(409, "This project has no folder of its own: download the results as a zip file.")
    target = write_into_folder(session, list(dict.fromkeys(wanted.formats)), wanted.accepted_only)
    return {"folder": target.relative_to(session.project.folder).as_posix()}


@router.post("/import")
async def take_masks(session: InProject, files: list[UploadFile]) -> list[str]:
    """Take masks as annotations: files of an export (PNG of class ids, COCO, LabelMe, Label Studio, YOLO), alone or in
    a zip file."""
    contents = [(file.filename or "", await file.read(session.project.limits.body)) for file in files]
    return await run_in_threadpool(import_masks, session, contents)
