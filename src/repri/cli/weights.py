"""``repri weights list | get | import | check``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from repri.runtime.files import atomic

from .common import settings_of

app = typer.Typer(
    help="Pretrained weights: what is known, fetch, import, check.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_weights() -> None:
    """List the weights that are known by name, and whether they are here."""
    from repri.models.weights.known import KNOWN, cached_path, weights_folder

    typer.echo(f"{'name':18} {'size':>6}  {'licence':7}  {'sha256':9} {'here':5} what")
    for entry in KNOWN.values():
        here = "yes" if cached_path(entry.name).is_file() else "-" if entry.hash else "hand"
        start = f"{entry.hash}…" if entry.hash else "-"
        typer.echo(f"{entry.name:18} {entry.megabytes:4.0f} M  {entry.licence:7}  {start:9} {here:5} {entry.about}")
    known = {cached_path(name) for name in KNOWN}
    for path in sorted(set(weights_folder().glob("[!.]*.*")) - known):
        if path.suffix in (".pth", ".safetensors"):
            typer.echo(f"{path.stem:18} {path.stat().st_size / 2**20:4.0f} M  {'':7}  {'':9} yes   imported")
    typer.echo(f"\nKept in {weights_folder()}\n(REPRI_CACHE moves it). hand: to be downloaded by hand, then imported.")


@app.command()
def get(name: Annotated[str, typer.Argument(help="A name from `repri weights list`.")]) -> None:
    """Fetch known weights into the cache, resuming what was begun, and check them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from repri.models.weights.known import KNOWN, cached_path
    from repri.runtime.download import fetch

    if name not in KNOWN:
        raise ValueError(f"no known weights named {name!r}; known: {', '.join(KNOWN)}")
    entry, path = KNOWN[name], cached_path(name)
    if not entry.hash:
        if not path.is_file():
            raise ValueError(
                f"{name} has no direct link: get it from {entry.url}, then: repri weights import FILE {name}"
            )
        typer.echo(f"{name}: {path}")
        return
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(name, total=None)

    def show(here: int, total: int) -> None:
        bar.start()  # not before there is something to show
        bar.update(task, completed=here, total=total or None)

    try:
        fetch(entry.url, path, entry.hash, show)
    finally:
        bar.stop()
    typer.echo(f"{name}: {path}")


@app.command("import")
def import_weights(
    file: Annotated[Path, typer.Argument(help="A weights file that was downloaded by hand.")],
    name: Annotated[str, typer.Argument(help="The name it shall have; default: the file's.")] = "",
    set: Annotated[
        list[str] | None, typer.Option(help="What the file does not tell: --set stride_in=1x1 --set bn_eps=1e-3")
    ] = None,
) -> None:
    """Check a file and copy it into the cache, under a known name or one of your own."""
    from repri.models.load import load_checkpoint
    from repri.models.weights.checkpoints import read_checkpoint, save_checkpoint
    from repri.models.weights.known import KNOWN, cached_path, weights_folder
    from repri.runtime.download import file_sha256

    checkpoint, architecture = read_checkpoint(file), settings_of(set)
    load_checkpoint(checkpoint, **architecture)
    name = name or file.stem
    if "/" in name or name.startswith("."):
        raise ValueError(f"{name!r} is no name for weights: give one without slashes")
    if architecture and name in KNOWN:
        raise ValueError(f"{name} is known as it is, without --set: give the file another name")
    if architecture:
        path = weights_folder() / f"{name}.safetensors"
        save_checkpoint(path, checkpoint.state, checkpoint.config | architecture)
        typer.echo(f"{name}: {path}")
        return
    path = weights_folder() / f"{name}{file.suffix}"
    if name in KNOWN:
        path, digest = cached_path(name), file_sha256(file)
        if not digest.startswith(KNOWN[name].hash):
            raise ValueError(
                f"{file} has the sha256 {digest[:16]}…, {name} has {KNOWN[name].hash}…: it is another file"
            )
        wanted = {"backbone": name.split("-")[0], "stem": "deep" if name.endswith("-deep") else "plain"}
        found = {"backbone": checkpoint.config["backbone"], "stem": checkpoint.config.get("stem", "plain")}
        if found != wanted or checkpoint.complete:
            whole = "a PSPNet on " if checkpoint.complete else ""
            raise ValueError(f"{file} holds {whole}{found['backbone']} ({found['stem']} stem), which is not {name}")
    with atomic(path) as temporary:
        shutil.copyfile(file, temporary)
    typer.echo(f"{name}: {path}")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Any weights file.")]) -> None:
    """Say what a weights file holds, or why it cannot be used."""
    from repri.models.heads.head import is_head, load_head
    from repri.models.load import load_checkpoint, whole_name
    from repri.models.weights.checkpoints import read_checkpoint
    from repri.runtime.download import file_sha256

    if is_head(file):
        head, base = load_head(file)
        rows = {
            "kind": "repri-head",
            "holds": f"{head.options['kind']} head on {base['name']}",
            "options": ", ".join(f"{k}={v}" for k, v in head.options.items() if k != "kind"),
            "trained": _labels(base),
            "values": f"{sum(tensor.numel() for tensor in head.state_dict().values()) / 1e6:.1f} million",
            "sha256": file_sha256(file),
        }
        _print(rows)
        return
    checkpoint = read_checkpoint(file)
    load_checkpoint(checkpoint)
    values = sum(tensor.numel() for tensor in checkpoint.state.values())
    told = ("backbone", "seen")
    rows = {
        "kind": checkpoint.kind,
        "holds": whole_name(checkpoint) if checkpoint.complete else checkpoint.config["backbone"],
        "options": ", ".join(f"{k}={v}" for k, v in checkpoint.config.items() if k not in told) or "-",
        "trained": _labels(checkpoint.config),
        "values": f"{values / 1e6:.1f} million in {len(checkpoint.state)} tensors",
        "sha256": file_sha256(file),
    }
    _print(rows)


def _labels(facts: Mapping[str, Any]) -> str:
    return f"with labels of {', '.join(facts.get('seen', ())) or 'nothing that it tells'}"


def _print(rows: Mapping[str, str]) -> None:
    for key, value in rows.items():
        typer.echo(f"{key:8} {value}")
