"""``repri annotate``: from boxes, scribbles or outlines to a support of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def annotate(
    support: Annotated[
        Path, typer.Option(help="Annotations in any known format: a COCO file, LabelMe files, a folder, …")
    ],
    output: Annotated[
        Path, typer.Option(help="New folder for `repri segment`: images/, masks/ and classes.txt are written to it.")
    ],
    format: Annotated[
        str | None, typer.Option(help="Format of the annotations, if it is not recognised from their content.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the images, if they are not beside the annotations.")
    ] = None,
    complete: Annotated[bool, typer.Option(help="Turn boxes and scribbles into masks by segmenting inside.")] = True,
    extractor: Annotated[
        str, typer.Option(help="Extractor that completes them: default (embedded), hub:NAME, …")
    ] = "default",
) -> None:
    """Check annotations and write them as a support folder.

    Boxes and scribbles become masks, which a person can correct.
    """
    from repri.data.io.formats import read_annotated, write_annotated

    annotations = read_annotated(support, format, images)
    weak = sum(any(shape.kind in ("box", "scribble") for shape in item.shapes) for item in annotations)
    if complete and weak:
        from repri.runtime.distributed import default_device
        from repri.segmenter import Segmenter
        from repri.segmenter.shots import completed

        annotations = completed(annotations, Segmenter(extractor, device=default_device()))
    write_annotated(annotations, output, "folder")
    done = f", {weak} of them completed from boxes or scribbles" if complete and weak else ""
    typer.echo(f"{len(annotations)} images, {', '.join(annotations.classes)}{done}: {output}")
