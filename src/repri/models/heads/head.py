"""Heads: small networks on frozen features, trained on base classes, and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch.nn as nn
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor

from repri.models.networks.pspnet import PyramidPooling
from repri.models.weights.checkpoints import load_exactly, read_tensors, write_tensors

from .blocks import Blocks
from .discriminant import Discriminant

__all__ = ["AnyHead", "Head", "is_head", "load_head", "save_head"]

METADATA = "repri-head"


class Head(nn.Module):
    """[B, C, h, w] → [B, width, u·h, u·w]: pyramid pooling if ``kind`` is ``"psp"``, then a convolution.

    ``upsample``  u: the features are brought to a finer grid by interpolation after a first 1×1 convolution,
                  so that the convolution that follows can draw finer borders
    """

    def __init__(
        self,
        channels: int,
        kind: Literal["conv", "psp"] = "conv",
        width: int = 512,
        kernel: int = 3,
        upsample: int = 1,
        dropout: float = 0.1,
    ):
        super().__init__()
        if kind not in ("conv", "psp"):
            raise ValueError(f"a head is 'conv' or 'psp', got {kind!r}")
        if kernel % 2 == 0 or min(kernel, width, upsample) < 1:
            raise ValueError(
                f"a head needs an odd kernel and a width and upsample ≥ 1, got {kernel}, {width}, {upsample}"
            )
        self.options = {"channels": channels, "kind": kind, "width": width, "kernel": kernel, "upsample": upsample}
        self.out_channels, self.upsample = width, upsample
        self.ppm = PyramidPooling(channels) if kind == "psp" else None
        channels = 2 * channels if kind == "psp" else channels
        self.reduce = _convolution(channels, width, 1) if upsample > 1 else None
        self.bottleneck = _convolution(width if upsample > 1 else channels, width, kernel)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.ppm is None else self.ppm(x)
        if self.reduce is not None:
            x = F.interpolate(self.reduce(x), scale_factor=self.upsample, mode="bilinear", align_corners=False)
        return self.dropout(self.bottleneck(x))


AnyHead = Head | Blocks | Discriminant


def _convolution(channels: int, width: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )


def save_head(path: Path, head: AnyHead, base: dict[str, Any], more: dict[str, Tensor] | None = None) -> None:
    """One safetensors file; ``base`` says which extractor the head sits on (``name``, ``weights``, ``layers``,
    ``combine``, ``identity``), at which ``size`` it was trained and with the labels of which classes (``seen``);
    ``more``: tensors to keep beside it, such as the classifier's."""
    tensors = {f"head.{key}": value for key, value in head.state_dict().items()} | (more or {})
    write_tensors(path, tensors, {METADATA: json.dumps({"head": head.options, "base": base})})


def is_head(path: Path) -> bool:
    """Whether a file says that it holds a head; its tensors are not read."""
    try:
        with safe_open(path, "pt") as content:
            return METADATA in (content.metadata() or {})
    except (OSError, SafetensorError):
        return METADATA in read_tensors(path)[1]  # which says what is wrong


def load_head(path: Path) -> tuple[AnyHead, dict[str, Any]]:
    """The head in a file, and which extractor it sits on."""
    tensors, metadata = read_tensors(path)
    try:
        content = json.loads(metadata[METADATA])
        options, base = dict(content["head"]), dict(content["base"])
        rest = {key: value for key, value in options.items() if key != "kind"}
        if options["kind"] == "blocks":
            head: AnyHead = Blocks(**rest)
        elif options["kind"] == "discriminant":
            head = Discriminant(**rest)
        else:
            head = Head(**options)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no head written by this project, or damaged ({error})") from None
    load_exactly(head, {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}, str(path))
    return head, base
