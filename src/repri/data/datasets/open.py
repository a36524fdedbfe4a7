"""Opening a data set by its name or by the YAML file that describes it."""

from __future__ import annotations

from pathlib import Path

from repri.protocols import Protocol, get_protocol
from repri.runtime.errors import RepriError

from .dataset import Dataset
from .described import open_described, read_description
from .known import KNOWN, SPLITS, open_known

__all__ = ["open_dataset", "splits_of"]


def open_dataset(
    name: str | Path, root: Path | str | None = None, split: str = "val", protocol: str | Protocol = "clean"
) -> Dataset:
    """Open one split of a data set.

    Args:
        name: ``pascal``, ``coco``, the generated ``scenes``, or a YAML file that describes a data set.
        root: Folder of the data. None: the one that the YAML file names.
        split: ``train``, ``val`` or another split of the YAML file.
        protocol: Protocol of the evaluation, which decides how COCO's masks are drawn.

    Returns:
        The data set.
    """
    rules = get_protocol(protocol)
    folder = None if root is None else Path(root).expanduser()
    if str(name) not in KNOWN:
        return open_described(_description_file(name), folder, split)
    if folder is None:
        raise RepriError(f"{name} needs --root, the folder that `repri data get {name} --root FOLDER` fills")
    return open_known(str(name), folder, split, rules.first_polygon_only)


def splits_of(name: str | Path) -> tuple[str, ...]:
    """Return the splits that a data set has.

    Args:
        name: Name or YAML file, as for :func:`open_dataset`.

    Returns:
        Names of the splits.
    """
    return SPLITS if str(name) in KNOWN else tuple(read_description(_description_file(name)).splits)


def _description_file(name: str | Path) -> Path:
    """The YAML file of a data set; that of ``scenes`` is drawn into the cache when it is first needed."""
    if str(name) == "scenes":
        from .scenes import scenes_file  # which needs torch

        return scenes_file()
    path = Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        raise RepriError(
            f"no data set named {str(name)!r}: give pascal, coco, scenes or a YAML file that describes yours"
        )
    return path
