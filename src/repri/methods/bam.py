"""The merge of BAM [Lang et al., "Learning What Not to Segment", CVPR 2022], around any method.

A base learner says where the query shows base classes, which are not the object. Four numbers mix its map with the
probability of another method, and with how unlike the scenes of support and query are. They start as (1, 0) and (1, 0),
which is the other method alone.

Where the authors' code and this file differ: their base learner is a PSPNet that is trained first, and here it is a
linear classifier of the frozen features that is trained beside the four numbers; shots have equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.features.labels import cell_weights
from repri.inference.labels import IGNORE, on_one_grid
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction, Support
from .learned import FewShotNetwork, LearnedMethod, Output, Positions, Shot, channels_of, cross_entropy, pick_layers
from .registry import build_method, positions, whole_number

__all__ = ["BAM", "BAMNetwork", "unlikeness"]

EDGE = 1e-4
"""Probabilities are kept this far from 0 and 1, so that their logits are finite."""


class BAM(LearnedMethod):
    """Another method, merged with a base learner.

    Args:
        of: The other method: a name, or the file of a trained one. It is not trained further.
        classes: Number of base classes.
        mid: Positions of the layers by which scenes are compared; default: the first.
    """

    name = "bam"
    weighting = "area"

    def __init__(self, of: str = "prototype", classes: int = 15, mid: Positions = None):
        self.of, self.classes = of, whole_number("classes", classes)
        self.mid = positions("mid", mid)
        self.inner: Method = build_method(of)
        self.needs_masks = self.inner.needs_masks

    def build(self, widths: tuple[int, ...]) -> BAMNetwork:
        chosen = pick_layers(widths, [0] if self.mid is None else self.mid, self.name)
        return BAMNetwork(widths, chosen, self.classes, self.inner)

    def prepare(self, extractor: FeatureExtractor) -> None:
        """Get both methods ready."""
        self.inner.prepare(extractor)
        super().prepare(extractor)

    def predict(self, episode: Episode) -> Prediction:
        network = self._network(episode.widths or (episode.query.shape[0],))
        if not isinstance(network, BAMNetwork):
            raise TypeError("the network of bam is a BAMNetwork")
        logits = self.inner.predict(episode).logits
        with torch.no_grad():
            scores = network.merged(logits, on_one_grid(episode.support.features).float(), episode.query.float())
        return Prediction(((1 + scores) / 2).clamp(EDGE, 1 - EDGE).logit())

    def loss(self, shots: Sequence[Shot], query: Shot) -> Tensor:
        """Cross-entropy of the merged scores, and of the base learner on the query."""
        network = self.network
        if not isinstance(network, BAMNetwork):
            raise RuntimeError("call start() before the first loss")
        if query.classes is None:
            raise RepriError("The base learner of bam needs the base classes of every pixel of the query.")
        like = network.own
        weights = [cell_weights(shot.mask, shot.grid) for shot in shots]
        features = [shot.features.to(like) for shot in shots]
        labels = [_labels(w) for w in weights]
        support = Support(features, labels, [s.mask for s in shots], [s.grid for s in shots])
        cells = query.features.to(like)
        with torch.no_grad():
            logits = self.inner.predict(Episode(support, cells, widths=network.widths)).logits
        shown = query.classes[query.mask == 1]
        target = int(shown.mode().values) if len(shown) else None
        scores = network.merged(logits, on_one_grid(features), cells, target)
        return cross_entropy(scores, query) + network.base_loss(query._replace(features=cells))

    def options(self) -> dict[str, Any]:
        return {"of": self.of, "classes": self.classes, "mid": self.mid}


class BAMNetwork(FewShotNetwork):
    """The four numbers, and the base learner.

    Args:
        widths: Number of channels of each layer of the features.
        mid: Channels by which scenes are compared.
        classes: Number of base classes.
        inner: The other method.
    """

    def __init__(self, widths: Sequence[int], mid: Sequence[slice], classes: int, inner: Method):
        super().__init__(widths)
        self.mid, self.inner = mid, inner
        self.own = nn.Parameter(torch.tensor([1.0, 0.0]))
        """a: weights of the method's probability and of the unlikeness of the scenes."""
        self.both = nn.Parameter(torch.tensor([1.0, 0.0]))
        """b: weights of the method's background and of the base learner's map."""
        self.base = nn.Conv2d(sum(widths), classes + 1, 1)

    def forward(self, support: Tensor, weights: Tensor, query: Tensor) -> Output:
        episode = Episode(Support(list(support), [_labels(w) for w in weights]), query, widths=self.widths)
        return Output(self.merged(self.inner.predict(episode).logits, support, query))

    def merged(self, logits: Tensor, support: Tensor, query: Tensor, target: int | None = None) -> Tensor:
        """Score of the object minus score of the background.

        Args:
            logits: [h, w] of the other method.
            support: [K, C, h, w] features.
            query: [C, h, w] features.
            target: Number of the episode's class among the base classes, in training: it is no reason against itself.

        Returns:
            [h, w] scores, between −1 and 1 at the start.
        """
        foreground = logits.sigmoid().to(self.own)
        apart = torch.stack([unlikeness(channels_of(s, self.mid), channels_of(query, self.mid)) for s in support])
        shift = self.own[1] * apart.mean()
        base = self.base(query[None])[0].softmax(0)
        shown = base[1:].sum(0) - (0 if target is None or not 0 < target < len(base) else base[target])
        background = self.both[0] * (self.own[0] * (1 - foreground) + shift) + self.both[1] * shown
        return self.own[0] * foreground + shift - background

    def base_loss(self, query: Shot) -> Tensor:
        """Cross-entropy of the base learner on an image."""
        if query.classes is None:
            return self.own.new_zeros(())
        maps = self.base(query.features[None])[0]
        rows, columns = (matrix.to(maps) for matrix in query.grid.spread())
        known = query.classes != IGNORE
        full = (rows @ maps @ columns.T)[:, known]
        return F.cross_entropy(full.T, query.classes[known].long()) if known.any() else 0 * maps.sum()


def unlikeness(support: Tensor, query: Tensor) -> Tensor:
    """ψ = ‖G(query) − G(support)‖ / C, with G the cosines [C, C] between the channels of features [C, h, w].

    Example:
        >>> features = torch.eye(2)[:, None]
        >>> unlikeness(features, features), unlikeness(features, torch.ones(2, 1, 3)).round(decimals=4)
        (tensor(0.), tensor(0.7071))
    """
    grams = [unit @ unit.T for unit in (F.normalize(maps.flatten(1), dim=1) for maps in (support, query))]
    return (grams[1] - grams[0]).norm() / len(grams[0])


def _labels(weights: Tensor) -> Tensor:
    """[h, w] labels of weights [2, h, w], 255 where nothing is labelled."""
    total = weights.sum(0)
    return torch.where(total > 0, weights[1] / total.clamp_min(1e-12), float(IGNORE))
