"""How methods learn from episodes: the mIoU of base classes against the number of episodes, mean over the runs.

python benchmarks/curves.py docs/methods-curve.png results/methods/logs/*.csv

A log is the ``log.csv`` of a run, renamed to METHOD-foldN.csv; runs of one method are averaged.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from repri.experiments.plots import new_figure

STYLES = [("o", "-"), ("s", "--"), ("^", "-."), ("D", ":")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figure", type=Path)
    parser.add_argument("logs", type=Path, nargs="+")
    args = parser.parse_args()
    runs: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
    for path in args.logs:
        with path.open() as file:
            points = [(float(row["episodes"]), float(row["base_miou"])) for row in csv.DictReader(file)]
        runs[path.stem.split("-")[0]].append(points)
    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    print("| method | runs | " + " | ".join(["first epoch", "a third", "two thirds", "last epoch", "best"]) + " |")
    print("|---|---|---|---|---|---|---|")
    for (marker, line), (method, curves) in zip(STYLES, sorted(runs.items()), strict=False):
        mean = np.mean(curves, 0)
        axes.plot(*mean.T, marker=marker, linestyle=line, markersize=4, label=method)
        last = len(mean) - 1
        shown = [mean[i, 1] for i in (0, last // 3, 2 * last // 3, last)] + [mean[:, 1].max()]
        print(f"| {method} | {len(curves)} | " + " | ".join(f"{value:.1f}" for value in shown) + " |")
    axes.set_xscale("log")
    axes.set_xlabel("episodes")
    axes.set_ylabel("mIoU of base classes in validation images, %")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(args.figure)


if __name__ == "__main__":
    main()
