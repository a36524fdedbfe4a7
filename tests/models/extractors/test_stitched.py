"""Finer features from shifted copies of an image."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.extractors.stitched import StitchedExtractor
from repri.runtime.errors import RepriError
from tests.models.grids import patches, places


@pytest.mark.parametrize("shifts", [1, 2, 4])
def test_cells_tile_the_image(shifts):
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
    """Cells of strided convolutions then lie on every second pixel, and none beyond the image."""
    extractor = StitchedExtractor(patches(4, True), 2)
    rows, columns, _ = extractor.extract(places(height, width))[0]
    assert extractor.on_pixels
    assert torch.equal(columns[0], torch.arange(0, width, 2).float())
    assert torch.equal(rows[:, 0], torch.arange(0, height, 2).float())


def test_the_embedded_model():
    """Its features without shifts are among those with shifts, and it knows the same."""
    plain, fine = load_extractor(), load_extractor(shifts=2)
    image = torch.rand(1, 3, 65, 97, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fine.extract(image)[..., ::2, ::2], plain.extract(image))
    assert (fine.stride, fine.channels, fine.seen) == (8, plain.channels, plain.seen)
    assert fine.background is not None
    assert fine.whitening is not None
    assert len({plain.fingerprint, fine.fingerprint, load_extractor(shifts=4).fingerprint}) == 3


@pytest.mark.parametrize(
    ("shifts", "message"),
    [
        (0, "shifts must be an integer of at least 1, got 0"),
        (2.0, "shifts must be an integer of at least 1, got 2.0"),
        (3, "are 4 pixels wide, which 3 shifts do not divide: take one of 2, 4"),
    ],
)
def test_shifts_that_cannot_be(shifts, message):
    with pytest.raises(RepriError, match=message):
        load_extractor("filters", shifts=shifts)


@pytest.mark.parametrize("on_pixels", [True, False])
@pytest.mark.parametrize("size", [(16, 24), (24, 16)])
def test_the_number_of_cells_is_known_before(on_pixels, size):
    extractor = StitchedExtractor(patches(4, on_pixels), 2)
    assert extractor.cells(size) == extractor.extract(places(*size)).shape[-2:]


def test_the_number_of_cells_on_pixels_at_any_size():
    extractor = StitchedExtractor(patches(4, True), 2)
    for size in ((17, 25), (15, 24), (16, 23)):
        assert extractor.cells(size) == extractor.extract(places(*size)).shape[-2:]
