"""Label Studio's JSON export: brushes (RLE), polygons, ellipses, rectangles, key points."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import ParseResult, parse_qs, unquote, urlparse

from typing_extensions import Required, TypedDict

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, class_names
from repri.data.io.classes import class_name
from repri.data.io.files import read_json
from repri.data.io.images import IMAGE_SUFFIXES, check_pixels
from repri.data.io.outlines import circle
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import short, validated

from .brush import decode_brush, encode_brush
from .files import check_names, find_image, image_size, json_content

__all__ = ["detect", "read", "write"]

LABELS = ("brushlabels", "polygonlabels", "rectanglelabels", "keypointlabels", "ellipselabels", "labels")
Labels = list[str | int | float]


def detect(path: Path) -> bool:
    """Tell whether a JSON file holds a list, which is one of tasks."""
    return isinstance(json_content(path), list)


def read(path: Path, images: Path | None = None) -> Annotations:
    """Read the JSON file ``path``; the images are in ``images`` or beside it."""
    content = read_json(path)
    tasks = content if isinstance(content, list) else [content]
    items = tuple(item for number, task in enumerate(tasks) if (item := _item(task, path, number, images)))
    return Annotations(class_names(items), items)


class Value(TypedDict, total=False):
    """The place and the labels of a region, in per cent of the image. The labels are under the name of its type."""

    rle: list[Any]
    points: list[tuple[float, float]]
    x: float
    y: float
    width: float | None
    height: float
    radiusX: float
    radiusY: float
    rotation: float | None
    brushlabels: Labels | None
    polygonlabels: Labels | None
    rectanglelabels: Labels | None
    keypointlabels: Labels | None
    ellipselabels: Labels | None
    labels: Labels | None


class Region(TypedDict, total=False):
    """One entry of an annotation's ``result``; those whose type ends in ``labels`` are regions."""

    type: Required[str]
    value: Required[Value]
    original_width: Any
    original_height: Any


class Annotation(TypedDict, total=False):
    """One annotation of a task."""

    result: Required[list[dict[str, Any]]]
    was_cancelled: bool | None


class LabelTask(TypedDict, total=False):
    """What is used of a task."""

    data: dict[str, Any]
    annotations: list[Annotation] | None


def _item(raw: Any, path: Path, number: int, images: Path | None) -> AnnotatedImage | None:
    """Read the first annotation of a task that was not cancelled."""
    try:
        task: LabelTask = validated(LabelTask, raw, "it is not a task")
        done = [a["result"] for a in task.get("annotations") or [] if not a.get("was_cancelled")]
        drawn = ([r for r in result if str(r.get("type", "")).endswith("labels")] for result in done)
        results = next(filter(None, drawn), None)
        if not results:
            return None
        regions: list[Region] = validated(list[Region], results, "its result")
        image = _image(_source(task.get("data", {})), [images, path.parent])
        width, height = regions[0].get("original_width"), regions[0].get("original_height")
        if not height or not width:
            height, width = image_size(image, path)
        height, width = check_pixels(height, width, "its image")
        return AnnotatedImage(image, height, width, tuple(_shape(region, height, width) for region in regions))
    except RepriError as error:
        raise RepriError(f"{path}, task {number}: cannot be read ({error})") from None


def _source(data: dict[str, Any]) -> str:
    """The address of a task's image."""
    texts = [value for value in data.values() if isinstance(value, str)]
    named = [data["image"]] if isinstance(data.get("image"), str) else []
    for text in texts:
        if Path(_address(text).path).suffix.lower() in IMAGE_SUFFIXES:
            return text
    if not named and not texts:
        raise RepriError("its data names no image")
    return (named or texts)[0]


def _address(text: str) -> ParseResult:
    try:
        return urlparse(text)
    except ValueError as error:  # such as brackets that do not enclose an address
        raise RepriError(f"{short(text)} is no address of an image ({error})") from None


def _image(source: str, folders: list[Path | None]) -> Path:
    """Find the image of a URL: Label Studio puts eight letters and a hyphen before the name of an uploaded file."""
    url = _address(source)
    name = unquote(parse_qs(url.query).get("d", [url.path])[0])
    image = find_image(name.lstrip("/"), folders)
    if not image.is_file():
        plain = find_image(re.sub(r"^[0-9a-f]{8}-", "", Path(name).name), folders)
        return plain if plain.is_file() else image
    return image


def _shape(region: Region, height: int, width: int) -> Shape:
    """Read one region, whose places are per cent of the image; mistakes in a brush are noticed now."""
    value, kind = region["value"], region["type"]
    named: dict[str, Any] = {**value}
    labels = next((named[key] for key in (kind, *LABELS) if named.get(key)), None)
    if not labels:
        raise RepriError("a region has no label")
    label = class_name(str(labels[0]))
    if value.get("rotation"):
        raise RepriError(f"the {kind} region of {label!r} is rotated: draw it as a polygon")
    if "rle" in value:
        draw = partial(decode_brush, value["rle"], height, width)
        draw()
        return Shape(label, "mask", mask=draw)
    if "points" in value:
        return Shape(label, "polygon", tuple((x * width / 100, y * height / 100) for x, y in value["points"]))
    if "x" not in value or "y" not in value:
        raise RepriError(f"the {kind} region of {label!r} has no place")
    x, y = value["x"] * width / 100, value["y"] * height / 100
    if "radiusX" in value and "radiusY" in value:
        return Shape(
            label, "polygon", circle((x, y), (value["radiusX"] * width / 100, value["radiusY"] * height / 100))
        )
    across = value.get("width") or 0.0
    if "height" in value:
        size = (across * width / 100, value["height"] * height / 100)
        return Shape(label, "box", ((x, y), (x + size[0], y + size[1])))
    return Shape(label, "scribble", ((x, y),), width=max(1.0, across * width / 100))


def write(annotations: Annotations, path: Path) -> None:
    """Write one JSON of tasks to import; regions become brushes, which are exact."""
    check_names(annotations, lambda image: image.name)
    tasks = []
    for item in annotations:
        results = [
            {
                "id": f"r{number}",
                "from_name": "label",
                "to_name": "image",
                "original_width": item.width,
                "original_height": item.height,
                "image_rotation": 0,
            }
            | _result(shape, item)
            for number, shape in enumerate(item.visible())
        ]
        tasks.append({"data": {"image": item.image.name}, "annotations": [{"result": results}]})
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(tasks))


def _result(shape: Shape, item: AnnotatedImage) -> dict[str, Any]:
    """Write one shape as a rectangle or a brush."""

    def percent(x: float, y: float) -> list[float]:
        return [x * 100 / item.width, y * 100 / item.height]

    if shape.kind == "box":
        (x, y), (right, bottom) = (percent(*point) for point in shape.points)
        value = {"x": x, "y": y, "width": right - x, "height": bottom - y, "rotation": 0}
        return {"type": "rectanglelabels", "value": value | {"rectanglelabels": [shape.label]}}
    rle = encode_brush(shape.region(item.height, item.width))
    return {"type": "brushlabels", "value": {"format": "rle", "rle": rle, "brushlabels": [shape.label]}}
