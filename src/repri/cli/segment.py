"""``repri segment``: annotated pictures in, masks of others out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from .common import Bars, settings_of

SOME_FAILED = 3
"""Exit code where some queries could not be segmented and the others were."""


def segment(
    support: Annotated[Path, typer.Option(help="Annotated: a folder of images/ and masks/, COCO.json, LabelMe, …")],
    query: Annotated[str, typer.Option(help="A picture, a folder, 'a/*.jpg', or a .txt with one path a line.")],
    output: Annotated[Path, typer.Option(help="Folder to write masks/, results.csv, index.html into.")],
    format: Annotated[str | None, typer.Option(help="Of the support, where it is not told by what is there.")] = None,
    images: Annotated[Path | None, typer.Option(help="Where the support's pictures are, if not beside it.")] = None,
    classes: Annotated[str | None, typer.Option(help="Only these classes of the support, with commas.")] = None,
    extractor: Annotated[
        str, typer.Option(help="default (embedded), hub:NAME, or any other name or file.")
    ] = "default",
    size: Annotated[int | None, typer.Option(help="Long side at which pictures are looked at.")] = None,
    shifts: Annotated[int, typer.Option(help="2: twice as fine a look, four times the time.")] = 1,
    proportion: Annotated[
        str | None, typer.Option(help="Known share of the object: 0.1, 0.05-0.2, or cat=0.1,dog=0.2.")
    ] = None,
    refine: Annotated[bool, typer.Option(help="Let borders follow the picture's edges.")] = True,
    mirror: Annotated[bool, typer.Option(help="Average over the mirror image: twice the time.")] = False,
    scales: Annotated[str | None, typer.Option(help="Average over several sizes: 0.75,1,1.25")] = None,
    tile: Annotated[int | None, typer.Option(help="Look at larger pictures in tiles of so many pixels.")] = None,
    joint: Annotated[bool, typer.Option(help="Several classes in one classifier, or each on its own.")] = True,
    probabilities: Annotated[bool, typer.Option(help="Also write 16-bit probability maps.")] = False,
    overlays: Annotated[bool, typer.Option(help="Also write pictures with the masks over them.")] = False,
    export: Annotated[str | None, typer.Option(help="Also write coco, labelme, label-studio (with commas).")] = None,
    batch: Annotated[int, typer.Option(help="Pictures that are worked on at once.")] = 8,
    resume: Annotated[bool, typer.Option(help="Leave out what is in the output folder already.")] = False,
    set: Annotated[list[str] | None, typer.Option(help="Of the inference: --set steps=100")] = None,
) -> None:
    """Segment pictures by a few annotated ones. Many processes: torchrun --nproc-per-node N -m repri segment …

    Exit codes: 0 all done; 1 a mistake, nothing was begun; 3 some queries could not be read, the others are done.
    """
    from repri.data.io.queries import find_queries, same_files
    from repri.runtime.distributed import default_device, world
    from repri.runtime.files import check_writable
    from repri.segmenter import Segmenter
    from repri.segmenter.outputs import EXPORTS, Results
    from repri.segmenter.shots import read_support

    exports = [part for part in (export or "").split(",") if part]
    for part in exports:
        if part not in EXPORTS:
            raise ValueError(f"--export: no format named {part!r}; known: {', '.join(EXPORTS)}")
    wanted = classes.split(",") if classes else None
    shots = read_support(support, format, images, wanted)
    inside = [output.resolve(), *([support.resolve()] if support.is_dir() else [])]
    queries = {n: p for n, p in find_queries(query).items() if not any(p.resolve().is_relative_to(f) for f in inside)}
    if not queries:
        raise ValueError(f"{query} holds no pictures but those of the support or the output folder")
    check_writable(output / "masks" / "x.png")
    shares = _share(proportion, shots.classes)
    with world() as here:
        seg = Segmenter(
            extractor,
            config=settings_of(set),
            size=size,
            shifts=shifts,
            device=default_device(),
            refine=refine,
            mirror=mirror,
            scales=_factors(scales),
            tile=tile,
            joint=joint,
        )
        seg.fit_maps(shots.pictures, shots.maps, shots.classes)
        results = Results(output, seg.classes, probabilities, overlays)
        annotated = same_files(queries, shots.paths)
        if here.first and annotated:
            typer.echo(f"left out, annotated already: {', '.join(annotated)}", err=True)
        todo = {name: path for name, path in queries.items() if name not in annotated}
        names = list(todo)
        results.check_exports(todo, exports)
        done = here.gather([name for name in todo if results.mask_path(name).is_file()])[0]  # the first one's view
        if done and not resume:
            raise ValueError(f"{output} holds results already: go on with --resume, or choose another folder")
        list(results.records(done))  # of the same classes
        finished = frozenset(done)
        todo = {name: path for name, path in todo.items() if name not in finished}
        failed = _run(
            seg, results, dict(here.share(list(todo.items()))), batch, shares, here.first, len(names) - len(todo)
        )
        failures = [failure for part in here.gather(failed) for failure in part]
        if here.first:
            records = results.summarise(names, exports)
            for name, reason in failures:
                typer.echo(f"not segmented: {name}: {reason}", err=True)
            typer.echo(f"{len(records)} of {len(names)} queries: {output / 'masks'}, {output / 'index.html'}")
    if failures:  # told to everybody, so that every process ends alike
        raise typer.Exit(SOME_FAILED)


def _run(seg, results, todo: dict[str, Path], batch: int, shares, shown: bool, before: int) -> list[tuple[str, str]]:
    """Segment, and write beside it; what could not be read, and why."""
    from repri.runtime.parallel import parallel
    from repri.segmenter.segmenter import THREADS

    failed: list[tuple[str, str]] = []
    names = {str(path): name for name, path in todo.items()}
    bars = Bars() if shown else None
    start, done = time.monotonic(), 0
    with bars or nullcontext():
        found = seg.segment_many(
            todo.values(), batch, shares, on_error=lambda path, error: failed.append((names[path], str(error)))
        )
        for _ in parallel(lambda result: results.write(names[result.source], result), found, THREADS, ahead=1):
            done += 1
            if bars:
                rate = done / (time.monotonic() - start)
                bars.show("segment", before + done + len(failed), before + len(todo), f"{rate:.1f} images/s")
    return failed


def _share(text: str | None, classes: tuple[str, ...]) -> float | tuple[float, float] | dict[str, float] | None:
    """``0.1``, ``0.05-0.2`` or ``cat=0.1,dog=0.2``."""
    if text is None:
        return None
    try:
        if "=" in text:
            named = dict(part.split("=") for part in text.split(","))
            return {name: float(value) for name, value in named.items()}
        values = [float(part) for part in text.split("-")]
    except ValueError:
        values = []
    if len(values) not in (1, 2) or len(classes) > 1:
        example = f"{classes[0]}=0.1,{classes[-1]}=0.2" if len(classes) > 1 else "0.1, or a range such as 0.05-0.2"
        raise ValueError(f"--proportion takes {example}, got {text!r}")
    return values[0] if len(values) == 1 else (values[0], values[1])


def _factors(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else (1.0,)
    except ValueError:
        raise ValueError(f"--scales takes numbers with commas, got {text!r}") from None
