"""Wall time of the same tasks with and without the feature store, in one run, and the memory they take.

    python benchmarks/protocol.py --root PASCAL [--extractor hub:FOLDER] [--tasks 200] [--shots 1,5] [--direct 40]

Without the store every task computes its K + 1 images, as the authors' code does; that is measured on the first
``--direct`` tasks and scaled up. *cold* begins with an empty store, *warm* finds every image in it (another method,
shot or seed on the same data).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import class_index
from repri.data.datasets.open import open_dataset
from repri.data.io.images import read_image
from repri.data.tasks.tasks import TaskList, sample_tasks
from repri.evaluation.runner import Runner, images_of, run_tasks
from repri.features import FeatureExtractor, FeatureStore, features_of
from repri.methods import build_method
from repri.models import load_extractor
from repri.protocols import get_protocol
from repri.runtime.memory import peak_memory


class NoStore(FeatureStore):
    """Computes every image each time it is asked for."""

    def get(self, path: Path) -> torch.Tensor:
        image = read_image(path)
        return features_of(self.extractor, image, self.view((image.shape[0], image.shape[1])), self.precision)


def first(tasks: TaskList, count: int) -> TaskList:
    return replace(tasks, runs=(tasks.runs[0][:count],))


def measure(
    dataset: Dataset, tasks: TaskList, extractor: FeatureExtractor, size: int | None, direct: int
) -> tuple[float, float, float, int]:
    """Seconds without the store, to fill it, and for the tasks with it; and the number of images."""
    method, clean = build_method("repri", extractor.default_preset), get_protocol("clean")
    with tempfile.TemporaryDirectory() as folder:
        plain, store = (kind(extractor, size=size, folder=Path(folder)) for kind in (NoStore, FeatureStore))
        times = [time.perf_counter()]
        run_tasks(Runner(dataset, method, plain, clean), first(tasks, direct))
        times.append(time.perf_counter())
        images = images_of(dataset, tasks)
        store.prepare(images)
        times.append(time.perf_counter())
        run_tasks(Runner(dataset, method, store, clean), tasks)
        times.append(time.perf_counter())
    without, filling, warm = (end - start for start, end in pairwise(times))
    return without * len(tasks.runs[0]) / direct, filling, warm, len(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--extractor", default="filters")
    parser.add_argument("--size", type=int)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--shots", default="1,5")
    parser.add_argument("--direct", type=int, default=40)
    parser.add_argument("--min-pixels", type=int, default=2048)
    options = parser.parse_args()
    dataset = open_dataset("pascal", options.root)
    extractor = load_extractor(options.extractor)
    print(f"{options.tasks} tasks of fold 0, {extractor.name}, {torch.get_num_threads()} threads")
    print("shots  images  without     cold  ratio     warm   ratio  peak memory")
    for shots in map(int, options.shots.split(",")):
        tasks = sample_tasks(
            dataset,
            dataset.novel(0),
            shots,
            options.tasks,
            1,
            index=class_index(dataset, options.min_pixels),
        )
        without, filling, warm, images = measure(dataset, tasks, extractor, options.size, options.direct)
        peak = peak_memory()
        cold = filling + warm
        cells = f"{without:7.1f} s {cold:6.1f} s {without / cold:5.1f}× {warm:6.1f} s {without / warm:6.1f}×"
        print(f"{shots:5}  {images:6}  {cells} {peak:8.1f} GB")


if __name__ == "__main__":
    main()
