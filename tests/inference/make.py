"""Small separable tasks: two clusters of features, an object of known shape in each image."""

import torch

from repri.inference import InferenceConfig


def make_tasks(tasks=1, shots=1, channels=24, size=(9, 11), scale=4, seed=0, dtype=torch.float32, noise=0.8):
    """support [T, K, C, h, w], masks [T, K, H, W] (0, 1, 255), query [T, C, h, w], query masks [T, H, W]."""
    g = torch.Generator().manual_seed(seed)
    h, w = size
    masks = torch.zeros(tasks, shots + 1, h, w, dtype=torch.uint8)
    for row in masks.flatten(0, 1):
        top, left = int(torch.randint(0, h - 4, (), generator=g)), int(torch.randint(0, w - 4, (), generator=g))
        row[top : top + 4, left : left + 4] = 1
    centres = torch.randn(tasks, 2, channels, generator=g)
    centres[:, 1] += 0.5 * centres[:, 0]
    features = torch.stack([c[m.long()] for c, m in zip(centres, masks, strict=True)]).movedim(-1, 2)
    features = features + noise * torch.randn(features.shape, generator=g)
    masks = masks.repeat_interleave(scale, -1).repeat_interleave(scale, -2)
    masks[..., -scale:] = 255
    features = features.to(dtype)
    return features[:, :-1], masks[:, :-1], features[:, -1], masks[:, -1]


def config_of(name):
    """``official``, ``clean-oracle``, ``paper-ce_h`` …: a preset and a variant; ``ce`` is that of ``clean``."""
    preset, _, variant = name.rpartition("-")
    if not preset and variant not in ("oracle", "ce", "ce_h"):
        return InferenceConfig.preset(variant)
    config = InferenceConfig.preset(preset or "clean")
    return {"oracle": config.oracle, "ce": lambda: config.without("h", "kl"), "ce_h": lambda: config.without("kl")}[
        variant
    ]()
