"""What every learned method does: layers, weights of masks, the loss at the pixels."""

from unittest.mock import ANY

import pytest
import torch
import torch.nn.functional as F

from repri.features import Grid
from repri.methods import Episode, Shot, Support, Training, build_method
from repri.methods.learned import cross_entropy, pick_layers
from repri.runtime.errors import RepriError

from .make import episode_of, make_shots


@pytest.mark.parametrize("on_pixels", [True, False])
def test_the_loss_is_the_cross_entropy_at_labelled_pixels(on_pixels):
    grid = Grid.of((3, 4), (17, 25) if on_pixels else (24, 32), 8, on_pixels)
    logits, mask = torch.randn(3, 4, requires_grad=True), torch.randint(0, 2, grid.pixels)
    mask[3:9] = 255
    pair = torch.stack([torch.zeros_like(logits), logits])
    full = F.interpolate(pair[None], grid.pixels, mode="bilinear", align_corners=on_pixels)
    wanted = F.cross_entropy(full, mask[None], ignore_index=255)
    found = cross_entropy(logits, Shot(torch.zeros(1, 3, 4), mask, grid))
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert cross_entropy(logits, Shot(torch.zeros(1, 3, 4), torch.full(grid.pixels, 255), grid)).item() == 0
    coarse = torch.randn(2, 2)
    full = F.interpolate(coarse[None, None], grid.pixels, mode="bilinear", align_corners=True)[0, 0]
    wanted = F.binary_cross_entropy_with_logits(full[mask != 255], mask[mask != 255].float())
    found = cross_entropy(coarse, Shot(torch.zeros(1, 3, 4), mask, grid))
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_layers_by_position():
    assert pick_layers((2, 3, 4), None, "x") == [slice(0, 2), slice(2, 5), slice(5, 9)]
    assert pick_layers((2, 3, 4), [-1, 0], "x") == [slice(5, 9), slice(0, 2)]
    with pytest.raises(RepriError, match=r"asks for layer 1 \(mid\), and the extractor gives 1 layer of 5 channels"):
        pick_layers((5,), 1, "panet")
    with pytest.raises(RepriError, match="needs at least one layer"):
        pick_layers((5,), [], "panet")
    *support, query = make_shots(2)
    part = build_method("panet", settings={"mid": 1}).predict(episode_of(support, query, (2, 3))).logits
    cut = [shot._replace(features=shot.features[2:]) for shot in (*support, query)]
    assert torch.equal(part, build_method("panet").predict(episode_of(cut[:-1], cut[-1])).logits)


@pytest.mark.parametrize("name", ["panet", "ppnet", "rpmm", "pfenet"])
def test_shots_of_other_shapes(name):
    """Cells that a shot does not have do not count."""
    method = build_method(name, settings={"width": 6})
    method.start((5,))
    small, query = make_shots(2, (4, 5))
    large = make_shots(1, (6, 3), seed=4)[0]
    both = method.predict(episode_of([small, large], query)).logits
    assert torch.allclose(both, method.predict(episode_of([large, small], query)).logits, atol=1e-4)
    weights = episode_of([small, large], query).support.weights("area")
    assert weights.shape == (2, 2, 6, 5)
    assert not weights[0, :, 4:].any()


def test_one_cell_and_objects_that_resizing_loses():
    tiny, query = make_shots(2, (4, 5))
    mask = torch.zeros_like(tiny.mask)
    mask[9, 10] = 1
    support = Support([tiny.features], [tiny.grid.pool(mask[None].float())[0]], [mask], [tiny.grid])
    for name in ("panet", "ppnet", "pmm", "insid3"):
        assert build_method(name).predict(Episode(support, query.features)).logits.isfinite().all()
    lost = Support([tiny.features], [support.labels[0]], [torch.zeros_like(mask)], [tiny.grid])
    assert lost.weights("adjoint")[0, 1].any()  # of the labels


def test_a_network_is_the_extractors_and_its_mode_is_kept():
    *support, query = make_shots(2)
    method = build_method("pfenet", settings={"width": 4})
    network = method.start((2, 3)).train()
    method.predict(episode_of(support, query, (2, 3)))
    assert network.training
    first, again = (method.start((2, 3), seed=1).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], again[key]) for key in first)
    with pytest.raises(RepriError, match="takes features with layers of 2, 3 channels, and the extractor here gives 5"):
        method.predict(episode_of(support, query))
    with pytest.raises(RuntimeError, match="call start"):
        build_method("pfenet").loss(support, query)
    method.training = Training("dino", "abc", (2, 3), ("cat",), 1, 100)
    trained = {"shots": 1, "episodes": 100, "weights": ANY}
    assert method.settings() == {"width": 4, "mid": None, "high": None, "trained": trained}


def test_settings_name_the_trained_weights():
    """Two trained networks of one kind are two results."""
    made = Training("x", "id", (6,), ("cat",), 1, 5)
    first, second = build_method("panet"), build_method("panet")
    for seed, method in enumerate((first, second)):
        method.start((6,), seed)
        method.training = made
    assert first.settings()["trained"]["weights"] != second.settings()["trained"]["weights"]
