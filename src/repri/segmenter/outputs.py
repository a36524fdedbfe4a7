"""A folder of results: masks that carry their own figures, overlays, a contact sheet, annotation files.

The mask of an image is written last and holds everything that the summary needs, so a run that was stopped can go on,
and the summary is made from the files on disk.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from PIL import Image, PngImagePlugin

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, shapes_of
from repri.data.io.formats import write_annotated
from repri.data.io.images import DAMAGED, header_of
from repri.data.io.masks import read_mask, write_mask
from repri.runtime.draw import overlay
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import check_regular, parse_json, validated

from .result import Segmentation
from .resume import QueryFile

__all__ = ["EXPORTS", "Record", "Results", "unwritable"]

EXPORTS = ("coco", "labelme", "label-studio")
"""Annotation formats that can be written beside the masks."""
LONGEST_NAME, LONGEST_PART = 255, 100
"""Bytes of a file name, and of a class in it."""
THUMBNAIL, MOST_JPEG = 256, 65_500
"""Longest side of a thumbnail, and the longest side that JPEG allows."""
FIGURES = "repri"
"""Key of the figures in a mask's PNG."""


class Record(NamedTuple):
    """One line of the summary."""

    name: str
    """Name of the query, without its suffix."""
    source: str
    """File of the query."""
    proportion: dict[str, float]
    """Class → proportion."""
    confidence: float
    """Expected IoU of the mask."""
    presence: dict[str, float]
    """Class → probability that the image shows it."""
    made: str = ""
    """What made the mask (``resume.identity_of``)."""
    query: QueryFile | None = None
    """The image file, as it was."""


class Results:
    """The files of one output folder.

    Args:
        folder: The folder.
        classes: Names of the classes.
        probabilities: Whether probability maps are written too.
        overlays: Whether the images are written with their masks over them.
        instances: Whether objects are numbered; exports then have one annotation for each.
        made: What makes the masks (``resume.identity_of``); masks of another run are not taken for ones of this run.
    """

    def __init__(
        self,
        folder: Path,
        classes: Sequence[str],
        probabilities: bool = False,
        overlays: bool = False,
        instances: bool = False,
        made: str = "",
    ):
        self.folder, self.classes, self.made = folder, tuple(classes), made
        self.probabilities, self.overlays, self.instances = probabilities, overlays, instances
        self._parts = _parts(self.classes)

    @staticmethod
    def check_formats(exports: Sequence[str]) -> None:
        """Annotation formats that cannot be written are an error."""
        for name in exports:
            if name not in EXPORTS:
                raise RepriError(f"--export: there is no format named {name!r}. Known: {', '.join(EXPORTS)}.")

    def mask_path(self, name: str) -> Path:
        """The file of a query's mask."""
        return self.folder / "masks" / f"{name}.png"

    def _instances_path(self, name: str) -> Path:
        return self.folder / "instances" / f"{name}.png"

    def write(self, name: str, result: Segmentation, query: QueryFile | None = None) -> None:
        """Write everything about one image, its mask last; ``query`` is the image file as it was when it was read."""
        if self.probabilities:
            for label, values in result.probabilities.items():
                part = name if len(self.classes) == 1 else f"{name}.{self._parts[label]}"
                with atomic(self.folder / "probabilities" / f"{part}.png") as temporary:
                    Image.fromarray((values * 65535).round().astype(np.uint16)).save(temporary)
        if self.overlays:
            whole = Image.fromarray(_drawn(result.image, result.mask))
            whole.thumbnail((MOST_JPEG, MOST_JPEG))
            with atomic(self.folder / "overlays" / f"{name}.jpg") as temporary:
                whole.save(temporary, quality=90)
        if self.instances:
            with atomic(self._instances_path(name)) as temporary:
                Image.fromarray(_numbered(result.instances())).save(temporary)
        step = max(1, max(result.image.shape) // (4 * THUMBNAIL))  # a large image need not be copied as a whole
        small = Image.fromarray(np.ascontiguousarray(result.image[::step, ::step]))
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        marked = Image.fromarray(np.ascontiguousarray(result.mask[::step, ::step])).resize(
            small.size, Image.Resampling.NEAREST
        )
        small = Image.fromarray(_drawn(np.asarray(small), np.asarray(marked)))
        with atomic(self.folder / "thumbnails" / f"{name}.jpg") as temporary:
            small.save(temporary, quality=85)
        record = Record(name, result.source, result.proportions, result.confidence, result.presences, self.made, query)
        write_mask(result.mask, self.mask_path(name), {FIGURES: json.dumps(record._asdict(), ensure_ascii=True)})

    def finished(self, queries: Mapping[str, Path]) -> list[str]:
        """The queries that need not be segmented again.

        Args:
            queries: Name → file.

        Returns:
            Those whose mask is whole, was made by the same settings and support, and belongs to the file as it is now.
            Other masks are removed, because they would be taken for results of this run.
        """
        done = []
        for name, path in queries.items():
            mask = self.mask_path(name)
            if not mask.is_file():
                continue
            record = self._record(mask)
            if record and record.made == self.made and record.query and record.query.is_still(path):
                done.append(name)
            else:
                mask.unlink()
        return done

    def records(self, names: Iterable[str]) -> Iterator[Record]:
        """The records of the masks on disk; masks that are not there are left out."""
        for name in names:
            path = self.mask_path(name)
            if path.is_file() and (record := self._record(path)) is not None:
                yield record

    def _record(self, path: Path) -> Record | None:
        """The record of a mask; None if the file is damaged. A mask of somebody else, or of other classes, is an
        error."""
        try:
            check_regular(path)
            with header_of(path) as image:
                text = image.info.get(FIGURES) if isinstance(image, PngImagePlugin.PngImageFile) else None
                if text is not None:
                    image.verify()  # the checksums of its parts
        except DAMAGED:
            return None
        if text is None:
            raise RepriError(f"{path} was not written by `repri segment`: choose another output folder.")
        try:
            record = validated(Record, parse_json(text, str(path)), str(path))
        except RepriError:
            return None
        if tuple(record.proportion) != self.classes:
            raise RepriError(
                f"{path} has the classes {', '.join(record.proportion)}, not {', '.join(self.classes)}: "
                "choose another output folder."
            )
        return record

    def check_exports(self, queries: Mapping[str, Path], exports: Sequence[str]) -> None:
        """Annotation files know images by their file names, which must therefore differ, and must leave room for the
        ending of LabelMe's files."""
        known: dict[str, Path] = {}
        for path in queries.values() if exports else ():
            if "labelme" in exports and len(os.fsencode(path.stem)) + len(".json") > LONGEST_NAME:
                raise RepriError(f"--export labelme: the file name {path.stem[:40]}… is too long: make it shorter.")
            if path.stem in known:
                raise RepriError(
                    f"--export cannot tell {known[path.stem]} from {path}, which have one name: rename one of them."
                )
            known[path.stem] = path

    def summarise(self, names: Sequence[str], exports: Sequence[str] = ()) -> list[Record]:
        """Write ``results.csv``, ``index.html`` and annotation files of all masks on disk; returns their records."""
        records = list(self.records(names))
        with atomic(self.folder / "results.csv") as temporary:
            temporary.write_text(_table(records, self.classes), encoding="utf-8", errors="backslashreplace")
        with atomic(self.folder / "index.html") as temporary:
            temporary.write_text(_sheet(records, self.overlays), encoding="utf-8", errors="backslashreplace")
        if exports and records:
            self._export(records, exports)
        return records

    def _export(self, records: Sequence[Record], exports: Sequence[str]) -> None:
        labels = dict(enumerate(self.classes, 1))

        def annotated(record: Record) -> AnnotatedImage:
            path = self.mask_path(record.name)
            mask = read_mask(path)
            source = Path(os.path.realpath(record.source))
            if self.instances:
                return AnnotatedImage(source, *mask.shape, self._objects(record.name, mask))
            return AnnotatedImage(source, *mask.shape, shapes_of(mask, labels, lambda: read_mask(path)))

        content = Annotations(self.classes, tuple(annotated(record) for record in records))
        for format in exports:
            target = self.folder / ("labelme" if format == "labelme" else f"{format}.json")
            write_annotated(content, target, format)

    def _objects(self, name: str, mask: np.ndarray) -> tuple[Shape, ...]:
        """One shape for each object of an image."""
        path = self._instances_path(name)
        if not path.is_file():
            raise RepriError(f"{path} is missing: the mask was written without --instances; choose another folder.")
        numbers = _read_numbers(path)
        shapes = []
        for number in np.unique(numbers[numbers > 0]).tolist():
            label = self.classes[int(mask[numbers == number][0]) - 1]
            shapes.append(Shape(label, "mask", mask=lambda number=number: _read_numbers(path) == number))
        return tuple(shapes)


def _numbered(objects: Mapping[str, np.ndarray]) -> np.ndarray:
    """[H, W] uint16: the objects of all classes, numbered on."""
    whole = np.zeros(next(iter(objects.values())).shape, np.uint16)
    for numbers in objects.values():
        inside = numbers > 0
        whole[inside] = numbers[inside] + whole.max()
    return whole


def _read_numbers(path: Path) -> np.ndarray:
    with header_of(path) as image:
        return np.array(image).astype(np.uint16)


def _drawn(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[H, W, 3]: the image, half covered by the colours of the classes, with a white line around them."""
    return overlay(image, mask, opacity=0.5, line=(255, 255, 255))


def _parts(classes: Sequence[str]) -> dict[str, str]:
    """Class → its part of a file name, which no other class has.

    Example:
        >>> _parts(["a/b", "a:b", "dog"])
        {'a/b': 'a_b', 'a:b': 'a_b-2', 'dog': 'dog'}
    """
    parts: dict[str, str] = {}
    taken: set[str] = set()
    for label in classes:
        plain = "".join("_" if character in '/\\:*?"<>|' else character for character in label)
        plain = plain.encode()[:LONGEST_PART].decode(errors="ignore")
        choices = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        parts[label] = next(choice for choice in choices if choice.casefold() not in taken)
        taken.add(parts[label].casefold())
    return parts


def unwritable(names: Iterable[str]) -> dict[str, str]:
    """Find the queries whose results have no place among the others.

    Args:
        names: Names of the queries.

    Returns:
        Name → what is wrong with it: it is too long for a file, or is itself the name of a folder of another query.
    """
    names = list(names)
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    wrong = {}
    for name in names:
        if any(f"{name}{suffix}" in folders for suffix in (".png", ".jpg")):
            wrong[name] = "a folder of other queries is called like its mask; rename one of them"
        elif len(os.fsencode(PurePosixPath(name).name)) + len(".png") > LONGEST_NAME:
            wrong[name] = "its file name is too long; make it shorter"
    return wrong


def _cell(text: str) -> str:
    """A text in a table: programs that open tables would take one that begins like this for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _table(records: Sequence[Record], classes: Sequence[str]) -> str:
    text = io.StringIO()
    columns = [f"{what} of {name}" for what in ("proportion", "presence") for name in classes]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["query", "source", "confidence", *columns])
    for record in records:
        figures = [values[name] for values in (record.proportion, record.presence) for name in classes]
        numbers = (f"{value:.4f}" for value in (record.confidence, *figures))
        writer.writerow([_cell(record.name), _cell(record.source), *numbers])
    return text.getvalue()


def _sheet(records: Sequence[Record], overlays: bool) -> str:
    """A page of thumbnails, those with the lowest confidence first: they are worth a look."""
    tiles = []
    for record in sorted(records, key=lambda r: r.confidence):
        name = html.escape(record.name, quote=True)
        link = quote(os.fsencode(record.name))
        target = f"overlays/{link}.jpg" if overlays else f"masks/{link}.png"
        there = max(record.presence.values())
        covered = ", ".join(f"{html.escape(k)} {100 * v:.0f} %" for k, v in record.proportion.items())
        tiles.append(
            f'<a href="{target}"><img loading="lazy" src="thumbnails/{link}.jpg" alt=""><b>{name}</b>'
            f"<span>confidence {100 * record.confidence:.0f} %, present {100 * there:.0f} %<br>{covered}</span></a>"
        )
    return PAGE.format(count=len(records), tiles="\n".join(tiles))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>repri: {count} images</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fafafa }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 1rem }}
a {{ color: inherit; text-decoration: none; background: #fff; border: 1px solid #ddd; padding: .5rem }}
img {{ width: 100%; height: 180px; object-fit: contain; background: #eee }}
b, span {{ display: block; overflow: hidden; text-overflow: ellipsis }}
span {{ color: #666; font-size: 12px }}
</style></head>
<body><h1>{count} images</h1><p>Those with the lowest confidence come first.</p>
<main>
{tiles}
</main></body></html>
"""
