"""Label Studio's JSON export: brushes (RLE), polygons, rectangles, key points.

A brush is stored as runs of bits over the picture's RGBA values (the rle-pack format of thi.ng/umbrella):
32 bits number of values, 5 bits word size − 1, four times 4 bits run-length size − 1; then, for each run, one bit
(1: a repeated word, 0: words one by one), 2 bits which of the four sizes, that many bits length − 1, the word(s).
"""

from __future__ import annotations

import json
import math
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

import numpy as np

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, class_names
from repri.data.io.images import IMAGE_SUFFIXES
from repri.runtime.files import atomic

from . import find_image, image_size, read_json

LABELS = {"brushlabels", "polygonlabels", "rectanglelabels", "keypointlabels", "labels"}


def read(path: Path, images: Path | None = None) -> Annotations:
    content = read_json(path)
    tasks = content if isinstance(content, list) else [content]
    items = tuple(item for number, task in enumerate(tasks) if (item := _item(task, path, number, images)))
    return Annotations(class_names(items), items)


def _item(task: Any, path: Path, number: int, images: Path | None) -> AnnotatedImage | None:
    """A task's first annotation that was not cancelled."""
    try:
        done = [a["result"] for a in task.get("annotations") or [] if not a.get("was_cancelled")]
        drawn = ([r for r in result if str(r.get("type", "")).endswith("labels")] for result in done)
        results = next(filter(None, drawn), None)
        if not results:
            return None
        texts = [value for value in task["data"].values() if isinstance(value, str)]
        source = next((text for text in texts if Path(urlparse(text).path).suffix.lower() in IMAGE_SUFFIXES), None)
        source = source or task["data"].get("image") or texts[0]
        image = _image(source, [images, path.parent])
        width, height = (results[0].get(f"original_{side}") for side in ("width", "height"))
        if not height or not width:
            height, width = image_size(image, path)
        shapes = tuple(_shape(result, height, width) for result in results)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path}, task {number}: cannot be read ({type(error).__name__}: {error})") from None
    return AnnotatedImage(image, height, width, shapes)


def _image(source: str, folders: list[Path | None]) -> Path:
    """The picture behind a URL: Label Studio puts eight letters and a hyphen before an uploaded file's name."""
    url = urlparse(source)
    name = unquote(parse_qs(url.query).get("d", [url.path])[0])
    found = find_image(name.lstrip("/"), folders)
    if not found.is_file():
        plain = find_image(re.sub(r"^[0-9a-f]{8}-", "", Path(name).name), folders)
        return plain if plain.is_file() else found
    return found


def _shape(result: dict[str, Any], height: int, width: int) -> Shape:
    value = result["value"]
    labels = next((value[key] for key in (result["type"], *LABELS) if value.get(key)), None)
    if not labels:
        raise ValueError("a region has no label")
    label = str(labels[0])
    if value.get("rotation"):
        raise ValueError(f"the {result['type']} region of {label!r} is rotated: draw it as a polygon")
    if "rle" in value:
        decode_brush(value["rle"], height, width)  # mistakes are found now
        return Shape(label, "mask", mask=partial(decode_brush, value["rle"], height, width))
    if "radiusX" in value:
        x, y, a, b = (value[key] / 100 for key in ("x", "y", "radiusX", "radiusY"))
        turns = [2 * math.pi * i / 64 for i in range(64)]
        ring = (((x + a * math.cos(t)) * width, (y + b * math.sin(t)) * height) for t in turns)
        return Shape(label, "polygon", tuple(ring))
    if "points" in value:
        return Shape(label, "polygon", tuple((x * width / 100, y * height / 100) for x, y in value["points"]))
    x, y = value["x"] * width / 100, value["y"] * height / 100
    if "height" in value:
        size = (value["width"] * width / 100, value["height"] * height / 100)
        return Shape(label, "box", ((x, y), (x + size[0], y + size[1])))
    return Shape(label, "scribble", ((x, y),), width=max(1.0, value.get("width", 0) * width / 100))


def decode_brush(code: list[int], height: int, width: int) -> np.ndarray:
    """bool [H, W] of a brush: where the alpha of its RGBA is not 0."""
    if not all(type(byte) is int and 0 <= byte < 256 for byte in code):
        raise ValueError("its RLE holds values that are no bytes")
    bits = np.unpackbits(np.array(code, np.uint8))
    at = 0

    def take(count: int) -> int:
        nonlocal at
        if at + count > len(bits):
            raise ValueError("its RLE breaks off")
        value = int("".join(map(str, bits[at : at + count])), 2)
        at += count
        return value

    total, word = take(32), take(5) + 1
    sizes = [take(4) + 1 for _ in range(4)]
    if total != height * width * 4:
        raise ValueError(f"its RLE has {total} values, the image {height * width * 4}")
    values = np.zeros(total, np.uint32)
    i = 0
    while i < total:
        repeated = take(1)
        end = i + 1 + take(sizes[take(2)])
        if end > total:
            raise ValueError("its RLE has a run beyond the image")
        if repeated:
            values[i:end] = take(word)
        else:
            values[i:end] = [take(word) for _ in range(end - i)]
        i = end
    return values.reshape(height, width, 4)[..., 3] > 0


def encode_brush(region: np.ndarray) -> list[int]:
    """The RLE of a bool mask [H, W], as runs only."""
    sizes = (4, 8, 12, 16)
    text = [f"{region.size * 4:032b}", f"{7:05b}", *(f"{size - 1:04b}" for size in sizes)]
    flat = region.ravel()
    edges = np.concatenate([[0], np.nonzero(np.diff(flat))[0] + 1, [flat.size]])
    for start, end in pairwise(edges):
        length, word = int(end - start) * 4, "11111111" if flat[start] else "00000000"
        while length:
            run = min(length, 1 << 16)
            which = next(k for k, size in enumerate(sizes) if run <= 1 << size)
            text.append(f"1{which:02b}{run - 1:0{sizes[which]}b}{word}")
            length -= run
    bits = np.frombuffer("".join(text).encode(), np.uint8) - ord("0")
    return np.packbits(bits).tolist()


def write(annotations: Annotations, path: Path) -> None:
    """One JSON of tasks to import; regions as brushes, which are exact."""
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
    def percent(x: float, y: float) -> list[float]:
        return [x * 100 / item.width, y * 100 / item.height]

    if shape.kind == "box":
        (x, y), (right, bottom) = (percent(*point) for point in shape.points)
        value = {"x": x, "y": y, "width": right - x, "height": bottom - y, "rotation": 0}
        return {"type": "rectanglelabels", "value": value | {"rectanglelabels": [shape.label]}}
    rle = encode_brush(shape.region(item.height, item.width))
    return {"type": "brushlabels", "value": {"format": "rle", "rle": rle, "brushlabels": [shape.label]}}
