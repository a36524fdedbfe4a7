"""``repri segment``: annotated images in, masks of others out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.runtime.errors import RepriError
from repri.segmenter.settings import SegmentSettings

from .common import Bars, MethodOptions, method_settings
from .flags import resolve, settings_command

if TYPE_CHECKING:
    from repri.segmenter import Fitted
    from repri.segmenter.inputs import Proportion
    from repri.segmenter.outputs import Results
    from repri.segmenter.shots import AnnotatedShots

SOME_FAILED = 3
"""Exit code where some queries could not be segmented and the others were."""
WRITERS = 4
"""Number of threads that write results."""


@settings_command(SegmentSettings)
def segment(
    config: Path | None,
    given: dict[str, Any],
    set: MethodOptions = None,
    resume: Annotated[bool, typer.Option(help="Leave out the images whose masks are in the output folder.")] = False,
) -> None:
    """Segment images by a few annotated ones. Many processes: torchrun --nproc-per-node N -m repri segment …

    Exit codes: 0 all images are done; 1 a mistake, nothing was begun; 3 some images could not be read, the others are
    done."""
    if set:
        given.setdefault("method", {})["settings"] = method_settings(set)
    settings = resolve(SegmentSettings, config, given, "repri segment")
    for flag, value in (("support", settings.support.name), ("query", settings.query), ("output", settings.output)):
        if not value:
            raise RepriError(f"--{flag} is missing: repri segment needs --support, --query and --output.")
    from repri.runtime.distributed import world
    from repri.runtime.files import check_writable
    from repri.segmenter.outputs import Results
    from repri.segmenter.shots import read_support

    folder = Path(str(settings.output)).expanduser()
    Results.check_formats(settings.write.export)
    chosen = settings.support
    source = Path(str(chosen.name)).expanduser()
    shots = read_support(source, chosen.format, None if chosen.images is None else Path(chosen.images), chosen.classes)
    queries = _queries(settings, source, folder)
    proportion = _proportion(settings.proportion, shots.classes)
    check_writable(folder / "masks" / "x.png")
    with world() as here:
        fitted = _fit(settings, shots)
        if here.first and fitted.choice.scores:
            typer.echo(f"Chosen for this support: {fitted.choice}.", err=True)
        write = settings.write
        results = Results(folder, fitted.classes, write.probabilities, write.overlays, write.instances)
        exports = tuple(dict.fromkeys(write.export + (("coco",) if write.instances else ())))
        todo = _without_support(queries, shots, here.first)
        names = list(todo)
        results.check_exports(todo, exports)
        done = here.gather([name for name in todo if results.mask_path(name).is_file()])[0]  # as the first one sees it
        if done and not resume:
            raise RepriError(f"{folder} holds results already: go on with --resume, or choose another folder.")
        list(results.records(done))  # they must have the same classes
        finished = frozenset(done)
        todo = {name: path for name, path in todo.items() if name not in finished}
        mine, bars = dict(here.share(list(todo.items()))), Bars() if here.first else None
        failed = _run(fitted, results, mine, settings.batch, proportion, _shown(bars, len(finished), len(mine)), bars)
        failures = [failure for part in here.gather(failed) for failure in part]
        if here.first:
            records = results.summarise(names, exports)
            for name, reason in failures:
                typer.echo(f"not segmented: {name}: {reason}", err=True)
            typer.echo(f"{len(records)} of {len(names)} queries: {folder / 'masks'}, {folder / 'index.html'}")
    if failures:  # every process knows them, so that all end alike
        raise typer.Exit(SOME_FAILED)


def _queries(settings: SegmentSettings, support: Path, folder: Path) -> dict[str, Path]:
    """Name → file of the images to segment, without those of the support and of the output folder."""
    from repri.data.io.queries import find_queries

    inside = [folder.resolve(), *([support.resolve()] if support.is_dir() else [])]
    every = find_queries(str(settings.query)).items()
    queries = {n: p for n, p in every if not any(p.resolve().is_relative_to(f) for f in inside)}
    if not queries:
        raise RepriError(f"{settings.query} holds no images besides those of the support and the output folder.")
    return queries


def _without_support(queries: dict[str, Path], shots: AnnotatedShots, shown: bool) -> dict[str, Path]:
    """The queries that are not copies of annotated images."""
    from repri.data.io.queries import same_files

    annotated = same_files(queries, shots.paths)
    if shown and annotated:
        typer.echo(f"left out, because they are annotated: {', '.join(annotated)}", err=True)
    return {name: path for name, path in queries.items() if name not in annotated}


def _fit(settings: SegmentSettings, shots: AnnotatedShots) -> Fitted:
    from repri.models.load import build_extractor
    from repri.protocols import get_protocol
    from repri.runtime.distributed import default_device
    from repri.segmenter import Segmenter

    changes = dict(settings.method.settings)
    if settings.method.preset is not None:
        changes["preset"] = settings.method.preset
    segmenter = Segmenter(
        build_extractor(settings.extractor, default_device()),
        method=settings.method.name,
        config=changes,
        size=settings.extractor.size,
        mirror=settings.look.mirror,
        scales=settings.look.scales,
        tile=settings.look.tile,
        joint=settings.joint,
        auto=settings.auto,
        textures=settings.textures,
        refine=settings.refine or get_protocol("clean").refine,
        regions=settings.regions,
    )
    return segmenter.fit_maps(shots.images, shots.maps, shots.classes)


def _shown(bars: Bars | None, before: int, total: int) -> Any:
    """A function that shows how many images are done."""
    start = time.monotonic()

    def show(done: int, failed: int) -> None:
        if bars:
            rate = done / (time.monotonic() - start)
            bars.show("segment", before + done + failed, before + total, f"{rate:.1f} images/s")

    return show


def _run(
    fitted: Fitted,
    results: Results,
    todo: dict[str, Path],
    batch: int,
    proportion: Proportion | None,
    show: Any,
    bars: Bars | None,
) -> list[tuple[str, str]]:
    """Segment, and write the results at the same time; returns the images that could not be read, and why."""
    from repri.runtime.parallel import parallel, usable_cores

    failed: list[tuple[str, str]] = []
    names = {str(path): name for name, path in todo.items()}
    with bars or nullcontext():
        segmented = fitted.segment_many(
            todo.values(), batch, proportion, on_error=lambda path, error: failed.append((names[path], str(error)))
        )
        writers = min(WRITERS, usable_cores())
        written = parallel(lambda result: results.write(names[result.source], result), segmented, writers, ahead=1)
        for done, _ in enumerate(written, 1):
            show(done, len(failed))
    return failed


def _proportion(text: str | None, classes: tuple[str, ...]) -> Proportion | None:
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
        raise RepriError(f"--proportion takes {example}, got {text!r}.")
    return values[0] if len(values) == 1 else (values[0], values[1])
