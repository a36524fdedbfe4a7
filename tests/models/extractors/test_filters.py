"""Fixed filters."""

import torch
import torch.nn.functional as F

from repri.data.datasets.scenes import make_task
from repri.models.extractors.filters import FilterBank


def test_shapes_and_determinism():
    extractor = FilterBank(channels=32, stride=8)
    images = torch.rand(2, 3, 33, 47)
    features = extractor.extract(images)
    assert features.shape == (2, 32, 5, 6)
    assert extractor.cells((33, 47)) == (5, 6)
    assert torch.equal(features, FilterBank(32, 8).extract(images))
    assert extractor.fingerprint == FilterBank(32, 8).fingerprint != FilterBank(32, 4).fingerprint


def test_textures_are_told_apart():
    """Cells of one stripe pattern resemble each other more than those of another, at equal mean colour."""
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(128), indexing="ij")
    image = torch.where(columns < 64, rows // 2 % 2, columns // 5 % 2).float().expand(1, 3, -1, -1)
    features = F.normalize(FilterBank().extract(image)[0, :, 4:-4], dim=0)
    left, right = features[:, :, 4:12].flatten(1), features[:, :, 20:28].flatten(1)
    assert (left.T @ left).mean() > (left.T @ right).mean() + 0.2


def test_features_turn_with_the_image():
    image, bank = make_task(0, size=96).query[None], FilterBank(channels=64, stride=4)
    turned = bank.extract(image.rot90(1, (2, 3))).rot90(-1, (2, 3))
    inner = (..., slice(6, -6), slice(6, -6))
    assert F.cosine_similarity(turned, bank.extract(image), dim=1)[inner].mean() > 0.9
