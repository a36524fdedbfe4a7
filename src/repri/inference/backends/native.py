"""The compiled backend: ``kernel.c`` computes the sums of ``passes.py`` in one pass over 16-bit rows per step."""

from __future__ import annotations

import ctypes
import itertools

import torch
from torch import Tensor

from repri.inference.config import InferenceConfig
from repri.inference.problem import Problem
from repri.runtime.errors import RepriError

from .build import load_library
from .passes import Classifier, Evaluation, not_finite_message, support_weights

__all__ = ["NativePasses"]

# These mirror kernel.c.
STRIDE_MULTIPLE, BATCH = 16, 16
FOREGROUND, BACKGROUND = 1, 2
SUM_FIELDS = 7

FLOAT: dict = {"dtype": torch.float32, "device": "cpu"}
"""Type and device of the buffers that the kernel sees, whatever torch's defaults are."""
CHUNK_ROWS = 512
"""Rows that are summed in float32 before the float64 sum: enough to hide the bookkeeping, few enough to
give many threads work. Chunks do not depend on the number of threads, so the results do not either."""
SHARED_TASKS = 16
"""Tasks per pass over a support set that they share: their sums stay in the second-level cache."""


class Plan(ctypes.Structure):
    """``plan`` of kernel.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("rows", "inv_norm", "weight_fg", "weight_bg")),
        *((name, ctypes.c_void_p) for name in ("chunks", "starts", "order", "unit", "bias", "partial", "partial_sums")),
        *((name, ctypes.c_void_p) for name in ("vectors", "sums")),
        *((name, ctypes.c_int64) for name in ("chunk_count", "task_count", "stride", "channels")),
        *((name, ctypes.c_float) for name in ("temperature", "epsilon", "lr", "bias_slope")),
        ("threads", ctypes.c_int32),
    ]


class Image(ctypes.Structure):
    """``image`` of pack.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "places", "rows", "inv_norm", "norm")),
        *((name, ctypes.c_int64) for name in ("channels", "cells", "channel_stride", "cell_stride", "row_stride")),
        ("threads", ctypes.c_int32),
    ]


class NativePasses:
    """Passes for CPU tensors: float32 sums over int16 rows, which are half as many bytes, in one pass per step.

    Args:
        problem: The tasks, in float32 or below.
        cfg: Settings of the inference.

    Raises:
        RepriError: The kernel is not available, or features are not finite.
    """

    def __init__(self, problem: Problem, cfg: InferenceConfig):
        library, reason = load_library()
        if library is None:
            raise RepriError(f"backend 'native' is not available here ({reason}): use backend='torch' or 'auto'")
        self.library, self.threads = library, torch.get_num_threads()
        self.tasks, self.channels, *size = problem.query.shape
        self.size, self.cells = size, size[0] * size[1]
        self.query, self.temperature = problem.query, cfg.temperature
        self.stride = _round_up(self.channels, STRIDE_MULTIPLE)
        # Row ranges: the labelled cells of the support sets, then the queries, each padded to whole batches.
        labelled = [(s.labelled > 0).flatten() for s in problem.supports]
        lengths = [*(int(known.sum()) for known in labelled), *[self.cells] * self.tasks]
        starts = list(itertools.accumulate((_round_up(n, BATCH) for n in lengths), initial=0))
        self.query_start = starts[len(problem.supports)]

        self.rows = torch.empty(starts[-1], self.stride, dtype=torch.int16, device="cpu")
        self.rows[:, self.channels :] = 0
        for end, length, start in zip(starts[1:], lengths, starts, strict=False):
            self.rows[start + length : end] = 0
        self.inv_norm, self.norm, self.weight_fg, self.weight_bg = torch.zeros(4, starts[-1], **FLOAT).unbind()
        for index, (support, start) in enumerate(zip(problem.supports, starts, strict=False)):
            self._pack(support.features, start, f"task {index}: support", labelled[index])
        for index, (image, start) in enumerate(zip(problem.query, starts[len(problem.supports) :], strict=False)):
            self._pack(image[None], start, f"task {index}: query")
        self._set_weights(problem, labelled, starts)
        self._make_plan(cfg, *_chunk_table(starts, len(problem.supports), self.tasks))

    def foreground_sum(self) -> Tensor:
        """See ``Passes``."""
        self.library.repri_pass(ctypes.byref(self.plan), FOREGROUND)
        return self.vectors[:, 0, : self.channels].clone()

    def background_sum(self) -> Tensor:
        """See ``Passes``."""
        self.library.repri_pass(ctypes.byref(self.plan), BACKGROUND)
        return self.vectors[:, 0, : self.channels].clone()

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        """See ``Passes``. The features are used as given: what a caller sees carries no rounding to 16 bits."""
        cosines = torch.stack([u @ z.flatten(1).float() for u, z in zip(unit, self.query, strict=True)])
        norm = self._of_queries(self.norm)
        logits = self.temperature * cosines / torch.where(norm > 0, norm, 1) - bias[:, None]
        return logits.unflatten(1, self.size)

    def step(
        self, theta: Classifier, pi: Tensor, lambda_h: Tensor, lambda_kl: Tensor, reestimate: bool, losses: bool
    ) -> Evaluation:
        """See ``Passes``. The kernel computes CE and H in any case."""
        w, b, v = theta
        pointers = (None if tensor is None else tensor.data_ptr() for tensor in (w, b, pi, lambda_h, lambda_kl, v))
        if not self.library.repri_step(ctypes.byref(self.plan), *pointers, reestimate):
            raise MemoryError("no memory for a gradient")
        return self.evaluation

    def _of_queries(self, values: Tensor) -> Tensor:
        """A view [T, h·w] of the values [rows] that belong to the queries."""
        return values[self.query_start :].unflatten(0, (self.tasks, -1))[:, : self.cells]

    def _pack(self, images: Tensor, row: int, name: str, kept: Tensor | None = None) -> None:
        """Write the cells of images [K, C, h, w], or those that are ``kept`` [K·h·w], to the rows from ``row`` on."""
        bad, cells = 0, images.shape[-2] * images.shape[-1]
        kept = torch.ones(len(images) * cells, dtype=torch.bool, device="cpu") if kept is None else kept
        places = torch.where(kept, kept.cumsum(0) - 1, -1)
        for image, place in zip(images, places.split(cells), strict=True):
            flat = image.float().flatten(1)  # [C, h·w]: a view, whatever the strides, unless h and w do not merge
            buffers = (flat, place, self.rows[row:], self.inv_norm[row:], self.norm[row:])
            pointers = (tensor.data_ptr() for tensor in buffers)
            layout = Image(*pointers, self.channels, cells, *flat.stride(), self.stride, self.threads)
            count = self.library.repri_pack(ctypes.byref(layout))
            if count < 0:
                raise MemoryError("no memory to lay out the features")
            bad += count
        if bad:
            raise RepriError(not_finite_message(name, bad))

    def _set_weights(self, problem: Problem, labelled: list[Tensor], starts: list[int]) -> None:
        """Write the weight of each row: that of the two labels for supports, that of valid cells for queries."""
        for start, known, (fg, bg) in zip(starts, labelled, support_weights(problem), strict=False):
            fg, bg = fg[known], bg[known]
            self.weight_fg[start : start + len(fg)] = fg
            self.weight_bg[start : start + len(bg)] = bg
        weight = (problem.valid / problem.valid.sum((1, 2), keepdim=True)).flatten(1)
        self._of_queries(self.weight_fg)[:] = weight

    def _make_plan(self, cfg: InferenceConfig, chunks: Tensor, first_chunk: Tensor, order: Tensor) -> None:
        """Allocate the kernel's buffers and tell it where everything lies."""
        slots = int((chunks[:, 4] + chunks[:, 3]).max())
        unit, bias = torch.zeros(self.tasks, self.stride, **FLOAT), torch.zeros(self.tasks, **FLOAT)
        partial = torch.empty(slots, 2, self.stride, **FLOAT)
        partial_sums = torch.empty(slots, SUM_FIELDS, dtype=torch.float64, device="cpu")
        self.vectors = torch.empty(self.tasks, 3, self.stride, **FLOAT)
        totals = torch.empty(self.tasks, SUM_FIELDS, **FLOAT)
        self.evaluation = Evaluation(totals[:, 3:5], totals[:, 5:7])  # views of what the kernel writes
        buffers = (self.rows, self.inv_norm, self.weight_fg, self.weight_bg, chunks, first_chunk, order)
        buffers += (unit, bias, partial, partial_sums, self.vectors, totals)
        self.keep_alive = buffers
        self.plan = Plan(
            *(tensor.data_ptr() for tensor in buffers),
            *(len(chunks), self.tasks, self.stride, self.channels),
            *(cfg.temperature, cfg.epsilon, cfg.lr, cfg.bias_slope, self.threads),
        )


def _chunk_table(starts: list[int], support_sets: int, tasks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cut the row ranges into chunks.

    Returns:
        [begin, end, first task, tasks, partial slot, is query] of each chunk of rows; and the chunks of each
        task, as offsets [T + 1] into a list of chunk numbers.
    """
    table, slot, chunks_of = [], 0, [[] for _ in range(tasks)]
    for index, (start, end) in enumerate(itertools.pairwise(starts)):
        query = index >= support_sets
        if query or support_sets == tasks:
            groups = [(index - support_sets if query else index, 1)]
        else:  # one support set for all tasks
            groups = [(t, min(SHARED_TASKS, tasks - t)) for t in range(0, tasks, SHARED_TASKS)]
        for begin in range(start, end, CHUNK_ROWS):
            for first, count in groups:
                for task in range(first, first + count):
                    chunks_of[task].append(len(table))
                table.append((begin, min(begin + CHUNK_ROWS, end), first, count, slot, int(query)))
                slot += count
    offsets = list(itertools.accumulate(map(len, chunks_of), initial=0))
    lists = (table, offsets, list(itertools.chain.from_iterable(chunks_of)))
    chunks, first_chunk, order = (torch.tensor(x, dtype=torch.int64, device="cpu") for x in lists)
    return chunks, first_chunk, order


def _round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is not below n."""
    return -(-n // multiple) * multiple
