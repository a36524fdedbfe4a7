"""Colour, edges and texture, against scipy's filters."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from repri.models import load_extractor
from repri.models.extractors.lowlevel import SIGMAS, LowLevel
from repri.runtime.errors import RepriError

MARGIN = 80


def made(height, width):
    """[H, W, 3] discs of several sizes and colours on a slope, with noise."""
    draw = np.random.default_rng(0)
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([rows / height, columns / width, 0.5 + 0 * rows], -1) / 2
    for _ in range(60):
        y, x, radius = draw.uniform(0, height), draw.uniform(0, width), draw.uniform(2, 25)
        image[np.hypot(rows - y, columns - x) < radius] = draw.uniform(0, 1, 3)
    return (0.8 * image + 0.2 * draw.uniform(0, 1, image.shape)).astype(np.float32)


def smoothed(values, sigma):
    return gaussian_filter(values, (sigma, sigma, 0), mode="nearest", truncate=3)


def eigenvalues(a, b, c):
    pairs = np.linalg.eigvalsh(np.stack([np.stack([a, b], -1), np.stack([b, c], -1)], -1))
    return pairs[..., 1], pairs[..., 0]


def tiles(values):
    """The four pixels of each square of 2×2, and the pixels around them: [4, 4, h, w, …]."""
    height, width = (side - 2 * MARGIN for side in values.shape[:2])
    begin = MARGIN - 1
    return np.stack(
        [
            np.stack([values[begin + i : begin + i + height : 2, begin + j : begin + j + width : 2] for j in range(4)])
            for i in range(4)
        ]
    )


def finest(image):
    """[14, h, w] at σ = 1: the Gaussian, then differences over the pixels around the middle of each square."""
    padded = np.pad(image.astype(float), ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)), mode="edge")
    around = tiles(smoothed(padded, 1))
    inner = around[1:3, 1:3]
    first = np.array([-1, 1])
    second = np.array([0.5, -0.5, -0.5, 0.5])
    colour = inner.mean((0, 1))
    x = np.einsum("j,ijhwc->hwc", first, inner) / 2
    y = np.einsum("i,ijhwc->hwc", first, inner) / 2
    xx = np.einsum("j,ijhwc->hwc", second, around[1:3]) / 2
    yy = np.einsum("i,ijhwc->hwc", second, around[:, 1:3]) / 2
    xy = np.einsum("i,j,ijhwc->hwc", first, first, inner)
    return assembled(colour, x, y, xx, yy, xy, 1)


def coarse(image, sigma):
    """[14, H, W] at any σ, pixel by pixel."""
    smooth = smoothed(image.astype(float), sigma)
    y, x = (sigma * d for d in np.gradient(smooth, axis=(0, 1)))
    yy, yx = (sigma * d for d in np.gradient(y, axis=(0, 1)))
    xx = sigma * np.gradient(x, axis=1)
    return assembled(smooth, x, y, xx, yy, yx, max(sigma, 2))


def assembled(colour, x, y, xx, yy, xy, reach):
    x0, y0 = x.mean(-1), y.mean(-1)
    tensor = smoothed(np.stack([x0 * x0, x0 * y0, y0 * y0], -1), reach)
    structure = np.sqrt(np.stack(eigenvalues(*np.moveaxis(tensor, -1, 0)), -1).clip(0))
    parts = [colour, np.hypot(x, y), *eigenvalues(xx, xy, yy), structure]
    return np.moveaxis(np.concatenate(parts, -1), -1, 0)


def extract(image, **options):
    return LowLevel(**options).extract(torch.from_numpy(np.moveaxis(image, -1, 0).copy())[None])[0]


@pytest.mark.parametrize("size", [(48, 64), (36, 50)])
def test_the_finest_scale_is_scipys_gaussian_and_differences(size):
    image = made(*size)
    found = extract(image)[:14].numpy()
    np.testing.assert_allclose(found, finest(image), atol=2e-5)


@pytest.mark.parametrize("sigma", SIGMAS[1:])
def test_coarser_scales_resemble_scipys_at_full_size(sigma):
    image = made(200, 241)
    number = 28 * SIGMAS.index(sigma)
    found = extract(image)[number : number + 14].numpy()
    wanted = coarse(image, sigma)
    wanted = (wanted[:, ::2, :-1:2] + wanted[:, 1::2, :-1:2] + wanted[:, ::2, 1::2] + wanted[:, 1::2, 1::2]) / 4
    edge = slice(2 * sigma, -2 * sigma)  # the Hessian of numpy's gradients differs at the border
    for channel, (a, b) in enumerate(zip(found, wanted, strict=True)):
        a, b = a[edge, : b.shape[1]][:, edge], b[edge, edge]
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.98, channel
        assert 0.85 < a.std() / b.std() < 1.15, channel


def test_copies_are_relative_to_the_image():
    """Brightness and contrast leave them as they are, up to the floor of the contrast."""
    image = made(60, 90)
    features = extract(image).unflatten(0, (5, 2, 14))
    darker = extract(0.7 * image + 0.1).unflatten(0, (5, 2, 14))
    changes = (features - darker).square().mean((0, 3, 4)).sqrt() / features.square().mean((0, 3, 4)).sqrt()
    assert changes[0, 3:].min() > 0.29
    assert changes[1].max() < 0.1
    own, copies = features[:, 0], features[:, 1]
    luminance = own[0, :3].mean(0)
    torch.testing.assert_close(copies[0, 12], own[0, 12] / (luminance.std(correction=0) + 0.02))
    torch.testing.assert_close(copies[0, 7], own[0, 7] / (own[0, 1].std(correction=0) + 0.02))
    torch.testing.assert_close(copies[1, 0], (own[1, 0] - own[1, 0].mean()) / (own[1, 0].std(correction=0) + 0.02))
    torch.testing.assert_close(copies[4, 3], own[4, 3] / (own[0, 0].std(correction=0) + 0.02))


def test_scales_lie_at_the_same_place():
    """The smoothed colours of a slope are the places of the cells at all scales, whatever the size of the image."""
    slope = np.tile(np.arange(301, dtype=np.float32)[None, :, None] / 301, (93, 1, 3))
    columns = 301 * extract(slope).unflatten(0, (5, 28))[:, 0]
    wanted = 2 * torch.arange(151) + 0.5
    assert (columns - wanted)[..., 30:-30].abs().max() < 0.01


@pytest.mark.parametrize("stride", [2, 3])
def test_a_grey_image_has_the_features_of_three_equal_colours(stride):
    image = np.repeat(made(45, 70)[..., :1], 3, -1)
    nearly = image.copy()
    nearly[0, 0, 1] += 1e-6  # not quite grey, so each colour is computed on its own
    torch.testing.assert_close(extract(image, stride=stride), extract(nearly, stride=stride), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 4, 5])
def test_cells_and_fingerprints(stride):
    extractor = load_extractor("lowlevel", stride=stride)
    images = torch.rand(2, 3, 33, 47, generator=torch.Generator().manual_seed(0))
    features = extractor.extract(images)
    assert features.shape[1:] == (extractor.channels, *extractor.cells((33, 47))) == (140, *features.shape[2:])
    assert torch.equal(features[1:], extractor.extract(images[1:]))
    assert sum(extractor.widths) == 140
    assert (extractor.fingerprint == LowLevel().fingerprint) == (stride == 2)
    assert not features.is_inference()


@pytest.mark.parametrize("size", [(3, 5), (1, 1), (1, 40), (40, 1), (17, 2)])
@pytest.mark.parametrize("value", [0.0, 0.5, None])
def test_small_and_constant_images_have_finite_features(size, value):
    image = torch.rand(1, 3, *size) if value is None else torch.full((1, 3, *size), value)
    features = LowLevel().extract(image)
    assert features.isfinite().all()
    if value is not None:
        own = features[0].unflatten(0, (5, 2, 14))[:, 0]
        torch.testing.assert_close(own[:, :3], torch.full_like(own[:, :3], value))
        assert own[:, 3:].abs().max() < 1e-3


@pytest.mark.parametrize("stride", [0, 2.0, True])
def test_strides_that_cannot_be(stride):
    with pytest.raises(RepriError, match="stride must be an integer of at least 1, got"):
        LowLevel(stride)
