"""Things that a person watches during a run: TensorBoard curves, if it is installed, and images of predictions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from repri.runtime.draw import hue_map
from repri.runtime.files import atomic

from .batches import Examples
from .plan import Plan
from .trainee import Trainee

__all__ = ["Board", "Watcher", "draw_predictions", "drawn_row", "some_places"]

MEASURED = ("base_miou", "teacher_cosine", "selected_by")
"""Columns of the log that are drawn as curves."""

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

    def epoch(self, row: dict[str, Any], device: str) -> None:
        """Log the figures of an epoch, and draw predictions if the plan has some."""
        if not self.active:
            return
        if self.board is not None:
            measured = {name: row[name] for name in MEASURED if isinstance(row.get(name), float)}
            self.board.scalars(measured, row["step"])
        drawn = self.plan.drawn(device)
        if drawn is None:
            return
        with atomic(self.plan.folder / "samples" / f"epoch-{row['epoch']:03}.png") as temporary:
            Image.fromarray(drawn).save(temporary)
        if self.board is not None:
            self.board.image("image, mask, prediction", drawn, row["step"])


def draw_predictions(trainee: Trainee, examples: Examples, device: str) -> np.ndarray:
    """Rows of image, mask and prediction, in colours of the classes.

    Args:
        trainee: A network with a classifier, which is left in evaluation mode.
        examples: The images, of which a few are drawn.
        device: Device of the network.

    Returns:
        [H, W, 3].
    """
    trainee.eval()
    rows = []
    for place in some_places(len(examples)):
        (batch,) = examples.batches([[place]], 0)
        with torch.inference_mode():
            _, logits = trainee(batch.x.to(device))
            predicted = trainee.upsample(logits, batch.labels.shape[-1])[0].argmax(0).byte().cpu().numpy()
        image = examples.dataset.image(examples.ids[place])
        height, width = examples.square.content((image.shape[0], image.shape[1]))
        maps = [m[:height, :width] for m in (batch.labels[0].numpy(), predicted)]
        rows.append(drawn_row(image, maps))
    return np.concatenate(rows)


def some_places(length: int) -> list[int]:
    """Places of a list, at even distances, of which predictions are drawn."""
    count = min(IMAGES, length)
    return [i * length // count for i in range(count)]


def drawn_row(image: np.ndarray, maps: Sequence[np.ndarray]) -> np.ndarray:
    """An image [H, W, 3] and maps of labels [h, w] in colours, side by side: [SIDE, n·SIDE, 3]."""
    tiles = [Image.fromarray(tile).resize((SIDE, SIDE)) for tile in (image, *(hue_map()[m] for m in maps))]
    return np.concatenate([np.asarray(tile) for tile in tiles], 1)


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
