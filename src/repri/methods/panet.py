"""PANet [Wang et al., "PANet: Few-Shot Image Semantic Segmentation with Prototype Alignment", ICCV 2019].

The authors train all of VGG-16. Here the features are frozen, and a linear embedding of them (a 1×1 convolution) is
trained instead. Untrained, the method works on the features as they are. The embedding starts as an isometry where it
is wide enough, so that training starts from there.

Where the authors' code and this file differ: pixels without a label count as background there and on neither side here;
features are upsampled to the mask there, while here the mask weights the cells by the adjoint of the upsampling, which
gives the same means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .learned import FewShotNetwork, LearnedMethod, Lesson, Output, Positions, channels_of, cross_entropy, pick_layers
from .registry import number, positions, whole_number

__all__ = ["PANet", "PANetNetwork", "masked_means"]

SCALE = 20.0
"""Factor of the cosines."""
EPSILON = 1e-5
"""What is added to the sum of the weights of a mean."""


class PANet(LearnedMethod):
    """logit = 20·[cos(z, f) − cos(z, g)], with f and g the means over shots of the mean features of object and
    background.

    Args:
        width: Channels of the embedding.
        align: Weight of the alignment loss: the support is segmented by the means of the predicted query.
        mid: Positions of the layers that are used; default: all.
    """

    name = "panet"
    weighting = "adjoint"

    def __init__(self, width: int = 512, align: float = 1.0, mid: Positions = None):
        self.width, self.align = whole_number("width", width), number("align", align)
        self.mid = positions("mid", mid)

    def build(self, widths: tuple[int, ...]) -> PANetNetwork:
        return PANetNetwork(widths, pick_layers(widths, self.mid, self.name), self.width, self.align)

    def untrained(self, widths: tuple[int, ...]) -> PANetNetwork:
        return PANetNetwork(widths, pick_layers(widths, self.mid, self.name), None)

    def options(self) -> dict[str, Any]:
        return {"width": self.width, "align": self.align, "mid": self.mid}


class PANetNetwork(FewShotNetwork):
    """The embedding, and cosines to class means.

    Args:
        widths: Number of channels of each layer of the features.
        mid: Channels that are used.
        width: Channels of the embedding; None: no embedding.
        align: Weight of the alignment loss.
    """

    def __init__(self, widths: Sequence[int], mid: Sequence[slice], width: int | None, align: float = 1.0):
        super().__init__(widths)
        self.mid, self.align = mid, align
        self.embedding = None if width is None else linear_embedding(sum(s.stop - s.start for s in mid), width)

    def embed(self, features: Tensor) -> Tensor:
        """Features [N, C, h, w] in the embedding."""
        chosen = channels_of(features, self.mid)
        return chosen if self.embedding is None else self.embedding(chosen)

    def prototypes(self, embedded: Tensor, weights: Tensor) -> Sequence[Tensor]:
        """Prototypes [P, C] of background and object, of embedded shots [K, C, h, w] with weights [K, 2, h, w]."""
        return masked_means(embedded, weights).mean(0)[:, None].unbind()

    def forward(self, support: Tensor, weights: Tensor, query: Tensor) -> Output:
        return Output(difference(self.prototypes(self.embed(support), weights), self.embed(query[None])[0]))

    def loss(self, lesson: Lesson) -> Tensor:
        """Cross-entropy of the query, and the alignment loss."""
        support, query = self.embed(lesson.support), self.embed(lesson.query.features[None])[0]
        logits = difference(self.prototypes(support, lesson.weights), query)
        loss = cross_entropy(logits, lesson.query)
        predicted = logits.detach() > 0
        if not self.align or not predicted.any():
            return loss
        hard = torch.stack([~predicted, predicted])[None].to(query)
        back = self.prototypes(query[None], hard)
        turned = [
            cross_entropy(difference(back, shot)[: s.features.shape[1], : s.features.shape[2]], s)
            for shot, s in zip(support, lesson.shots, strict=True)
        ]
        return loss + self.align * torch.stack(turned).mean()


def linear_embedding(channels: int, width: int) -> nn.Conv2d:
    """A 1×1 convolution that keeps angles as well as it can: its matrix is orthogonal at the start."""
    embedding = nn.Conv2d(channels, width, 1, bias=False)
    nn.init.orthogonal_(embedding.weight)
    return embedding


def masked_means(features: Tensor, weights: Tensor) -> Tensor:
    """[K, 2, C] Σ w·z / (Σ w + 10⁻⁵) of features [K, C, h, w] under weights [K, 2, h, w].

    Example:
        >>> masked_means(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([[[[0.0, 0.0]], [[1.0, 1.0]]]])).flatten()
        tensor([0.0000, 2.0000])
    """
    flat = weights.flatten(2)
    return flat @ features.flatten(2).mT / (flat.sum(2, keepdim=True) + EPSILON)


def difference(prototypes: Sequence[Tensor], features: Tensor) -> Tensor:
    """[h, w] 20·(largest cosine to a prototype of the object − largest to one of the background), of features
    [C, h, w] and prototypes [P, C] of background and object."""
    unit = F.normalize(features, dim=0)
    background, foreground = (
        torch.einsum("pc,chw->phw", F.normalize(side, dim=1), unit).amax(0) for side in prototypes
    )
    return SCALE * (foreground - background)
