"""Add an annotation format of your own: one module with the functions ``read``, ``write`` and ``detect``.

Here it is a line of JSON for each image."""

import json
import sys
from pathlib import Path

import repri
from repri.data import load_example, read_annotated, write_annotated
from repri.data.io.annotations import AnnotatedImage, Annotations, Shape


def detect(path: Path) -> bool:
    return path.suffix == ".jsonl" and '"outlines"' in path.read_text()


def read(path: Path, images: Path | None = None) -> Annotations:
    items = []
    for line in map(json.loads, path.read_text().splitlines()):
        shapes = tuple(Shape(label, "polygon", tuple(map(tuple, points))) for label, points in line["outlines"])
        items.append(AnnotatedImage((images or path.parent) / line["image"], *line["size"], shapes))
    return Annotations(tuple(sorted({shape.label for item in items for shape in item.shapes})), tuple(items))


def write(annotations: Annotations, path: Path) -> None:
    lines = []
    for item in annotations:
        outlines = [(shape.label, shape.points) for shape in item.shapes]
        lines.append(json.dumps({"image": item.image.name, "size": (item.height, item.width), "outlines": outlines}))
    path.write_text("\n".join(lines))


repri.register_format("outlines", sys.modules[__name__])  # a package has an entry point in repri.formats instead

if __name__ == "__main__":
    photographs, path = load_example("people").folder / "annotated", Path("demo/outlines.jsonl")
    write_annotated(read_annotated(photographs), "demo/labelme", "labelme")  # masks become polygons
    write_annotated(read_annotated("demo/labelme"), path, "outlines")
    print(path, read_annotated(path, images=photographs / "images").classes)  # the format is detected
