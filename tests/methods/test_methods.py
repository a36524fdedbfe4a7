"""Every method through the one interface."""

import pytest
import torch
import torch.nn.functional as F

from repri import InferenceConfig, infer
from repri.inference.problem import stack_shots
from repri.methods import METHODS, Episode, build_method


def episode(shots=2, ragged=False):
    """An object of one direction on a ground of another."""
    g = torch.Generator().manual_seed(0)
    sizes = [(6, 8), (8, 6) if ragged else (6, 8), (7, 7) if ragged else (6, 8)][: shots + 1]
    ways = torch.randn(2, 16, generator=g)
    features, masks = [], []
    for h, w in sizes:
        mask = torch.zeros(h, w, dtype=torch.uint8)
        mask[1:4, 2:5] = 1
        features.append(ways[mask.long()].movedim(-1, 0) + 0.3 * torch.randn(16, h, w, generator=g))
        masks.append(mask.repeat_interleave(4, 0).repeat_interleave(4, 1))
    return Episode(features[:-1], masks[:-1], features[-1], None, float(masks[-1].float().mean())), masks[-1][::4, ::4]


@pytest.mark.parametrize("protocol", ["clean", "official", "paper"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_method_finds_an_easy_object(name, protocol, ragged):
    task, truth = episode(ragged=ragged)
    out = build_method(name, protocol).predict(task)
    assert out.logits.shape == truth.shape
    assert ((out.logits > 0) == (truth == 1)).float().mean() > 0.9


def test_repri_is_infer():
    task, _ = episode()
    out = build_method("repri", "official").predict(task)
    stacked = torch.stack(task.support)[None], torch.stack(task.masks)[None]
    wanted = infer(*stacked, task.query[None], InferenceConfig.preset("official"))
    assert torch.allclose(torch.sigmoid(out.logits), wanted.probability[0], atol=1e-5)
    assert out.proportion == pytest.approx(float(wanted.proportion), abs=1e-6)
    assert out.initial_proportion == pytest.approx(float(wanted.initial_probability.mean()), abs=1e-6)


def test_prototype_is_the_nearest_mean():
    task, _ = episode(1)
    rows, labels = F.normalize(task.support[0], dim=0).flatten(1).T, task.masks[0][::4, ::4].flatten()
    query = F.normalize(task.query, dim=0)
    means = [F.normalize(rows[labels == k].mean(0), dim=0) for k in (0, 1)]
    wanted = 20 * torch.einsum("c,chw->hw", means[1] - means[0], query)
    assert torch.allclose(build_method("prototype").predict(task).logits, wanted, atol=1e-4)


def test_shots_of_different_shapes_are_stacked():
    task, _ = episode(ragged=True)
    cells, labels = stack_shots(task.support, task.masks)
    assert cells.shape == (2, 16, 8, 8)
    assert (labels[0, 6:] == 255).all()
    assert (labels[1, :, 6:] == 255).all()
    assert torch.equal(cells[1, :, :, :6], task.support[1])
    tiny = torch.zeros(64, 64, dtype=torch.uint8)
    tiny[3, 3] = 1  # between the pixels that nearest downsampling takes
    _, soft = stack_shots([torch.randn(4, 8, 8)], [tiny])
    assert soft.sum() == pytest.approx(1 / 64)


def test_settings_and_mistakes():
    method = build_method("repri-oracle", "paper", {"delta": 0.3, "steps": 7})
    assert method.settings()["delta"] == 0.3
    assert method.settings()["steps"] == 7
    assert method.oracle
    for call, message in (
        (lambda: build_method("repry"), "no method named 'repry', did you mean 'repri'"),
        (lambda: build_method("repri", "clean", {"stepps": 3}), "unknown inference setting 'stepps'"),
        (lambda: build_method("prototype", "clean", {"steps": 3}), "prototype has no setting 'steps'"),
        (lambda: build_method("ce", "clean", {"delta": 0.3}), "ce is told none"),
        (lambda: build_method("repri-oracle", "clean", {"delta": "much"}), "delta must be a finite number, got 'much'"),
        (lambda: build_method("repri-oracle", "clean", {"delta": float("nan")}), "delta must be a finite number"),
        (lambda: build_method("prototype", "clean", {"temperature": 0}), "temperature must be a finite number > 0"),
        (lambda: build_method("repri", "clean", {"form": "clean-oracle"}), "no form named 'clean-oracle'"),
        (lambda: build_method("repri", "clean", {"needs_proportion": True}), "take the method repri-oracle"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
