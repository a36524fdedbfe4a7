"""Which form of the inference segments better: the paper's or the authors'? On generated scenes.

    python benchmarks/forms.py [--tasks 60]

Mean foreground IoU (percent) of the same tasks under each preset, and under `original` with one choice
of the paper's at a time. "π known" gives every form the query's true proportion.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

from repri.data.datasets.scenes import make_task
from repri.experiments.demo import iou
from repri.inference import InferenceConfig, infer, true_proportion
from repri.models.extractors.filters import FilterBank

SHOTS = (1, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=60)
    count = parser.parse_args().tasks
    preset = InferenceConfig.preset
    forms = {name: preset(name) for name in ("clean", "original", "official", "paper")}
    forms["original, bias in cosine units"] = preset("original").replace(bias_unit="cosine")
    forms["original, w⁰ over all pixels"] = preset("original").replace(prototype="pixels")
    forms["original, π as in Eq. 3"] = preset("original").replace(schedule="paper")
    known = ("clean-oracle", "original-oracle", "official-oracle", "paper-oracle")
    oracles = {f"{name}, π known": preset(name) for name in known}

    bank = FilterBank()
    tasks = [make_task(1000 + seed, max(SHOTS)) for seed in range(count)]
    support = torch.stack([bank.extract(t.support) for t in tasks])
    masks = torch.stack([t.support_masks for t in tasks])
    query = torch.stack([bank.extract(t.query[None])[0] for t in tasks])
    truth = torch.stack([t.query_mask for t in tasks])
    print(f"{count} tasks{' ' * 26}" + "".join(f"{shots:5}-shot" for shots in SHOTS))
    for name, cfg in (forms | oracles).items():
        row = ""
        for shots in SHOTS:
            known = true_proportion(truth, query.shape[-2:]) if name in oracles else None
            out = infer(support[:, :shots], masks[:, :shots], query, cfg, proportion=known)
            size = (truth.shape[-2], truth.shape[-1])
            maps = F.interpolate(out.probability[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
            scores = [iou(p > 0.5, m) for p, m in zip(maps, truth, strict=True)]
            row += f"{100 * sum(scores) / count:10.1f}"
        print(f"{name:34}{row}", flush=True)


if __name__ == "__main__":
    main()
