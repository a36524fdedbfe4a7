"""A folder of results: masks that carry their own figures, overlays, a contact sheet, annotation files.

The mask of a picture is written last and holds everything that the summary needs, so a run that was stopped can go on,
and the summary is made of what is on disk.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from PIL import Image, PngImagePlugin

from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.io.formats import write_annotated
from repri.data.io.masks import read_mask, write_mask
from repri.runtime.draw import colour_map
from repri.runtime.files import atomic

from .segmenter import Segmentation

__all__ = ["EXPORTS", "Record", "Results"]

EXPORTS = ("coco", "labelme", "label-studio")
THUMBNAIL, MOST_JPEG = 256, 65_500
"""Longest sides, the second one because JPEG has no longer ones."""
FIGURES = "repri"
"""Key of the figures in a mask's PNG."""


class Record(NamedTuple):
    """One line of the summary."""

    name: str
    """Of the query, without its suffix."""
    source: str
    proportion: dict[str, float]
    confidence: float
    presence: dict[str, float]


class Results:
    """What is written into one folder."""

    def __init__(self, folder: Path, classes: Sequence[str], probabilities: bool = False, overlays: bool = False):
        self.folder, self.classes = folder, tuple(classes)
        self.probabilities, self.overlays = probabilities, overlays

    def mask_path(self, name: str) -> Path:
        return self.folder / "masks" / f"{name}.png"

    def write(self, name: str, found: Segmentation) -> None:
        """Everything of one picture; its mask last."""
        if self.probabilities:
            maps = found.probability if found.probability.ndim == 3 else found.probability[None]
            for label, values in zip(self.classes, maps, strict=True):
                part = name if len(self.classes) == 1 else f"{name}.{_plain(label)}"
                with atomic(self.folder / "probabilities" / f"{part}.png") as temporary:
                    Image.fromarray((values * 65535).round().astype(np.uint16)).save(temporary)
        if self.overlays:
            whole = Image.fromarray(overlay(found.picture, found.mask))
            whole.thumbnail((MOST_JPEG, MOST_JPEG))
            with atomic(self.folder / "overlays" / f"{name}.jpg") as temporary:
                whole.save(temporary, quality=90)
        small = Image.fromarray(found.picture)
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        marked = Image.fromarray(found.mask).resize(small.size, Image.Resampling.NEAREST)
        small = Image.fromarray(overlay(np.asarray(small), np.asarray(marked)))
        with atomic(self.folder / "thumbnails" / f"{name}.jpg") as temporary:
            small.save(temporary, quality=85)
        proportion, presence = (_named(value, self.classes) for value in (found.proportion, found.presence))
        record = Record(name, found.source, proportion, found.confidence, presence)
        write_mask(found.mask, self.mask_path(name), {FIGURES: json.dumps(record._asdict(), ensure_ascii=True)})

    def records(self, names: Iterable[str]) -> Iterator[Record]:
        """What the masks on disk say; those that are not there are left out."""
        for name in names:
            path = self.mask_path(name)
            if path.is_file():
                with Image.open(path) as image:
                    text = image.info.get(FIGURES) if isinstance(image, PngImagePlugin.PngImageFile) else None
                if text is None:
                    raise ValueError(f"{path} was not written by `repri segment`: choose another output folder")
                record = Record(**json.loads(text))
                if tuple(record.proportion) != self.classes:
                    raise ValueError(
                        f"{path} is of the classes {', '.join(record.proportion)}, not {', '.join(self.classes)}: "
                        "choose another output folder"
                    )
                yield record

    def check_exports(self, queries: Mapping[str, Path], exports: Sequence[str]) -> None:
        """Annotation files know pictures by their file names, which must differ."""
        known: dict[str, Path] = {}
        for path in queries.values() if exports else ():
            if path.stem in known:
                raise ValueError(
                    f"--export cannot tell {known[path.stem]} from {path}, which have one name: rename one of them"
                )
            known[path.stem] = path

    def summarise(self, names: Sequence[str], exports: Sequence[str] = ()) -> list[Record]:
        """``results.csv``, ``index.html`` and annotation files of all that is there."""
        records = list(self.records(names))
        with atomic(self.folder / "results.csv") as temporary:
            temporary.write_text(_table(records, self.classes))
        with atomic(self.folder / "index.html") as temporary:
            temporary.write_text(_sheet(records, self.overlays), encoding="utf-8")
        if exports and records:
            self._export(records, exports)
        return records

    def _export(self, records: Sequence[Record], exports: Sequence[str]) -> None:
        labels = dict(enumerate(self.classes, 1))

        def annotated(record: Record) -> AnnotatedImage:
            path = self.mask_path(record.name)
            mask = read_mask(path)
            source = Path(record.source).resolve()
            return AnnotatedImage(source, *mask.shape, shapes_of(mask, labels, lambda: read_mask(path)))

        content = Annotations(self.classes, tuple(annotated(record) for record in records))
        for format in exports:
            target = self.folder / ("labelme" if format == "labelme" else f"{format}.json")
            write_annotated(content, target, format)


def overlay(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[H, W, 3]: the picture, half covered by the colours of the classes, with a line around them."""
    colours = colour_map()[mask]
    shown = np.where(mask[..., None] > 0, (picture.astype(np.uint16) + colours) // 2, picture).astype(np.uint8)
    edge = np.zeros(mask.shape, bool)
    edge[:, 1:] |= mask[:, 1:] != mask[:, :-1]
    edge[1:] |= mask[1:] != mask[:-1]
    shown[edge] = 255
    return shown


def _plain(label: str) -> str:
    """A class's name as part of a file's."""
    return "".join("_" if character in '/\\:*?"<>|' else character for character in label)


def _named(value: float | dict[str, float], classes: Sequence[str]) -> dict[str, float]:
    return value if isinstance(value, dict) else {classes[0]: value}


def _table(records: Sequence[Record], classes: Sequence[str]) -> str:
    text = io.StringIO()
    columns = [f"{what} of {name}" for what in ("proportion", "presence") for name in classes]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["query", "source", "confidence", *columns])
    for record in records:
        figures = [values[name] for values in (record.proportion, record.presence) for name in classes]
        writer.writerow([record.name, record.source, *(f"{value:.4f}" for value in (record.confidence, *figures))])
    return text.getvalue()


def _sheet(records: Sequence[Record], overlays: bool) -> str:
    """A page of thumbnails, the least sure first: they are worth a look."""
    tiles = []
    for record in sorted(records, key=lambda r: r.confidence):
        name = html.escape(record.name, quote=True)
        link = quote(record.name)
        target = f"overlays/{link}.jpg" if overlays else f"masks/{link}.png"
        there = max(record.presence.values())
        share = ", ".join(f"{html.escape(k)} {100 * v:.0f} %" for k, v in record.proportion.items())
        tiles.append(
            f'<a href="{target}"><img loading="lazy" src="thumbnails/{link}.jpg" alt=""><b>{name}</b>'
            f"<span>sure {100 * record.confidence:.0f} %, there {100 * there:.0f} %<br>{share}</span></a>"
        )
    return PAGE.format(count=len(records), tiles="\n".join(tiles))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>repri: {count} pictures</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fafafa }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 1rem }}
a {{ color: inherit; text-decoration: none; background: #fff; border: 1px solid #ddd; padding: .5rem }}
img {{ width: 100%; height: 180px; object-fit: contain; background: #eee }}
b, span {{ display: block; overflow: hidden; text-overflow: ellipsis }}
span {{ color: #666; font-size: 12px }}
</style></head>
<body><h1>{count} pictures</h1><p>The least sure come first.</p>
<main>
{tiles}
</main></body></html>
"""
