"""The one function that turns an image's mask into labels of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import IGNORE, nearest_labels

if TYPE_CHECKING:
    from .grid import Grid
    from .view import View

__all__ = ["Weighting", "cell_labels", "cell_weights", "label_weights", "proportion_of"]

How = Literal["area", "nearest", "centre"]
Weighting = Literal["nearest", "area", "bilinear", "adjoint"]
"""How the pixels of a mask weight the cells; :func:`cell_weights` explains each."""


def cell_labels(mask: np.ndarray, view: View, how: How = "area", classes: int = 1) -> Tensor:
    """Labels of the cells of a view.

    Args:
        mask: [H, W] with 0 … N and 255 at the image's own size, or soft values in [0, 1] of one class.
        view: The view of the image.
        how: ``area``: with one class, the fraction of the labelled pixels around a cell that show it; with several,
            the class with most of these pixels, and each class that the mask shows keeps at least the cell with most
            of it, so that nothing thin is lost. ``nearest``: the mask at the network's size, then at the cells, by
            nearest resizing, as the authors do. ``centre``: the pixel on which a cell lies, or the middle pixel of
            its tile.
        classes: N.

    Returns:
        [h, w] labels, 255 where nothing is labelled.
    """
    if how == "nearest":
        return nearest_labels(view.mask(mask)[None], view.grid.cells)[0]
    if how == "centre":
        return view.grid.sample(view.mask(mask))
    known = mask != IGNORE
    kinds = [np.where(known, mask, 0)] if classes == 1 else [mask == n for n in range(1, classes + 1)]
    objects = torch.from_numpy(np.stack(kinds).astype(np.float32))
    maps = torch.cat([torch.from_numpy(known)[None].float() - objects.sum(0, keepdim=True), objects])
    maps = F.interpolate(maps[None], size=view.content, mode="area")[0]
    padding = (0, view.full[1] - view.content[1], 0, view.full[0] - view.content[0])
    fractions = view.grid.pool(F.pad(maps, padding))
    total = fractions.sum(0)
    if classes == 1:
        return torch.where(total > 1e-6, fractions[1] / total.clamp_min(1e-6), float(IGNORE))
    ids = torch.where(total > 1e-6, fractions.argmax(0), IGNORE)
    for n in range(1, classes + 1):
        if fractions[n].any() and not (ids == n).any():
            ids.view(-1)[fractions[n].argmax()] = n
    return ids


def cell_weights(mask: Tensor, grid: Grid, how: Weighting = "area") -> Tensor:
    """How much of the background and of the object each cell shows, for methods that average features under a mask.

    Args:
        mask: [H, W] at the size of the network's input (:meth:`repri.features.View.mask`): 0, 1, soft values between
            them, and 255 for pixels without a label, such as those of the padding, which count on neither side.
        grid: Where the cells lie.
        how: ``nearest``: the mask by nearest resizing. ``area``: the mean over the pixels around a cell. ``bilinear``:
            the mask by bilinear resizing with the outer cells on the outer pixels. ``adjoint``: the sum over all
            pixels, each with the weight that the cell has where features are upsampled bilinearly; a mean of cells
            under these weights equals the mean of the upsampled features under the mask. ``nearest`` and ``bilinear``
            give way to ``area`` where they would lose the whole object.

    Returns:
        [2, h, w] weights of the background and of the object.

    Example:
        >>> from repri.features import Grid
        >>> mask = torch.tensor([[0.0, 1.0, 1.0, 255.0]] * 2)
        >>> cell_weights(mask, Grid.of((1, 2), (2, 4), 2, on_pixels=False))
        tensor([[[0.5000, 0.0000]],
        <BLANKLINE>
                [[0.5000, 0.5000]]])
    """
    maps = label_weights(mask)
    if how == "nearest":
        weights = label_weights(nearest_labels(mask[None], grid.cells)[0])
    elif how == "bilinear":
        weights = F.interpolate(maps[None], grid.cells, mode="bilinear", align_corners=True)[0]
    elif how == "adjoint":
        rows, columns = grid.spread()
        return rows.T @ maps @ columns
    else:
        return grid.pool(maps)
    return grid.pool(maps) if maps[1].any() and not weights[1].any() else weights


def label_weights(labels: Tensor) -> Tensor:
    """[2, …] weights of the background and of the object, from labels 0 … 1 and 255, which has weight on neither side.

    Example:
        >>> label_weights(torch.tensor([0.0, 0.25, 255.0]))
        tensor([[1.0000, 0.7500, 0.0000],
                [0.0000, 0.2500, 0.0000]])
    """
    known = labels != IGNORE
    foreground = torch.where(known, labels, 0).float()
    return torch.stack([known.float() - foreground, foreground])


def proportion_of(labels: Tensor) -> float:
    """The proportion π₁ of the object among the labelled cells of labels [h, w]; NaN if no cell is labelled.

    Example:
        >>> proportion_of(torch.tensor([[0.0, 1.0], [255.0, 0.5]]))
        0.5
    """
    known = labels[labels != IGNORE]
    return float(known.float().mean())
