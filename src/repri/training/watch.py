"""What a person watches: TensorBoard scalars, if the library is there, and pictures of predictions."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from repri.data.io.masks import IGNORE
from repri.features.view import geometry
from repri.runtime.files import atomic

from .network import Trainee
from .plan import Plan

__all__ = ["Watcher"]

PICTURES = 4
SIDE = 208


class Watcher:
    """Writes into the run's folder, from the first process only."""

    def __init__(self, plan: Plan, active: bool):
        self.plan, self.active, self.board = plan, active, None
        if active:
            try:
                import tensorboardX  # noqa: F401
            except ImportError:
                return
            self.board = Board(plan.folder / "tensorboard")

    def close(self) -> None:
        if self.board is not None:
            self.board.close()

    def step(self, iteration: int, loss: float, lr: float) -> None:
        if self.board is not None and iteration % 10 == 0:
            self.board.scalars({"loss": loss, "lr": lr}, iteration)

    def epoch(self, row: dict[str, Any], trainee: Trainee) -> None:
        if not self.active:
            return
        if self.board is not None:
            measured = {name: row[name] for name in ("base_miou", "teacher_cosine") if row[name] != ""}
            self.board.scalars(measured, row["step"])
        if trainee.last is None:
            return
        picture = self._predictions(trainee)
        with atomic(self.plan.folder / "samples" / f"epoch-{row['epoch']:03}.png") as temporary:
            Image.fromarray(picture).save(temporary)
        if self.board is not None:
            self.board.picture("picture, truth, prediction", picture, row["step"])

    def _predictions(self, trainee: Trainee) -> np.ndarray:
        """Rows of picture, truth and prediction, in colours of the classes."""
        examples, device = self.plan.validation, next(trainee.parameters()).device
        count = min(PICTURES, len(examples))
        rows = []
        trainee.eval()
        for place in [i * len(examples) // count for i in range(count)]:
            (batch,) = examples.batches([[place]], 0)
            with torch.inference_mode():
                logits = trainee.segment(batch.x.to(device), batch.labels.shape[-1])
            image = examples.dataset.image(examples.ids[place])
            maps = [batch.labels[0].numpy(), logits[0].argmax(0).byte().cpu().numpy()]
            where = geometry((image.shape[0], image.shape[1]), examples.rule, examples.size, examples.multiple)
            height, width = where.content
            tiles = [Image.fromarray(image)] + [Image.fromarray(_coloured(m[:height, :width])) for m in maps]
            rows.append(np.concatenate([np.asarray(tile.resize((SIDE, SIDE))) for tile in tiles], 1))
        return np.concatenate(rows)


class Board:
    """TensorBoard's log, written at once: the library's own writer does it in a thread that a full disk ends, and then
    waits for it forever. What cannot be written ends the log, not the run."""

    def __init__(self, folder: Path):
        from tensorboardX.event_file_writer import EventsWriter

        self.writer = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.writer = EventsWriter(str(folder / "events"))
        except OSError as error:
            self._give_up(error)

    def scalars(self, values: dict[str, float], step: int) -> None:
        from tensorboardX.summary import scalar

        for name, value in values.items():
            self._write(scalar(name, value), step)

    def picture(self, name: str, picture: np.ndarray, step: int) -> None:
        from tensorboardX.summary import image

        self._write(image(name, picture, dataformats="HWC"), step)

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
        writer, self.writer = self.writer, None
        if writer is not None:
            with suppress(OSError):
                writer.close()

    def _give_up(self, error: OSError) -> None:
        self.close()
        warnings.warn(f"TensorBoard's log ends here, it cannot be written: {error.strerror or error}", stacklevel=4)


def _coloured(labels: np.ndarray) -> np.ndarray:
    """[h, w] labels → [h, w, 3]: background black, 255 white, classes by well-spread hues."""
    hues = (np.arange(256) * 0.618034) % 1
    palette = np.stack([np.abs(((hues * 6 + shift) % 6) - 3) - 1 for shift in (0, 4, 2)], -1).clip(0, 1)
    palette = (60 + 195 * palette).astype(np.uint8)
    palette[0], palette[IGNORE] = 0, 255
    return palette[labels]
