"""What the tests of several commands share."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from repri.cli import main
from repri.data.datasets.scenes import make_task
from tests.textures import make_textures


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Two annotated scenes of one texture, and five queries of three sizes, one of them turned by EXIF."""
    root = tmp_path_factory.mktemp("segment")
    task = make_task(0)
    support, image = ((x.movedim(0, -1) * 255).round().byte().numpy() for x in (task.support[0], task.query))
    mask = task.support_masks[0].numpy()
    for folder in ("support/images", "support/masks", "query"):
        (root / folder).mkdir(parents=True)
    for i, columns in enumerate((slice(None), slice(None, None, -1))):
        Image.fromarray(np.ascontiguousarray(support[:, columns])).save(root / "support/images" / f"s{i}.png")
        Image.fromarray(np.ascontiguousarray(mask[:, columns]) * 255).save(root / "support/masks" / f"s{i}.png")
    for name, part in (("a", image), ("b", image[:200]), ("c", image[:, 30:])):
        Image.fromarray(part).save(root / "query" / f"{name}.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(image[:200]))).save(root / "query/turned.png", exif=exif)
    return root


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def repri(monkeypatch, capsys):
    """Runs a command as ``main`` does, in this process: ``repri("compare", path)``."""

    def run(*arguments):
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which main replaces
        monkeypatch.setattr("sys.argv", ["repri", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Done(end.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def textures(tmp_path_factory):
    """The YAML file of a small data set of two textures in two folds."""
    return make_textures(tmp_path_factory.mktemp("textures") / "data")


@pytest.fixture
def short(textures, tmp_path, monkeypatch):
    """Arguments of a short evaluation, in a cache of its own."""
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    options = ["--data", textures, "--tasks", 11, "--runs", 2, "--min-pixels", 200, "--size", 64]
    return [*map(str, options), "--extractor", "filters"]
