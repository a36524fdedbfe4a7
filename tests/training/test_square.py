"""Where images, labels and a teacher's features lie on the network's square."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from repri.features.extractor import InputRule
from repri.features.grid import Grid
from repri.features.view import View, resized
from repri.training.augment import Flip
from repri.training.square import Square, labels_at_cells


@pytest.mark.parametrize("flip", [Flip(), Flip(mirrored=True), Flip(upside_down=True)])
@pytest.mark.parametrize("shape", [(375, 500), (500, 333)])
def test_a_teachers_features_lie_at_the_networks_cells(shape, flip):
    """The teacher's features are the places of its cells in the image."""
    square = Square("aspect", 321, InputRule(321), 16)
    seen, full = resized(shape, "aspect", 420, 14)
    grid = Grid.of((full[0] // 14, full[1] // 14), full, 14, on_pixels=False)
    teacher = SimpleNamespace(view=lambda original: View("aspect", original, seen, full, grid))
    centres = [(torch.arange(count) + 0.5) * 14 / side for count, side in zip(grid.cells, seen, strict=True)]
    places = torch.stack(torch.meshgrid(*centres, indexing="ij"))
    targets = square.targets(places, teacher, shape, flip)
    content = square.content(shape)
    cells = [-(-side // 16) for side in content]
    assert targets.shape == (2, 21, 21)
    assert not targets[:, cells[0] :].any()  # outside the image
    assert not targets[:, :, cells[1] :].any()
    for axis, flipped in ((0, flip.upside_down), (1, flip.mirrored)):
        wanted = (torch.arange(cells[axis]) * 16 + 0.5) / content[axis]
        wanted = 1 - wanted if flipped else wanted
        inside = (wanted > centres[axis][0]) & (wanted < centres[axis][-1])  # beyond, the last cell is repeated
        line = targets[0, : cells[0], 0] if axis == 0 else targets[1, 0, : cells[1]]
        torch.testing.assert_close(line[inside], wanted[inside], rtol=0, atol=1e-5)
        assert inside.float().mean() > 0.85


@pytest.mark.parametrize(("resize", "content"), [("aspect", (42, 56)), ("square", (56, 56)), ("letterbox", (42, 56))])
def test_images_and_labels_fill_the_same_part(resize, content):
    rule = InputRule(56, 14 if resize != "letterbox" else 1, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    square = Square(resize, 56, rule, 14)
    image = np.full((75, 100, 3), 255, np.uint8)
    x, labels = square.pixels(image), square.labels(np.ones((75, 100), np.uint8))
    height, width = square.content((75, 100))
    assert (x.shape, labels.shape) == ((3, 56, 56), (56, 56))
    assert (height // 2 * 2, width // 2 * 2) == (content[0] if resize != "letterbox" else 40, content[1])
    assert (x[:, :height, :width] - 1).abs().max() < 1e-6  # normalised
    assert (labels[:height, :width] == 1).all()
    assert (labels[height:] == 255).all()


def test_labels_of_the_pixels_on_or_around_which_cells_lie():
    labels = torch.arange(36).view(6, 6)
    tiling, on_pixels = SimpleNamespace(stride=4, on_pixels=False), SimpleNamespace(stride=4, on_pixels=True)
    assert labels_at_cells(labels, (2, 2), tiling).tolist() == [[14, 17], [32, 35]]  # the second hangs over the edge
    assert labels_at_cells(labels, (2, 2), on_pixels).tolist() == [[0, 4], [24, 28]]
