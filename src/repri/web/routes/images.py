"""Images of a project: send them, draw on them, and get their results."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response, UploadFile
from fastapi.responses import FileResponse
from PIL import Image

from repri.data.io.masks import palette_png
from repri.data.io.segmentations import encode
from repri.web.limits import Refused
from repri.web.marks import Annotation, Mark, label_map
from repri.web.paper import layers, solve
from repri.web.record import Maps, png
from repri.web.regions import region_of
from repri.web.schemas import ImageEntry, ImageId, RegionRequest, ResultWithMask, Solution, SolveRequest
from repri.web.session import Session

from .common import PROBLEMS, InProject, computed

__all__ = ["router"]

router = APIRouter(prefix="/api/projects/{project}/images", responses=PROBLEMS, tags=["images"])
PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}}
SMALL = 128
"""Longest side of the masks of thumbnails."""


@router.post("", status_code=201)
async def send_images(session: InProject, files: list[UploadFile]) -> list[ImageEntry]:
    """Add images to a project. Their formats are told by their content, and they are kept under names of the server."""
    from starlette.concurrency import run_in_threadpool

    added = []
    for file in files:
        content = await file.read(session.project.limits.file + 1)
        added.append(await run_in_threadpool(session.project.add, file.filename or "image", content))
    session.added()
    return [ImageEntry(id=image.id, name=image.name, annotated=False, accepted=False) for image in added]


@router.get("/{image}/thumbnail", response_class=FileResponse, responses=JPEG)
def thumbnail(session: InProject, image: ImageId) -> FileResponse:
    """A small JPEG of the image."""
    return FileResponse(session.project.thumbnail(image), media_type="image/jpeg", headers=_cached())


@router.get("/{image}/pixels", response_class=Response, responses=JPEG)
def pixels(session: InProject, image: ImageId) -> Response:
    """The upright image as a JPEG."""
    import io

    buffer, pixels = io.BytesIO(), session.pixels(image)
    if max(pixels.shape) > session.project.limits.side:
        raise Refused(422, f"The image has a side of {max(pixels.shape):,} pixels, too many to be shown: cut it.")
    Image.fromarray(pixels).save(buffer, "JPEG", quality=92)
    return Response(buffer.getvalue(), media_type="image/jpeg", headers=_cached())


@router.get("/{image}/annotation")
def read_annotation(session: InProject, image: ImageId) -> Annotation:
    """What is drawn on the image."""
    return session.project.annotation(image)


@router.put("/{image}/annotation")
def annotate(session: InProject, image: ImageId, annotation: Annotation) -> Annotation:
    """Replace what is drawn on the image; it is on disk when the answer comes. The revision must be the current one."""
    height, width = session.project.size(image)
    label_map(annotation, height, width)  # marks that do not fit are refused before they are kept
    return session.annotate(image, annotation)


@router.get("/{image}/annotation.png", response_class=Response, responses=PNG)
def annotation_png(session: InProject, image: ImageId) -> Response:
    """The marks as a mask: 0 background, 1 … N the classes, 255 no label."""
    labels = label_map(session.project.annotation(image), *session.project.size(image))
    return _png(palette_png(labels))


@router.get("/{image}/result")
async def result(session: InProject, image: ImageId, request: Request) -> ResultWithMask:
    """Figures and masks (COCO's run lengths) of the image."""
    maps = await _maps(session, image, request)
    names = [item.name for item in session.project.settings.classes]
    regions = {name: encode(maps.mask == n) for n, name in enumerate(names, 1)}
    return ResultWithMask(**maps.record.content(), rle=regions)


@router.get("/{image}/result.png", response_class=Response, responses=PNG)
async def result_png(session: InProject, image: ImageId, request: Request) -> Response:
    """The mask as a PNG of class ids, as :meth:`repri.Segmentation.save` writes it."""
    maps = await _maps(session, image, request)
    return _png(palette_png(maps.mask))


@router.get("/{image}/layers.png", response_class=Response, responses=PNG)
async def layers_png(session: InProject, image: ImageId, request: Request, label: int = 1) -> Response:
    """What the page draws: labels in red, the probability of one class in green."""
    session.project.image(image)
    if image in session.project.accepted:
        return _png(layers(session.project.accepted_mask(image), None))
    maps = await _maps(session, image, request)
    return _png(layers(maps.mask, maps.probabilities.get(label)))


@router.get("/{image}/small.png", response_class=Response, responses=PNG)
def small_png(session: InProject, image: ImageId) -> Response:
    """The mask for a thumbnail: labels as grey levels."""
    session.project.image(image)
    if image in session.project.accepted:
        mask = session.project.accepted_mask(image)
    elif image in session.records:
        mask = session.records[image].mask
    else:
        raise Refused(404, "This image has no result yet.")
    step = max(1, round(max(mask.shape) / SMALL))
    return _png(png(np.ascontiguousarray(mask[::step, ::step])))


@router.post("/{image}/region")
async def region(session: InProject, image: ImageId, wanted: RegionRequest, request: Request) -> Mark:
    """The region of a click or of a box, as a mark that can be added to the annotation; nothing is changed."""
    pixels = session.pixels(image)
    return await computed(request, lambda: region_of(pixels, wanted.points, wanted.box, wanted.label))


@router.post("/{image}/solve")
async def solve_image(session: InProject, image: ImageId, wanted: SolveRequest, request: Request) -> Solution:
    """Segment the image with a part of the objective, or with a proportion that is told, and record the steps."""
    session.project.image(image)
    answer = await computed(request, lambda: solve(session, image, wanted.label, wanted.loss, wanted.proportion))
    return Solution.model_validate(answer)


async def _maps(session: Session, image: str, request: Request) -> Maps:
    """The result of an image; only one that is not there has to wait for the worker."""
    session.project.image(image)
    return session.kept_maps(image) or await computed(request, lambda: session.maps(image))


def _cached() -> dict[str, str]:
    return {"cache-control": "private, max-age=3600"}


def _png(content: bytes) -> Response:
    return Response(content, media_type="image/png", headers={"cache-control": "no-store"})
