"""Colour, edges and texture at several scales: no weights, and cells of two pixels.

Trainable segmenters of microscope images, such as ilastik and Weka, use such features. They complement the features of
a network, which know kinds of objects but have large cells."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, InputRule, fingerprint_of
from repri.runtime.errors import RepriError

__all__ = ["LowLevel"]

SIGMAS = (1, 2, 4, 8, 16)
"""Standard deviations of the Gaussians, in pixels."""
CHANNELS = 14
"""Responses at each scale; their image-relative copies are as many."""
OF_GREY = torch.tensor([*(n for n in range(4) for _ in range(3)), 4, 5])
"""Which of the six responses to the only colour of a grey image each of the 14 is."""
FINEST = 2
"""Pixels from one cell to the next at which the finest responses are computed."""
FLOOR = 0.02
"""Contrast, for colours in [0, 1], that is added to that of an image before one divides by it."""


class LowLevel(FeatureExtractor):
    """Images [B, 3, H, W] in [0, 1] → features [B, 140, ⌈H / stride⌉, ⌈W / stride⌉].

    For each σ of 1, 2, 4, 8 and 16 pixels, the features are:

    - 3 channels: red, green and blue after a Gaussian of σ;
    - 3 channels: the length of the gradient of each smoothed colour, times σ;
    - 6 channels: the larger, then the smaller eigenvalue of the Hessian of each smoothed colour, times σ²;
    - 2 channels: the roots of the larger and the smaller eigenvalue of the structure tensor of the luminance, times σ;
    - 14 channels: the same relative to the image. A colour minus its mean is divided by its standard deviation, and the
      other responses are divided by the standard deviation of the finest colour or luminance.

    The responses are computed at a stride of max(2, σ / 2) pixels and interpolated to the wanted stride.

    Args:
        stride: Pixels per cell.

    Example:
        >>> import torch
        >>> LowLevel().extract(torch.rand(1, 3, 32, 48)).shape
        torch.Size([1, 140, 16, 24])
    """

    name, rule, channels = "lowlevel", InputRule(640), 2 * CHANNELS * len(SIGMAS)

    def __init__(self, stride: int = 2):
        if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
            raise RepriError(f"stride must be an integer of at least 1, got {stride!r}.")
        self.stride = stride

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([self.name, self.stride, SIGMAS, FLOOR, 1], ())

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each scale."""
        return (2 * CHANNELS,) * len(SIGMAS)

    def _forward(self, images: Tensor) -> Tensor:
        size = self.cells((images.shape[-2], images.shape[-1]))
        # numpy asks the system for large pages, which are ready far sooner than the small ones that torch gets.
        with torch.inference_mode(False):
            out = torch.from_numpy(np.empty((len(images), self.channels, *size), np.float32))
        for image, features in zip(images.cpu(), out, strict=True):
            self._describe(image, features)
        return out

    def _describe(self, image: Tensor, out: Tensor) -> None:
        """Write the features of one image [3, H, W] into ``out`` [140, h, w]."""
        grey = bool(torch.equal(image[0], image[1]) and torch.equal(image[0], image[2]))
        level, factor, contrast = image[:1] if grey else image, 1, None
        for sigma, group in zip(SIGMAS, out.split(2 * CHANNELS), strict=True):
            while factor < _factor(sigma):
                level, factor = _halved(level), 2 * factor
            pitch = max(factor, FINEST)
            linear = _linear(level, sigma, factor)
            own, copies = group.split(CHANNELS)
            count = 4 * len(level) + 2
            here = own if len(own) == count else own.new_empty(count, *own.shape[1:])  # at the wanted stride
            responses = here if pitch == self.stride else own.new_empty(count, *linear[0].shape[-2:])
            _combine(linear, max(sigma, 2) / pitch, responses)
            mean, spread = _mean_and_spread(responses[: len(level)])
            if contrast is None:
                brightness = _mean_and_spread(responses[: len(level)].mean(0, keepdim=True))[1]
                contrast = torch.cat([spread.expand(3), brightness])
            if responses is not here:
                _resize(responses, pitch / self.stride, here)
            if here is not own:
                torch.index_select(here, 0, OF_GREY, out=own)
            divisors = torch.cat([spread.expand(3), *[contrast[:3]] * 3, contrast[3:], contrast[3:]])
            torch.mul(own, divisors.reciprocal()[:, None, None], out=copies)
            copies[:3] -= (mean / spread)[:, None, None]


def _factor(sigma: int) -> int:
    """Factor by which the image is shrunk before it is smoothed with σ."""
    return 1 if sigma == 1 else max(2, sigma // 2)


def _halved(maps: Tensor) -> Tensor:
    """Means over squares of 2×2: [N, H, W] → [N, ⌈H / 2⌉, ⌈W / 2⌉]; the last one of an odd side counts twice."""
    maps = _padded(maps, 0, 2)
    maps = maps[:, ::2] + maps[:, 1::2]
    return (maps[..., ::2] + maps[..., 1::2]).mul_(0.25)


def _linear(level: Tensor, sigma: int, factor: int) -> list[Tensor]:
    """Linear responses to the colours.

    Args:
        level: [3, H, W] colours, or the only one of a grey image, shrunk by ``factor``.
        sigma: σ in pixels of the image.
        factor: Pixels of the image in each pixel of the level, along a side.

    Returns:
        Six tensors with as many colours [·, h, w]: the smoothed ones L, then Lx, Ly, Lxx, Lyy and Lxy, in units of σ.
        At factor 1 they lie in the middle of each square of 2×2 pixels.
    """
    kernels, step = _kernels(sigma, factor), FINEST if factor == 1 else 1
    turned = _padded(level, (kernels.shape[1] - 1) // 2, step).transpose(1, 2).contiguous()
    across = [_down(turned, taps, step).transpose(1, 2).contiguous() for taps in kernels]
    pairs = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
    return [_down(across[x], kernels[y], step) for x, y in pairs]


@lru_cache
def _kernels(sigma: int, factor: int) -> Tensor:
    """[3, k] taps that smooth with σ, and give the first and the second derivative of that, in units of σ."""
    # The means over squares have smoothed the level already.
    smooth = _gaussian(math.sqrt((sigma / factor) ** 2 - (1 - factor**-2) / 12))
    if factor == 1:  # between the pixels, of which four make a cell
        differences = [[0, 0.5, 0.5, 0], [0, -1, 1, 0], [0.5, -0.5, -0.5, 0.5]]
    else:
        differences = [[0, 1, 0], [-0.5, 0, 0.5], [1, -2, 1]]
    kernels = [np.convolve(smooth, taps) * (sigma / factor) ** order for order, taps in enumerate(differences)]
    return torch.from_numpy(np.stack(kernels)).float()


def _gaussian(sigma: float) -> np.ndarray:
    """Taps of a Gaussian, of sum 1."""
    radius = max(1, int(3 * sigma + 0.5))
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return taps / taps.sum()


def _padded(maps: Tensor, margin: int, step: int) -> Tensor:
    """Maps [N, H, W] with their edges repeated, so that both sides grow by 2·margin and to a multiple of ``step``."""
    height, width = maps.shape[-2:]
    pad = (margin, margin + -width % step, margin, margin + -height % step)
    return F.pad(maps[None], pad, mode="replicate")[0] if any(pad) else maps


def _down(maps: Tensor, taps: Tensor, step: int = 1) -> Tensor:
    """Correlate the columns of maps [N, H, W] with taps [k], at every ``step``-th place: [N, h, W].

    Each column is a channel here, with channels last in memory: this is many times faster than an ordinary convolution
    of few channels.
    """
    columns = maps.shape[-1]
    channels = maps[:, :, None].permute(0, 3, 1, 2)  # [N, W, H, 1]
    weights = taps.view(1, 1, -1, 1).expand(columns, -1, -1, -1)
    return F.conv2d(channels, weights, stride=(step, 1), groups=columns).permute(0, 2, 3, 1)[:, :, 0]


def _combine(linear: list[Tensor], reach: float, out: Tensor) -> None:
    """Write the 14 responses of one scale, or the 6 of a grey image.

    Args:
        linear: What :func:`_linear` gives; the second derivatives are overwritten.
        reach: Standard deviation, in cells, over which the structure tensor is averaged.
        out: [14, h, w] or [6, h, w], where they are written.
    """
    colours, x, y, xx, yy, xy = linear
    smooth, length, larger, smaller, tensor = out.split([len(colours)] * 4 + [2])
    smooth[:] = colours
    torch.mul(x, x, out=length).addcmul_(y, y).sqrt_()
    _eigenvalues(xx, xy, yy, larger, smaller)
    x, y = x.mean(0), y.mean(0)  # of the luminance
    taps = torch.from_numpy(_gaussian(reach)).float()
    products = _padded(torch.stack([x * x, x * y, y * y]), len(taps) // 2, 1)
    turned = _down(products, taps).transpose(1, 2).contiguous()
    averaged = _down(turned, taps).transpose(1, 2).contiguous()
    _eigenvalues(*averaged, tensor[0], tensor[1])
    tensor.clamp_min_(0).sqrt_()


def _eigenvalues(a: Tensor, b: Tensor, c: Tensor, larger: Tensor, smaller: Tensor) -> None:
    """Write the eigenvalues of the matrices [[a, b], [b, c]]; ``a`` and ``c`` are overwritten."""
    half = (a + c).mul_(0.5)
    apart = a.sub_(c).mul_(0.5).square_().addcmul_(b, b).sqrt_()
    torch.add(half, apart, out=larger)
    torch.sub(half, apart, out=smaller)


def _mean_and_spread(maps: Tensor) -> tuple[Tensor, Tensor]:
    """[N] means, and standard deviations plus the floor, of maps [N, h, w]."""
    flat = maps.flatten(1)
    mean = flat.mean(1)
    return mean, (flat - mean[:, None]).square_().mean(1).sqrt_() + FLOOR


def _resize(maps: Tensor, scale: float, out: Tensor) -> None:
    """Interpolate maps [C, h, w] at ``scale`` cells per cell, from the first one on, into ``out`` [C, h′, w′]."""
    size = [out.shape[-2], out.shape[-1]]
    torch.ops.aten.upsample_bilinear2d.out(maps[None], size, False, scale, scale, out=out[None])
