"""PFENet [Tian et al., "Prior Guided Feature Enrichment Network for Few-Shot Segmentation", TPAMI 2020].

A prior says where the deepest layer of the query resembles the object; a pyramid of scales mixes the query, the mean of
the object and the prior, from fine to coarse, with a classifier at each scale.

Where the authors' code and this file differ: the support of the prior is masked after the deepest layer, as their paper
says, and not also before it, so that features can be stored; batch norm of the backbone does not drift, because
features are frozen; scales are fractions of the grid, as in their COCO settings; logits are interpolated where the
cells lie. Their schedule multiplies the stated learning rate by ten: 0.025 on PASCAL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .learned import FewShotNetwork, LearnedMethod, Output, Positions, channels_of, pick_layers, resized
from .registry import positions, whole_number

__all__ = ["PFENet", "PFENetNetwork", "prior_of"]

SCALES = (1.0, 0.5, 0.25, 0.125)
"""Scales of the pyramid as fractions of the grid."""
MEAN_EPSILON, PRIOR_EPSILON = 5e-4, 1e-7


class PFENet(LearnedMethod):
    """The head of PFENet on frozen features.

    Args:
        width: Channels of the head; 128 needs a quarter of the work.
        mid: Positions of the layers that are enriched; default: all but the last, or the only one.
        high: Positions of the layers of the prior; default: the last.
    """

    name = "pfenet"

    def __init__(self, width: int = 256, mid: Positions = None, high: Positions = None):
        self.width, self.mid, self.high = whole_number("width", width), positions("mid", mid), positions("high", high)

    def build(self, widths: tuple[int, ...]) -> PFENetNetwork:
        mid = self.mid if self.mid is not None else list(range(max(1, len(widths) - 1)))
        high = self.high if self.high is not None else [-1]
        chosen = pick_layers(widths, mid, self.name), pick_layers(widths, high, self.name, "high")
        return PFENetNetwork(widths, *chosen, self.width)

    def options(self) -> dict[str, Any]:
        return {"width": self.width, "mid": self.mid, "high": self.high}


class PFENetNetwork(FewShotNetwork):
    """Reduction, prior, feature enrichment.

    Args:
        widths: Number of channels of each layer of the features.
        mid: Channels that are enriched.
        high: Channels of the prior.
        width: Channels d of the head.
    """

    def __init__(self, widths: Sequence[int], mid: Sequence[slice], high: Sequence[slice], width: int = 256):
        super().__init__(widths)
        self.mid, self.high = mid, high
        channels = sum(part.stop - part.start for part in mid)
        self.reduce_query, self.reduce_support = (
            nn.Sequential(_conv(channels, width), nn.ReLU(), nn.Dropout2d(0.5)) for _ in range(2)
        )
        count = len(SCALES)
        self.join = nn.ModuleList(_relu(_conv(2 * width + 1, width)) for _ in range(count))
        self.alpha = nn.ModuleList(_relu(_conv(2 * width, width)) for _ in range(count - 1))
        self.beta = nn.ModuleList(_pair(width) for _ in range(count))
        self.inner = nn.ModuleList(_classifier(width) for _ in range(count))
        self.merge = _relu(_conv(count * width, width))
        self.refine = _pair(width)
        self.classify = _classifier(width)

    def forward(self, support: Tensor, weights: Tensor, query: Tensor) -> Output:
        mask = weights[:, 1:]
        reduced = self.reduce_support(channels_of(support, self.mid)) * mask
        vector = (reduced.sum((2, 3)) / (mask.sum((2, 3)) + MEAN_EPSILON)).mean(0)
        with torch.no_grad():
            high = channels_of(support, self.high), channels_of(query, self.high)
            prior = prior_of(high[0], mask[:, 0], high[1])
        enriched, inner = self._enriched(self.reduce_query(channels_of(query[None], self.mid)), vector, prior)
        x = self.merge(torch.cat(enriched, 1))
        x = x + self.refine(x)
        return Output(_odds(self.classify(x)), [_odds(logits) for logits in inner])

    def _enriched(self, query: Tensor, vector: Tensor, prior: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Maps [1, d, h, w] and inner logits of the scales, of a query [1, d, h, w], a mean [d] and a prior [h, w]."""
        size = query.shape[-2:]
        maps, inner = [], []
        for i, scale in enumerate(SCALES):
            bins = (max(1, int(size[0] * scale)), max(1, int(size[1] * scale)))
            pooled = F.adaptive_avg_pool2d(query, bins)
            tiled = vector[None, :, None, None].expand(1, -1, *bins)
            x = self.join[i](torch.cat([pooled, tiled, resized(prior[None, None], bins)], 1))
            if i:
                x = x + self.alpha[i - 1](torch.cat([x, resized(maps[-1], bins)], 1))
            x = x + self.beta[i](x)
            inner.append(self.inner[i](x))
            maps.append(resized(x, size))
        return maps, inner


def prior_of(support: Tensor, mask: Tensor, query: Tensor) -> Tensor:
    """How much each cell of a query resembles some cell of the object, between 0 and 1.

    Args:
        support: [K, C, h, w] features of the deepest layer.
        mask: [K, h, w] weights of the object; cells of weight 0 are zero vectors.
        query: [C, h′, w′] features of the same layer.

    Returns:
        [h′, w′] mean over shots of the largest cosine, which is brought to [0, 1] for each shot.

    Example:
        >>> query = torch.tensor([[[1.0, 0.0, 1.0]], [[0.0, 1.0, 1.0]]])
        >>> prior_of(query[None], torch.tensor([[[1.0, 0.0, 0.0]]]), query)
        tensor([[1.0000, 0.0000, 0.7071]])
    """
    cells = query.flatten(1)
    lengths = cells.norm(dim=0)
    priors = []
    for shot in (support * mask[:, None]).flatten(2):
        cosines = shot.T @ cells / (shot.norm(dim=0)[:, None] * lengths + PRIOR_EPSILON)
        best = cosines.amax(0)
        priors.append((best - best.min()) / (best.max() - best.min() + PRIOR_EPSILON))
    return torch.stack(priors).mean(0).view(query.shape[-2:])


def _odds(logits: Tensor) -> Tensor:
    """[h, w] logits of the object minus those of the background, of logits [1, 2, h, w]."""
    return logits[0, 1] - logits[0, 0]


def _conv(channels: int, width: int, kernel: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False)


def _relu(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.ReLU())


def _pair(width: int) -> nn.Sequential:
    return nn.Sequential(_conv(width, width, 3), nn.ReLU(), _conv(width, width, 3), nn.ReLU())


def _classifier(width: int) -> nn.Sequential:
    return nn.Sequential(_conv(width, width, 3), nn.ReLU(), nn.Dropout2d(0.1), nn.Conv2d(width, 2, 1))
