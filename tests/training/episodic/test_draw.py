"""Images of predictions."""

import numpy as np
from PIL import Image


def test_tasks_are_drawn_after_each_epoch(learned):
    names = sorted(path.name for path in (learned.folder / "samples").iterdir())
    assert names == ["epoch-001.png", "epoch-002.png", "epoch-003.png"]
    drawn = np.asarray(Image.open(learned.folder / "samples" / names[0]))
    assert drawn.shape == (4 * 208, 5 * 208, 3)
    assert drawn[:, :208].std() > 10
