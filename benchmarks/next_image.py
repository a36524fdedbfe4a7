"""Which image should a person annotate next? Suggestions of the web page against random choice, on PASCAL.

A simulated annotator marks the object of one image with scribbles in each of five rounds. After each round, images that
are never annotated are segmented, and their mIoU is printed. Each class is tested with the variant of the model in the
package that has seen no label of it::

    python benchmarks/next_image.py --root PASCAL
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from repri import Segmenter, load_extractor, open_dataset
from repri.data.datasets.index import class_index, class_lists
from repri.evaluation.metrics import count_pixels
from repri.segmenter.look import Look, Seen
from repri.segmenter.trial.scribbles import scribble
from repri.web.record import Record
from repri.web.suggest import suggest

ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Item:
    """One image of a class."""

    image: np.ndarray
    truth: np.ndarray
    """[H, W] uint8: 1 on the class, 255 no label."""
    seen: Seen

    @property
    def mean(self) -> Tensor:
        return self.seen.white[:, self.seen.valid].mean(1)


Strategy = Callable[[dict[str, Tensor], dict[str, float], list[str], np.random.Generator], str]


def by_suggestion(means: dict[str, Tensor], doubt: dict[str, float], done: list[str], rng: np.random.Generator) -> str:
    return suggest(means, doubt, done)[0]


def by_uncertainty(means: dict[str, Tensor], doubt: dict[str, float], done: list[str], rng: np.random.Generator) -> str:
    return max((id for id in means if id not in done), key=lambda id: doubt.get(id, 0.5))


def by_chance(means: dict[str, Tensor], doubt: dict[str, float], done: list[str], rng: np.random.Generator) -> str:
    return str(rng.choice([id for id in means if id not in done]))


STRATEGIES: dict[str, Strategy] = {"suggested": by_suggestion, "uncertainty": by_uncertainty, "random": by_chance}


def run(pool: dict[str, Item], test: list[Item], strategy: Strategy, segmenter: Segmenter, seed: int) -> list[float]:
    """IoU of the class on the test images after each round."""
    rng = np.random.default_rng(seed)
    means = {id: item.mean for id, item in pool.items()}
    done, doubt, scores = [str(rng.choice(list(pool)))], {}, []
    for _ in range(ROUNDS):
        shots = [pool[id] for id in done]
        maps = [scribble(item.truth, (seed, place)) for place, item in enumerate(shots)]
        fitted = segmenter.fit_maps(
            [item.image for item in shots], maps, ["object"], lambda place, look, shots=shots: shots[place].seen
        )
        hits = unions = 0
        for item in test:
            mask = fitted.segment_seen(item.image, item.seen).mask
            hit, union, *_ = count_pixels(_tensor(mask == 1), _tensor(item.truth))
            hits, unions = hits + hit, unions + union
        scores.append(hits / max(1, unions))
        for id, item in pool.items():
            result = fitted.segment_seen(item.image, item.seen)
            area = {"object": float((result.mask == 1).mean())}
            figures = (result.confidence, result.proportions, result.presences, area, 0.0, b"")
            doubt[id] = Record(1, "quick", *figures).uncertainty
        done.append(strategy(means, doubt, done, rng))
    return scores


def _tensor(array: np.ndarray) -> Tensor:
    import torch

    return torch.from_numpy(array)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder of PASCAL VOC")
    parser.add_argument("--classes", type=int, default=8, help="number of classes, spread over the folds")
    parser.add_argument("--pool", type=int, default=30, help="images that may be annotated, for each class")
    parser.add_argument("--test", type=int, default=20, help="images that are scored, for each class")
    parser.add_argument("--seeds", type=int, default=3, help="first images, for each class")
    args = parser.parse_args()
    data = open_dataset("pascal", args.root)
    index = class_lists(data, class_index(data))
    ids = [1 + round(place * 19 / max(1, args.classes - 1)) for place in range(args.classes)]
    table: dict[str, list[list[float]]] = {name: [] for name in STRATEGIES}
    for id in ids:
        extractor = load_extractor(f"default-fold{(id - 1) // 5}")
        look, segmenter = Look(extractor, extractor.rule.size), Segmenter(extractor, auto=False)
        items = {}
        for name in np.random.default_rng(id).permutation(index[id])[: args.pool + args.test].tolist():
            image, mask = data.pair(name)
            truth = np.where(mask == 255, 255, mask == id).astype(np.uint8)
            items[name] = Item(image, truth, look.see(image))
        names = list(items)
        pool, test = {n: items[n] for n in names[: -args.test]}, [items[n] for n in names[-args.test :]]
        for name, strategy in STRATEGIES.items():
            scores = [run(pool, test, strategy, segmenter, seed) for seed in range(args.seeds)]
            table[name].append(np.mean(scores, 0).tolist())
        line = "  ".join(f"{name} {100 * rows[-1][-1]:.1f}" for name, rows in table.items())
        print(f"{data.classes[id]:12} after {ROUNDS} rounds: {line}", flush=True)
    print(f"\nmIoU of {len(ids)} classes, {args.seeds} first images each, {args.test} test images")
    print("| images annotated |" + "".join(f" {n + 1} |" for n in range(ROUNDS)))
    print("|---|" + "---|" * ROUNDS)
    for name, rows in table.items():
        print(f"| {name} |" + "".join(f" {100 * value:.1f} |" for value in np.mean(rows, 0)))


if __name__ == "__main__":
    main()
