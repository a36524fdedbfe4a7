"""The order of images, their flips, and the pixels at which the loss is evaluated."""

import pytest
import torch
import torch.nn.functional as F

from repri.runtime.distributed import World
from repri.training import prepare
from repri.training.batches import Batch, order, sampled, thinned
from repri.training.trainee import upsampled


def test_the_order_is_a_shuffle_of_the_epoch():
    steps = order(23, 4, seed=1, epoch=2)
    assert [len(step) for step in steps] == [4] * 5
    assert len({place for step in steps for place in step}) == 20
    assert steps == order(23, 4, 1, 2)
    assert steps != order(23, 4, 1, 3)


def test_stored_features_are_flipped_with_their_labels(make):
    plan = prepare(make({"protocol": "official"}))
    plan.fill_stores(World())
    examples, dataset, flipped = plan.examples, plan.examples.dataset, 0
    for place in range(8):
        x, y, _ = examples.example(place, epoch=4)
        features = examples.features.get(examples.path(place)).float()
        axes = [axes for axes in ([], [-1], [-2], [-1, -2]) if torch.equal(x, features.flip(axes))]
        assert len(axes) == 1
        flipped += axes[0] != []
        labels = examples.table[dataset.mask(examples.ids[place])]
        still = F.interpolate(torch.from_numpy(labels)[None, None].float(), (64, 64), mode="nearest")[0, 0].byte()
        assert (still.flip(axes[0]) == y).float().mean() > 0.97
    assert 0 < flipped < 8
    assert torch.equal(plan.validation.example(0, 0).x, plan.validation.example(0, 5).x)


def test_flips_of_stored_features_carry_the_targets_along(make, pupil):
    plan = prepare(make(pupil))
    plan.fill_stores(World())
    flipped = 0
    for place in range(len(plan.examples)):
        x, _, targets = plan.examples.example(place, 0)
        for epoch in range(1, 4):
            other, _, moved = plan.examples.example(place, epoch)
            if not torch.equal(x, other):
                assert torch.equal(x.flip(-1), other)
                assert torch.equal(targets.flip(-1), moved)
                flipped += 1
    assert flipped > 5


def test_images_are_flipped_with_their_labels(make, mobilenet):
    """Without a frozen part, the image itself is flipped; the square of a square scene is symmetric."""
    changes = {"network.name": "compact-mobilenet_v2", "network.freeze": "none", "protocol": "official"}
    plan = prepare(make(changes | {"network.weights": mobilenet, "head.width": 16}))
    seen = set()
    for place in range(len(plan.examples)):
        still, other = plan.examples.example(place, 0), plan.examples.example(place, 1)
        for axes in ([], [-1], [-2], [-1, -2]):
            if torch.allclose(still.x.flip(axes), other.x, atol=0.05):
                seen.add(tuple(axes))
                assert (
                    still.labels.flip(axes) == other.labels
                ).float().mean() > 0.9  # nearest pixels of an odd distance are not symmetric
    assert len(seen) == 4


@pytest.mark.parametrize("side", [33, 40])
@pytest.mark.parametrize("every", [1, 2, 4])
def test_sampled_labels_lie_where_the_logits_do(side, every):
    """A ramp over the cells, upsampled to the sampled pixels, is the ramp over the pixels."""
    aligned = side == 33  # 5 cells of 8 on 33 pixels, corner to corner; 5 cells of 8 on 40
    pixels = torch.arange(side, dtype=torch.float32).expand(1, side, side)
    cells = torch.arange(5) * 8.0 if aligned else torch.arange(5) * 8 + 3.5
    wanted = sampled(pixels, every, aligned)
    logits = upsampled(cells.expand(1, 1, 5, 5), (wanted.shape[1], wanted.shape[2]), aligned)
    inner = (wanted[0, 0] >= cells[0]) & (wanted[0, 0] <= cells[-1])  # beyond the outer cells nothing rises
    off = (logits[0, 0, 0] - wanted[0, 0]).abs()[inner]
    assert off.max() <= (0 if aligned or every == 1 else 0.5) + 1e-4  # the middle of an even block lies between pixels


def test_thinned_cells_keep_their_labels():
    pixels = torch.arange(84 * 84).view(1, 84, 84)
    cells = pixels[:, 7::14, 7::14]  # the pixel in the middle of each cell
    batch = Batch(["a"], cells[:, None].float(), pixels)
    seen = set()
    for seed in range(16):
        _, x, labels, _ = thinned(batch, every=2, stride=14, seed=seed)
        assert x.shape[-2:] == (3, 3)
        assert torch.equal(x[:, 0].long(), labels)
        seen |= set(labels.flatten().tolist())
    assert len(seen) == 36  # every cell has its turn
    assert thinned(batch, 1, 14, 0) is batch
