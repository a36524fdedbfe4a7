"""``repri weights list | get | import | check``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from repri.files import atomic

app = typer.Typer(
    help="Pretrained weights: what is known, fetch, import, check.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_weights() -> None:
    """List the weights that are known by name, and whether they are here."""
    from repri.models.registry import KNOWN, cached_path, weights_folder

    typer.echo(f"{'name':15} {'size':>8}  {'licence':8} {'here':5} what")
    for entry in KNOWN.values():
        here = "yes" if cached_path(entry.name).is_file() else "-" if entry.hash else "hand"
        typer.echo(f"{entry.name:15} {entry.megabytes:5.0f} MB  {entry.licence:8} {here:5} {entry.about}")
    typer.echo(f"Kept in {weights_folder()} (REPRI_CACHE moves it). 'hand': to be downloaded by hand.")


@app.command()
def get(name: Annotated[str, typer.Argument(help="A name from `repri weights list`.")]) -> None:
    """Fetch known weights into the cache, resuming what was begun, and check them."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from repri.models.download import fetch
    from repri.models.registry import KNOWN, cached_path

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
    with Progress(*columns) as bar:
        task = bar.add_task(name, total=None)
        fetch(entry.url, path, entry.hash, lambda here, total: bar.update(task, completed=here, total=total or None))
    typer.echo(f"{name}: {path}")


@app.command("import")
def import_weights(
    file: Annotated[Path, typer.Argument(help="A weights file that was downloaded by hand.")],
    name: Annotated[str, typer.Argument(help="The known name it shall have.")],
) -> None:
    """Check a file and copy it into the cache under a known name."""
    from repri.models.checkpoints import read_checkpoint
    from repri.models.download import file_sha256
    from repri.models.registry import KNOWN, cached_path

    if name not in KNOWN:
        raise ValueError(f"no known weights named {name!r}; known: {', '.join(KNOWN)}")
    checkpoint = read_checkpoint(file)
    digest = file_sha256(file)
    if not digest.startswith(KNOWN[name].hash):
        raise ValueError(f"{file} has the sha256 {digest[:16]}… and {name} has {KNOWN[name].hash}…: it is another file")
    backbone = name.split("-")[0]
    stem = "deep" if name.endswith("-deep") else checkpoint.config.get("stem")
    if checkpoint.config["backbone"] != backbone or checkpoint.config.get("stem") != stem:
        raise ValueError(f"{file} holds a {checkpoint.config}, which is not {name}")
    with atomic(cached_path(name)) as temporary:
        shutil.copyfile(file, temporary)
    typer.echo(f"{name}: {cached_path(name)}")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Any weights file.")]) -> None:
    """Say what a weights file holds, or why it cannot be used."""
    from repri.models.checkpoints import read_checkpoint
    from repri.models.download import file_sha256
    from repri.models.load import load_checkpoint

    checkpoint = read_checkpoint(file)
    load_checkpoint(checkpoint)
    values = sum(tensor.numel() for tensor in checkpoint.state.values())
    rows = {
        "kind": checkpoint.kind,
        "holds": f"{'PSPNet on ' if checkpoint.complete else ''}{checkpoint.config['backbone']}",
        "options": ", ".join(f"{k}={v}" for k, v in checkpoint.config.items() if k != "backbone") or "-",
        "values": f"{values / 1e6:.1f} million in {len(checkpoint.state)} tensors",
        "sha256": file_sha256(file),
    }
    for key, value in rows.items():
        typer.echo(f"{key:8} {value}")
