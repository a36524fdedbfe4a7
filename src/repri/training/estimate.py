"""``--dry-run``: three measured steps, and what the whole run will take by them."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from repri.models.heads.discriminant import Discriminant, Moments
from repri.runtime.distributed import World
from repri.runtime.memory import peak_memory

from .batches import order
from .discriminant import add_picture
from .loop import Report, build_optimiser, thinned, update
from .network import HeadTrainee
from .plan import Plan

__all__ = ["measure"]

STEPS = 3


def measure(plan: Plan, world: World, report: Report | None = None, device: str = "cpu") -> str:
    """A sentence on time and memory. The features of the images of these steps are computed if they are stored ones."""
    config = plan.config
    trainee = plan.trainee.to(device).train()
    optimiser = build_optimiser(trainee, replace(config, lr=0.0))
    if config.stepwise:
        steps = order(len(plan.examples), config.batch, config.seed, 0)
        steps = [world.share(steps[i % len(steps)]) for i in range(STEPS + 1)]  # the first warms up
    else:
        steps = [[place] for place in range(min(STEPS, len(plan.examples)))]
    filling = 0.0
    for _, store, images in plan.frozen():
        if lacking := store.lacking(images):
            first, *others = lacking[: STEPS + 1]  # the first warms up
            store.prepare([first], most=len(set(images)))
            start = time.perf_counter()
            store.prepare(others)
            each = (time.perf_counter() - start) / max(len(others), 1)
            filling += each * (len(lacking) - 1 - len(others)) / world.size
    for store in (plan.examples.store, plan.examples.teacher):
        if store is not None:
            store.prepare([plan.examples.image(place) for places in steps for place in places])
    if isinstance(trainee, HeadTrainee) and isinstance(trainee.head, Discriminant):
        return _measure_pass(plan, trainee.head, steps, world) + _rest(filling)
    times = []
    start = time.perf_counter()
    for i, batch in enumerate(plan.examples.batches(steps, 0)):
        batch = thinned(batch, config, trainee.stride, i)
        update(trainee, trainee, optimiser, batch, config, World(), device, False)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if report:
            report("measured steps", i + 1, len(steps), "")
    step = sum(times[1:]) / STEPS
    text = f"a step takes {step:.2f} s: about {_duration(step * plan.steps)} in all, without validation"
    return text + _rest(filling)


def _measure_pass(plan: Plan, head: Discriminant, steps: list[list[int]], world: World) -> str:
    found = Moments.empty(len(plan.classes) + 1, len(head.mean))
    start = time.perf_counter()
    for batch in plan.examples.batches(steps, 0):
        add_picture(found, plan, head, batch)
    each = (time.perf_counter() - start) / len(steps)
    whole = each * len(plan.examples) / world.size
    return f"an image takes {each:.2f} s: about {_duration(whole)} in all, without validation"


def _rest(filling: float) -> str:
    before = f"; before it {_duration(filling)} for the frozen part of the network or the teacher" if filling else ""
    gpu = f", {torch.cuda.max_memory_allocated() / 1e9:.1f} GB of the GPU's" if torch.cuda.is_available() else ""
    return f"{before}; {peak_memory():.1f} GB of memory{gpu}"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
