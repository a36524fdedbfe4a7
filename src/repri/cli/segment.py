"""``repri segment``: annotated images in, masks of others out."""

from __future__ import annotations

import os
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
    from collections.abc import Iterator

    from repri.features.extractor import FeatureExtractor
    from repri.runtime.distributed import World
    from repri.segmenter import Fitted, Segmentation
    from repri.segmenter.inputs import Proportion
    from repri.segmenter.outputs import Results
    from repri.segmenter.shots import AnnotatedShots

SOME_FAILED = 3
"""Exit code where some queries could not be segmented and the others were."""
WRITERS = 4
"""Number of threads that write results."""
PRESENT = (
    "Several classes: if you know which of them each image shows, a list of them makes the masks better "
    "(--present FILE.csv, a line such as a.jpg,cat,dog)."
)
"""What several classes without such a list are told."""


@settings_command(SegmentSettings)
def segment(
    config: Path | None,
    given: dict[str, Any],
    set: MethodOptions = None,
    resume: Annotated[
        bool,
        typer.Option(
            help="Leave out the images whose masks are in the output folder, from the same settings and support."
        ),
    ] = False,
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
    from repri.segmenter.outputs import Results, unwritable
    from repri.segmenter.present import read_present
    from repri.segmenter.resume import facts_of, identity_of
    from repri.segmenter.shots import read_support

    folder = Path(str(settings.output)).expanduser()
    Results.check_formats(settings.write.export)
    chosen = settings.support
    source = Path(str(chosen.name)).expanduser()
    shots = read_support(source, chosen.format, None if chosen.images is None else Path(chosen.images), chosen.classes)
    queries = _queries(settings, source, folder)
    proportion = _proportion(settings.proportion, shots.classes)
    present = None if settings.present is None else read_present(settings.present, shots.classes)
    _check_named(present, queries, str(settings.present))
    check_writable(folder / "masks" / "x.png")
    with world() as here:
        extractor = _extractor(settings)
        facts = facts_of(settings, shots, extractor)
        fitted = _fit(settings, shots, extractor)
        if here.first and fitted.choice.scores:
            typer.echo(f"Chosen for this support: {fitted.choice}.", err=True)
        if here.first and len(fitted.classes) > 1 and present is None:
            typer.echo(PRESENT, err=True)
        written = settings.write
        extras = (written.probabilities, written.overlays, written.instances)
        results = Results(folder, fitted.classes, *extras, identity_of(facts))
        exports = tuple(dict.fromkeys(written.export + (("coco",) if written.instances else ())))
        every = _without_support(queries, shots, here.first)
        odd = unwritable(every)
        todo = {name: path for name, path in every.items() if name not in odd}
        names = list(every)
        results.check_exports(todo, exports)
        finished = frozenset(_begin(here, results, facts, todo, resume))
        todo = {name: path for name, path in todo.items() if name not in finished}
        mine, bars = dict(here.share(list(todo.items()))), Bars() if here.first else None
        known = {"batch": settings.batch, "proportion": proportion, "present": present}
        failed = _run(fitted, results, mine, known, _shown(bars, len(finished), len(mine)), bars)
        failures = [*odd.items(), *(failure for part in here.gather(failed) for failure in part)]
        if here.first:
            for name, reason in failures:
                typer.echo(f"not segmented: {_shown_name(name)}: {reason}", err=True)
            records = results.summarise(names, exports)
            typer.echo(f"{len(records)} of {len(names)} queries: {folder / 'masks'}, {folder / 'index.html'}")
    if failures:  # every process knows them, so that all end alike
        raise typer.Exit(SOME_FAILED)


def _queries(settings: SegmentSettings, support: Path, folder: Path) -> dict[str, Path]:
    """Name → file of the images to segment, without those of the support and of the output folder."""
    from repri.data.io.queries import find_queries

    inside = [_real(folder), *([_real(support)] if support.is_dir() else [])]
    every = find_queries(str(settings.query)).items()
    queries = {n: p for n, p in every if not any(_real(p).is_relative_to(f) for f in inside)}
    if not queries:
        raise RepriError(f"{settings.query} holds no images besides those of the support and the output folder.")
    return queries


def _check_named(present: dict[str, tuple[str, ...]] | None, queries: dict[str, Path], file: str) -> None:
    """A table of classes must be about the queries: a wrong column or suffix would change nothing otherwise."""
    if present is not None and not any(str(p) in present or p.name in present for p in queries.values()):
        first = next(iter(queries.values())).name
        raise RepriError(f"{file} names none of the queries: begin each line with a file name, such as {first}.")


def _real(path: Path) -> Path:
    """A path without links; one that leads to itself stays as it is."""
    return Path(os.path.realpath(path))


def _without_support(queries: dict[str, Path], shots: AnnotatedShots, shown: bool) -> dict[str, Path]:
    """The queries that are not copies of annotated images."""
    from repri.data.io.queries import same_files

    annotated = same_files(queries, shots.paths)
    if shown and annotated:
        typer.echo(f"left out, because they are annotated: {', '.join(annotated)}", err=True)
    return {name: path for name, path in queries.items() if name not in annotated}


def _begin(here: World, results: Results, facts: dict[str, Any], queries: dict[str, Path], resume: bool) -> list[str]:
    """Names of the queries that are done, as the first process sees it; it also writes what decides the results."""
    from repri.runtime.files import remove_leftovers
    from repri.segmenter.resume import other_run, write_facts

    done, problem = [], None
    if here.first:
        try:
            there = any(results.mask_path(name).is_file() for name in queries)
            if there and not resume:
                raise RepriError(
                    f"{results.folder} holds results already: go on with --resume, or choose another folder."
                )
            if there and (other := other_run(results.folder, facts)):
                raise RepriError(other)
            done = results.finished(queries)
            remove_leftovers(results.folder, below=True)
            write_facts(results.folder, facts)
        except RepriError as error:
            problem = str(error)
    done, problem = here.gather((done, problem))[0]
    if problem is not None:
        raise RepriError(problem)
    return done


def _extractor(settings: SegmentSettings) -> FeatureExtractor:
    from repri.models.load import build_extractor
    from repri.runtime.distributed import default_device

    return build_extractor(settings.extractor, default_device())


def _fit(settings: SegmentSettings, shots: AnnotatedShots, extractor: FeatureExtractor) -> Fitted:
    from repri.protocols import get_protocol
    from repri.segmenter import Segmenter

    changes = dict(settings.method.settings)
    if settings.method.preset is not None:
        changes["preset"] = settings.method.preset
    segmenter = Segmenter(
        extractor,
        method=settings.method.name,
        config=changes,
        size=settings.extractor.size,
        mirror=settings.look.mirror,
        scales=settings.look.scales,
        tile=settings.look.tile,
        joint=settings.joint,
        auto=settings.auto,
        textures=settings.textures,
        refine=get_protocol("clean").refine if settings.refine == "default" else settings.refine,
        regions=settings.regions,
        weights=settings.method.weights,
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
    known: dict[str, Any],
    show: Any,
    bars: Bars | None,
) -> list[tuple[str, str]]:
    """Segment, and write the results at the same time; returns the images that could not be read, and why."""
    from repri.runtime.parallel import parallel, usable_cores
    from repri.segmenter.resume import query_file

    failed: list[tuple[str, str]] = []
    names = {str(path): name for name, path in todo.items()}
    before: dict[str, tuple[int, int] | None] = {}

    def read() -> Iterator[Path]:
        for path in todo.values():
            before[str(path)] = _stamp(path)
            yield path

    with bars or nullcontext():
        segmented = fitted.segment_many(
            read(), **known, on_error=lambda path, error: failed.append((names[path], str(error)))
        )
        writers = min(WRITERS, usable_cores())

        def write(result: Segmentation) -> None:
            path = Path(result.source)
            query = before.get(result.source)
            results.write(names[result.source], result, query_file(path) if query == _stamp(path) else None)

        written = parallel(write, segmented, writers, ahead=1)
        for done, _ in enumerate(written, 1):
            show(done, len(failed))
    return failed


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None if it is gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _shown_name(name: str) -> str:
    """A name as one line of a message shows it."""
    return name if len(name) <= 120 else f"{name[:100]}…{name[-15:]}"


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
