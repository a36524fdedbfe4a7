"""The training loop, from top to bottom.

    python -m repri train --config configs/tiny.yaml
    torchrun --nproc-per-node 4 -m repri train --config configs/pascal-resnet50.yaml

Every random number follows from the seed and the number of the step, so a run that was stopped goes on as if nothing
had happened: a checkpoint remembers the number of the step, and no state of random generators.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.files import remove_leftovers

from .checks import check_folder
from .plan import Plan, Report, Step
from .schedule import learning_rate, step_seed
from .signals import Stopped, stop_signal
from .state import Progress, load_state, save_config, save_state, write_log
from .update import Updater
from .watch import Watcher

__all__ = ["Select", "train"]

Select = Callable[[Any], float]
"""Score of the trained module after an epoch; the module with the best score is kept."""


def train(
    plan: Plan,
    world: World | None = None,
    resume: bool = False,
    report: Report | None = None,
    select: Select | None = None,
    device: str = "cpu",
) -> Progress:
    """Train what a plan describes, or go on with a run that was stopped.

    Args:
        plan: The run, from :func:`repri.training.prepare`.
        world: The processes of the run; None: one.
        resume: Whether to go on from ``last.pt`` in the run's folder.
        report: Called with the progress.
        select: Score that replaces the mIoU of the base classes in choosing the best epoch.
        device: Device on which it is trained.

    Returns:
        The progress at the end of the run. ``plan.target`` is the file that results.
    """
    check_folder(plan.target, resume)
    world = world or World()
    plan.module.to(device)
    run = _Run(plan, world, plan.updater(world, device), report, select)
    if resume and (plan.folder / "last.pt").exists():  # it was perhaps stopped before there was anything to save
        run.load()
    if world.first:
        remove_leftovers(plan.folder, below=True)
        save_config(plan.folder, plan.settings)
    plan.fill_stores(world, report)
    once = plan.one_pass
    signals = stop_signal() if once is None else nullcontext(lambda: False)  # one pass is simply begun again
    with signals as stopping, closing(Watcher(plan, world.first)) as watcher:
        while run.progress.epoch < plan.settings.optimiser.epochs:
            if once is None:
                run.train_epoch(stopping, watcher)
            else:
                once.fit(world, report, device)
            run.end_epoch(watcher)
            run.save()
    return run.progress


@dataclass
class _Run:
    """A run in one of its processes."""

    plan: Plan
    world: World
    updater: Updater
    report: Report | None
    select: Select | None
    progress: Progress = field(default_factory=Progress)
    saved: float = field(default_factory=time.monotonic)
    """Time of the last checkpoint."""

    def load(self) -> None:
        """Go on from the last checkpoint."""
        plan = self.plan
        self.progress, model, optimiser = load_state(plan.folder, plan.settings, plan.identity)
        plan.module.load_state_dict(model)
        self.updater.optimiser.load_state_dict(optimiser)

    def save(self) -> None:
        """Write a checkpoint, in the first process."""
        plan = self.plan
        if self.world.first:
            states = (plan.module.state_dict(), self.updater.optimiser.state_dict())
            save_state(plan.folder, plan.settings, plan.identity, self.progress, *states)
        self.saved = time.monotonic()

    def train_epoch(self, stopping: Callable[[], bool], watcher: Watcher) -> None:
        """The steps of an epoch, from the one at which the progress is."""
        plan, progress, world, settings = self.plan, self.progress, self.world, self.plan.settings
        plan.module.train()
        steps = plan.order(progress.epoch)
        mine = [world.share(places) for places in steps]
        for batch in plan.batches(mine[progress.step :], progress.epoch):
            iteration = progress.epoch * len(steps) + progress.step
            stop = self.step(batch, iteration, stopping(), watcher)
            if stop or time.monotonic() - self.saved > 60 * settings.run.save_minutes:
                self.save()
            if stop:
                world.wait()  # torchrun ends all processes as soon as one has ended, even the one that still saves
                raise Stopped(f"stopped and saved after step {iteration + 1} of {plan.steps}")
        self.save()  # validation may take long

    def step(self, batch: Step, iteration: int, stopping: bool, watcher: Watcher) -> bool:
        """One step; returns whether any process was asked to stop."""
        plan, progress, settings = self.plan, self.progress, self.plan.settings
        torch.manual_seed(step_seed(settings.seed, iteration, self.world.rank))
        rate = learning_rate(settings, iteration, plan.steps)
        self.updater.set_rate(rate)
        loss, stop = self.updater.update(batch, iteration, stopping)
        if not math.isfinite(loss):
            raise RepriError(
                f"The loss is {loss} at step {iteration} (epoch {progress.epoch + 1}), with the images "
                f"{', '.join(batch.ids)}: try a smaller optimiser.lr; the last checkpoint is as it was before."
            )
        progress.losses.append(loss)
        progress.step += 1
        watcher.step(iteration, loss, rate)
        if self.report:
            recent = progress.losses[-50:]
            text = f"epoch {progress.epoch + 1}/{settings.optimiser.epochs}, loss {sum(recent) / len(recent):.3f}"
            self.report("training", iteration + 1, plan.steps, text)
        return stop

    def end_epoch(self, watcher: Watcher) -> None:
        """Validate if it is time, write the log, and turn to the next epoch."""
        plan, progress, settings = self.plan, self.progress, self.plan.settings
        epoch = progress.epoch + 1
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": epoch * plan.steps_per_epoch,
            "loss": sum(progress.losses) / len(progress.losses) if progress.losses else "",
            **plan.row(epoch),
            "selected_by": "",
        }
        if epoch == settings.optimiser.epochs or epoch % settings.validation.every == 0:
            row["selected_by"] = score = self.validate(row)
            watcher.epoch(row, self.updater.device)
            if score > progress.best or math.isnan(score):  # if epochs cannot be compared, the last one is kept
                progress.best = max(progress.best, score)
                if self.world.first:
                    plan.export(row)
        progress.rows.append(row)
        if self.world.first:
            write_log(plan.folder, progress.rows)
        progress.epoch, progress.step, progress.losses = epoch, 0, []

    def validate(self, row: dict[str, Any]) -> float:
        """Validate and put the figures into the row; returns the score that decides the best epoch."""
        plan = self.plan
        if self.report:
            self.report("validation", 0, 1, "")
        score = plan.validate(row, self.world, self.updater.device)
        if plan.settings.selection == "last":
            score = float(self.progress.epoch)
        if self.select is not None:
            score = self.select(plan.module)
        if self.report:
            names = {"base_miou": "base mIoU", "teacher_cosine": "cosine to the teacher"}
            measured = {name: row[key] for key, name in names.items() if row.get(key, "") != ""}
            self.report("validation", 1, 1, ", ".join(f"{name} {value:.3g}" for name, value in measured.items()))
        return score
