"""``repri serve``: the web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of images; annotations are kept in FOLDER/.repri.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; any other than this machine needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    extractor: Annotated[str, typer.Option(help="Name of an extractor.")] = "default",
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Annotate a few images on a web page and watch the others being segmented."""
    from repri.web.serve import Address, run

    def ready(address: Address, images: int | None) -> None:
        typer.echo(f"images   {'drop them on the page' if images is None else images}")
        typer.echo(f"page     {address.url}")
        if address.token:
            typer.echo("The address holds the token of this server. Give it only to people who may use it.")
        typer.echo("Ctrl+C ends the server; everything is kept.")
        if open_:
            typer.launch(address.url)

    latency = run(folder, host, port, extractor, ready)
    if latency:
        typer.echo(f"latency  {latency.median:.0f} ms from a stroke to its result, p95 {latency.p95:.0f} ms")
