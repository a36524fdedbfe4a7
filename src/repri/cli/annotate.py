"""``repri annotate``: from boxes, scribbles or outlines to a support of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def annotate(
    support: Annotated[Path, typer.Option(help="Annotations in any known format: COCO.json, LabelMe, folders, …")],
    output: Annotated[Path, typer.Option(help="New folder: images/, masks/, classes.txt, for `repri segment`.")],
    format: Annotated[
        str | None, typer.Option(help="Of the annotations, where it is not told by what is there.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Where the pictures are, if not beside them.")] = None,
    complete: Annotated[bool, typer.Option(help="Turn boxes and scribbles into masks by segmenting inside.")] = True,
    extractor: Annotated[str, typer.Option(help="For that: default (embedded), hub:NAME, …")] = "default",
) -> None:
    """Check annotations and write them as a support folder; boxes and scribbles become masks to be corrected."""
    from repri.data.io.formats import read_annotated, write_annotated
    from repri.runtime.distributed import default_device
    from repri.segmenter import Segmenter
    from repri.segmenter.shots import completed

    found = read_annotated(support, format, images)
    weak = sum(any(shape.kind in ("box", "scribble") for shape in item.shapes) for item in found)
    if complete and weak:
        found = completed(found, Segmenter(extractor, device=default_device()))
    write_annotated(found, output, "folder")
    done = f", {weak} of them completed from boxes or scribbles" if complete and weak else ""
    typer.echo(f"{len(found)} pictures, {', '.join(found.classes)}{done}: {output}")
