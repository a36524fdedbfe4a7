"""A small data set of two textures in PASCAL's layout, which filters tell apart."""

import numpy as np
from PIL import Image

from repri.data import write_mask
from tests.make import noise

__all__ = ["make_textures"]


def make_textures(root):
    """Twelve images of 48×64: stripes across (fold 0) or along (fold 1) on noise. Returns the YAML file."""
    (root / "JPEGImages").mkdir(parents=True)
    lines = []
    for n in range(12):
        id = 1 + n % 2
        y, x = np.mgrid[:48, :64]
        mask = (np.hypot(y - 20 - n % 5, x - 30 - n % 7) < 14).astype(np.uint8) * id
        stripes = np.stack([128 + 100 * np.sin((x if id == 1 else y) / 2)] * 3, -1)
        image = np.where(mask[..., None] > 0, stripes, noise(48, 64, n) // 4).astype(np.uint8)
        mask[:2] = 255
        Image.fromarray(image).save(root / "JPEGImages" / f"{n}.png")
        write_mask(mask, root / "SegmentationClassAug" / f"{n}.png")
        lines.append(f"JPEGImages/{n}.png SegmentationClassAug/{n}.png")
    (root / "val.txt").write_text("\n".join(lines) + "\n")
    description = root / "data.yaml"
    description.write_text("name: made\nclasses: [across, along]\nsplits: {val: val.txt}\nfolds: [[across], [along]]\n")
    return description
