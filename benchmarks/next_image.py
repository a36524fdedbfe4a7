"""Which image should a person annotate next? Suggestions of the web page against random choice, on PASCAL.

A simulated annotator marks one image with scribbles in each of five rounds. After each round, images that are never
annotated are segmented, and the IoU of the class is computed. Each class is tested with the variant of the model in the
package that has seen no label of it. Borders are not refined, which is quicker::

    python benchmarks/next_image.py --root PASCAL --output results/page/next-image.json
    python benchmarks/next_image.py --root PASCAL --output results/page/next-image-mixed.json --mixed
    python benchmarks/next_image.py --draw docs/next-image.png results/page/*.json

With ``--mixed``, half of the images do not show the class; the first image always does. A run that was ended goes on
where it was. The rule was chosen on training images (``--split train``).
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repri import Fitted, Segmenter, load_extractor, open_dataset
from repri.data.datasets.index import class_index, class_lists
from repri.evaluation.metrics import count_pixels
from repri.runtime.files import atomic
from repri.segmenter.look import Look, Seen
from repri.segmenter.trial.scribbles import scribble
from repri.web.suggest import Summary, suggest, summary_of

ROUNDS = 5
TITLES = {"suggested": "proposed by the page", "uncertainty": "most uncertain", "random": "chance"}


@dataclass(frozen=True, eq=False)
class Item:
    """One image of a class."""

    name: str
    image: np.ndarray
    truth: np.ndarray
    """[H, W] uint8: 1 on the class, 255 no label."""
    seen: Seen

    @cached_property
    def marks(self) -> np.ndarray:
        """What the annotator draws on it."""
        return scribble(self.truth, zlib.crc32(self.name.encode()))

    def summary(self, fitted: Fitted) -> Summary:
        (probability,) = fitted.segment_seen(self.image, self.seen).probabilities.values()
        return summary_of(self.seen, [(probability * 255).round().astype(np.uint8)])


Strategy = Callable[[dict[str, Summary], list[str], np.random.Generator], str]
STRATEGIES: dict[str, Strategy] = {
    "suggested": lambda known, done, rng: suggest(known, done)[0],
    "uncertainty": lambda known, done, rng: max((id for id in known if id not in done), key=lambda id: known[id].doubt),
    "random": lambda known, done, rng: str(rng.choice([id for id in known if id not in done])),
}


class Study:
    """The rounds of one class.

    Args:
        pool: Images that may be annotated, by name.
        test: Images that are scored.
        segmenter: Segments them.
    """

    def __init__(self, pool: dict[str, Item], test: list[Item], segmenter: Segmenter):
        self.pool, self.test, self.segmenter = pool, test, segmenter
        self._scores: dict[tuple[str, ...], float] = {}
        self._known: dict[tuple[str, ...], dict[str, Summary]] = {}

    def run(self, name: str, seed: int) -> list[float]:
        """IoU of the class after each round."""
        rng = np.random.default_rng(seed)
        shown = [id for id, item in self.pool.items() if (item.truth == 1).any()]
        done, scores = [str(rng.choice(shown))], []
        for left in reversed(range(ROUNDS)):
            key = tuple(done)
            if key not in self._scores:
                self._scores[key] = self._score(self._fit(done))
            scores.append(self._scores[key])
            if left:
                done.append(STRATEGIES[name](self._summaries(key, name), done, rng))
        return scores

    def _fit(self, done: list[str] | tuple[str, ...]) -> Fitted:
        shots = [self.pool[id] for id in done]
        images, marks = [item.image for item in shots], [item.marks for item in shots]
        return self.segmenter.fit_maps(images, marks, ["object"], lambda place, look: shots[place].seen)

    def _score(self, fitted: Fitted) -> float:
        hits = unions = 0
        for item in self.test:
            mask = fitted.segment_seen(item.image, item.seen).mask == 1
            hit, union, *_ = count_pixels(torch.from_numpy(mask), torch.from_numpy(item.truth))
            hits, unions = hits + hit, unions + union
        return float(hits / max(1, unions))

    def _summaries(self, key: tuple[str, ...], name: str) -> dict[str, Summary]:
        if name == "random":  # it looks at nothing
            return {id: Summary(torch.zeros(1), 0.0) for id in self.pool}
        if key not in self._known:
            fitted = self._fit(key)
            self._known[key] = {id: item.summary(fitted) for id, item in self.pool.items()}
        return self._known[key]


def study_of(data: Any, index: Mapping[int, Sequence[str]], label: int, args: argparse.Namespace) -> Study:
    """The images of one class."""
    extractor = load_extractor(f"default-fold{(label - 1) // 5}")
    look, rng = Look(extractor, extractor.rule.size), np.random.default_rng(label)
    count = args.pool + args.test
    names = rng.permutation(index[label]).tolist()
    if args.mixed:
        others = sorted({name for lists in index.values() for name in lists} - set(index[label]))
        names = [name for pair in zip(names, rng.permutation(others).tolist(), strict=False) for name in pair]
    items = []
    for name in names[:count]:
        image, mask = data.pair(name)
        truth = np.where(mask == 255, 255, mask == label).astype(np.uint8)
        items.append(Item(name, image, truth, look.see(image)))
    pool = {item.name: item for item in items[: -args.test]}
    return Study(pool, items[-args.test :], Segmenter(extractor, auto=False, refine="none"))


def measure(args: argparse.Namespace) -> None:
    """Run all classes and keep each of them in the file."""
    torch.set_num_threads(1)
    settings = {key: getattr(args, key) for key in ("split", "pool", "test", "seeds", "mixed")}
    content: dict[str, Any] = {"settings": settings, "classes": {}}
    if args.output.is_file():
        content = json.loads(args.output.read_text())
        if content["settings"] != settings:
            raise SystemExit(f"{args.output} has other settings: {content['settings']}")
    data = open_dataset("pascal", args.root, split=args.split)
    index = class_lists(data, class_index(data))
    for label in [1 + (7 * n) % 20 for n in range(args.classes)]:  # the folds in turn
        if data.classes[label] in content["classes"]:
            continue
        study = study_of(data, index, label, args)
        content["classes"][data.classes[label]] = {
            name: [study.run(name, seed) for seed in range(args.seeds)] for name in STRATEGIES
        }
        with atomic(args.output) as temporary:
            temporary.write_text(json.dumps(content, indent=1))
        print(f"{data.classes[label]:12}", end="")
        print("  ".join(f"{name} {100 * curve[-1]:.1f}" for name, curve in curves(content, -1).items()), flush=True)


def curves(content: dict[str, Any], place: int | None = None) -> dict[str, np.ndarray]:
    """Strategy → [rounds] mIoU, or the IoU of one class."""
    classes = list(content["classes"].values())
    chosen = classes if place is None else [classes[place]]
    return {name: np.mean([np.mean(item[name], 0) for item in chosen], 0) for name in STRATEGIES}


def gains(content: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Differences to chance [rounds] and half the width of their 95 % intervals, over classes."""
    rows = np.array([np.mean(item[name], 0) - np.mean(item["random"], 0) for item in content["classes"].values()])
    rng = np.random.default_rng(0)
    means = rows[rng.integers(len(rows), size=(10_000, len(rows)))].mean(1)
    return rows.mean(0), np.diff(np.percentile(means, [2.5, 97.5], axis=0), axis=0)[0] / 2


def table(content: dict[str, Any]) -> None:
    """Print the curves and the differences."""
    settings, classes = content["settings"], len(content["classes"])
    print(f"\nmIoU of {classes} classes, {settings}")
    print("| images annotated |" + "".join(f" {n + 1} |" for n in range(ROUNDS)))
    print("|---|" + "---|" * ROUNDS)
    for name, curve in curves(content).items():
        print(f"| {TITLES[name]} |" + "".join(f" {100 * value:.1f} |" for value in curve))
    for name in ("suggested", "uncertainty"):
        mean, half = gains(content, name)
        cells = "".join(f" {100 * m:+.1f} ± {100 * h:.1f} |" for m, h in zip(mean, half, strict=True))
        print(f"| {TITLES[name]} − chance |{cells}")
        later = {kind: [np.mean(c[kind], 0)[1:].mean() for c in content["classes"].values()] for kind in STRATEGIES}
        rows = 100 * (np.array(later[name]) - later["random"])
        half = 1.96 * np.std(rows, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else float("nan")
        better = int((rows > 0).sum())
        print(f"  images 2 to {ROUNDS} together: {rows.mean():+.2f} ± {half:.2f}, better in {better} classes")


def draw(path: Path, files: list[Path]) -> None:
    """One panel for each file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(files), 3.2), layout="constrained")
    rounds = np.arange(1, ROUNDS + 1)
    styles = {"suggested": ("#3d4ec6", "o-"), "uncertainty": ("#b25e09", "s:"), "random": ("#565e70", "^--")}
    for place, file in enumerate(files):
        content = json.loads(file.read_text())
        axes = figure.add_subplot(1, len(files), place + 1)
        for name, curve in curves(content).items():
            colour, style = styles[name]
            axes.plot(rounds, 100 * curve, style, color=colour, label=TITLES[name], markersize=4)
            if name == "suggested":
                half = gains(content, name)[1]
                axes.fill_between(rounds, 100 * (curve - half), 100 * (curve + half), color=colour, alpha=0.15, lw=0)
        mixed = content["settings"]["mixed"]
        axes.set_title("half of the images show the class" if mixed else "all images show the class", fontsize=10)
        axes.set(xlabel="images annotated", ylabel="mIoU (%)", xticks=rounds)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=9)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="results to print, or to draw with --draw")
    parser.add_argument("--root", type=Path, help="folder of PASCAL VOC")
    parser.add_argument("--output", type=Path, help="file of the results")
    parser.add_argument("--draw", type=Path, help="draw the files into this image")
    parser.add_argument("--split", default="val")
    parser.add_argument("--classes", type=int, default=20, help="number of classes, spread over the folds")
    parser.add_argument("--pool", type=int, default=30, help="images that may be annotated, for each class")
    parser.add_argument("--test", type=int, default=20, help="images that are scored, for each class")
    parser.add_argument("--seeds", type=int, default=3, help="first images, for each class")
    parser.add_argument("--mixed", action="store_true", help="half of the images do not show the class")
    args = parser.parse_args()
    if args.root and args.output:
        measure(args)
    for file in [*args.files, *([args.output] if args.output else [])]:
        table(json.loads(file.read_text()))
    if args.draw:
        draw(args.draw, args.files)


if __name__ == "__main__":
    main()
