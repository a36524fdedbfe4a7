"""Every parser of files that others wrote, with a strategy that makes damaged files for it.

``PARSERS`` maps a name to a strategy and a function. The function writes the file into a folder and reads it. It may
end well or raise a RepriError; anything else is a bug. The tests try a few inputs of each, ``make fuzz`` many.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin
from safetensors.torch import save_file

from repri.cli.flags import resolve
from repri.cli.tables import print_comparison
from repri.data.datasets.described import open_described
from repri.data.io.annotations import AnnotatedImage, Annotations, Shape
from repri.data.io.formats import FORMATS, read_annotated, write_annotated
from repri.data.io.masks import read_mask
from repri.data.io.queries import find_queries
from repri.data.tasks.tasks import load_tasks
from repri.evaluation.results import compare
from repri.methods import build_method
from repri.models.heads.discriminant import Discriminant
from repri.models.heads.files import is_head, load_head, save_head
from repri.models.load import load_extractor
from repri.models.weights.checkpoints import read_checkpoint
from repri.runtime.reading import parse_json, parse_yaml
from repri.segmenter import Segmenter
from repri.segmenter.outputs import Results

from .documents import (
    COCO,
    CONFIG,
    DESCRIPTION,
    HEAD,
    KEYS,
    LABELME,
    METHOD,
    RECORD,
    RESULT,
    SETTINGS,
    STUDIO,
    TASKS,
    YAML,
)
from .strategies import damaged, mutated

__all__ = ["PARSERS", "Parser"]


class Parser(NamedTuple):
    """One parser."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Path, Any], object]
    """Writes an input into a folder and reads it."""


def _image(folder: Path) -> None:
    if not (folder / "a.png").exists():
        Image.new("RGB", (30, 20)).save(folder / "a.png")


def _json(folder: Path, document: Any) -> Path:
    _image(folder)
    path = folder / "x.json"
    path.write_text(json.dumps(document))
    return path


def _annotations(format: str) -> Callable[[Path, Any], None]:
    def read(folder: Path, document: Any) -> None:
        annotations = read_annotated(_json(folder, document), format)
        for item in annotations:
            item.ids(annotations.ids)
            item.visible()
        write_annotated(annotations, folder / "again.json", "coco")

    return read


def _every_format(folder: Path, given: tuple[str, int, bytes]) -> None:
    """Write two classes in a format, put other bytes into one of its text files, and read it."""
    format, number, junk = given
    _image(folder)
    region = np.zeros((20, 30), bool)
    region[4:9, 3:20] = True
    shapes = (Shape("cat", "mask", mask=lambda: region), Shape("dog", "polygon", ((1, 1), (9, 1), (9, 9))))
    content = Annotations(("cat", "dog"), (AnnotatedImage(folder / "a.png", 20, 30, shapes),))
    target = folder / ("y.json" if format in ("coco", "label-studio") else "y.xml" if format == "cvat" else "y")
    write_annotated(content, target, format)
    files = (
        [target] if target.is_file() else sorted(p for p in target.rglob("*") if p.suffix not in ("", ".png", ".jpg"))
    )
    path = files[number % len(files)]
    before = path.read_bytes()
    at = (number * 7919) % (len(before) + 1)
    path.write_bytes(before[:at] + junk + before[at + number % 9 :])
    annotations = read_annotated(target, format, folder)
    for item in annotations:
        item.ids(annotations.ids)


def _settings(folder: Path, given: tuple[type, Any]) -> None:
    kind, document = given
    path = folder / "x.yaml"
    path.write_text(yaml.safe_dump(document) if not isinstance(document, bytes) else document.decode("latin-1"))
    resolve(kind, path, {}, "x")


def _described(folder: Path, document: Any) -> None:
    path = folder / "data.yaml"
    path.write_text(yaml.safe_dump(document))
    _json(folder, COCO)
    (folder / "list.txt").write_text("a.png a.png\n")
    for name in ("images", "masks"):
        (folder / name).mkdir()
        Image.new("RGB", (30, 20), (255, 0, 0)).save(folder / name / "a.png")
    for split in ("val", "test", "all"):
        for id in open_described(path, None, split).position:
            open_described(path, None, split).mask(id)


def _compared(folder: Path, document: Any) -> None:
    (folder / "first.json").write_text(json.dumps(RESULT))
    print_comparison(compare([folder / "first.json", _json(folder, document)], mixed=True))


def _head(folder: Path, document: Any) -> None:
    path = folder / "head.safetensors"
    if not path.exists():
        save_head(path, Discriminant([256], 4), HEAD["base"])
    tensors = {f"head.{key}": value for key, value in Discriminant([256], 4).state_dict().items()}
    save_file(tensors, path, {"repri-head": json.dumps(document)})
    assert is_head(path)
    load_head(path)
    load_extractor(str(path))


def _method(folder: Path, document: Any) -> None:
    path = folder / "method.safetensors"
    save_file({"embedding.weight": torch.zeros(4, 8, 1, 1)}, path, {"repri-method": json.dumps(document)})
    build_method(str(path))


def _checkpoint(folder: Path, document: Any) -> None:
    path = folder / "weights.safetensors"
    save_file({"bottleneck.weight": torch.zeros(4, 4)}, path, {"repri": json.dumps(document)})
    read_checkpoint(path)


def _keys(folder: Path, keys: list[str]) -> None:
    """A state dict with the keys of some network and other shapes."""
    path = folder / "weights.pth"
    torch.save({key: torch.zeros([] if "mean" in key else [2, 3]) for key in keys}, path)
    read_checkpoint(path)


def _saved() -> dict[str, Any]:
    """The metadata and the tensors of a saved segmenter."""
    if not _SAVED:
        import tempfile

        from safetensors import safe_open

        image = np.zeros((40, 40, 3), np.uint8)
        image[10:20, 10:20] = 200
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.safetensors"
            Segmenter("filters", size=64, auto=False).fit(image, image[..., 0] > 0).save(path)
            with safe_open(path, "pt") as content:
                _SAVED["tensors"] = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
                _SAVED["metadata"] = json.loads(content.metadata()["repri-segmenter"])
    return _SAVED


_SAVED: dict[str, Any] = {}


def _fitted(folder: Path, document: Any) -> None:
    path = folder / "fitted.safetensors"
    save_file(_saved()["tensors"], path, {"repri-segmenter": json.dumps(document)})
    Segmenter.load(path)


def _record(folder: Path, document: Any) -> None:
    results = Results(folder, ("cat",), made="m")
    results.mask_path("x").parent.mkdir(exist_ok=True)
    text = PngImagePlugin.PngInfo()
    text.add_text("repri", json.dumps(document))
    Image.new("L", (4, 4)).save(results.mask_path("x"), pnginfo=text)
    list(results.records(["x"]))
    results.finished({"x": folder / "x.png"})


def _mask(folder: Path, content: bytes) -> None:
    path = folder / ("x.png" if content[1:4] == b"PNG" else "x.npy")
    path.write_bytes(content)
    read_mask(path)


def _list(folder: Path, content: bytes) -> None:
    (folder / "list.txt").write_bytes(content)
    find_queries(str(folder / "list.txt"))


def _array() -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, np.ones((4, 4), np.uint8))
    return file.getvalue()


def _png() -> bytes:
    import io

    file = io.BytesIO()
    Image.fromarray(np.ones((4, 4), np.uint8)).save(file, "PNG")
    return file.getvalue()


kinds = st.sampled_from(list(SETTINGS))

PARSERS = {
    "coco": Parser(mutated([COCO]), _annotations("coco")),
    "labelme": Parser(mutated([LABELME]), _annotations("labelme")),
    "label-studio": Parser(mutated([STUDIO]), _annotations("label-studio")),
    "every format": Parser(
        st.tuples(
            st.sampled_from(list(FORMATS)),
            st.integers(0, 5000),
            st.sampled_from(
                [
                    *map(str.encode, ["", "x", ":", "\n\n", '"', "[", "-1", "1e999", "NaN", "<a>", "cat"]),
                    b"\xff",
                    b"\x00",
                ]
            ),
        ),
        _every_format,
    ),
    "settings": Parser(kinds.flatmap(lambda kind: st.tuples(st.just(kind), mutated([SETTINGS[kind]]))), _settings),
    "yaml": Parser(damaged(YAML), lambda _, content: parse_yaml(content.decode("latin-1"), "x")),
    "json": Parser(damaged([json.dumps(COCO).encode()]), lambda _, content: parse_json(content, "x")),
    "description": Parser(mutated([DESCRIPTION]), _described),
    "tasks": Parser(mutated([TASKS]), lambda folder, document: load_tasks(_json(folder, document))),
    "results": Parser(mutated([RESULT]), _compared),
    "head": Parser(mutated([HEAD]), _head),
    "method": Parser(mutated([METHOD]), _method),
    "checkpoint": Parser(mutated([CONFIG]), _checkpoint),
    "keys": Parser(st.lists(st.sampled_from(KEYS), min_size=1, max_size=8, unique=True), _keys),
    "segmenter": Parser(st.deferred(lambda: mutated([_saved()["metadata"]])), _fitted),
    "record": Parser(mutated([RECORD]), _record),
    "mask": Parser(damaged([_array(), _png()]), _mask),
    "list": Parser(damaged([b"a.png\nb.png\n# c\n"]), _list),
}
