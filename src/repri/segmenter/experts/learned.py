"""A small network that learns from every labelled cell of the support.

The cosine classifier of RePRI has one direction for each class. That is right for features of a large network, in which
kinds of objects are separated already, and too weak for colours and textures, of which one class may have several. The
network here has two hidden layers and is trained with cross-entropy until it fits the support. Several networks with
different starts are trained at once; their mean logits are the answer. The mean is a linear classifier on the joined
last hidden layers, so :func:`repri.inference.adapt` can add the terms of RePRI for each query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.segmenter.threads import all_of, one_thread

__all__ = ["LearnSettings", "Learned", "learn"]

LIMIT = 5.0
"""Standardised features are cut off at this many standard deviations, so that unseen values do not decide alone."""
CHUNK = 4096
"""Cells that are worked on at a time."""
WARM_UP = 20
"""Steps over which the learning rate rises."""


@dataclass(frozen=True)
class LearnSettings:
    """How the network is trained."""

    hidden: int = 40
    """Units of each hidden layer."""
    members: int = 2
    """Number of networks that are averaged."""
    steps: int = 160
    """Number of steps."""
    lr: float = 4e-3
    """Learning rate at its highest; it rises during the first steps and then falls to 0."""
    decay: float = 1e-3
    """Weight decay."""
    batch: int = 1024
    """Cells of a step."""
    seed: int = 0
    """Seed of the weights and batches."""


@dataclass(frozen=True, eq=False)
class Learned:
    """A trained classifier of cells. Features have their channels first, so that maps need not be turned."""

    low: Tensor
    """[C, 1] least value of each feature; lower ones are cut off."""
    high: Tensor
    """[C, 1] largest value."""
    first: Tensor
    """[F, C] weights of the first layers of all members, one below the other."""
    first_bias: Tensor
    """[F, 1]."""
    second: Tensor
    """[members, H, H] of the second layers."""
    second_bias: Tensor
    """[members, H, 1]."""
    weight: Tensor
    """[F, N + 1] of the last layers, divided by the number of members."""
    bias: Tensor
    """[N + 1]."""

    def hidden(self, features: Tensor) -> Tensor:
        """[C, M] features of cells → [F, M] values of the last hidden layers."""
        x = torch.maximum(features.float(), self.low)
        torch.minimum(x, self.high, out=x)  # clamp with bounds for each row is several times slower
        h = torch.addmm(self.first_bias, self.first, x).relu_()
        parts = h.unflatten(0, (len(self.second), -1))  # [members, H, M]
        return torch.baddbmm(self.second_bias, self.second, parts).relu_().flatten(0, 1)

    def shifted(self, by: Tensor) -> Learned:
        """The same classifier with [N + 1] added to its biases."""
        return replace(self, bias=self.bias + by)

    def adapted(self, weight: Tensor, bias: Tensor) -> Learned:
        """The same classifier with other last layers."""
        return replace(self, weight=weight, bias=bias)

    def logits(self, features: Tensor) -> Tensor:
        """[C, M] features of cells → [N + 1, M], background first. It works on some cells at a time, because asking the
        system for large arrays takes longer than filling them."""
        out = features.new_empty(len(self.bias), features.shape[1], dtype=torch.float32)
        for part, target in zip(features.split(CHUNK, 1), out.split(CHUNK, 1), strict=True):
            torch.addmm(self.bias[:, None], self.weight.mT, self.hidden(part), out=target)
        return out


def learn(rows: Tensor, labels: Tensor, classes: int, settings: LearnSettings | None = None) -> Learned:
    """Train the network.

    Args:
        rows: [M, C] features of labelled cells.
        labels: [M] class ids 0 … N, or [M, N + 1] fractions of each class.
        classes: N.
        settings: How it is trained.

    Returns:
        The trained classifier.

    Example:
        >>> rows = torch.rand(500, 3)
        >>> labels = (rows[:, 0] > 0.5).long()
        >>> learned = learn(rows, labels, 1)
        >>> bool((learned.logits(rows.T).argmax(0) == labels).float().mean() > 0.95)
        True
    """
    cfg = settings or LearnSettings()
    rows = rows.float()
    mean = rows.mean(0)
    x = rows - mean
    scale = 1 / x.square().mean(0).sqrt_().clamp_min_(1e-6)
    x = x.mul_(scale).clamp_(-LIMIT, LIMIT)
    targets = (labels if labels.ndim == 2 else F.one_hot(labels.long(), classes + 1)).float()
    g = torch.Generator().manual_seed(cfg.seed)
    sizes = ((x.shape[1], cfg.hidden), (cfg.hidden, cfg.hidden), (cfg.hidden, classes + 1))
    layers = [torch.randn(cfg.members, i + 1, o, generator=g) * (2 / i) ** 0.5 for i, o in sizes]
    layers[2] *= 0.3
    for layer in layers:
        layer[:, -1] = 0
    picked = torch.randint(len(x), (cfg.steps, cfg.members, cfg.batch), generator=g)
    tasks = [partial(_train, [layer[m] for layer in layers], x, targets, picked[:, m], cfg) for m in range(cfg.members)]
    all_of(tasks, x.device)
    first, second, last = layers
    # Standardisation becomes a part of the first layer.
    inner = first[:, :-1] * scale[:, None]  # [members, C, H]
    offset = first[:, -1] - mean @ inner  # [members, H]
    reach = LIMIT / scale
    return Learned(
        (mean - reach)[:, None],
        (mean + reach)[:, None],
        inner.mT.flatten(0, 1).contiguous(),
        offset.reshape(-1, 1),
        second[:, :-1].mT.contiguous(),
        second[:, -1][:, :, None].contiguous(),
        last[:, :-1].flatten(0, 1) / cfg.members,
        last[:, -1].mean(0),
    )


def _train(layers: list[Tensor], x: Tensor, targets: Tensor, picked: Tensor, cfg: LearnSettings) -> None:
    """Train a network in place.

    Args:
        layers: Weights and biases (last row) of each layer.
        x: [M, C] standardised features.
        targets: [M, N + 1] fractions of the classes.
        picked: [steps, batch] places of the cells of each step.
        cfg: How it is trained.
    """
    with one_thread():
        moments = [(torch.zeros_like(layer), torch.zeros_like(layer)) for layer in layers]
        for step, places in enumerate(picked):
            lr = cfg.lr * min(1.0, (step + 1) / WARM_UP) * (1 - step / cfg.steps)
            gradients = _gradients(layers, x.index_select(0, places), targets.index_select(0, places))
            for layer, gradient, moment in zip(layers, gradients, moments, strict=True):
                _adam(layer, gradient, moment, lr, cfg.decay, step + 1)


def _gradients(layers: list[Tensor], x: Tensor, targets: Tensor) -> list[Tensor]:
    """Gradients of the mean cross-entropy by the weights and biases."""
    values = [x]
    for i, layer in enumerate(layers):
        out = torch.addmm(layer[-1], values[-1], layer[:-1])
        values.append(out.relu_() if i < len(layers) - 1 else out)
    back = (values.pop().softmax(-1) - targets) / len(x)
    gradients = []
    for layer in reversed(layers):
        below = values.pop()
        gradients.append(torch.cat([below.mT @ back, back.sum(0, keepdim=True)]))
        if values:
            back = (back @ layer[:-1].mT).mul_(below > 0)
    return gradients[::-1]


def _adam(
    weights: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], lr: float, decay: float, step: int
) -> None:
    """One step of AdamW [Loshchilov & Hutter 2019] in place. The optimisers of torch take seconds to import."""
    first, second = moments
    first.lerp_(gradient, 0.1)
    second.lerp_(gradient.square(), 0.001)
    weights.mul_(1 - lr * decay)
    root = (second / (1 - 0.999**step)).sqrt_().add_(1e-8)
    weights.addcdiv_(first, root, value=-lr / (1 - 0.9**step))
