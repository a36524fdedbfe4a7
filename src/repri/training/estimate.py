"""``--dry-run``: three measured steps, and an estimate of the whole."""

from __future__ import annotations

import time

import torch

from repri.runtime.distributed import World
from repri.runtime.memory import peak_memory

from .plan import Plan, Report

__all__ = ["measure"]

STEPS = 3
"""Steps that are measured, after one that warms up."""


def measure(plan: Plan, world: World, report: Report | None = None, device: str = "cpu") -> str:
    """Measure a few steps, or images of a discriminant.

    The features of their images are computed and stored, if there are stored features.

    Args:
        plan: The run.
        world: The processes of the run.
        report: Called with the progress.
        device: Device of the network.

    Returns:
        A sentence on time and memory.
    """
    once, filling = plan.one_pass, _measure_stores(plan, world)
    if once is None:
        order = plan.order(0)
        steps = [world.share(order[i % len(order)]) for i in range(STEPS + 1)]
        for _, store, images in plan.frozen(steps):
            store.prepare(images)
        seconds = _measure_steps(plan, steps, report, device)
        text = f"a step takes {seconds:.2f} s: about {_duration(seconds * plan.steps)} in all, without validation"
    else:
        seconds, images = once.measure_fit()
        whole = _duration(seconds * images / world.size)
        text = f"an image takes {seconds:.2f} s: about {whole} in all, without validation"
    before = f"; before it {_duration(filling)} for the frozen part of the network or the teacher" if filling else ""
    gpu = f", {torch.cuda.max_memory_allocated() / 1e9:.1f} GB of the GPU's" if torch.cuda.is_available() else ""
    return f"{text}{before}; {peak_memory():.1f} GB of memory{gpu}"


def _measure_stores(plan: Plan, world: World) -> float:
    """Seconds that filling the stores will take."""
    filling = 0.0
    for _, store, images in plan.frozen():
        if lacking := store.lacking(images):
            first, *others = lacking[: STEPS + 1]  # the first warms up
            store.prepare([first], most=len(set(images)))
            start = time.perf_counter()
            store.prepare(others)
            each = (time.perf_counter() - start) / max(len(others), 1)
            filling += each * (len(lacking) - 1 - len(others)) / world.size
    return filling


def _measure_steps(plan: Plan, steps: list[list[int]], report: Report | None, device: str) -> float:
    """Seconds of a step with the learning rate 0, in this process alone."""
    plan.module.to(device).train()
    learner = plan.updater(World(), device)
    learner.set_rate(0.0)
    times = []
    start = time.perf_counter()
    for i, batch in enumerate(plan.batches(steps, 0)):
        learner.update(batch, i)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if report:
            report("measured steps", i + 1, len(steps), "")
    return sum(times[1:]) / STEPS


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
