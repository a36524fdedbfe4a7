"""Things that a person watches during a run: TensorBoard curves, if it is installed, and images of predictions."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from repri.runtime.draw import hue_map
from repri.runtime.files import atomic

from .plan import Plan
from .trainee import Trainee

__all__ = ["Board", "Watcher"]

IMAGES = 4
"""Validation images that are drawn after an epoch."""
SIDE = 208
"""Side of each drawn image in pixels."""


class Watcher:
    """Writes into the run's folder, in the first process only.

    Args:
        plan: The run.
        active: Whether this is the first process.
    """

    def __init__(self, plan: Plan, active: bool):
        self.plan, self.active, self.board = plan, active, None
        if active:
            try:
                import tensorboardX  # noqa: F401
            except ImportError:
                return
            self.board = Board(plan.folder / "tensorboard")

    def close(self) -> None:
        """Close TensorBoard's log."""
        if self.board is not None:
            self.board.close()

    def step(self, iteration: int, loss: float, rate: float) -> None:
        """Log the loss and the learning rate of every tenth step."""
        if self.board is not None and iteration % 10 == 0:
            self.board.scalars({"loss": loss, "lr": rate}, iteration)

    def epoch(self, row: dict[str, Any], trainee: Trainee) -> None:
        """Log the figures of an epoch, and draw predictions if there is a classifier."""
        if not self.active:
            return
        if self.board is not None:
            measured = {name: row[name] for name in ("base_miou", "teacher_cosine") if row[name] != ""}
            self.board.scalars(measured, row["step"])
        if trainee.last is None:
            return
        drawn = self._predictions(trainee)
        with atomic(self.plan.folder / "samples" / f"epoch-{row['epoch']:03}.png") as temporary:
            Image.fromarray(drawn).save(temporary)
        if self.board is not None:
            self.board.image("image, mask, prediction", drawn, row["step"])

    def _predictions(self, trainee: Trainee) -> np.ndarray:
        """Rows of image, mask and prediction, in colours of the classes: [H, W, 3]."""
        examples, device = self.plan.validation, next(trainee.parameters()).device
        count = min(IMAGES, len(examples))
        rows = []
        trainee.eval()
        for place in [i * len(examples) // count for i in range(count)]:
            (batch,) = examples.batches([[place]], 0)
            with torch.inference_mode():
                _, logits = trainee(batch.x.to(device))
                predicted = trainee.upsample(logits, batch.labels.shape[-1])[0].argmax(0).byte().cpu().numpy()
            image = examples.dataset.image(examples.ids[place])
            height, width = examples.square.content((image.shape[0], image.shape[1]))
            maps = [hue_map()[m[:height, :width]] for m in (batch.labels[0].numpy(), predicted)]
            tiles = [Image.fromarray(tile).resize((SIDE, SIDE)) for tile in (image, *maps)]
            rows.append(np.concatenate([np.asarray(tile) for tile in tiles], 1))
        return np.concatenate(rows)


class Board:
    """TensorBoard's log, written at once; a log that cannot be written ends, and the run goes on.

    The library's own writer works in a thread, which a full disk ends and for which the writer then waits forever.

    Args:
        folder: Folder of the log.
    """

    def __init__(self, folder: Path):
        from tensorboardX.event_file_writer import EventsWriter

        self.writer = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.writer = EventsWriter(str(folder / "events"))
        except OSError as error:
            self._give_up(error)

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Add one point to each of several curves."""
        from tensorboardX.summary import scalar

        for name, value in values.items():
            self._write(scalar(name, value), step)

    def image(self, name: str, pixels: np.ndarray, step: int) -> None:
        """Add an image [H, W, 3]."""
        from tensorboardX.summary import image

        self._write(image(name, pixels, dataformats="HWC"), step)

    def _write(self, summary: Any, step: int) -> None:
        from tensorboardX.proto import event_pb2

        if self.writer is None:
            return
        event = getattr(event_pb2, "Event")(summary=summary, wall_time=time.time(), step=step)  # noqa: B009
        try:
            self.writer.write_event(event)
            self.writer.flush()
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file; nothing is written after that."""
        writer, self.writer = self.writer, None
        if writer is not None:
            with suppress(OSError):
                writer.close()

    def _give_up(self, error: OSError) -> None:
        self.close()
        warnings.warn(f"TensorBoard's log ends here, it cannot be written: {error.strerror or error}", stacklevel=4)
