"""``repri data get | verify | tasks | show | convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Bars

app = typer.Typer(
    help="Data sets: get and prepare, verify, draw tasks, look at them, convert annotations.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(help="pascal, coco, or a YAML file that describes your own.")]
Root = Annotated[Path | None, typer.Option(help="The data set's folder.")]
Protocol = Annotated[str, typer.Option(help="official, paper or clean (COCO's masks differ).")]
Split = Annotated[str, typer.Option(help="train, val, or a split of the YAML file.")]
Fold = Annotated[int, typer.Option(help="Whose test classes to draw.")]
Shots = Annotated[int, typer.Option(help="Support images per task.")]
Seed = Annotated[int, typer.Option(help="The same seed draws the same tasks.")]
MinPixels = Annotated[int, typer.Option(help="Of a class in an image that counts for it.")]
Sampling = Annotated[str, typer.Option(help="queries (the authors' way) or classes (evenly).")]


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="pascal (3.4 GB to fetch) or coco (20 GB).")],
    root: Annotated[Path, typer.Option(help="The folder to fill.")],
    mirror: Annotated[str | None, typer.Option(help="Take the archives from this URL instead.")] = None,
    train_list: Annotated[Path | None, typer.Option(help="pascal: your own list, lines `image mask`.")] = None,
    val_list: Annotated[Path | None, typer.Option(help="pascal: likewise.")] = None,
    keep_archives: Annotated[bool, typer.Option(help="Keep the archives after unpacking.")] = False,
) -> None:
    """Download from the publishers, check, unpack, prepare masks and lists. Run again to go on."""
    from repri.data.fetch.get import get_coco, get_pascal

    if name not in ("pascal", "coco"):
        raise ValueError(f"only pascal and coco can be fetched, not {name!r}")
    lists = {split: path for split, path in (("train", train_list), ("val", val_list)) if path}
    if name == "coco" and lists:
        raise ValueError("COCO's lists follow from its annotations: --train-list and --val-list are for pascal")
    with Bars() as bars:
        if name == "pascal":
            get_pascal(root, bars.show, mirror=mirror, lists=lists, keep_archives=keep_archives)
        else:
            get_coco(root, bars.show, mirror=mirror, keep_archives=keep_archives)
    typer.echo(f"{name} is ready in {root}; check it with: repri data verify {name} --root {root}")


@app.command()
def verify(
    name: Name,
    root: Root = None,
    protocol: Protocol = "clean",
    strict: Annotated[bool, typer.Option(help="Also fail if the numbers are not the standard ones.")] = False,
) -> None:
    """Open every image and mask, name each that is wrong, count the classes. Exit code 1: not usable."""
    from repri.data.datasets.open import open_dataset, splits_of
    from repri.data.datasets.verify import doubled_images, verify

    found, opened = [], []
    with Bars() as bars:
        for split in splits_of(name):
            dataset = open_dataset(name, root, split, _protocol(protocol))
            opened.append(dataset)
            found.append(verify(dataset, progress=lambda *p, s=split: bars.show(f"open {s}", *p)))
    problems = [problem for result in found for problem in result.problems]
    doubled = doubled_images(opened)
    if name in ("pascal", "coco"):
        problems += doubled
    elif doubled:
        typer.echo(f"Note: {len(doubled)} images are in two splits, {doubled[0].split(': ')[0]} among them.")
    for problem in problems:
        typer.echo(problem)
    for result in found:
        _print_counts(result)
    standard = all(result.standard for result in found)
    if not standard:
        typer.echo("The numbers are not those of the standard lists: results on it are not comparable with theirs.")
    typer.echo("Usable." if not problems else f"Not usable: {len(problems)} problem{'s' * (len(problems) > 1)}.")
    if problems or (strict and not standard):
        raise typer.Exit(1)


def _print_counts(result) -> None:
    """A table: fold, class, images with enough of it, expected."""
    dataset = result.dataset
    expected = "" if result.expected_images is None else f" (standard: {result.expected_images})"
    typer.echo(f"\n{dataset.name} {dataset.split}: {len(dataset)} images{expected}")
    source = "by the lists it brings" if dataset.class_files is not None else "counted"
    typer.echo(f"fold  class                 images with ≥ 2048 pixels of it, {source}")
    for fold, ids in enumerate(dataset.folds):
        for id in ids:
            want = result.expected_counts and result.expected_counts[id]
            note = "" if want is None else "  as expected" if want == result.counts[id] else f"  expected {want}"
            typer.echo(f"{fold:4}  {dataset.classes[id][:20]:20} {result.counts[id]:7}{note}")


def _protocol(name: str):
    if name not in ("official", "paper", "clean"):
        raise ValueError(f"no protocol named {name!r}; known: official, paper, clean")
    return name


def _tasks(name, root, split, protocol, fold, shots, tasks, runs, seed, sampling, min_pixels):
    """The data set and the tasks drawn from it."""
    from repri.data.datasets.index import class_index
    from repri.data.datasets.open import open_dataset
    from repri.data.tasks.tasks import sample_tasks

    dataset = open_dataset(name, root, split, _protocol(protocol))
    novel = dataset.novel(fold)
    with Bars() as bars:
        index = class_index(dataset, progress=lambda *p: bars.show("count classes", *p))
    return dataset, sample_tasks(dataset, novel, shots, tasks, runs, seed, sampling, min_pixels, index)


@app.command()
def tasks(
    name: Name,
    output: Annotated[Path, typer.Option(help="The JSON file to write.")],
    root: Root = None,
    split: Split = "val",
    protocol: Protocol = "clean",
    fold: Fold = 0,
    shots: Shots = 1,
    tasks: Annotated[int, typer.Option(help="Tasks per run.")] = 1000,
    runs: Annotated[int, typer.Option(help="Runs.")] = 5,
    seed: Seed = 0,
    sampling: Sampling = "queries",
    min_pixels: MinPixels = 2048,
) -> None:
    """Draw tasks and save them, to be shipped and evaluated anywhere."""
    from repri.data.tasks.tasks import save_tasks

    _, drawn = _tasks(name, root, split, protocol, fold, shots, tasks, runs, seed, sampling, min_pixels)
    save_tasks(drawn, output)
    typer.echo(f"{runs} × {tasks} tasks, {shots} shots, hash {drawn.hash}: {output}")


@app.command()
def show(
    name: Name,
    output: Annotated[Path, typer.Option(help="The picture to write.")] = Path("tasks.png"),
    root: Root = None,
    split: Split = "val",
    protocol: Protocol = "clean",
    fold: Fold = 0,
    shots: Shots = 3,
    tasks: Annotated[int, typer.Option(help="Rows.")] = 8,
    seed: Seed = 0,
    sampling: Sampling = "classes",
    min_pixels: MinPixels = 2048,
) -> None:
    """Draw tasks as a contact sheet: support with masks, query with its truth."""
    from repri.data.tasks.show import task_sheet

    if output.suffix.lower() not in (".png", ".jpg"):
        raise ValueError(f"--output must be a file name ending in .png or .jpg, got {str(output)!r}")
    dataset, drawn = _tasks(name, root, split, protocol, fold, shots, tasks, 1, seed, sampling, min_pixels)
    task_sheet(dataset, drawn.runs[0], output)
    typer.echo(f"{tasks} tasks of fold {fold}: {output}")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Annotations in any of the formats: a folder or a JSON file.")],
    target: Annotated[Path, typer.Argument(help="The folder or JSON file to write.")],
    to: Annotated[str, typer.Option(help="folder, voc, coco, labelme or label-studio.")],
    of: Annotated[str | None, typer.Option("--from", help="The source's format, if it is not recognised.")] = None,
    images: Annotated[Path | None, typer.Option(help="Where the pictures are, if not beside the source.")] = None,
) -> None:
    """Convert annotations: COCO, VOC and CVAT masks, LabelMe, Label Studio, images/ + masks/."""
    from repri.data.io.formats import read_annotated, write_annotated

    annotations = read_annotated(source, of, images)
    write_annotated(annotations, target, to)
    typer.echo(f"{len(annotations)} images, {len(annotations.classes)} classes: {target}")
