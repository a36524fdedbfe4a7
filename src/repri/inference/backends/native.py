"""The compiled backend: the sums of ``passes.py`` by ``kernel.c``, one pass over 16-bit rows a step."""

from __future__ import annotations

import ctypes
import itertools

import torch
from torch import Tensor

from repri.inference.config import InferenceConfig
from repri.inference.problem import Problem
from repri.runtime.errors import RepriError

from .build import load_library
from .passes import Evaluation, not_finite_message, support_weights

__all__ = ["NativePasses"]

# These mirror kernel.c.
STRIDE_MULTIPLE, BATCH = 16, 16
FOREGROUND, BACKGROUND = 1, 2
SUM_FIELDS = 7

FLOAT: dict = {"dtype": torch.float32, "device": "cpu"}
"""Of every buffer the kernel sees, whatever torch's defaults are."""
CHUNK_ROWS = 512
"""Rows summed in float32 before the float64 sum: enough to hide the bookkeeping, few enough to
give many threads work."""
SHARED_TASKS = 16
"""Tasks per pass over a support set they share: their sums stay in the second-level cache."""


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
        *((name, ctypes.c_int64) for name in ("channels", "pixels", "channel_stride", "pixel_stride", "row_stride")),
        ("threads", ctypes.c_int32),
    ]


class NativePasses:
    """CPU, float32 sums over int16 rows: half the bytes, one pass a step."""

    def __init__(self, problem: Problem, cfg: InferenceConfig):
        library, reason = load_library()
        if library is None:
            raise RepriError(f"backend 'native' is not available here: {reason}")
        self.library = library
        self.tasks, self.channels, *size = problem.query.shape
        self.size, self.pixels = size, size[0] * size[1]
        self.query, self.temperature = problem.query, cfg.temperature
        self.stride = _round_up(self.channels, STRIDE_MULTIPLE)
        # Row ranges: the support sets' labelled pixels, then the queries, each padded to whole batches.
        sets = [*(s.features for s in problem.supports), *(image[None] for image in problem.query)]
        labelled = [(s.labelled > 0).flatten() for s in problem.supports]
        lengths = [*(int(known.sum()) for known in labelled), *[self.pixels] * self.tasks]
        starts = list(itertools.accumulate((_round_up(n, BATCH) for n in lengths), initial=0))
        support_sets = len(problem.supports)
        self.query_start = starts[support_sets]

        self.rows = torch.empty(starts[-1], self.stride, dtype=torch.int16, device="cpu")
        self.rows[:, self.channels :] = 0
        self.inv_norm, self.norm, self.weight_fg, self.weight_bg = torch.zeros(4, starts[-1], **FLOAT).unbind()
        for index, (images, start, length) in enumerate(zip(sets, starts, lengths, strict=False)):
            if index < support_sets:
                self._pack(images, start, f"task {index}: support", labelled[index])
            else:
                self._pack(images, start, f"task {index - support_sets}: query")
            self.rows[start + length : starts[index + 1]] = 0
        for start, length, known, (fg, bg) in zip(starts, lengths, labelled, support_weights(problem), strict=False):
            self.weight_fg[start : start + length] = fg[known]
            self.weight_bg[start : start + length] = bg[known]
        weight = (problem.valid / problem.valid.sum((1, 2), keepdim=True)).flatten(1)
        self._of_queries(self.weight_fg)[:] = weight

        chunks, first_chunk, order = _chunk_table(starts, support_sets, self.tasks)
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
            *(cfg.temperature, cfg.epsilon, cfg.lr, cfg.bias_slope, torch.get_num_threads()),
        )

    def foreground_sum(self) -> Tensor:
        self.library.repri_pass(ctypes.byref(self.plan), FOREGROUND)
        return self.vectors[:, 0, : self.channels].clone()

    def background_sum(self) -> Tensor:
        self.library.repri_pass(ctypes.byref(self.plan), BACKGROUND)
        return self.vectors[:, 0, : self.channels].clone()

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        """From the features as given: what a caller sees carries no rounding to 16 bits."""
        cosines = torch.stack([u @ z.flatten(1).float() for u, z in zip(unit, self.query, strict=True)])
        norm = self._of_queries(self.norm)
        logits = self.temperature * cosines / torch.where(norm > 0, norm, 1) - bias[:, None]
        return logits.unflatten(1, self.size)

    def step(
        self,
        w: Tensor,
        b: Tensor,
        v: Tensor | None,
        pi: Tensor,
        lambda_h: Tensor,
        lambda_kl: Tensor,
        reestimate: bool,
        losses: bool,
    ) -> Evaluation:
        # CE and H come for free here, asked for or not
        pointers = (None if tensor is None else tensor.data_ptr() for tensor in (w, b, pi, lambda_h, lambda_kl, v))
        if not self.library.repri_step(ctypes.byref(self.plan), *pointers, reestimate):
            raise MemoryError("no memory for a gradient")
        return self.evaluation

    def _of_queries(self, values: Tensor) -> Tensor:
        """[rows] → a view [T, h·w] of the queries' rows."""
        return values[self.query_start :].unflatten(0, (self.tasks, -1))[:, : self.pixels]

    def _pack(self, images: Tensor, row: int, name: str, kept: Tensor | None = None) -> None:
        """The pixels of some images, or those of them that are ``kept`` [K·h·w], to rows from ``row`` on."""
        bad, pixels = 0, images.shape[-2] * images.shape[-1]
        kept = torch.ones(len(images) * pixels, dtype=torch.bool, device="cpu") if kept is None else kept
        places = torch.where(kept, kept.cumsum(0) - 1, -1)
        for image, place in zip(images, places.split(pixels), strict=True):
            flat = image.float().flatten(1)  # [C, h·w]: a view, whatever the strides, unless h and w do not merge
            buffers = (flat, place, self.rows[row:], self.inv_norm[row:], self.norm[row:])
            image_struct = Image(
                *(tensor.data_ptr() for tensor in buffers),
                *(self.channels, pixels, *flat.stride(), self.stride, torch.get_num_threads()),
            )
            count = self.library.repri_pack(ctypes.byref(image_struct))
            bad = -1 if count < 0 else bad + count
        if bad < 0:
            raise MemoryError("no memory to lay out the features")
        if bad:
            raise RepriError(not_finite_message(name, bad))


def _chunk_table(starts: list[int], support_sets: int, tasks: int) -> tuple[Tensor, Tensor, Tensor]:
    """[begin, end, first task, tasks, partial slot, is query] of each chunk of rows; and the chunks of each
    task, as offsets [T + 1] into a list of chunk numbers."""
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
    return -(-n // multiple) * multiple
