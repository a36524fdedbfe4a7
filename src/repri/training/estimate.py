"""``--dry-run``: three measured steps, and what the whole run will take by them."""

from __future__ import annotations

import time
from dataclasses import replace

from repri.distributed import World, peak_memory

from .batches import order
from .loop import Report, build_optimiser, thinned, update
from .plan import Plan

__all__ = ["measure"]

STEPS = 3


def measure(plan: Plan, world: World, report: Report | None = None, device: str = "cpu") -> str:
    """A sentence on time and memory. The features of the images of these steps are computed if they are stored ones."""
    config = plan.config
    trainee = plan.trainee.to(device).train()
    optimiser = build_optimiser(trainee, replace(config, lr=0.0))
    steps = order(len(plan.examples), config.batch, config.seed, 0)
    steps = [world.share(steps[i % len(steps)]) for i in range(STEPS + 1)]  # the first warms up
    filling = 0.0
    for store in (plan.examples.store, plan.examples.teacher):
        if store is None:
            continue
        images = sorted({plan.examples.dataset[plan.examples.ids[place]].image for places in steps for place in places})
        start = time.perf_counter()
        computed = store.prepare(images)
        each = (time.perf_counter() - start) / computed if computed else 0.0
        filling += each * (len(plan.examples) + len(plan.validation)) / world.size
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
    if filling:
        text += f"; before it {_duration(filling)} for the frozen part of the network or the teacher"
    return f"{text}; {peak_memory():.1f} GB of memory"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
