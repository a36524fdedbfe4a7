"""``repri data get | verify | tasks | show | convert``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.runtime.errors import RepriError

from .common import Bars

if TYPE_CHECKING:
    from repri.data.datasets.dataset import Dataset
    from repri.data.datasets.verify import Verification
    from repri.data.tasks.tasks import TaskList

app = typer.Typer(
    help="Data sets: get and prepare them, verify them, draw tasks, show tasks, convert annotations.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(help="pascal, coco, scenes, or a YAML file that describes your own data set.")]
Root = Annotated[Path | None, typer.Option(help="Folder of the data set.")]
Protocol = Annotated[str, typer.Option(help="official, paper or clean: decides how COCO's masks are drawn.")]
Split = Annotated[str, typer.Option(help="train, val, or another split of the YAML file.")]
Fold = Annotated[int, typer.Option(help="Fold whose test classes the tasks are drawn from.")]
Shots = Annotated[int, typer.Option(help="Number of support images in each task.")]
Seed = Annotated[int, typer.Option(help="Seed of the draw: the same seed gives the same tasks.")]
MinPixels = Annotated[int, typer.Option(help="Pixels of a class that an image needs to count for the class.")]
Sampling = Annotated[
    str, typer.Option(help="queries: go through the images, as the authors do; classes: draw the class evenly.")
]


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="pascal (3.4 GB to fetch) or coco (20 GB).")],
    root: Annotated[Path, typer.Option(help="Folder to fill.")],
    mirror: Annotated[
        str | None, typer.Option(help="URL of a folder with the same archives, to use instead of the publishers.")
    ] = None,
    train_list: Annotated[
        Path | None, typer.Option(help="pascal: your own list of training images, with lines `image mask`.")
    ] = None,
    val_list: Annotated[
        Path | None, typer.Option(help="pascal: your own list of validation images, with lines `image mask`.")
    ] = None,
    keep_archives: Annotated[bool, typer.Option(help="Keep the archives after they are unpacked.")] = False,
) -> None:
    """Download a data set from its publishers, check it, unpack it, prepare masks and lists.

    If the command is interrupted, run it again to go on.
    """
    from repri.data.fetch import Downloads, get_coco, get_pascal

    lists = {split: path for split, path in (("train", train_list), ("val", val_list)) if path}
    if name not in ("pascal", "coco"):
        raise RepriError(f"only pascal and coco can be fetched, not {name!r}")
    if name == "coco" and lists:
        raise RepriError("COCO's lists follow from its annotations: --train-list and --val-list are for pascal")
    with Bars() as bars:
        downloads = Downloads(root, bars.show, mirror)
        if name == "pascal":
            get_pascal(downloads, lists, keep_archives)
        else:
            get_coco(downloads, keep_archives)
    typer.echo(f"{name} is ready in {root}; check it with: repri data verify {name} --root {root}")


@app.command()
def verify(
    name: Name,
    root: Root = None,
    protocol: Protocol = "clean",
    strict: Annotated[bool, typer.Option(help="Also fail if the numbers are not those of the standard lists.")] = False,
) -> None:
    """Open every image and mask, name each one that is wrong, and count the classes.

    The exit code is 1 if the data set is not usable.
    """
    from repri.data.datasets.known import KNOWN
    from repri.data.datasets.open import open_dataset, splits_of
    from repri.data.datasets.verify import doubled_images, verify

    results = []
    with Bars() as bars:
        for split in splits_of(name):
            dataset = open_dataset(name, root, split, protocol)
            results.append(verify(dataset, progress=lambda *p, s=split: bars.show(f"open {s}", *p)))
    problems = [problem for result in results for problem in result.problems]
    doubled = doubled_images([result.dataset for result in results])
    if name in KNOWN:
        problems += doubled
    elif doubled:
        typer.echo(f"Note: {len(doubled)} images are in two splits, {doubled[0].split(': ')[0]} among them.")
    for problem in problems:
        typer.echo(problem)
    for result in results:
        _print_counts(result)
    standard = all(result.standard for result in results)
    if not standard:
        typer.echo("The numbers are not those of the standard lists: results on it are not comparable with theirs.")
    typer.echo("Usable." if not problems else f"Not usable: {len(problems)} problem{'s' * (len(problems) > 1)}.")
    if problems or (strict and not standard):
        raise typer.Exit(1)


def _print_counts(result: Verification) -> None:
    """Print a table of each fold's classes and the number of images with enough of each."""
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


@dataclass(frozen=True)
class _Draw:
    """The options of the commands that draw tasks."""

    name: str
    root: Path | None
    split: str
    protocol: str
    fold: int
    shots: int
    tasks: int
    runs: int
    seed: int
    sampling: Any
    min_pixels: int

    def run(self) -> tuple[Dataset, TaskList]:
        """Open the data set and draw the tasks."""
        from repri.data.datasets.index import class_index
        from repri.data.datasets.open import open_dataset
        from repri.data.tasks.tasks import sample_tasks

        dataset = open_dataset(self.name, self.root, self.split, self.protocol)
        novel = dataset.novel(self.fold)
        with Bars() as bars:
            index = class_index(dataset, self.min_pixels, progress=lambda *p: bars.show("count classes", *p))
        how = (self.shots, self.tasks, self.runs, self.seed, self.sampling)
        return dataset, sample_tasks(dataset, novel, *how, index=index)


@app.command()
def tasks(
    name: Name,
    output: Annotated[Path, typer.Option(help="JSON file to write.")],
    root: Root = None,
    split: Split = "val",
    protocol: Protocol = "clean",
    fold: Fold = 0,
    shots: Shots = 1,
    tasks: Annotated[int, typer.Option(help="Number of tasks in each run.")] = 1000,
    runs: Annotated[int, typer.Option(help="Number of runs.")] = 5,
    seed: Seed = 0,
    sampling: Sampling = "queries",
    min_pixels: MinPixels = 2048,
) -> None:
    """Draw tasks and save them, so that others can evaluate on the same ones."""
    from repri.data.tasks.tasks import save_tasks

    draw = _Draw(name, root, split, protocol, fold, shots, tasks, runs, seed, sampling, min_pixels)
    _, drawn = draw.run()
    save_tasks(drawn, output)
    typer.echo(f"{runs} × {tasks} tasks, {shots} shots, hash {drawn.hash}: {output}")


@app.command()
def show(
    name: Name,
    output: Annotated[Path, typer.Option(help="Image file to write, .png or .jpg.")] = Path("tasks.png"),
    root: Root = None,
    split: Split = "val",
    protocol: Protocol = "clean",
    fold: Fold = 0,
    shots: Shots = 3,
    tasks: Annotated[int, typer.Option(help="Number of tasks, each of which is a row.")] = 8,
    seed: Seed = 0,
    sampling: Sampling = "classes",
    min_pixels: MinPixels = 2048,
) -> None:
    """Draw tasks as a contact sheet: the support with its masks, then the query with its mask."""
    from repri.data.tasks.sheet import task_sheet

    if output.suffix.lower() not in (".png", ".jpg"):
        raise RepriError(f"--output must be a file name ending in .png or .jpg, got {str(output)!r}")
    dataset, drawn = _Draw(name, root, split, protocol, fold, shots, tasks, 1, seed, sampling, min_pixels).run()
    task_sheet(dataset, drawn.runs[0], output)
    typer.echo(f"{tasks} tasks of fold {fold}: {output}")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Annotations in any of the formats: a folder or a JSON file.")],
    target: Annotated[Path, typer.Argument(help="Folder or JSON file to write.")],
    to: Annotated[str, typer.Option(help="Format to write: folder, voc, coco, labelme or label-studio.")],
    of: Annotated[str | None, typer.Option("--from", help="Format of the source, if it is not recognised.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the images, if they are not beside the source.")
    ] = None,
    polygons: Annotated[bool, typer.Option(help="coco: write polygons, which can be edited, instead of RLE.")] = False,
) -> None:
    """Convert annotations between COCO, VOC and CVAT masks, LabelMe, Label Studio, and images/ + masks/."""
    from repri.data.io.formats import read_annotated, write_annotated

    annotations = read_annotated(source, of, images)
    write_annotated(annotations, target, to, **({"polygons": True} if polygons else {}))
    typer.echo(f"{len(annotations)} images, {len(annotations.classes)} classes: {target}")
