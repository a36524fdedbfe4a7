"""The publishers' archives: where they are, how to tell the right file, and fetching and unpacking them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from repri.runtime.download import fetch
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic, check_writable

from .archives import extract

__all__ = ["SOURCES", "Archive", "Downloads", "Report", "write_lines"]

T = TypeVar("T")
Report = Callable[[str, int, int], None]
"""Called with the name of a step, how far it is, and how far it goes."""


class Archive(NamedTuple):
    """A file that a publisher offers."""

    url: str
    digest: str
    """sha256, or md5 where the publisher gives nothing else."""
    size: int
    """In bytes."""

    @property
    def file(self) -> str:
        """File name."""
        return self.url.rsplit("/", 1)[-1]


_COCO = "http://images.cocodataset.org"
SOURCES: dict[str, Archive] = {
    "voc": Archive(
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
        "e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb",
        1_999_639_040,
    ),
    "sbd": Archive(
        "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz",
        "md5:82b4d87ceb2ed10f6038a1cba92111cb",
        1_419_539_633,
    ),
    "sbd-train": Archive(
        "https://www.cs.cornell.edu/~bharathh/train_noval.txt", "md5:79bff800c5f0b1ec6b21080a3c066722", 67_476
    ),
    "coco-train": Archive(
        f"{_COCO}/zips/train2014.zip",
        "ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775",
        13_510_573_713,
    ),
    "coco-val": Archive(
        f"{_COCO}/zips/val2014.zip",
        "fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0",
        6_645_013_297,
    ),
    "coco-annotations": Archive(
        f"{_COCO}/annotations/annotations_trainval2014.zip",
        "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
        252_872_794,
    ),
}
"""Name → archive at its publisher."""


@dataclass(frozen=True)
class Downloads:
    """Fetches archives into one folder and unpacks them there."""

    root: Path
    """Folder of the data set. The archives go to ``root/archives``."""
    report: Report | None = None
    """Hears about the progress of each step."""
    mirror: str | None = None
    """URL of a folder with the same archives, to use instead of the publishers."""
    sources: Mapping[str, Archive] = field(default_factory=lambda: SOURCES)
    """Name → archive."""

    def path(self, name: str) -> Path:
        """Return the file that an archive has or will have.

        Args:
            name: Name of the archive in ``sources``.
        """
        return self.root / "archives" / self.sources[name].file

    def fetch(self, name: str) -> Path:
        """Download an archive, unless it is there, and check its digest.

        Args:
            name: Name of the archive in ``sources``.

        Returns:
            The file.
        """
        archive, path = self.sources[name], self.path(name)
        url = archive.url if self.mirror is None else f"{self.mirror.rstrip('/')}/{archive.file}"
        if not path.is_file():
            check_writable(path, make=True)
            part = path.with_name(path.name + ".part")
            missing = archive.size - (part.stat().st_size if part.is_file() else 0)
            free = shutil.disk_usage(path.parent).free
            if free < missing:
                raise RepriError(
                    f"{archive.file} needs {missing / 1e9:.1f} GB, {path.parent} has {free / 1e9:.1f} GB free: "
                    "make room"
                )
        return fetch(url, path, archive.digest, self._progress(f"get {archive.file}"), size=archive.size)

    def unpack(self, name: str, place: Callable[[str], str | None]) -> None:
        """Fetch and unpack an archive, unless that was finished before.

        Args:
            name: Name of the archive in ``sources``.
            place: Gives the path of a member relative to ``root``, or None if it is not wanted.
        """
        archive = self.sources[name]
        done = self.root / "archives" / f"{archive.file}.unpacked"
        if done.is_file():
            return
        count = extract(self.fetch(name), self.root, place, self._progress(f"unpack {archive.file}"))
        with atomic(done) as temporary:
            temporary.write_text(f"{count} files\n")

    def remove(self, *names: str) -> None:
        """Delete archives that are unpacked.

        Args:
            *names: Names of the archives in ``sources``.
        """
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def counted(self, step: str, items: Iterable[T], total: int) -> Iterator[T]:
        """Go through items and report how many are done.

        Args:
            step: Name of the step.
            items: The items.
            total: Number of items.

        Yields:
            Each item.
        """
        for done, item in enumerate(items, 1):
            if self.report:
                self.report(step, done, total)
            yield item

    def _progress(self, step: str) -> Callable[[int, int], None] | None:
        """The report of one step."""
        report = self.report
        return None if report is None else lambda done, total: report(step, done, total)


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write a list file at once, so that a list that exists is complete.

    Args:
        lines: Its lines.
        path: The file.
    """
    with atomic(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")
