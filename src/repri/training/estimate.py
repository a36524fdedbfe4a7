"""``--dry-run``: what the run will train, three measured steps, and an estimate of the whole."""

from __future__ import annotations

import time
from typing import Any

import torch

from repri.runtime.distributed import World
from repri.runtime.memory import peak_memory

from .batches import order
from .discriminant import add_image, empty_moments
from .plan import Plan, Report
from .update import Learner

__all__ = ["measure", "summary"]

STEPS = 3
"""Steps that are measured, after one that warms up."""


def summary(plan: Plan) -> list[str]:
    """Lines on the network, the classes, the images and the steps of a run."""
    settings, parameters = plan.settings, list(plan.trainee.parameters())
    learned = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    if plan.trainee.trunk is not None and not frozen:
        frozen = sum(p.numel() for part in _networks(plan.trainee.trunk) for p in part.parameters())
    size, batch = plan.examples.square.size, settings.optimiser.batch
    return [
        f"{settings.network.name}, protocol {settings.protocol}, fold {settings.data.fold}, "
        f"{len(plan.classes)} base classes:",
        "  " + ", ".join(plan.classes),
        f"{len(plan.examples)} training images, {len(plan.validation)} for validation, side {size}",
        f"{learned / 1e6:.2f} M parameters learned, {frozen / 1e6:.2f} M frozen",
        f"{plan.steps_per_epoch} steps of {batch} images in an epoch, {plan.steps} in all"
        if settings.stepwise
        else "one pass over the features, then algebra",
    ]


def _networks(extractor: Any) -> list[Any]:
    """The networks that an extractor runs, down to the one under its head."""
    if hasattr(extractor, "under"):
        return [*_networks(extractor.under), extractor.head]
    return [extractor.run] if hasattr(extractor, "run") else []


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
    settings, examples = plan.settings, plan.examples
    if settings.stepwise:
        steps = order(len(examples), settings.optimiser.batch, settings.seed, 0)
        steps = [world.share(steps[i % len(steps)]) for i in range(STEPS + 1)]
    else:
        steps = [[place] for place in range(min(STEPS, len(examples)))]
    filling = _measure_stores(plan, world)
    for store in (examples.features, examples.teacher):
        if store is not None:
            store.prepare([examples.path(place) for places in steps for place in places])
    if settings.stepwise:
        seconds = _measure_steps(plan, steps, report, device)
        text = f"a step takes {seconds:.2f} s: about {_duration(seconds * plan.steps)} in all, without validation"
    else:
        seconds = _measure_images(plan, steps)
        whole = seconds * len(examples) / world.size
        text = f"an image takes {seconds:.2f} s: about {_duration(whole)} in all, without validation"
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
    learner = Learner(plan.trainee.to(device).train(), plan.settings, World(), device)
    learner.set_rate(0.0)
    times = []
    start = time.perf_counter()
    for i, batch in enumerate(plan.examples.batches(steps, 0)):
        learner.update(batch, i)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if report:
            report("measured steps", i + 1, len(steps), "")
    return sum(times[1:]) / STEPS


def _measure_images(plan: Plan, steps: list[list[int]]) -> float:
    """Seconds that a discriminant needs for an image."""
    moments = empty_moments(plan)
    start = time.perf_counter()
    for batch in plan.examples.batches(steps, 0):
        add_image(moments, plan, batch)
    return (time.perf_counter() - start) / len(steps)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
