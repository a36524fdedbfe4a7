"""The training loop, from top to bottom.

    python -m repri train --config configs/tiny.yaml
    torchrun --nproc-per-node 4 -m repri train --config configs/pascal-resnet50.yaml

Every random number follows from the seed and the step, so a run that was stopped goes on as if it had not been:
what a checkpoint needs to remember of randomness is the number of the step.
"""

from __future__ import annotations

import hashlib
import math
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from repri.data.io.masks import IGNORE
from repri.models.heads.discriminant import Discriminant
from repri.runtime.distributed import World

from .batches import Batch, Examples, order, sampled
from .config import TrainConfig
from .discriminant import fit_discriminant
from .network import HeadTrainee, Trainee, square, upsampled
from .norm import synchronise
from .plan import Plan
from .state import Progress, load_state, remove_leftovers, save_config, save_state, write_log
from .watch import Watcher

__all__ = ["Stopped", "build_optimiser", "loss_of", "rate", "thinned", "train", "update", "validate"]


class Stopped(Exception):
    """The run was asked to stop, and saved where it was."""


PATIENCE = 30.0
"""Seconds for saving, between a SIGTERM and one that is not held back."""
Report = Callable[[str, int, int, str], None]
"""Called with what is being done, how far, of how much, and figures to show."""
Select = Callable[[Trainee], float]
"""Score of the network after an epoch; the best is kept."""


def train(
    plan: Plan,
    world: World | None = None,
    resume: bool = False,
    report: Report | None = None,
    select: Select | None = None,
    device: str = "cpu",
) -> Progress:
    """Train, or go on; returns the last state. ``select`` replaces the base classes' mIoU as what is best."""
    world, config = world or World(), plan.config
    trainee = plan.trainee.to(device)
    if world.size > 1:
        synchronise(trainee)
    parallel: nn.Module = DistributedDataParallel(trainee) if world.size > 1 and config.stepwise else trainee
    optimiser = build_optimiser(trainee, config)
    progress = Progress()
    plan.check_folder(resume)
    if resume and (plan.folder / "last.pt").exists():  # else it was stopped before there was anything to save
        progress, model, before = load_state(plan.folder, config, plan.identity)
        trainee.load_state_dict(model)
        optimiser.load_state_dict(before)
    if world.first:
        remove_leftovers(plan.folder)
        save_config(plan.folder, config)
    fill_store(plan, world, report)

    def save() -> None:
        if world.first:
            save_state(plan.folder, config, plan.identity, progress, trainee.state_dict(), optimiser.state_dict())

    if isinstance(trainee, HeadTrainee) and isinstance(trainee.head, Discriminant):
        if progress.epoch == 0:
            fit_discriminant(plan, trainee, world, report, device)
            with closing(Watcher(plan, world.first)) as watcher:
                _end_epoch(plan, trainee, progress, world, report, select, watcher, device)
            progress.epoch = 1
            save()
        return progress
    with _stop_signal() as stopping, closing(Watcher(plan, world.first)) as watcher:
        saved = time.monotonic()
        while progress.epoch < config.epochs:
            trainee.train()
            steps = order(len(plan.examples), config.batch, config.seed, progress.epoch)
            mine = [world.share(places) for places in steps]
            batches = plan.examples.batches(mine[progress.step :], progress.epoch)
            for batch in batches:
                iteration = progress.epoch * len(steps) + progress.step
                torch.manual_seed(_seed(config.seed, iteration, world.rank))
                for group in optimiser.param_groups:
                    group["lr"] = group["factor"] * rate(config, iteration, plan.steps)
                batch = thinned(batch, config, trainee.stride, iteration)
                loss, stop = update(parallel, trainee, optimiser, batch, config, world, device, stopping())
                if not math.isfinite(loss):
                    raise ValueError(
                        f"the loss is {loss} at step {iteration} (epoch {progress.epoch + 1}), with the images "
                        f"{', '.join(batch.ids)}: try a smaller lr; the last checkpoint is as it was before"
                    )
                progress.losses.append(loss)
                watcher.step(iteration, loss, optimiser.param_groups[0]["lr"])
                progress.step += 1
                if report:
                    recent = progress.losses[-50:]
                    text = f"epoch {progress.epoch + 1}/{config.epochs}, loss {sum(recent) / len(recent):.3f}"
                    report("training", iteration + 1, plan.steps, text)
                if stop or time.monotonic() - saved > 60 * config.save_minutes:
                    save()
                    saved = time.monotonic()
                if stop:
                    world.wait()  # torchrun ends the others as soon as one is gone, the one that saves among them
                    raise Stopped(f"stopped and saved after step {iteration + 1} of {plan.steps}")
            save()  # validation may be long
            _end_epoch(plan, trainee, progress, world, report, select, watcher, device)
            progress.epoch, progress.step, progress.losses = progress.epoch + 1, 0, []
            save()
            saved = time.monotonic()
    return progress


def build_optimiser(trainee: Trainee, config: TrainConfig) -> torch.optim.Optimizer:
    """Over everything that is learned; ``factor`` of a group multiplies the step size."""
    classifier = set() if trainee.last is None else {id(p) for p in trainee.last.parameters()}
    learned = [p for p in trainee.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learned if id(p) not in classifier], "factor": 1.0},
        {"params": [p for p in learned if id(p) in classifier], "factor": config.classifier_factor},
    ]
    if config.optimiser == "adamw":
        return torch.optim.AdamW(groups, config.lr, weight_decay=config.weight_decay)
    nesterov = config.protocol == "official" if config.nesterov is None else config.nesterov
    return torch.optim.SGD(groups, config.lr, config.momentum, 0, config.weight_decay, nesterov)


def rate(config: TrainConfig, iteration: int, steps: int) -> float:
    """Cosine per iteration, from lr to 0 (``official``: 1e-6), after a linear rise if there is a warm-up."""
    end = 1e-6 if config.protocol == "official" else 0.0
    rise = min(1.0, (iteration + 1) / config.warmup) if config.warmup else 1.0
    return rise * (end + (config.lr - end) * (1 + math.cos(math.pi * iteration / steps)) / 2)


def update(
    model: nn.Module,
    trainee: Trainee,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    config: TrainConfig,
    world: World,
    device: str,
    stopping: bool,
) -> tuple[float, bool]:
    """One update. Losses are means over the labelled pixels and the teacher's cells of the whole batch, of all
    processes and parts."""
    labels = sampled(batch.labels, config.loss_stride, trainee.aligned(batch.labels.shape[-1]))
    cells = 0 if batch.targets is None else int(batch.targets.any(1).sum())
    facts = torch.tensor([float((labels != IGNORE).sum()), float(cells), float(stopping)], device=device)
    if world.size > 1:
        torch.distributed.all_reduce(facts)
    weights = torch.tensor([config.label_weight, config.teacher_weight], device=device) / facts[:2].clamp_min(1)
    targets = [None] * config.accumulate if batch.targets is None else batch.targets.chunk(config.accumulate)
    parts = list(zip(batch.x.chunk(config.accumulate), labels.chunk(config.accumulate), targets, strict=True))
    total = torch.zeros((), device=device)
    optimiser.zero_grad(set_to_none=True)
    for i, (x, y, target) in enumerate(parts):
        waits = i + 1 < len(parts) and isinstance(model, DistributedDataParallel)
        with model.no_sync() if waits else nullcontext():
            wanted = None if target is None else target.to(device)
            aligned = trainee.aligned(batch.labels.shape[-1])
            loss = (weights * loss_of(model, x.to(device), y.to(device), config, aligned, wanted)).sum()
            (loss * world.size).backward()  # gradients are averaged over the processes
        total += loss.detach()
    if world.size > 1:
        torch.distributed.all_reduce(total)
    finite = all(bool(p.grad.isfinite().all()) for p in trainee.parameters() if p.grad is not None)
    found = float(total) if finite else float("nan")
    if math.isfinite(found):
        optimiser.step()
    return found, bool(facts[2] > 0)


def thinned(batch: Batch, config: TrainConfig, stride: int, iteration: int) -> Batch:
    """Every ``thin``-th cell in both directions and the label at its centre, from a place that all processes share."""
    if config.thin == 1:
        return batch
    place = torch.Generator().manual_seed(_seed(config.seed, iteration, 0))
    top, left = (int(torch.randint(config.thin, (), generator=place)) for _ in range(2))
    where = (..., slice(top, None, config.thin), slice(left, None, config.thin))
    return batch._replace(x=batch.x[where], labels=sampled(batch.labels, stride, aligned=False)[where])


def loss_of(
    model: nn.Module, x: Tensor, labels: Tensor, config: TrainConfig, aligned: bool, targets: Tensor | None = None
) -> Tensor:
    """[2]: sums of the smoothed cross-entropy over labelled pixels, and of 1 − cosine over the cells of ``targets``;
    ``aligned``: outer cells lie on outer pixels.

    ``official`` spreads ε over the C − 1 other classes, PyTorch over all C: the same with ε·C/(C − 1).
    """
    share = None
    if config.mixup > 0:
        share = float(torch.distributions.Beta(config.mixup, config.mixup).sample())
        x = share * x + (1 - share) * x.roll(1, 0)
    amp = config.mixed_precision and x.device.type == "cuda"
    with torch.autocast(x.device.type, torch.bfloat16, enabled=amp):
        features, logits = model(x)
    unlike = features.new_zeros(()) if targets is None else unlikeness(features.float(), targets).sum()
    if logits is None:
        return torch.stack([torch.zeros_like(unlike), unlike])
    labels = labels.long()
    logits = upsampled(logits.float(), square(labels), aligned)
    classes = logits.shape[1]
    smoothing = config.smoothing * (classes / (classes - 1) if config.protocol == "official" else 1)

    def entropy(target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)

    crossed = entropy(labels)
    if share is not None:
        crossed = share * crossed + (1 - share) * entropy(labels.roll(1, 0))
    return torch.stack([crossed, unlike])


def unlikeness(features: Tensor, targets: Tensor) -> Tensor:
    """1 − cosine at each cell that has a target: [B, C, h, w] twice → [cells]."""
    return (1 - F.cosine_similarity(features, targets, dim=1))[targets.any(1)]


def fill_store(plan: Plan, world: World, report: Report | None = None) -> None:
    """Run the frozen part of the network, and the teacher, where there is one, over every image once."""
    for name, store, images in plan.frozen():
        show = (lambda a, b, name=name: report(name, a, b, "")) if report else None
        store.prepare(images, show, share=world.share)
        world.wait()


def validate(
    trainee: Trainee, examples: Examples, classes: int, world: World, device: str = "cpu"
) -> tuple[Tensor, float]:
    """Confusion [classes, classes] (truth, prediction) in pixels of the network's square, and the mean cosine to the
    teacher's features (NaN without one)."""
    trainee.eval()
    table = torch.zeros(classes, classes, dtype=torch.int64)
    likeness = torch.zeros(2, dtype=torch.float64)
    with torch.inference_mode():
        for batch in examples.batches([[place] for place in world.share(list(range(len(examples))))], 0):
            features, logits = trainee(batch.x.to(device))
            if batch.targets is not None:
                cosine = 1 - unlikeness(features.float().cpu(), batch.targets)
                likeness += torch.tensor([float(cosine.sum()), len(cosine)], dtype=torch.float64)
            if logits is not None:
                size = square(batch.labels)
                logits = upsampled(logits.float(), size, trainee.aligned(size[0]))
                known = batch.labels != IGNORE
                index = batch.labels[known].long() * classes + logits.argmax(1).cpu()[known]
                table += torch.bincount(index, minlength=classes**2).reshape(classes, classes)
    total, count = torch.stack(world.gather(likeness)).sum(0)
    return torch.stack(world.gather(table)).sum(0), float(total / count)


def _end_epoch(
    plan: Plan,
    trainee: Trainee,
    progress: Progress,
    world: World,
    report: Report | None,
    select: Select | None,
    watcher: Watcher,
    device: str,
) -> None:
    """Validate when it is time, log, keep the network if it is the best (``paper``: the last)."""
    config = plan.config
    row: dict[str, Any] = {
        "epoch": progress.epoch + 1,
        "step": (progress.epoch + 1) * plan.steps_per_epoch,
        "loss": sum(progress.losses) / len(progress.losses) if progress.losses else "",
        "base_miou": "",
        "teacher_cosine": "",
        "selected_by": "",
    }
    last = progress.epoch + 1 == config.epochs
    if last or (progress.epoch + 1) % config.validate_every == 0:
        if report:
            report("validation", 0, 1, "")
        table, likeness = validate(trainee, plan.validation, len(plan.classes) + 1, world, device)
        if config.teacher is not None:
            row["teacher_cosine"] = score = likeness
        if config.label_weight > 0:
            row["base_miou"] = score = _base_miou(table.double())
        if config.protocol == "paper":
            score = float(progress.epoch)
        if select is not None:
            score = select(trainee)
        row["selected_by"] = score
        watcher.epoch(row, trainee)
        if score > progress.best or math.isnan(score):  # of what cannot be told apart, the last
            progress.best = max(progress.best, score)
            if world.first:
                trainee.export(plan.folder / "model.safetensors")
        if report:
            measured = {"base mIoU": row["base_miou"], "cosine to the teacher": row["teacher_cosine"]}
            report("validation", 1, 1, ", ".join(f"{k} {v:.3g}" for k, v in measured.items() if v != ""))
    progress.rows.append(row)
    if world.first:
        write_log(plan.folder, progress.rows)


def _base_miou(table: Tensor) -> float:
    hit = table.diagonal()
    union = table.sum(0) + table.sum(1) - hit
    seen = union[1:] > 0
    return 100 * float((hit[1:][seen] / union[1:][seen]).mean())


def _seed(seed: int, iteration: int, rank: int) -> int:
    """63 bits of a step's own."""
    digest = hashlib.sha256(f"{seed}/{iteration}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@contextmanager
def _stop_signal() -> Generator[Callable[[], bool]]:
    """Whether SIGTERM or Ctrl-C came. A second Ctrl-C is not held back, nor a SIGTERM some time after the first:
    torchrun and schedulers send it twice at once."""
    asked: list[float] = []
    before: dict[int, Any] = {}

    def remember(number: int, frame: Any) -> None:
        asked.append(time.monotonic())
        if len(asked) > 1 and (number == signal.SIGINT or asked[-1] - asked[0] > PATIENCE):
            signal.signal(number, before[number])
            signal.raise_signal(number)

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) != signal.SIG_IGN:  # as a shell wants it for what runs in its background
                before[number] = signal.signal(number, remember)
    except ValueError:  # not the main thread: nobody to ask
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
