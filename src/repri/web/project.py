"""A project on disk: images of a folder, and everything that a person says about them.

All of it lies in ``FOLDER/.repri/``, one small file for each annotated image, written whole or not at all. So a server
that is killed loses nothing but the stroke in flight."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, ValidationError

from repri.data.io.images import IMAGE_SUFFIXES, read_image, upright_size
from repri.data.io.masks import read_mask, write_mask
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic, remove_leftovers
from repri.runtime.reading import read_json

from .limits import Limits, Refused
from .marks import Annotation
from .settings import ProjectSettings

__all__ = ["RESULTS", "STATE", "ImageFile", "Project"]

STATE = ".repri"
"""Folder of everything that the server writes."""
RESULTS = "repri-results"
"""Folder of the results that a person writes into the project; the images in it are not images of the project."""
THUMBNAIL = 256
"""Longest side of a thumbnail."""
FIGURES = "repri"
"""Key of the figures in the PNG of an accepted mask."""
SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp", "TIFF": ".tif", "GIF": ".gif", "PPM": ".ppm"}
"""Formats that may be sent, by their content, and the suffix of the file that is written."""


UNFINISHED = 60
"""Seconds after which a file that no project knows is not being sent any more."""


class ImageFile(NamedTuple):
    """One image of a project."""

    id: str
    """Name in addresses: hexadecimal digits."""
    name: str
    """Name that a person knows: the path in the folder, or the name of the file that was sent."""
    path: Path
    """The file."""


class Stored(BaseModel):
    """``project.json``."""

    model_config = ConfigDict(extra="ignore")

    format: int = 1
    settings: ProjectSettings = ProjectSettings()
    sent: dict[str, tuple[str, str]] = {}
    """Id of each image that was sent → its name, and the name of its file."""


class Project:
    """The images of one folder and what is known about them.

    Args:
        folder: The folder. Nothing outside it is read or written, whatever links lie in it.
        limits: Sizes that are refused.
    """

    def __init__(self, folder: Path, limits: Limits | None = None):
        self.limits = limits or Limits()
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise RepriError(f"There is no folder {folder}: give the folder of your images.")
        self._lock = threading.RLock()
        self._stored = self._read_stored()
        self._remove_unfinished()
        self.images: dict[str, ImageFile] = {}
        self.refresh()
        self._annotations = self._read_annotations()
        self._accepted = {p.stem for p in self._state("accepted").glob("*.png")} & set(self.images)

    # The images

    def refresh(self) -> None:
        """Look for images again."""
        images: dict[str, ImageFile] = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            hidden = name.parts[0] == RESULTS or any(part.startswith(".") for part in name.parts)
            if not hidden and path.suffix.lower() in IMAGE_SUFFIXES and self._own_file(path):
                id = hashlib.sha256(name.as_posix().encode("utf-8", "surrogateescape")).hexdigest()[:16]
                images[id] = ImageFile(id, _printable(name.as_posix()), path)
        for id, (name, file) in self._stored.sent.items():
            path = self._state("images", file)
            if self._own_file(path):
                images[id] = ImageFile(id, name, path)
        if len(images) > self.limits.images:
            raise RepriError(
                f"{self.folder} holds {len(images)} images, the limit is {self.limits.images}: divide the folder."
            )
        self.images = images

    def _remove_unfinished(self) -> None:
        """Remove what a server was writing, and the images that were being sent to it, when it was killed."""
        remove_leftovers(self._state(), below=True)
        known = {file for _, file in self._stored.sent.values()}
        for path in self._state("images").glob("*"):
            if path.name not in known and self._own_file(path) and path.stat().st_mtime < time.time() - UNFINISHED:
                path.unlink(missing_ok=True)

    def image(self, id: str) -> ImageFile:
        """One image; an unknown id is refused."""
        if id not in self.images:
            raise Refused(404, "There is no such image in this project.")
        return self.images[id]

    def pixels(self, id: str) -> np.ndarray:
        """[H, W, 3] uint8, upright."""
        return read_image(self._checked(self.image(id)), self.limits.pixels)

    def size(self, id: str) -> tuple[int, int]:
        """Height and width of the upright image."""
        return upright_size(self._checked(self.image(id)))

    def thumbnail(self, id: str) -> Path:
        """The file of a small JPEG, which is made when it is first wanted."""
        source, target = self._checked(self.image(id)), self._state("thumbnails", f"{id}.jpg")
        if not target.is_file() or target.stat().st_mtime < source.stat().st_mtime:
            small = Image.fromarray(self.pixels(id))
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            with atomic(target) as temporary:
                small.save(temporary, quality=85)
        return target

    def add(self, name: str, content: bytes) -> ImageFile:
        """Keep an image that somebody sent, under a name of our own.

        Args:
            name: The name that the sender gave it, which is only shown.
            content: The file.

        Returns:
            The image.
        """
        shown = _printable(Path(name.replace("\\", "/")).name)[:200] or "image"
        if len(content) > self.limits.file:
            raise Refused(413, f"{shown} has {len(content):,} bytes, the limit is {self.limits.file:,}: reduce it.")
        with self._lock:
            if len(self.images) >= self.limits.images:
                raise Refused(413, f"A project holds at most {self.limits.images:,} images: begin another one.")
            id = secrets.token_hex(8)
            part = self._state("images", f"{id}.part")
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            try:
                suffix = _suffix(part, shown)
                sides = read_image(part, self.limits.pixels).shape[:2]
                if max(sides) > self.limits.side:
                    raise Refused(
                        413, f"{shown} has a side of {max(sides):,} pixels, the limit is {self.limits.side:,}."
                    )
                path = part.rename(part.with_suffix(suffix))
            except RepriError as error:
                part.unlink(missing_ok=True)
                sentence = str(error).replace(str(part), shown)
                raise Refused(error.status if isinstance(error, Refused) else 415, sentence) from None
            self._stored.sent[id] = (shown, path.name)
            self._write_stored()
            self.images[id] = ImageFile(id, shown, path)
            return self.images[id]

    # What a person says

    @property
    def settings(self) -> ProjectSettings:
        """Classes, threshold and name."""
        return self._stored.settings

    def change(self, settings: ProjectSettings) -> None:
        """Keep new settings."""
        with self._lock:
            self._stored = self._stored.model_copy(update={"settings": settings})
            self._write_stored()

    def annotation(self, id: str) -> Annotation:
        """What is drawn on an image."""
        self.image(id)
        return self._annotations.get(id, Annotation())

    def annotate(self, id: str, annotation: Annotation) -> Annotation:
        """Keep what is drawn on an image; it is on disk when this returns.

        Args:
            id: The image.
            annotation: Its marks, and the revision that they replace.

        Returns:
            The same with its new revision.
        """
        image, classes = self.image(id), len(self.settings.classes)
        for mark in annotation.marks:
            if classes < mark.label < 255:
                raise Refused(422, f"A mark has the label {mark.label} and there are {classes} classes.")
        with self._lock:
            before = self.annotation(id).revision
            if annotation.revision != before:
                raise Refused(409, f"{image.name} was changed in another window: load it again.")
            kept = annotation.model_copy(update={"revision": before + 1})
            path = self._state("annotations", f"{id}.json")
            with atomic(path) as temporary:
                temporary.write_text(json.dumps({"image": image.name, **kept.model_dump()}), encoding="utf-8")
            self._annotations[id] = kept
            return kept

    @property
    def annotated(self) -> list[str]:
        """Ids of the images that have marks, in the order of the images."""
        with self._lock:
            return [id for id in self.images if id in self._annotations and not self._annotations[id].empty]

    # Accepted results

    @property
    def accepted(self) -> set[str]:
        """Ids of the images whose masks were accepted."""
        return set(self._accepted)

    def accept(self, id: str, mask: np.ndarray, figures: dict[str, object]) -> None:
        """Keep a mask [H, W] that somebody has accepted."""
        self.image(id)
        with self._lock:
            write_mask(mask, self._state("accepted", f"{id}.png"), {FIGURES: json.dumps(figures)})
            self._accepted.add(id)

    def reject(self, id: str) -> None:
        """Forget an accepted mask."""
        self.image(id)
        with self._lock:
            self._state("accepted", f"{id}.png").unlink(missing_ok=True)
            self._accepted.discard(id)

    def accepted_mask(self, id: str) -> np.ndarray:
        """The accepted mask [H, W] of an image."""
        return read_mask(self._state("accepted", f"{id}.png"))

    # Files

    def state(self, *parts: str) -> Path:
        """A path in the folder of the server's own files."""
        return self._state(*parts)

    def _state(self, *parts: str) -> Path:
        path = self.folder.joinpath(STATE, *parts)
        if not path.parent.resolve().is_relative_to(self.folder) or path.is_symlink():
            raise RepriError(f"{path} leads out of {self.folder}: remove the link.")
        return path

    def _own_file(self, path: Path) -> bool:
        """Whether a path is a file that really lies in the folder."""
        try:
            return path.is_file() and path.resolve().is_relative_to(self.folder)
        except (OSError, RuntimeError):  # no permission, or links that go round in circles
            return False

    def _checked(self, image: ImageFile) -> Path:
        if not self._own_file(image.path):
            raise Refused(404, f"{image.name} is no longer in the folder.")
        return image.path

    def _read_stored(self) -> Stored:
        path = self._state("project.json")
        if not path.is_file():
            return Stored(settings=ProjectSettings(name=_printable(self.folder.name)[:64] or "images"))
        try:
            return Stored.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            raise RepriError(f"{path} is damaged ({type(error).__name__}): restore it, or move it away.") from None

    def _write_stored(self) -> None:
        with atomic(self._state("project.json")) as temporary:
            temporary.write_text(self._stored.model_dump_json(indent=1), encoding="utf-8")

    def _read_annotations(self) -> dict[str, Annotation]:
        annotations = {}
        for path in sorted(self._state("annotations").glob("*.json")):
            if path.stem not in self.images or not self._own_file(path):
                continue
            try:
                content = read_json(path)
                content.pop("image", None)
                annotations[path.stem] = Annotation.model_validate(content)
            except (ValidationError, ValueError, AttributeError, OSError) as error:
                raise RepriError(f"{path} is damaged ({type(error).__name__}): restore it, or move it away.") from None
        return annotations


def _suffix(path: Path, shown: str) -> str:
    """The suffix that suits the content of a file."""
    try:
        with Image.open(path, formats=list(SUFFIXES)) as image:
            return SUFFIXES[image.format or ""]
    except (OSError, SyntaxError, ValueError, KeyError, Image.DecompressionBombError):
        raise Refused(415, f"{shown} is not an image that can be read ({', '.join(SUFFIXES)}).") from None


def _printable(name: str) -> str:
    """A name without characters that cannot be shown or encoded."""
    text = name.encode("utf-8", "replace").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
