"""Products with weights that are laid out once for the processor.

PyTorch multiplies by the weights of a linear layer or a 1×1 convolution as they are. oneDNN, which is part of PyTorch,
can lay them out beforehand in the order in which its kernels read them; on processors with AVX-512 that are not
Intel's, its products take less than half the time. The sums are the same up to rounding.
"""

from __future__ import annotations

import functools
import platform
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

__all__ = ["PackedLinear", "pack"]

ROWS = 1024
"""Rows of a product that the layout is chosen for; others are as fast."""


def pack(network: nn.Module) -> nn.Module:
    """Lay out the weights of all linear layers and 1×1 convolutions, in place.

    A ReLU6 after one of them in a sequence becomes a part of it. Nothing is changed where oneDNN is missing or the
    weights are not float32 numbers in main memory.

    Args:
        network: A network for inference only, which nothing else uses.

    Returns:
        The network.
    """
    if _usable():
        _pack_children(network)
    return network


class PackedLinear(nn.Module):
    """A linear layer [… , C] → [… , D], or a 1×1 convolution [B, C, h, w] → [B, D, h, w], for inference.

    Args:
        weight: Weights [D, C].
        bias: Biases [D], or None.
        on_maps: Whether it is a convolution.
        limited: Whether a ReLU6 follows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, on_maps: bool, limited: bool = False):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.on_maps, self.limited = on_maps, limited
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ROWS)
        self.weight = nn.Parameter(laid_out, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
        self.after: tuple[str, list[float]] = ("hardtanh", [0.0, 6.0]) if limited else ("none", [])

    def forward(self, x: Tensor) -> Tensor:
        if self.on_maps:
            x = x.permute(0, 2, 3, 1)
        y = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, *self.after, "")
        return y.permute(0, 3, 1, 2) if self.on_maps else y

    def extra_repr(self) -> str:
        """Sizes and what follows."""
        return f"{self.in_features}, {self.out_features}, on_maps={self.on_maps}, limited={self.limited}"

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedLinear:
        return self  # it never changes


def _pack_children(module: nn.Module) -> None:
    names = list(module._modules)
    for i, name in enumerate(names):
        child = module._modules[name]
        if child is None:
            continue
        if not _can_be_packed(child):
            _pack_children(child)
            continue
        weight, bias = child.get_parameter("weight"), child._parameters["bias"]
        rest = [n for n in names[i + 1 :] if not isinstance(module._modules[n], nn.Identity)]
        limit = rest[0] if isinstance(module, nn.Sequential) and rest else None
        limited = limit is not None and isinstance(module._modules[limit], nn.ReLU6)
        module._modules[name] = PackedLinear(weight.flatten(1), bias, isinstance(child, nn.Conv2d), limited)
        if limited:
            module._modules[limit] = nn.Identity()


def _can_be_packed(module: nn.Module) -> bool:
    """Whether a module is a product of each cell or token with a matrix, in main memory."""
    if type(module) is nn.Conv2d:
        plain = (module.kernel_size, module.stride, module.groups) == ((1, 1), (1, 1), 1) and module.padding == (0, 0)
    else:
        plain = type(module) is nn.Linear
    return plain and module.get_parameter("weight").device.type == "cpu" and module.weight.dtype == torch.float32


@functools.cache
def _usable() -> bool:
    """Whether this build of PyTorch has the operators and computes the right product with them."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    weight, rows = torch.rand(48, 32, generator=generator), torch.rand(40, 32, generator=generator)
    try:
        with torch.inference_mode():
            product = PackedLinear(weight, None, on_maps=False, limited=True)(rows)
    except (AttributeError, RuntimeError):  # operators of another version of PyTorch
        return False
    return torch.allclose(product, F.linear(rows, weight).clamp(0, 6), rtol=1e-4, atol=1e-5)
