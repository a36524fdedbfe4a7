"""One process or many: ``python -m repri …`` or ``torchrun --nproc-per-node N -m repri …``."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import RepriError

__all__ = ["World", "default_device", "world"]


@dataclass(frozen=True)
class World:
    """The number of this process among all processes."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, items: list) -> list:
        """The part of the items that this process works on: every ``size``-th."""
        return items[self.rank :: self.size]

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank, in every process."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.gather(None)


def default_device() -> str:
    """The device to use: REPRI_DEVICE, or this process's GPU if there is one, or the CPU."""
    import torch

    fallback = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    name = os.environ.get("REPRI_DEVICE") or fallback
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise RepriError(f"The device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return name


@contextmanager
def world() -> Generator[World]:
    """The processes that torchrun started, or this one alone. gloo on CPU, nccl where there are GPUs."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    import torch
    import torch.distributed as dist

    device = default_device()
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield World(dist.get_rank(), size)
        dist.barrier()  # a process that leaves while others still communicate may break them
    finally:
        dist.destroy_process_group()
