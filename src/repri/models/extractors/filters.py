"""A fixed feature extractor that needs no weights: colour, Gabor energies, random Fourier features.

It replaces a trained network where there is none. Local colour and the energy of oriented band-pass filters describe
texture, and random Fourier features [Rahimi & Recht 2007] turn distances between descriptions into cosines, which the
classifier compares.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, InputRule, fingerprint_of

__all__ = ["FilterBank"]

OCTAVES, WAVELENGTHS, ORIENTATIONS = 3, (4.0, 6.0), 6


class FilterBank(FeatureExtractor):
    """Images [B, 3, H, W] in [0, 1] → features [B, C, ⌈H / stride⌉, ⌈W / stride⌉].

    Args:
        channels: C, the number of random Fourier features.
        stride: Pixels per cell.

    Example:
        >>> import torch
        >>> FilterBank().extract(torch.rand(1, 3, 32, 48)).shape
        torch.Size([1, 256, 8, 12])
    """

    name, rule = "filters", InputRule(256)

    def __init__(self, channels: int = 256, stride: int = 4):
        self.channels, self.stride = channels, stride
        self.filters = _gabor_pairs(WAVELENGTHS, ORIENTATIONS)
        g = torch.Generator().manual_seed(0)
        self.projection = torch.randn(channels, 3 + 2 * OCTAVES * len(WAVELENGTHS), generator=g)
        self.phase = 2 * math.pi * torch.rand(channels, generator=g)

    @property
    def fingerprint(self) -> str:
        tensors = {"filters": self.filters, "projection": self.projection, "phase": self.phase}
        return fingerprint_of([self.name, self.channels, self.stride], tensors.items())

    def _forward(self, images: Tensor) -> Tensor:
        size = [-(-n // self.stride) for n in images.shape[-2:]]
        texture = F.interpolate(self._texture(images.mean(1, keepdim=True)), size=size, mode="bilinear")
        colour = F.interpolate(_blur(images, 4), size=size, mode="bilinear")
        description = torch.cat([6.0 * colour, _blur(texture, 2)], 1)
        lifted = torch.einsum("kc,bchw->bkhw", self.projection, description) + self.phase[:, None, None]
        return lifted.cos()

    def _texture(self, luminance: Tensor) -> Tensor:
        """Strength and anisotropy of each band, unchanged by rotation: [B, 1, H, W] → [B, 2 · bands, H, W]."""
        size, level, described = luminance.shape[-2:], luminance, []
        pad = self.filters.shape[-1] // 2
        for octave in range(OCTAVES):
            level = F.avg_pool2d(level, 2, ceil_mode=True) if octave else level
            response = F.conv2d(F.pad(level - _blur(level, pad), (pad,) * 4, mode="replicate"), self.filters)
            energy = response.unflatten(1, (2, len(WAVELENGTHS), ORIENTATIONS)).square().sum(1)
            strength, spread = energy.mean(2), energy.std(2)
            described += [2.0 * torch.log1p(strength / 1e-3), spread / (strength + 1e-3)]
        return torch.cat([F.interpolate(band, size=size, mode="bilinear") for band in described], 1)


def _gabor_pairs(wavelengths: tuple[float, ...], orientations: int) -> Tensor:
    """Even, then odd filters [2 · n, 1, k, k] by wavelength and orientation; a constant gives no response."""
    radius = int(1.4 * max(wavelengths))
    axis = torch.arange(-radius, radius + 1, dtype=torch.float32)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    even, odd = [], []
    for wavelength in wavelengths:
        window = torch.exp(-(x**2 + y**2) / (2 * (0.5 * wavelength) ** 2))
        window = window / window.sum()
        for k in range(orientations):
            angle = math.pi * k / orientations
            phase = 2 * math.pi * (x * math.cos(angle) + y * math.sin(angle)) / wavelength
            even.append(window * (phase.cos() - (window * phase.cos()).sum()))
            odd.append(window * phase.sin())
    return torch.stack(even + odd)[:, None]


def _blur(maps: Tensor, radius: int) -> Tensor:
    """Blur maps by two box filters; edges are replicated."""
    for _ in range(2):
        maps = F.avg_pool2d(F.pad(maps, (radius,) * 4, mode="replicate"), 2 * radius + 1, 1)
    return maps
