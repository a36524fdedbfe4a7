"""Methods with a network that is trained by episodes: tasks of base classes, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.features.grid import Grid
from repri.features.labels import Weighting, cell_weights
from repri.inference.labels import IGNORE, on_one_grid
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction

__all__ = ["FewShotNetwork", "LearnedMethod", "Lesson", "Output", "Shot", "Training", "cross_entropy", "pick_layers"]

Positions = Sequence[int] | int | None
"""Positions of layers among those that an extractor gives; negative ones count from the end; None: a method's own."""


class Shot(NamedTuple):
    """One labelled image of an episode in training."""

    features: Tensor
    """[C, h, w]."""
    mask: Tensor
    """[H, W] at the size of the network's input: 0, 1, and 255 for pixels without a label."""
    grid: Grid
    """Where the cells lie on the mask."""
    classes: Tensor | None = None
    """[H, W] 0 for background, 1 … B for the base classes, 255: for methods that also learn to name base classes."""


class Lesson(NamedTuple):
    """One episode in training."""

    support: Tensor
    """[K, C, h, w] features."""
    weights: Tensor
    """[K, 2, h, w] weights of background and object."""
    shots: Sequence[Shot]
    """The K labelled images."""
    query: Shot
    """The query with its truth."""


class Output(NamedTuple):
    """What a network says about a query."""

    logits: Tensor
    """[h, w] logit of the object minus logit of the background."""
    more: Sequence[Tensor] = ()
    """Logits [h, w] of inner classifiers, for the loss."""


class FewShotNetwork(nn.Module, ABC):
    """Support and query in, logits out; one episode at a time.

    Args:
        widths: Number of channels of each layer of the features.
    """

    inner_weight: float = 1.0
    """Weight of the mean loss of the inner classifiers."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.widths = tuple(widths)

    @abstractmethod
    def forward(self, support: Tensor, weights: Tensor, query: Tensor) -> Output:
        """Segment a query.

        Args:
            support: [K, C, h, w] features of the shots.
            weights: [K, 2, h, w] weights of background and object (:func:`repri.features.cell_weights`).
            query: [C, h′, w′] features of the query.

        Returns:
            Logits at the cells of the query.
        """

    def loss(self, lesson: Lesson) -> Tensor:
        """Cross-entropy of the query, and of the inner classifiers."""
        out = self(lesson.support, lesson.weights, lesson.query.features)
        loss = cross_entropy(out.logits, lesson.query)
        if not out.more:
            return loss
        return loss + self.inner_weight * torch.stack([cross_entropy(m, lesson.query) for m in out.more]).mean()


@dataclass(frozen=True)
class Training:
    """How a network was trained; it is kept in the network's file."""

    extractor: str
    """Name of the extractor whose features it takes."""
    identity: str
    """Identity of this extractor."""
    widths: tuple[int, ...]
    """Number of channels of each of its layers."""
    seen: tuple[str, ...]
    """Base classes whose labels were used."""
    shots: int
    """Shots of an episode in training."""
    episodes: int
    """Number of episodes."""
    more: dict[str, Any] = field(default_factory=dict)
    """Other facts, such as the size of the images."""


class LearnedMethod(Method):
    """A method around a :class:`FewShotNetwork`.

    ``start`` makes a network with random weights, ``loss`` is what training makes smaller, and
    :func:`repri.methods.save_method` and :func:`repri.methods.build_method` write and read the file.
    """

    needs_masks = True
    weighting: Weighting = "bilinear"
    """How masks weight the cells."""
    network: FewShotNetwork | None = None
    """The network; None: there is none yet."""
    training: Training | None = None
    """How the network was trained, if it was."""

    @abstractmethod
    def build(self, widths: tuple[int, ...]) -> FewShotNetwork:
        """A network with random weights, for features with layers of these widths."""

    def untrained(self, widths: tuple[int, ...]) -> FewShotNetwork:
        """What is used without training, on the features as they are. Methods that cannot be used so do not override
        this."""
        raise RepriError(
            f"The method {self.name} has to be trained before it can be used: train it with repri train, and give the "
            f"file that results, as --method FILE or as {self.name} with --method-weights FILE."
        )

    @classmethod
    def must_be_trained(cls) -> bool:
        """Whether the method cannot be used without training."""
        return cls.untrained is LearnedMethod.untrained

    def start(self, widths: Sequence[int], seed: int = 0) -> FewShotNetwork:
        """Take a new network.

        Args:
            widths: Number of channels of each layer of the features (``extractor.widths``).
            seed: Seed of the random weights.

        Returns:
            The network, which is the method's from now on.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = self.build(tuple(widths))
        return self.network

    def loss(self, shots: Sequence[Shot], query: Shot) -> Tensor:
        """The loss of one episode, as the network is: in the mode of training or not.

        Args:
            shots: The support.
            query: The query with its truth.

        Returns:
            A scalar with a gradient.
        """
        if self.network is None:
            raise RuntimeError("call start() before the first loss")
        like = next(self.network.parameters())
        shots = [shot._replace(features=shot.features.to(like)) for shot in shots]
        weights = on_one_grid([cell_weights(shot.mask, shot.grid, self.weighting) for shot in shots]).to(like)
        support = on_one_grid([shot.features for shot in shots])
        return self.network.loss(Lesson(support, weights, shots, query._replace(features=query.features.to(like))))

    def predict(self, episode: Episode) -> Prediction:
        widths = episode.widths or (episode.query.shape[0],)
        network = self._network(widths)
        like = next(network.parameters(), torch.empty(0))
        weights = episode.support.weights(self.weighting).to(like)
        if not weights[:, 1].any():
            raise RepriError("The support labels hold no foreground: mark the object in at least one image.")
        support = on_one_grid(episode.support.features).to(like)
        mode = network.training
        with torch.no_grad():
            out = network.eval()(support, weights, episode.query.to(like))
        network.train(mode)
        return Prediction(out.logits.to(episode.query.device))

    def check(self, extractor: FeatureExtractor) -> None:
        """Refuse features of another extractor than the one of the training, and layers that the method cannot use."""
        made = self.training
        if made is not None and made.identity != extractor.identity:
            raise RepriError(
                f"This {self.name} was trained on features of {made.extractor}, and {extractor.name} here has other "
                "weights or settings: use the extractor that it was trained with."
            )
        self._network(extractor.widths)

    def settings(self) -> dict[str, Any]:
        made, trained = self.training, dict[str, Any]()
        if made is not None and self.network is not None:
            weights = fingerprint_of((self.name,), self.network.state_dict().items())
            trained = {"shots": made.shots, "episodes": made.episodes, "weights": weights[:16]}
        return self.options() | {"trained": trained}

    def options(self) -> dict[str, Any]:
        """The settings from which the method can be built again."""
        return {}

    def _network(self, widths: tuple[int, ...]) -> FewShotNetwork:
        """The network for features with layers of these widths."""
        if self.network is None:
            return self.untrained(widths)
        if self.network.widths != widths:
            have, want = (", ".join(map(str, sides)) for sides in (widths, self.network.widths))
            raise RepriError(
                f"This {self.name} takes features with layers of {want} channels, and the extractor here gives {have}."
            )
        return self.network


def pick_layers(widths: Sequence[int], positions: Positions, method: str, what: str = "mid") -> list[slice]:
    """The channels of some layers.

    Args:
        widths: Number of channels of each layer.
        positions: Positions of the wanted layers; None: all.
        method: Name of the method, for messages.
        what: Name of the setting, for messages.

    Returns:
        Slices of the channels, in the order of the positions.

    Example:
        >>> pick_layers((512, 1024, 2048), (0, -1), "pfenet")
        [slice(0, 512, None), slice(1536, 3584, None)]
    """
    chosen = range(len(widths)) if positions is None else [positions] if isinstance(positions, int) else positions
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    slices = []
    for position in chosen:
        if isinstance(position, bool) or not isinstance(position, int) or not -len(widths) <= position < len(widths):
            listed = ", ".join(map(str, widths))
            raise RepriError(
                f"The method {method} asks for layer {position!r} ({what}), and the extractor gives {len(widths)} "
                f"layer{'s' * (len(widths) > 1)} of {listed} channels: choose {what} among 0 … {len(widths) - 1}, or "
                "give the extractor more layers."
            )
        slices.append(slice(ends[position] - widths[position], ends[position]))
    if not slices:
        raise RepriError(f"The method {method} needs at least one layer: {what} is empty.")
    return slices


def channels_of(features: Tensor, slices: Sequence[slice]) -> Tensor:
    """[…, C′, h, w]: some channels of features […, C, h, w]."""
    return torch.cat([features[..., part, :, :] for part in slices], -3)


def resized(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Maps [N, C, h, w] at another size, bilinearly, with the outer cells on the outer ones."""
    return F.interpolate(maps, (size[0], size[1]), mode="bilinear", align_corners=True)


def cross_entropy(logits: Tensor, shot: Shot) -> Tensor:
    """Mean cross-entropy over the labelled pixels of an image.

    Args:
        logits: [h, w] logits of the object minus those of the background; on another grid than the features', they are
            interpolated with the outer cells on the outer pixels.
        shot: The image, at whose pixels the logits are interpolated.

    Returns:
        A scalar, 0 if nothing is labelled.
    """
    if tuple(logits.shape) == shot.grid.cells:
        rows, columns = (matrix.to(logits) for matrix in shot.grid.spread())
        full = rows @ logits @ columns.T
    else:
        full = resized(logits[None, None], shot.mask.shape)[0, 0]
    known = shot.mask != IGNORE
    if not known.any():
        return 0 * logits.sum()
    return F.binary_cross_entropy_with_logits(full[known], shot.mask[known].to(full))
