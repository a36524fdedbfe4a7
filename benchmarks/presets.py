"""Which preset of the inference segments better, the paper's or the authors'? On generated scenes.

    python benchmarks/presets.py [--tasks 60]

Mean foreground IoU (percent) of the same tasks under each preset, and under `original` with one choice
of the paper's at a time. "π known" tells every preset the query's true proportion.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

from repri import InferenceConfig, infer, load_extractor, true_proportion
from repri.data.datasets.scenes import make_task
from repri.experiments.demo import iou

SHOTS = (1, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=60)
    count = parser.parse_args().tasks
    names = ("clean", "original", "official", "paper")
    configs = {name: InferenceConfig.preset(name) for name in names}
    original = configs["original"]
    configs["original, bias in cosine units"] = original.replace(bias_unit="cosine")
    configs["original, w⁰ over all cells"] = original.replace(prototype="pixels")
    configs["original, π as in Eq. 3"] = original.replace(schedule="paper")
    configs |= {f"{name}, π known": configs[name].oracle() for name in names}

    extractor = load_extractor("filters")
    tasks = [make_task(1000 + seed, max(SHOTS)) for seed in range(count)]
    support = torch.stack([extractor.extract(t.support) for t in tasks])
    masks = torch.stack([t.support_masks for t in tasks])
    query = torch.stack([extractor.extract(t.query[None])[0] for t in tasks])
    truth = torch.stack([t.query_mask for t in tasks])
    print(f"{count} tasks{' ' * 26}" + "".join(f"{shots:5}-shot" for shots in SHOTS))
    for name, config in configs.items():
        row = ""
        for shots in SHOTS:
            known = true_proportion(truth, query.shape[-2:]) if config.needs_proportion else None
            out = infer(support[:, :shots], masks[:, :shots], query, config, proportion=known)
            size = (truth.shape[-2], truth.shape[-1])
            maps = F.interpolate(out.probability[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
            scores = [iou(p > 0.5, m) for p, m in zip(maps, truth, strict=True)]
            row += f"{100 * sum(scores) / count:10.1f}"
        print(f"{name:34}{row}", flush=True)


if __name__ == "__main__":
    main()
