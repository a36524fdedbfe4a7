"""RPMM [Yang et al., "Prototype Mixture Models for Few-shot Semantic Segmentation", ECCV 2020].

Mixtures of prototypes steer a segmentation network in three passes, of which each sees the mask of the one before.

The authors also train the backbone, at a tenth of the rate. Here the features are frozen and the head is trained.

Where the authors' code and this file differ: starts of the mixtures are seeded here; pixels without a label count as
background there and on neither side here; logits are interpolated where the cells lie.
As in their code and not in their paper, prototypes carry no gradient, and with several shots the mask is the mean of
the passes' probabilities instead of the last pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .learned import (
    FewShotNetwork,
    LearnedMethod,
    Lesson,
    Output,
    Positions,
    channels_of,
    cross_entropy,
    pick_layers,
)
from .pmm import match, mixture, sides_of
from .registry import positions, whole_number

__all__ = ["RPMM", "RPMMNetwork", "tiled_convolution"]

PARTS = (1, 3, 6)
"""Number of prototypes in each pass."""
RATES = (6, 12, 18)
"""Dilations of the spatial pyramid."""


class RPMM(LearnedMethod):
    """The head of RPMM on frozen features.

    Args:
        width: Channels of the head; 128 needs a quarter of the work.
        seed: Seed of the starts of the mixtures.
        mid: Positions of the layers that are used; default: all.
    """

    name = "rpmm"

    def __init__(self, width: int = 256, seed: int = 0, mid: Positions = None):
        self.width, self.seed, self.mid = whole_number("width", width), seed, positions("mid", mid)

    def build(self, widths: tuple[int, ...]) -> RPMMNetwork:
        return RPMMNetwork(widths, pick_layers(widths, self.mid, self.name), self.width, self.seed)

    def options(self) -> dict[str, Any]:
        return {"width": self.width, "seed": self.seed, "mid": self.mid}


class RPMMNetwork(FewShotNetwork):
    """layer5, P-Conv with the match beside it (duplex), residual blocks with the former mask, spatial pyramid.

    Args:
        widths: Number of channels of each layer of the features.
        mid: Channels that are used.
        width: Channels d of the head.
        seed: Seed of the starts of the mixtures.
    """

    def __init__(self, widths: Sequence[int], mid: Sequence[slice], width: int = 256, seed: int = 0):
        super().__init__(widths)
        self.mid, self.seed = mid, seed
        channels = sum(part.stop - part.start for part in mid)
        self.layer5 = nn.Sequential(_conv3(channels, width, 2), nn.BatchNorm2d(width), nn.ReLU())
        self.steer = _conv3(2 * width, width, 2)
        self.duplex = nn.Sequential(_conv3(width + 2, width), nn.ReLU(), nn.Dropout2d(0.5))
        self.residual = nn.ModuleList(_residual(width + 2 * (i == 0), width) for i in range(3))
        self.pyramid = nn.ModuleList(
            [nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1), *(_conv3(width, width, rate) for rate in RATES)]
        )
        self.merge = nn.Sequential(nn.Conv2d(5 * width, width, 1), nn.ReLU(), nn.Dropout2d(0.5))
        self.classify = nn.Conv2d(width, 2, 1)

    def forward(self, support: Tensor, weights: Tensor, query: Tensor) -> Output:
        shots, cells = (self.layer5(channels_of(x, self.mid)) for x in (support, query[None]))
        history = cells.new_zeros(1, 2, *cells.shape[-2:])
        passes = []
        for parts in PARTS:
            prototypes, matched = self._prototypes(shots.detach(), weights, cells.detach()[0], parts)
            x = self._steered(cells, prototypes)
            x = self._segment(self.duplex(torch.cat([x, matched], 1)), history)
            passes.append(x[0, 1] - x[0, 0])
            history = x.softmax(1)
        if len(support) > 1 and not self.training:
            mean = torch.stack(passes).sigmoid().mean(0)
            return Output(mean.logit(1e-6), passes)
        return Output(passes[-1], passes[:-1])

    def loss(self, lesson: Lesson) -> Tensor:
        """Sum of the passes' cross-entropies."""
        out = self(lesson.support, lesson.weights, lesson.query.features)
        every = out.more if len(out.more) == len(PARTS) else [*out.more, out.logits]
        return torch.stack([cross_entropy(logits, lesson.query) for logits in every]).sum()

    def _prototypes(self, shots: Tensor, weights: Tensor, query: Tensor, parts: int) -> tuple[Tensor, Tensor]:
        """Prototypes [k, d] of the object, and probabilities [1, 2, h, w] of the match, without a gradient."""
        with torch.no_grad():
            both = [mixture(side, parts, self.seed) for side in sides_of(shots, weights)]
            foreground = match(query, both).sigmoid()
            return both[1], torch.stack([1 - foreground, foreground])[None]

    def _steered(self, query: Tensor, prototypes: Tensor) -> Tensor:
        """P-Conv: Σᵢ ReLU(conv[query; μᵢ everywhere]), of a query [1, d, h, w] and prototypes [k, d]."""
        each = F.relu(tiled_convolution(self.steer, query, prototypes))
        return F.dropout2d(each, 0.5, self.training).sum(0, keepdim=True)

    def _segment(self, x: Tensor, history: Tensor) -> Tensor:
        """Logits [1, 2, h, w] of features [1, d, h, w] and the probabilities [1, 2, h, w] of the pass before."""
        for i, block in enumerate(self.residual):
            x = x + block(torch.cat([x, history], 1) if i == 0 else x)
        mean, *others = self.pyramid
        parts = [mean(x.mean((2, 3), keepdim=True)), *(branch(x) for branch in others)]
        parts = [F.dropout2d(F.relu(part), 0.5, self.training).expand(-1, -1, *x.shape[-2:]) for part in parts]
        return self.classify(self.merge(torch.cat(parts, 1)))


def tiled_convolution(convolution: nn.Conv2d, features: Tensor, vectors: Tensor) -> Tensor:
    """A padded 3×3 convolution of features that are joined with one vector everywhere, for several vectors at once.

    The convolution of a vector that is the same everywhere is a sum over the taps that fall inside the map. So one
    convolution of the features is enough, whatever the number of vectors.

    Args:
        convolution: From a + b channels to d, with as much padding as dilation.
        features: [1, a, h, w].
        vectors: [k, b].

    Returns:
        [k, d, h, w], equal to the convolution of ``[features; vector i everywhere]``.
    """
    channels, rate = features.shape[1], convolution.dilation[0]
    kernel = convolution.weight
    own = F.conv2d(features, kernel[:, :channels], convolution.bias, padding=rate, dilation=rate)
    taps = torch.einsum("ocab,kc->koab", kernel[:, channels:], vectors)
    rows, columns = (_inside(length, rate, features) for length in features.shape[-2:])
    return own + torch.einsum("koab,ah,bw->kohw", taps, rows, columns)


def _inside(length: int, rate: int, like: Tensor) -> Tensor:
    """[3, length] 1 where the tap of a kernel falls inside, else 0."""
    place = torch.arange(length)[None] + rate * torch.tensor([[-1], [0], [1]])
    return ((place >= 0) & (place < length)).to(like)


def _conv3(channels: int, width: int, rate: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, 3, padding=rate, dilation=rate)


def _residual(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), _conv3(channels, width), nn.ReLU(), _conv3(width, width))
