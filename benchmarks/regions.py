"""Which way of choosing regions pays, and what it costs? Tasks of base classes.

    python benchmarks/regions.py cache   --root PASCAL --output CACHE [--regions MODEL] [--tasks 96] [--shots 1]
    python benchmarks/regions.py compare --output CACHE
    python benchmarks/regions.py points  --root PASCAL [--regions MODEL] [--tasks 96] [--shots 1]
    python benchmarks/regions.py speed   --root PASCAL [--regions MODEL] [--tasks 8]

Tasks are drawn from PASCAL's *training* images. Each class is segmented with the extractor of its fold, which has seen
no label of it. ``cache`` keeps for every task the probabilities of RePRI, all candidates of many prompts and the truth,
on one grid. ``compare`` then tries the ways to choose among the candidates, in seconds. It also leaves out each
fold in turn, so that the way for a fold can be chosen on classes that are not tested in it. ``points`` compares numbers
of points, their distances and powers of p at the image's own size, as the refinement works.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri import FeatureStore, build_method, load_extractor, open_dataset, sample_tasks
from repri.data.tasks.tasks import Task
from repri.evaluation.runner import Loaded, Runner
from repri.inference.labels import IGNORE, has_object
from repri.methods import Episode, Support
from repri.protocols import get_protocol
from repri.refine import get_refiner
from repri.regions.choose import LARGE, expected_iou, merged, untouched
from repri.regions.load import load_regions
from repri.regions.model import Embedding, RegionModel
from repri.regions.prompts import peaks
from repri.regions.refiner import APART, HIGH, PEAKS, SEEN, region_map
from repri.regions.store import EmbeddingStore

SIDE, COARSE = 256, 64
"""Sides of the grids on which candidates are kept and compared."""
FAR, FEW = 0.12, 6
"""Another least distance between peaks, and another number of peaks."""
TAKEN = "first peak, peak"
"""Prompts of the refinement."""


class Case(NamedTuple):
    """One task on the coarse grid."""

    fold: int
    class_id: int
    p: Tensor
    """[h, w] RePRI's probabilities, with guided borders."""
    oracle: Tensor
    """[h, w] the same with the true proportion."""
    resolved: Tensor
    """[h, w] the same with the proportion of the chosen regions."""
    own: Tensor
    """[h, w] RePRI with the query as its only shot, labelled by the chosen regions."""
    larger: Tensor
    """[h, w] RePRI on images that are 1.42 times as large."""
    truth: Tensor
    known: Tensor
    """[h, w] fraction of each cell that is the object, and that has a label."""
    masks: Tensor
    """[C, h, w] candidates."""
    kinds: np.ndarray
    """[C] kind of prompt."""
    likeness: Tensor
    """[C] cosine of the mean feature inside each candidate to the support's foreground, minus that to its
    background."""
    quality: Tensor
    """[C] IoU that the region model predicts for each candidate."""
    proportions: tuple[float, float]
    """π as RePRI estimates it, and the true one."""

    def among(self, kinds: str) -> Tensor:
        """bool [C] the candidates of some kinds of prompts."""
        return torch.from_numpy(np.isin(self.kinds, kinds.split(", ")))

    def of(self, kinds: str) -> Tensor:
        """[c, h, w] these candidates."""
        return self.masks[self.among(kinds)]


def tasks_of(root: str, count: int, shots: int = 1) -> tuple[list[Runner], list[tuple[int, Task]]]:
    """A runner for each fold, and tasks with their folds."""
    data, clean = open_dataset("pascal", root, "train"), get_protocol("clean")
    runners, lists = [], []
    for fold in range(4):
        extractor = load_extractor(f"default-fold{fold}")
        store = FeatureStore(extractor, clean.resize, precision=clean.precision)
        runners.append(Runner(data, build_method("repri", extractor.default_preset), store, clean, "guided"))
        lists.append(sample_tasks(data, data.novel(fold), shots, -(-count // 4), 1, 7, "classes").runs[0])
    return runners, [(i % 4, lists[i % 4][i // 4]) for i in range(count)]


def probabilities(runner: Runner, task: Loaded, proportion: float | None = None) -> tuple[Tensor, float | None]:
    """[H, W] with guided borders, and π."""
    prediction = runner.method.predict(replace(task.episode, proportion=proportion))
    assert task.image is not None
    full = task.truth.view.restore(torch.sigmoid(prediction.logits)[None])
    return get_refiner("guided")(full, task.image)[0], prediction.proportion


def on_grid(p: Tensor, side: int) -> Tensor:
    return F.interpolate(p[None, None], (side, side), mode="bilinear", antialias=True)[0, 0]


def cache(options: argparse.Namespace) -> None:
    runners, tasks = tasks_of(options.root, options.tasks, options.shots)
    model = load_regions(options.regions)
    store, folder = EmbeddingStore(model), Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for i, (fold, task) in enumerate(tasks):
        file = folder / f"task{i:03}.npz"
        if file.is_file():
            continue
        loaded = runners[fold].load(task)
        assert loaded.image is not None
        p, pi = probabilities(runners[fold], loaded)
        told, _ = probabilities(runners[fold], loaded, loaded.truth.proportion)
        kinds, masks, quality = candidates(model, store.get(loaded.image), on_grid(p, SIDE))
        single = masks[torch.from_numpy(np.isin(kinds, TAKEN.split(", ")))]
        regions = single[merged(single.float(), on_grid(p, SIDE))].any(0)
        again, _ = probabilities(runners[fold], loaded, min(max(float(regions.float().mean()), 1e-3), 0.99))
        mask = loaded.truth.mask
        rows, columns = (((np.arange(SIDE) + 0.5) / SIDE * n).astype(int) for n in mask.shape)
        maps = {"p": p, "oracle": told, "resolved": again}
        maps |= {"own": by_itself(runners[fold], loaded, regions, p), "larger": enlarged(runners[fold], task)}
        np.savez_compressed(
            file,
            **{name: on_grid(values, SIDE).half().numpy() for name, values in maps.items()},
            truth=mask[rows[:, None], columns],
            masks=np.packbits(masks.numpy(), axis=-1),
            kinds=kinds,
            likeness=likeness(loaded.episode, masks).numpy(),
            quality=quality.numpy(),
            about=np.array([fold, task.class_id, pi, loaded.truth.proportion]),
        )
        print(f"{i + 1} of {len(tasks)}: {len(kinds)} candidates", flush=True)


def by_itself(runner: Runner, task: Loaded, regions: Tensor, p: Tensor) -> Tensor:
    """[H, W] probabilities of RePRI whose only shot is the query itself, labelled by regions; p where they show
    nothing."""
    height, width = task.truth.mask.shape
    full = F.interpolate(regions[None, None].float(), (height, width), mode="bilinear")[0, 0] > 0.5
    labels = task.truth.view.labels(full.numpy().astype(np.uint8), "area")
    if not has_object(labels[None]).any():
        return p
    episode = replace(task.episode, support=Support([task.episode.query], [labels]))
    return probabilities(runner, task._replace(episode=episode))[0]


def enlarged(runner: Runner, task: Task) -> Tensor:
    """[H, W] probabilities of RePRI on images that are 1.42 times as large."""
    store = runner.store
    larger = FeatureStore(store.extractor, store.resize, round(1.42 * store.size), precision=store.precision)
    other = replace(runner, store=larger)
    return probabilities(other, other.load(task))[0]


def likeness(episode: Episode, masks: Tensor) -> Tensor:
    """[C] how much candidates [C, h, w] look like the support's foreground, and not like its background."""
    support, labels = episode.support.stacked
    known = (labels != IGNORE).float()
    sides = torch.stack([known * labels, known * (1 - labels)])  # [2, K, h, w]
    units = F.normalize(support.float(), dim=1)
    prototypes = F.normalize(torch.einsum("skhw,kchw->sc", sides, units), dim=1)
    query = F.normalize(episode.query.float(), dim=0)
    weights = F.interpolate(masks[None].float(), query.shape[-2:], mode="area")[0]
    means = F.normalize(torch.einsum("nhw,chw->nc", weights, query), dim=1)
    cosines = means @ prototypes.T
    return cosines[:, 0] - cosines[:, 1]


def candidates(model: RegionModel, embedding: Embedding, p: Tensor) -> tuple[np.ndarray, Tensor, Tensor]:
    """[C] kinds of prompts, bool [C, h, w] candidates and [C] their predicted IoU, for probabilities p [h, w]."""
    scale = torch.tensor([embedding.size[1] / p.shape[1], embedding.size[0] / p.shape[0]])
    points, far = ((peaks(p, *rule, HIGH).flip(-1) + 0.5) * scale for rule in ((PEAKS + 4, APART), (10, FAR)))
    box = (torch.tensor(box_of(p)).float().unflatten(0, (2, 2)) * scale).flatten()
    prompts: dict[str, dict[str, Any]] = {
        "first peak": {"points": points[:FEW, None]},
        "peak": {"points": points[FEW:PEAKS, None]},
        "lower peak": {"points": points[PEAKS:, None]},
        "far peak": {"points": far[:FEW, None]},
        "lower far peak": {"points": far[FEW:, None]},
        "peaks": {"points": points[:PEAKS]},
        "box": {"box": box},
        "box and mask": {"box": box, "mask": p},
        "peaks and mask": {"points": points[:PEAKS], "mask": p},
        "peak and box": {"points": points[:1], "box": box},
    }
    kinds, masks, quality = [], [], []
    for kind, prompt in prompts.items():
        if len(prompt.get("points", [0])) == 0:
            continue
        given = model.masks(embedding, **prompt)
        logits = given.logits.flatten(0, 1)
        masks.append(F.interpolate(logits[None], p.shape, mode="bilinear")[0] > 0)
        quality.append(given.iou.flatten())
        kinds += [kind] * len(logits)
    return np.array(kinds), torch.cat(masks), torch.cat(quality)


def box_of(p: Tensor, threshold: float = 0.5) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the cells of a map above a threshold, which is half of the maximum where no cell
    is above it."""
    inside = p > min(threshold, float(p.max()) / 2)
    rows, columns = inside.any(1).nonzero()[:, 0], inside.any(0).nonzero()[:, 0]
    if len(rows) == 0:
        return 0, 0, p.shape[1], p.shape[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def load_case(file: Path) -> Case:
    with np.load(file) as kept:
        values = {name: kept[name] for name in kept.files}
    masks = np.unpackbits(values["masks"], axis=-1).reshape(-1, SIDE, SIDE)
    maps = [values[name] for name in ("p", "oracle", "resolved", "own", "larger")]
    maps += [values["truth"] == 1, values["truth"] != 255, masks]
    coarse = [_coarse(torch.from_numpy(m)) for m in maps]
    fold, class_id, pi, true = values["about"].tolist()
    likeness, quality = (torch.from_numpy(values[name]).float() for name in ("likeness", "quality"))
    return Case(int(fold), int(class_id), *coarse, values["kinds"], likeness, quality, (pi, true))


def _coarse(maps: Tensor) -> Tensor:
    step = SIDE // COARSE
    return maps.float().unflatten(-1, (COARSE, step)).unflatten(-3, (COARSE, step)).mean((-1, -3))


Way = Callable[[Case], Tensor]


def union(kinds: str = TAKEN, power: float = 1.0) -> Way:
    """Candidates of some kinds of prompts, merged by p to a power."""

    def choose(case: Case) -> Tensor:
        masks = case.of(kinds)
        chosen = merged(masks, case.p.clamp_min(0) ** power)
        return masks[chosen].amax(0) if chosen else (case.p > 0.5).float()

    return choose


def alike(strength: float) -> Way:
    """The candidate of a peak that agrees with p and looks like the support's foreground, alone."""

    def choose(case: Case) -> Tensor:
        masks, values = case.of(TAKEN), case.likeness[case.among(TAKEN)]
        scores = expected_iou(masks, case.p) * torch.exp(strength * values) * (masks.mean((1, 2)) <= LARGE)
        return masks[int(scores.argmax())]

    return choose


def above(least: float) -> Way:
    """The union of all candidates in which p averages above a threshold."""

    def choose(case: Case) -> Tensor:
        masks = case.of(TAKEN)
        mean = (masks * case.p).sum((1, 2)) / masks.sum((1, 2)).clamp_min(1e-3)
        return masks[mean > least].amax(0) if (mean > least).any() else (case.p > 0.5).float()

    return choose


def by(other: Callable[[Case], Tensor]) -> Way:
    """Peaks merged by another map than p."""
    return lambda case: union()(case._replace(p=other(case)))


def trusted(strength: float) -> Way:
    """Candidates of peaks, merged; those count more whose IoU the region model predicts to be high."""

    def choose(case: Case) -> Tensor:
        masks = case.of(TAKEN)
        weights = case.quality[case.among(TAKEN)].clamp(0.3, 1) ** strength
        chosen = merged(masks * weights[:, None, None], case.p)
        return masks[chosen].amax(0) if chosen else (case.p > 0.5).float()

    return choose


def pooled(case: Case) -> Tensor:
    """Each cell gets the mean over its candidates of the mean p inside them, with p itself as one of them."""
    masks = case.of(TAKEN)
    mean = (masks * case.p).sum((1, 2)) / masks.sum((1, 2)).clamp_min(1e-3)
    return ((case.p + torch.tensordot(mean, masks, 1)) / (1 + masks.sum(0)) > 0.5).float()


WAYS: dict[str, Way] = {
    "RePRI, guided filter": lambda case: (case.p > 0.5).float(),
    "RePRI told the true proportion": lambda case: (case.oracle > 0.5).float(),
    "RePRI told the size of the regions": lambda case: (case.resolved > 0.5).float(),
    "the candidate with the best expected IoU": lambda case: case.masks[int(expected_iou(case.masks, case.p).argmax())],
    "union of peaks where p averages above 0.6": above(0.6),
    "union of peaks where p averages above 0.5": above(0.5),
    "p pooled over candidates": pooled,
    **{f"merged: peaks, p to the power {power}": union(power=power) for power in (0.3, 0.5, 0.7, 1.0, 1.4)},
    "merged: six peaks": union("first peak"),
    "merged: sixteen peaks": union("first peak, peak, lower peak"),
    "merged: six peaks further apart": union("far peak"),
    "merged: six peaks further apart, power 0.7": union("far peak", 0.7),
    "merged: ten peaks further apart": union("far peak, lower far peak"),
    "merged: peaks, all peaks and p in one prompt": union(f"{TAKEN}, peaks and mask"),
    "merged: all prompts": union(f"{TAKEN}, peaks, box, box and mask, peaks and mask, peak and box"),
    "merged: peaks by the re-solved p": by(lambda case: case.resolved),
    "RePRI, the query as its only shot": lambda case: (case.own > 0.5).float(),
    "merged: peaks by that": by(lambda case: case.own),
    "merged: peaks by that and p": by(lambda case: (case.own * case.p).sqrt()),
    "RePRI at 1.42 times the size": lambda case: (case.larger > 0.5).float(),
    "merged: peaks by that p": by(lambda case: case.larger),
    "merged: peaks by the mean of both sizes": by(lambda case: (case.larger + case.p) / 2),
    "merged: peaks by p and predicted IoU": trusted(0.5),
    **{f"one candidate, weight of prototypes {strength}": alike(strength) for strength in (0.0, 2.0, 5.0)},
    "the best candidate, by the truth": lambda case: case.masks[int(_iou(case, case.masks)[2].argmax())],
}


def _iou(case: Case, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    inside = torch.minimum(masks * case.known, case.truth).sum((-1, -2))
    outside = torch.maximum(masks * case.known, case.truth).sum((-1, -2))
    return inside, outside, inside / outside


def miou(cases: Sequence[Case], masks: Sequence[Tensor]) -> float:
    sums: dict[int, list[float]] = {}
    for case, mask in zip(cases, masks, strict=True):
        inside, outside, _ = _iou(case, mask)
        before = sums.setdefault(case.class_id, [0.0, 0.0])
        before[0], before[1] = before[0] + float(inside), before[1] + float(outside)
    return 100 * float(np.mean([inside / outside for inside, outside in sums.values()]))


def compare(options: argparse.Namespace) -> None:
    cases = [load_case(file) for file in sorted(Path(options.output).glob("task*.npz"))]
    print(f"{len(cases)} tasks{'':35} mIoU   without fold 0, 1, 2, 3")
    for name, way in WAYS.items():
        masks = [way(case) for case in cases]
        left = []
        for fold in range(4):
            rest = [(case, mask) for case, mask in zip(cases, masks, strict=True) if case.fold != fold]
            left.append(miou(*zip(*rest, strict=True)))
        print(f"{name:42} {miou(cases, masks):6.1f}   {'  '.join(f'{value:.1f}' for value in left)}", flush=True)
    sizes = {
        "RePRI": [c.proportions[0] for c in cases],
        "regions": [float(union()(c).mean()) for c in cases],
    }
    for name, values in sizes.items():
        error = [abs(value / case.proportions[1] - 1) for value, case in zip(values, cases, strict=True)]
        print(f"median |δ| of π, {name}: {np.median(error):.2f}")


POINTS = [
    (count, apart, power)
    for count, apart in ((6, 0.12), (10, 0.12), (12, 0.07), (16, 0.07))
    for power in (0.5, 0.7, 1.0)
]
"""Most points, their least distance, and the power of p by which candidates are merged."""


def points(options: argparse.Namespace) -> None:
    """Compare rules for points at the image's own size."""
    runners, tasks = tasks_of(options.root, options.tasks, options.shots)
    model = load_regions(options.regions)
    store = EmbeddingStore(model)
    sums: dict[str, dict[int, np.ndarray]] = {}
    folds: dict[int, int] = {}
    for i, (fold, task) in enumerate(tasks):
        loaded = runners[fold].load(task)
        assert loaded.image is not None
        p, _ = probabilities(runners[fold], loaded)
        masks = {"guided filter": p > 0.5} | by_points(model, store.get(loaded.image), p)
        truth = torch.from_numpy(loaded.truth.mask)
        known, folds[task.class_id] = truth != IGNORE, fold
        for name, mask in masks.items():
            both, either = (known & mask & (truth == 1)).sum(), (known & (mask | (truth == 1))).sum()
            before = sums.setdefault(name, {}).setdefault(task.class_id, np.zeros(2))
            before += (float(both), float(either))
        print(f"{i + 1} of {len(tasks)}", flush=True)
    print(f"{len(tasks)} tasks, points, their distance, power{'':10} mIoU   without fold 0, 1, 2, 3")
    for name, classes in sums.items():
        rows = [[s[0] / s[1] for c, s in classes.items() if folds[c] != left] for left in (-1, 0, 1, 2, 3)]
        whole, *parts = (f"{100 * np.mean(row):.1f}" for row in rows)
        print(f"{name:42} {whole:>6}   {'  '.join(parts)}")


def by_points(model: RegionModel, embedding: Embedding, p: Tensor) -> dict[str, Tensor]:
    """bool [H, W] the mask of the refinement by every rule for points."""
    names = {rule: f"{rule[0]} points, {rule[1]}, p to the power {rule[2]}" for rule in POINTS}
    if float(p.max()) <= SEEN:
        return dict.fromkeys(names.values(), p > 0.5)
    found = {}
    for apart in sorted({rule[1] for rule in POINTS}):
        places = peaks(p, max(rule[0] for rule in POINTS), apart, HIGH)
        found[apart] = model.masks(embedding, points=(places.flip(-1) + 0.5)[:, None]).logits
    masks = {}
    for (count, apart, power), name in names.items():
        logits = found[apart][:count].flatten(0, 1)
        coarse = F.interpolate(p[None, None], logits.shape[-2:], mode="area")[0, 0].clamp_min(0)
        chosen = merged((logits > 0).float(), coarse**power)
        fine = F.interpolate(logits[chosen][None], p.shape, mode="bilinear")[0] if chosen else (p - 0.5)[None]
        inside = fine.amax(0) > 0
        masks[name] = inside | untouched(p > 0.5, inside)
    return masks


def speed(options: argparse.Namespace) -> None:
    runners, tasks = tasks_of(options.root, options.tasks)
    model, spent = load_regions(options.regions), np.zeros(3)
    for fold, task in tasks:
        loaded = runners[fold].load(task)
        assert loaded.image is not None
        times = [time.process_time()]
        p, _ = probabilities(runners[fold], loaded)
        times.append(time.process_time())
        embedding = model.encode(loaded.image)
        times.append(time.process_time())
        region_map(model, embedding, p)
        spent += np.diff([*times, time.process_time()])
    fit, encoder, prompts = spent / len(tasks)
    print(
        f"CPU seconds a query: RePRI, guided filter {fit:.2f}, encoder {encoder:.2f}, prompts and choice {prompts:.2f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["cache", "compare", "points", "speed"])
    parser.add_argument("--root")
    parser.add_argument("--output")
    parser.add_argument("--regions")
    parser.add_argument("--tasks", type=int, default=96)
    parser.add_argument("--shots", type=int, default=1)
    options = parser.parse_args()
    globals()[options.what](options)


if __name__ == "__main__":
    main()
