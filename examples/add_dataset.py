"""Use a data set of your own: a YAML file describes it, and nothing else has to be written.

``add_dataset.yaml`` says where images and masks are and which classes each fold tests. This script draws a small data
set of shapes that fits the description, and evaluates on it.
"""

from pathlib import Path

import numpy as np
from PIL import Image

from repri import evaluate, load_extractor, open_dataset, sample_tasks
from repri.data import write_mask

ROOT = Path("demo/shapes")


def draw(number: int) -> None:
    """Write one image of 128×128 pixels and its mask of class ids."""
    random = np.random.default_rng(number)
    (y, x), id = np.mgrid[:128, :128] - random.integers(50, 78, (2, 1, 1)), 1 + number % 3
    shapes = (np.hypot(x, y) < 34, np.maximum(abs(x), abs(y)) < 28, (abs(abs(x) - abs(y)) < 12) & (abs(x) < 36))
    texture = (np.sin(x / 2), np.sin(y / 2), np.sin(x / 2) * np.sin(y / 2))[id - 1]
    image = np.where(shapes[id - 1], 128 + 100 * texture, random.integers(90, 166, (128, 128)))
    (ROOT / "images").mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.astype(np.uint8)).convert("RGB").save(ROOT / "images" / f"{number:02}.png")
    write_mask(shapes[id - 1] * id, ROOT / "masks" / f"{number:02}.png")


if __name__ == "__main__":
    for number in range(12):
        draw(number)
    dataset = open_dataset(Path(__file__).with_suffix(".yaml"), root=ROOT)
    for fold in range(3):
        tasks = sample_tasks(dataset, dataset.novel(fold), shots=1, tasks=5, runs=1)
        scores = evaluate(dataset, tasks, load_extractor("filters")).scores()
        print(f"fold {fold}, {', '.join(tasks.classes.values())}: mIoU {scores.miou:.1f}")
