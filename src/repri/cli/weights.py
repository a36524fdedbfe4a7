"""``repri weights list | get | import | check``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic

if TYPE_CHECKING:
    from repri.models.weights.checkpoints import Checkpoint

WIDTH = 80
"""Columns of the list of weights."""

app = typer.Typer(help="List, fetch, import and check pretrained weights.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_weights() -> None:
    """List the weights that are known by name and those that were imported."""
    from rich.console import Console
    from rich.table import Table

    from repri.models.weights.known import KNOWN, cached_path, weights_folder
    from repri.models.weights.pairs import PAIRS, pair_folder, pair_in

    table = Table(box=None, pad_edge=False)
    for title, justify in (("name", "left"), ("size", "right"), ("licence", "left"), ("sha256", "left")):
        table.add_column(title, justify=justify, overflow="fold")
    for title in ("here", "about"):
        table.add_column(title, overflow="fold")
    for entry in KNOWN.values():
        here = "yes" if cached_path(entry.name).is_file() else "no" if entry.hash else "by hand"
        start = f"{entry.hash}…" if entry.hash else ""
        table.add_row(entry.name, f"{entry.megabytes:.0f} MB", entry.licence, start, here, entry.about)
    for pair in PAIRS.values():
        here = "yes" if pair_in(pair_folder(pair.name)) else "no" if pair.files else "by hand"
        start = f"{pair.files[0][1][:8]}…" if pair.files else ""
        table.add_row(pair.name, f"{pair.megabytes:.0f} MB", pair.licence, start, here, pair.about)
    known = {cached_path(name) for name in KNOWN}
    for path in sorted(set(weights_folder().glob("[!.]*.*")) - known):
        if path.suffix in (".pth", ".safetensors"):
            table.add_row(path.stem, f"{path.stat().st_size / 2**20:.0f} MB", "", "", "yes", "imported")
    Console(width=WIDTH, highlight=False, markup=False).print(table)
    typer.echo(f"\nby hand: download the file yourself, then run `repri weights import`.\nFolder: {weights_folder()}")
    typer.echo("The environment variable REPRI_CACHE moves it.")


@app.command()
def get(name: Annotated[str, typer.Argument(help="A name from `repri weights list`.")]) -> None:
    """Fetch known weights into the cache and check them; an interrupted download goes on."""
    from repri.models.weights.known import KNOWN, cached_path
    from repri.models.weights.pairs import PAIRS, fetch_pair
    from repri.runtime.download import fetch

    if name in PAIRS:
        with _bars() as bar:
            folder = fetch_pair(name, lambda file: bar(f"{name}, {file}"))
        typer.echo(f"{name}: {folder}")
        return
    if name not in KNOWN:
        raise RepriError(f"There are no known weights named {name!r}. Known: {', '.join([*KNOWN, *PAIRS])}.")
    entry, path = KNOWN[name], cached_path(name)
    if not entry.hash:
        if not path.is_file():
            raise RepriError(
                f"{name} has no direct link: download it from {entry.url}, then run repri weights import FILE {name}"
            )
        typer.echo(f"{name}: {path}")
        return
    with _bars() as bar:
        fetch(entry.url, path, entry.hash, bar(name))
    typer.echo(f"{name}: {path}")


@contextmanager
def _bars() -> Generator[Callable[[str], Callable[[int, int], None]]]:
    """A function that makes a bar for a file, which is shown as soon as bytes arrive."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bars = Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=Console(stderr=True))

    def make(name: str) -> Callable[[int, int], None]:
        task = bars.add_task(name, total=None)

        def show(here: int, total: int) -> None:
            bars.start()  # not before there is something to show
            bars.update(task, completed=here, total=total or None)

        return show

    try:
        yield make
    finally:
        bars.stop()


@app.command("import")
def import_weights(
    file: Annotated[
        Path, typer.Argument(help="A weights file that was downloaded by hand, or the folder of a region model.")
    ],
    name: Annotated[str, typer.Argument(help="Name of the weights; by default that of the file.")] = "",
    stem: Annotated[str | None, typer.Option(help="Stem of a ResNet: deep or plain.")] = None,
    stride_in: Annotated[str | None, typer.Option(help="Strided convolution of a ResNet's blocks: 3x3 or 1x1.")] = None,
    bn_eps: Annotated[float | None, typer.Option(help="Epsilon of the batch norms.")] = None,
    dilated: Annotated[
        bool | None, typer.Option(help="Dilate the last layers, or stride as in classification.")
    ] = None,
) -> None:
    """Check a file and copy it into the cache, under a known name or a new one.

    The options describe the network where the file does not tell it.
    """
    from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
    from repri.models.weights.known import KNOWN, cached_path, weights_folder

    if file.is_dir():
        _import_regions(file, name or file.resolve().name)
        return
    options: dict[str, Any] = {"stem": stem, "stride_in": stride_in, "bn_eps": bn_eps, "dilated": dilated}
    architecture = {option: value for option, value in options.items() if value is not None}
    checkpoint = read_checkpoint(file)
    load_checkpoint(checkpoint, **architecture)
    name = name or file.stem
    if "/" in name or name.startswith("."):
        raise RepriError(f"{name!r} cannot be a name of weights: give one without slashes.")
    if architecture and name in KNOWN:
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in architecture)
        raise RepriError(f"The weights {name} are known as they are, without {flags}: give the file another name.")
    if architecture:
        path = weights_folder() / f"{name}.safetensors"
        save_checkpoint(path, checkpoint.state, checkpoint.config | architecture)
    else:
        if name in KNOWN:
            _check_known(checkpoint, name)
        path = cached_path(name) if name in KNOWN else weights_folder() / f"{name}{file.suffix}"
        with atomic(path) as temporary:
            shutil.copyfile(file, temporary)
    typer.echo(f"{name}: {path}")


def _import_regions(folder: Path, name: str) -> None:
    """Check a region model by running it once, and copy it."""
    import numpy as np

    from repri.models.weights.known import KNOWN
    from repri.models.weights.pairs import import_pair, pair_in
    from repri.regions.onnx import OnnxRegions

    if name in KNOWN or "/" in name or name.startswith("."):
        raise RepriError(f"{name!r} cannot be the name of a region model: choose another one, without slashes.")
    pair = pair_in(folder)
    if pair is not None:
        model = OnnxRegions(*pair, name=name)
        model.masks(model.encode(np.zeros((8, 8, 3), np.uint8)), points=[(4, 4)])
    typer.echo(f"{name}: {import_pair(folder, name)}")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Any weights file.")]) -> None:
    """Print what a weights file holds, or why it cannot be used."""
    from repri.models.heads.files import is_head, load_head
    from repri.models.networks.build import whole_name
    from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint
    from repri.runtime.download import file_sha256

    if is_head(file):
        head, base = load_head(file)
        kind, holds = "repri-head", f"{head.options['kind']} head on {base['name']}"
        facts, options, state = base, head.options, head.state_dict()
    else:
        checkpoint = read_checkpoint(file)
        load_checkpoint(checkpoint)
        backbone = checkpoint.config["backbone"]
        kind, holds = checkpoint.kind, whole_name(backbone) if checkpoint.complete else backbone
        facts = options = checkpoint.config
        state = checkpoint.state
    said = ("kind", "backbone", "seen")
    listed = [f"{key}={value}" for key, value in options.items() if key not in said and value is not None]
    classes = ", ".join(facts.get("seen", ()))
    rows = {
        "kind": kind,
        "holds": holds,
        "options": ", ".join(listed) or "none",
        "labels": f"trained with labels of {classes}" if classes else "the file names no classes",
        "values": f"{sum(tensor.numel() for tensor in state.values()) / 1e6:.1f} million in {len(state)} tensors",
        "sha256": file_sha256(file),
    }
    _print(rows)


def _check_known(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a file that is not the known one of that name."""
    from repri.models.weights.known import KNOWN
    from repri.runtime.download import file_sha256

    digest = file_sha256(checkpoint.path)
    if not digest.startswith(KNOWN[name].hash):
        raise RepriError(
            f"{checkpoint.path} is not the file of {name}: its sha256 is {digest[:16]}… instead of {KNOWN[name].hash}…"
        )
    wanted = (name.split("-")[0], "deep" if name.endswith("-deep") else "plain")
    backbone, stem = checkpoint.config["backbone"], checkpoint.config.get("stem", "plain")
    if (backbone, stem) != wanted or checkpoint.complete:
        whole = "a PSPNet on " if checkpoint.complete else ""
        raise RepriError(f"{checkpoint.path} holds {whole}{backbone} ({stem} stem), which is not {name}.")


def _print(rows: Mapping[str, Any]) -> None:
    for key, value in rows.items():
        typer.echo(f"{key:8} {value}")
