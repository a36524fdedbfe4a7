"""Finer features from shifted copies of a picture."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.extractors.stitched import StitchedExtractor
from tests.models.grids import patches, places


@pytest.mark.parametrize("shifts", [1, 2, 4])
def test_cells_tile_the_picture(shifts):
    extractor = StitchedExtractor(patches(4, False), shifts)
    rows, columns, _ = extractor.extract(places(16, 24))[0]
    wide = extractor.stride
    assert wide == 4 // shifts
    assert rows.shape == (16 // wide, 24 // wide)
    centres = torch.arange(0, 24, wide) + (wide - 1) / 2
    inner = slice(shifts, -shifts)  # at the border a patch sees the repeated edge
    assert (columns - centres)[:, inner].abs().max() <= 0.5  # shifts are by whole pixels
    assert (rows.T - centres[: len(rows)])[:, inner].abs().max() <= 0.5


@pytest.mark.parametrize(("height", "width"), [(17, 25), (15, 24), (16, 23)])
def test_cells_on_pixels(height, width):
    """Those of strided convolutions lie on every second pixel then, and none beyond the picture."""
    extractor = StitchedExtractor(patches(4, True), 2)
    rows, columns, _ = extractor.extract(places(height, width))[0]
    assert extractor.strided
    assert torch.equal(columns[0], torch.arange(0, width, 2).float())
    assert torch.equal(rows[:, 0], torch.arange(0, height, 2).float())


def test_the_embedded_model():
    """What it is without shifts is among what it is with them; so is what it knows."""
    plain, fine = load_extractor(), load_extractor(shifts=2)
    image = torch.rand(1, 3, 65, 97, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fine.extract(image)[..., ::2, ::2], plain.extract(image))
    assert (fine.stride, fine.channels, fine.seen) == (8, plain.channels, plain.seen)
    assert fine.background is not None
    assert fine.whitening is not None
    assert len({plain.fingerprint, fine.fingerprint, load_extractor(shifts=4).fingerprint}) == 3


@pytest.mark.parametrize(
    ("shifts", "message"), [(0, "at least 1, got 0"), (3, "16 pixels wide, which 3 shifts"), (2.0, "2.0")]
)
def test_shifts_that_cannot_be(shifts, message):
    with pytest.raises(ValueError, match=message):
        load_extractor(shifts=shifts)
