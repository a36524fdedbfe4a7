"""Easy episodes: an object of one direction on a ground of another."""

import torch

from repri.methods import Episode, Support

__all__ = ["make_episode"]


def make_episode(shots=2, ragged=False, told=True):
    """An episode of 16 channels, and the truth [h, w] about its query; ``told``: it holds the true proportion."""
    g = torch.Generator().manual_seed(0)
    sizes = [(6, 8), (8, 6) if ragged else (6, 8), (7, 7) if ragged else (6, 8)][: shots + 1]
    directions = torch.randn(2, 16, generator=g)
    features, labels = [], []
    for h, w in sizes:
        mask = torch.zeros(h, w, dtype=torch.uint8)
        mask[1:4, 2:5] = 1
        features.append(directions[mask.long()].movedim(-1, 0) + 0.3 * torch.randn(16, h, w, generator=g))
        labels.append(mask)
    proportion = float(labels[-1].float().mean()) if told else None
    return Episode(Support(features[:-1], labels[:-1]), features[-1], None, proportion), labels[-1]
