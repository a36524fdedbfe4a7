"""What a person watches."""

import numpy as np
import pytest
from PIL import Image

from repri.training import prepare, train


def test_predictions_are_drawn(trained):
    drawn = np.asarray(Image.open(trained.folder / "samples" / "epoch-001.png"))
    assert drawn.shape == (4 * 208, 3 * 208, 3)
    assert drawn[:, :208].std() > 10


def test_a_full_disk_ends_the_log_and_not_the_run(make, monkeypatch, tmp_path):
    event_file_writer = pytest.importorskip("tensorboardX.event_file_writer")
    written = []

    def write(self, event):
        written.append(event)
        if len(written) > 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(event_file_writer.EventsWriter, "write_event", write)
    with pytest.warns(UserWarning, match="TensorBoard's log ends here, it cannot be written: No space left"):
        train(prepare(make({"optimiser.epochs": 2})))
    assert len(written) == 3  # it is not tried again
    assert (tmp_path / "run" / "model.safetensors").exists()
