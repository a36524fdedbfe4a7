"""Batch norm over all processes, on any device; PyTorch's own needs a GPU."""

from __future__ import annotations

import torch
import torch.nn as nn
from torch import Tensor

__all__ = ["SyncBatchNorm", "synchronise"]


class _Sum(torch.autograd.Function):
    """Sum over all processes; the gradient is summed too."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        out = x.clone()
        torch.distributed.all_reduce(out)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # ty: ignore[incompatible-method-override]
        out = grad.clone()
        torch.distributed.all_reduce(out)
        return out


class SyncBatchNorm(nn.BatchNorm2d):
    """Batch norm with the statistics of the batches of all processes together, which may differ in size."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        x = input.float()
        count = x.new_full((1,), x.numel() // x.shape[1])
        total = _Sum.apply(torch.cat([x.sum((0, 2, 3)), count]))
        n = total[-1].detach()
        mean = total[:-1] / n
        # Not E[x²] − mean²: that loses all digits where the mean is large.
        variance = _Sum.apply((x - mean[:, None, None]).square().sum((0, 2, 3))) / n
        if self.running_mean is not None and self.running_var is not None and self.momentum is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (n / (n - 1)), self.momentum)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]).to(input.dtype)


def synchronise(module: nn.Module) -> None:
    """Make every batch norm inside a module use the batches of all processes."""
    for child in module.modules():
        if type(child) is nn.BatchNorm2d:
            child.__class__ = SyncBatchNorm
