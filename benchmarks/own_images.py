"""What the segmenter's options gain and cost, on PASCAL's validation images.

python benchmarks/own_images.py masks    --root data/pascal    borders, mirror image, scales, tiles
python benchmarks/own_images.py weak     --root data/pascal    boxes and scribbles instead of masks
python benchmarks/own_images.py classes  --root data/pascal    several classes: one classifier or one each
python benchmarks/own_images.py presence --root data/pascal    is the object there at all? calibration and check
python benchmarks/own_images.py auto     --root data/pascal    what the support chooses, against the default, paired
python benchmarks/own_images.py speed    --root data/pascal    against the bare extractor; memory over 1000 images

Tasks are drawn evenly over the 20 classes, the same for every row, each class with the extractor of its fold, which has
seen no label of it. mIoU is ΣI/ΣU per class, mean over classes;
boundary F is the mean over tasks of the F-measure of border pixels within 0.75 % of the diagonal, the true border taken
in the middle of VOC's void band.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from repri import FeatureExtractor, Segmenter, load_extractor, open_dataset
from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import class_index, class_lists
from repri.data.io.annotations import AnnotatedImage, Shape
from repri.evaluation.borders import boundary_f, outlined
from repri.runtime.memory import peak_memory
from repri.segmenter.presence import presence_of

IGNORE = 255
Extractors = dict[int, FeatureExtractor]
"""By class."""


class Case(NamedTuple):
    """Support images with masks of one class, and a query."""

    id: int
    images: list[np.ndarray]
    masks: list[np.ndarray]
    query: np.ndarray
    truth: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["masks", "weak", "classes", "presence", "auto", "speed"])
    parser.add_argument("--root", required=True)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--extractor", default="default-fold{fold}")
    parser.add_argument("--scribbles", action="store_true", help="auto: scribbles in the support instead of masks")
    options = parser.parse_args()
    data = open_dataset("pascal", options.root, "val")
    load = cache(load_extractor)
    by_fold = [load(options.extractor.replace("{fold}", str(fold))) for fold in range(len(data.folds))]
    extractors = {c: by_fold[fold] for fold in range(len(data.folds)) for c in data.novel(fold)}
    globals()[f"show_{options.what}"](data, extractors, options)


def cases(data: Dataset, count: int, shots: int, seed: int = 0) -> Iterator[Case]:
    lists = class_lists(data, class_index(data))
    classes = sorted(lists)
    draw = random.Random(seed)
    for i in range(count):
        c = classes[i % len(classes)]
        ids = draw.sample(lists[c], shots + 1)
        loaded = [data.pair(id) for id in ids]
        masks = [np.where(mask == IGNORE, IGNORE, mask == c).astype(np.uint8) for _, mask in loaded]
        yield Case(c, [image for image, _ in loaded[:-1]], masks[:-1], loaded[-1][0], masks[-1])


def score(made: list[Case], predict: Callable[[Case], np.ndarray]) -> tuple[float, float, float]:
    """mIoU, boundary F, seconds per task."""
    inside, union, borders = {}, {}, []
    start = time.perf_counter()
    masks = [predict(case) for case in made]
    seconds = (time.perf_counter() - start) / len(made)
    for case, mask in zip(made, masks, strict=True):
        known = case.truth != IGNORE
        a, b = (mask == 1) & known, (case.truth == 1) & known
        inside[case.id] = inside.get(case.id, 0) + int((a & b).sum())
        union[case.id] = union.get(case.id, 0) + int((a | b).sum())
        borders.append(boundary_f(torch.from_numpy(mask == 1), outlined(torch.from_numpy(case.truth))))
    return 100 * float(np.mean([inside[c] / union[c] for c in union])), 100 * float(np.mean(borders)), seconds


def segmenters(extractors: Extractors, auto: bool = False, **options) -> dict[int, Segmenter]:
    """By class; the same object for classes that share an extractor."""
    made = {id(extractor): Segmenter(extractor, auto=auto, **options) for extractor in extractors.values()}
    return {c: made[id(extractor)] for c, extractor in extractors.items()}


def one_class(extractors: Extractors, **options) -> Callable[[Case], np.ndarray]:
    of = segmenters(extractors, **options)
    return lambda case: of[case.id].fit_maps(case.images, case.masks, ("object",)).segment(case.query).mask


def show_auto(data: Dataset, extractors: Extractors, options) -> None:
    """mIoU with settings from the support and without, and a 95 % interval of the difference, by a bootstrap over
    tasks."""
    plain, auto = segmenters(extractors), segmenters(extractors, auto=True)
    rows, chosen = [], 0
    for case in cases(data, options.tasks, options.shots, seed=options.shots):
        known, truth = case.truth != IGNORE, case.truth == 1
        maps = [scribbled(mask) for mask in case.masks] if options.scribbles else case.masks
        fitted = [s[case.id].fit_maps(case.images, maps, ("object",)) for s in (plain, auto)]
        masks = [(f.segment(case.query).mask == 1) & known for f in fitted]
        rows.append([case.id, *((int((m & truth).sum()), int((m | truth).sum())) for m in masks)])
        if not np.array_equal(*masks):
            before, after = (100 * inside / max(union, 1) for inside, union in rows[-1][1:])
            print(f"{data.classes[case.id]}: IoU {before:.0f} → {after:.0f}. {fitted[1].choice}", flush=True)
            chosen += 1
    ids = np.array([row[0] for row in rows])
    counts = np.array([row[1:] for row in rows], float)  # [tasks, 2, 2]

    def miou(places: np.ndarray) -> np.ndarray:
        sums = [counts[places][ids[places] == c].sum(0) for c in np.unique(ids[places])]
        return 100 * np.mean([s[:, 0] / s[:, 1].clip(1) for s in sums], 0)

    draw = np.random.default_rng(0)
    differences = [np.diff(miou(draw.integers(0, len(rows), len(rows))))[0] for _ in range(1000)]
    low, high = np.percentile(differences, [2.5, 97.5])
    before, after = miou(np.arange(len(rows)))
    print(f"{len(rows)} tasks, {options.shots} shots: {before:.2f} without, {after:.2f} with settings from the support")
    print(f"difference {after - before:+.2f} ({low:+.2f} … {high:+.2f}); another mask in {chosen} tasks")


def show_masks(data: Dataset, extractors: Extractors, options) -> None:
    made = list(cases(data, options.tasks, options.shots))
    rows = {
        "feature grid, bilinear": {"refine": "none"},
        "guided filter": {"refine": "guided"},
        "mirror image": {"refine": "none", "mirror": True},
        "scales 0.8, 1, 1.25": {"refine": "none", "scales": (0.8, 1.0, 1.25)},
        "two shifts": {"refine": "none", "shifts": 2},
        "guided filter, two shifts": {"refine": "guided", "shifts": 2},
        "tiles of 300 pixels": {"refine": "none", "tile": 300},
        "guided filter, mirror image": {"refine": "guided", "mirror": True},
        "guided filter, mirror image, scales": {"refine": "guided", "mirror": True, "scales": (0.8, 1.0, 1.25)},
    }
    print(f"{options.tasks} tasks, {options.shots}-shot{'':18} mIoU  boundary F  time")
    first = None
    for name, kind in rows.items():
        miou, border, seconds = score(made, one_class(extractors, **kind))
        first = first or seconds
        print(f"{name:36} {miou:6.1f} {border:8.1f} {seconds / first:8.2f}×", flush=True)


def show_weak(data: Dataset, extractors: Extractors, options) -> None:
    made = list(cases(data, options.tasks, options.shots))
    of = segmenters(extractors)

    def fit(case: Case, draw: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        fitted = of[case.id].fit_maps(case.images, [draw(mask) for mask in case.masks], ("object",))
        return fitted.segment(case.query).mask

    rows: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "mask": lambda mask: mask,
        "box": lambda mask: boxed(mask, hard=False),
        "box taken as a mask": lambda mask: boxed(mask, hard=True),
        "scribbles": scribbled,
    }
    print(f"{options.tasks} tasks, {options.shots}-shot{'':6} mIoU  boundary F")
    for name, draw in rows.items():
        miou, border, _ = score(made, lambda case, draw=draw: fit(case, draw))
        print(f"{name:24} {miou:6.1f} {border:8.1f}", flush=True)


def boxed(mask: np.ndarray, hard: bool) -> np.ndarray:
    """The box around the object: with the prior of a box inside, or all of it."""
    rows, columns = (np.nonzero((mask == 1).any(axis))[0] for axis in (1, 0))
    corners = ((float(columns[0]), float(rows[0])), (float(columns[-1] + 1), float(rows[-1] + 1)))
    drawn = AnnotatedImage(Path("drawn"), *mask.shape, (Shape("object", "box", corners),))
    return drawn.ids({"object": 1}) if hard else drawn.support("object")


def scribbled(mask: np.ndarray) -> np.ndarray:
    """A stroke along the middle of the object and one outside, 5 pixels wide; all else unknown."""
    out = np.full(mask.shape, IGNORE, np.uint8)
    for value in (0, 1):
        region = torch.from_numpy(mask == value)[None, None].float()
        while True:  # what is left of the region before it vanishes
            thinner = 1 - F.max_pool2d(1 - region, 5, 1, 2)
            if thinner.sum() < 0.1 * (mask == value).sum():
                break
            region = thinner
        core = region[0, 0].bool().numpy()
        columns = np.nonzero(core.any(0))[0]
        points = tuple(
            (float(x), float(np.nonzero(core[:, x])[0].mean())) for x in columns[:: max(1, len(columns) // 12)]
        )
        stroke = Shape("object", "scribble", points).region(*mask.shape) & (mask == value)
        out[stroke] = value
    if not (out == 1).any():
        out[mask == 1] = 1
    return out


def show_classes(data: Dataset, extractors: Extractors, options) -> None:
    """Two and three classes of one fold at once, in images that show at least one of them."""
    lists = class_lists(data, class_index(data))
    joint, each = segmenters(extractors), segmenters(extractors, joint=False)
    for ways in (2, 3):
        draw = random.Random(ways)
        scores: dict[str, dict[int, list[int]]] = {"one classifier": {}, "one each": {}}
        seconds = dict.fromkeys(scores, 0.0)
        for i in range(options.tasks):
            chosen = draw.sample(data.novel(i % len(data.folds)), ways)
            query = draw.choice(lists[chosen[i % ways]])
            support = [draw.sample([id for id in lists[c] if id != query], options.shots) for c in chosen]
            table = np.zeros(256, np.uint8)
            table[chosen], table[IGNORE] = np.arange(1, ways + 1), IGNORE
            loaded = [data.pair(id) for ids in support for id in ids]
            image, truth = data.pair(query)
            for name, seg in (("one classifier", joint[chosen[0]]), ("one each", each[chosen[0]])):
                maps, names = [table[m] for _, m in loaded], tuple(map(str, chosen))
                fitted = seg.fit_maps([image for image, _ in loaded], maps, names)
                start = time.perf_counter()
                mask = fitted.segment(image).mask
                seconds[name] += time.perf_counter() - start
                known = truth != IGNORE
                for n, c in enumerate(chosen, 1):
                    a, b = (mask == n) & known, (table[truth] == n) & known
                    pair = scores[name].setdefault(c, [0, 0])
                    pair[0] += int((a & b).sum())
                    pair[1] += int((a | b).sum())
        for name, counts in scores.items():
            miou = 100 * float(np.mean([i / u for i, u in counts.values() if u]))
            each_task = seconds[name] / options.tasks
            print(f"{ways} classes, {options.shots}-shot, {name:15} mIoU {miou:5.1f}, {each_task:.2f} s", flush=True)


def show_presence(data: Dataset, extractors: Extractors, options) -> None:
    """Fit the two numbers of the score on training images with 1 to 10 shots, check it on validation images."""
    train = open_dataset("pascal", options.root, "train")
    of = segmenters(extractors)
    for extractor in set(extractors.values()):
        extractor.extract = remembered(extractor.extract)  # ty: ignore[invalid-assignment]
    every = (1, 2, 5, 10)
    measured = {"training": [], "validation": []}
    for (name, values), source, seed in zip(measured.items(), (train, data), (1, 2), strict=True):
        index = class_index(source)
        lists = class_lists(source, index)
        classes, draw = sorted(lists), random.Random(seed)
        without = {c: {s.id for s, n in zip(source.samples, index.of(c), strict=True) if n == 0} for c in classes}
        some = lists if name == "validation" else {k: ids[:100] for k, ids in lists.items()}  # to be computed once
        for i, shots in ((i, shots) for i in range(options.tasks) for shots in every):
            c = classes[i % len(classes)]
            *support, there = draw.sample(some[c], shots + 1)
            absent = draw.choice([id for k in classes for id in some[k] if id in without[c]])
            loaded = [source.pair(id) for id in support]
            masks = [np.where(m == IGNORE, IGNORE, m == c).astype(np.uint8) for _, m in loaded]
            fitted = of[c].fit_maps([image for image, _ in loaded], masks, ("object",))
            for id, truth in ((there, 1.0), (absent, 0.0)):
                value = torch.tensor(fitted.similarity(source.image(id))["object"])
                values.append((float(value), float(presence_of(value)), truth, shots))
    t, _, y, _ = torch.tensor(measured["training"]).unbind(1)
    slope, middle = torch.tensor(5.0, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    solver = torch.optim.LBFGS([slope, middle], max_iter=100)

    def loss() -> torch.Tensor:
        solver.zero_grad()
        value = F.binary_cross_entropy_with_logits(slope * (t - middle), y)
        value.backward()
        return value

    solver.step(loss)
    print(f"fitted on training images: slope {slope.item():.2f}, middle {middle.item():.3f}")
    table = torch.tensor(measured["validation"])
    for shots in every:
        t, p, y, _ = table[table[:, 3] == shots].unbind(1)
        auc = float((t[y == 1][:, None] > t[y == 0][None]).float().mean())
        right = 100 * float(((p > 0.5) == (y == 1)).float().mean())
        print(f"{shots:3}-shot: AUC {auc:.3f}, right {right:.1f} %, calibration error {100 * calibration(p, y):.1f} %")


def remembered(extract: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same function, which keeps its results in half precision."""
    kept: dict[bytes, torch.Tensor] = {}

    def again(images: torch.Tensor) -> torch.Tensor:
        key = hashlib.sha256(images.numpy().tobytes()).digest()
        if key not in kept:
            kept[key] = extract(images).half()
        return kept[key].float()

    return again


def calibration(p: torch.Tensor, y: torch.Tensor, bins: int = 5) -> float:
    """Expected calibration error."""
    place = (p * bins).long().clamp_max(bins - 1)
    total = 0.0
    for b in range(bins):
        mine = place == b
        if mine.any():
            total += float(mine.float().mean() * (p[mine].mean() - y[mine].mean()).abs())
    return total


def show_speed(data: Dataset, extractors: Extractors, options) -> None:
    """Five annotated cats, 50 queries; and memory over 1000."""
    lists = class_lists(data, class_index(data))
    cat = next(c for c, name in data.classes.items() if name == "cat")
    cats, extractor = lists[cat], extractors[cat]
    queries = [data[id].image for id in cats[5:55]]
    loaded = [data.pair(id) for id in cats[:5]]
    masks = [np.where(m == IGNORE, IGNORE, m == cat).astype(np.uint8) for _, m in loaded]
    fitted = Segmenter(extractor, auto=False).fit_maps([image for image, _ in loaded], masks, ("cat",))
    images = [data.image(id) for id in cats[5:55]]
    inputs = [extractor.view((image.shape[0], image.shape[1])).pixels(image)[None] for image in images]
    rates = []
    for _ in range(6):
        start = time.perf_counter()
        for pixels in inputs:
            extractor.extract(pixels)
        bare = len(inputs) / (time.perf_counter() - start)
        start = time.perf_counter()
        done = sum(1 for _ in fitted.segment_many(queries))
        rates.append((bare, done / (time.perf_counter() - start)))
    bare, whole = np.median(rates[1:], 0)  # the first time warms up
    ratios = [b / a for a, b in rates[1:]]
    print(
        f"bare extractor {bare:.1f} images/s, segment_many {whole:.1f} (medians of {len(ratios)}); "
        f"{np.median(ratios):.2f} of it ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    before = peak_memory()
    for i, _ in enumerate(fitted.segment_many(queries[j % len(queries)] for j in range(1000))):
        if i + 1 in (50, 200, 1000):
            print(f"peak memory after {i + 1} images: {peak_memory():.2f} GB (before: {before:.2f})", flush=True)


if __name__ == "__main__":
    main()
