"""Which way of choosing regions pays? On base classes: training images, each class with the extractor of its own fold.

    python benchmarks/regions.py cache   --root PASCAL --regions FOLDER --output CACHE [--tasks 80]
    python benchmarks/regions.py compare --output CACHE

``cache`` keeps, for every task, RePRI's probabilities, all candidates that the prompts give, and the truth, on a
common grid. ``compare`` tries the ways to choose among the candidates, in seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from repri import FeatureStore, build_method, load_extractor, open_dataset, sample_tasks
from repri.evaluation.runner import Runner
from repri.protocols import get_protocol
from repri.refine import get_refiner
from repri.regions.onnx import OnnxRegions, pair_in
from repri.regions.prompts import box_of, grid_points, peaks

SIDE = 256


def cache(options: argparse.Namespace) -> None:
    data = open_dataset("pascal", options.root, options.split)
    model = OnnxRegions(*pair_in(Path(options.regions)), threads=1)
    folder = Path(options.output)
    (folder / "embeddings").mkdir(parents=True, exist_ok=True)
    clean = get_protocol("clean")
    runners, lists = [], []
    for fold in range(4):
        extractor = load_extractor(f"default-fold{fold}")
        store = FeatureStore(extractor, clean.resize, precision=clean.precision)
        runners.append(Runner(data, build_method("repri", extractor.default_preset), store, clean, "guided"))
        drawn = sample_tasks(data, data.novel(fold), options.shots, -(-options.tasks // 4), 1, 7, "classes")
        lists.append(drawn.runs[0])
    oracle = build_method("repri-oracle", runners[0].store.extractor.default_preset)
    for i in range(options.tasks):
        fold, task = i % 4, lists[i % 4][i // 4]
        file = folder / f"task{i:03}.npz"
        if file.is_file():
            continue
        runner = runners[fold]
        loaded = runner.load(task)
        prediction = runner.method.predict(loaded.episode)
        view, image = loaded.truth.view, loaded.image
        raw = view.restore(torch.sigmoid(prediction.logits)[None])
        p = get_refiner("guided")(raw, image)
        ep = loaded.episode
        told = type(ep)(ep.support, ep.query, ep.query_valid, loaded.truth.proportion, ep.background)
        best = get_refiner("guided")(view.restore(torch.sigmoid(oracle.predict(told).logits)[None]), image)
        start = time.process_time()
        kept = folder / "embeddings" / f"{task.query}.pt"
        if kept.is_file():
            embedding = model.encode.__globals__["Embedding"](*torch.load(kept, weights_only=True))
        else:
            embedding = model.encode(image)
            torch.save(tuple(embedding), kept)
        encoded = time.process_time() - start
        grids = [F.interpolate(m[None], (SIDE, SIDE), mode="bilinear", antialias=True)[0, 0] for m in (raw, p, best)]
        names, masks, scores = candidates(model, embedding, grids[1])
        prompted = time.process_time() - start - encoded
        mask = loaded.truth.mask
        rows, columns = ((np.arange(SIDE) + 0.5) / SIDE * n for n in mask.shape)
        truth = mask[rows.astype(int)[:, None], columns.astype(int)]
        np.savez_compressed(
            file, raw=grids[0].half().numpy(), p=grids[1].half().numpy(), oracle=grids[2].half().numpy(), truth=truth,
            masks=np.packbits(masks, axis=-1), names=names, scores=scores, fold=fold, class_id=task.class_id,
            size=np.array(mask.shape), support=np.array(task.support), query=task.query, pi=prediction.proportion,
            true_pi=loaded.truth.proportion,
        )
        print(i, f"{encoded:.1f} {prompted:.1f}", len(names), flush=True)


def candidates(model, embedding, p):
    """Names [C, 3] (kind, row, column), masks bool [C, SIDE, SIDE], scores [C, 2] (predicted IoU, stability)."""
    height, width = embedding.size
    scale = torch.tensor([width, height]) / SIDE
    xy = lambda places: (places.flip(-1) + 0.5) * scale
    tops = peaks(p, 6, 0.12, 0.3)
    grid = grid_points(p, 7, 0.1, 24)
    left, top, right, bottom = box_of(p)
    box = (left * width / SIDE, top * height / SIDE, right * width / SIDE, bottom * height / SIDE)
    soft = p
    asked = [("peak", tops, dict(points=xy(tops)[:, None])), ("grid", grid, dict(points=xy(grid)[:, None]))]
    middle = tops[:1]
    asked += [
        ("peaks", middle, dict(points=xy(tops)[None])),
        ("box", middle, dict(box=box)),
        ("boxmask", middle, dict(box=box, mask=soft)),
        ("peaksmask", middle, dict(points=xy(tops)[None], mask=soft)),
        ("peakbox", middle, dict(points=xy(tops[:1])[None], box=box)),
    ]
    names, masks, scores = [], [], []
    for kind, places, prompt in asked:
        if len(places) == 0:
            continue
        found = model.masks(embedding, **prompt)
        logits = F.interpolate(found.logits, (SIDE, SIDE), mode="bilinear")
        stable = (logits > 1).sum((2, 3)) / (logits > -1).sum((2, 3)).clamp_min(1)
        for a in range(len(logits)):
            for b in range(logits.shape[1]):
                names.append((kind, *places[a].tolist(), b))
                masks.append((logits[a, b] > 0).numpy())
                scores.append((float(found.iou[a, b]), float(stable[a, b])))
    return np.array(names), np.stack(masks), np.array(scores, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("--root")
    parser.add_argument("--split", default="train")
    parser.add_argument("--regions")
    parser.add_argument("--output")
    parser.add_argument("--tasks", type=int, default=80)
    parser.add_argument("--shots", type=int, default=1)
    options = parser.parse_args()
    globals()[options.what](options)


if __name__ == "__main__":
    main()
