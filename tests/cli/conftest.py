"""What the tests of several commands share."""

import numpy as np
import pytest
from PIL import Image

from repri.experiments.demo import scenes


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Two annotated scenes of one texture, and five queries of three sizes, one of them turned by EXIF."""
    root = tmp_path_factory.mktemp("segment")
    pairs = scenes([0, 0])
    for folder in ("support/images", "support/masks", "query"):
        (root / folder).mkdir(parents=True)
    for i, (support, _) in enumerate(pairs):
        image = support.image if i == 0 else np.ascontiguousarray(support.image[:, ::-1])
        mask = support.mask if i == 0 else support.mask[:, ::-1]
        Image.fromarray(image).save(root / "support/images" / f"s{i}.png")
        Image.fromarray(mask * 255).save(root / "support/masks" / f"s{i}.png")
    image = pairs[0][1].image
    for name, part in (("a", image), ("b", image[:200]), ("c", image[:, 30:])):
        Image.fromarray(part).save(root / "query" / f"{name}.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(image[:200]))).save(root / "query/turned.png", exif=exif)
    return root
