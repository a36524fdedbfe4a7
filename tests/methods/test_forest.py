"""The random forest, against a direct call of scikit-learn."""

import sys

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from repri.methods import Episode, Support, build_method
from repri.methods.forest import drawn_cells
from repri.models.extractors.lowlevel import LowLevel
from repri.runtime.errors import MissingExtraError, RepriError

from .make import make_episode


def test_it_is_scikit_learns_forest():
    episode, _ = make_episode(ragged=True)
    rows = torch.cat([f.flatten(1).T[order(m)] for f, m in zip(*shots(episode), strict=True)])
    labels = torch.cat([m.flatten()[order(m)] for m in episode.support.labels])
    wanted = RandomForestClassifier(20, max_depth=4, random_state=0).fit(rows.numpy(), labels.numpy())
    probability = wanted.predict_proba(episode.query.flatten(1).T.numpy())[:, 1]
    method = build_method("forest", settings={"trees": 20, "depth": 4})
    logits = method.predict(episode).logits
    expected = torch.from_numpy(probability).float().clamp(1e-3, 1 - 1e-3).reshape(episode.query.shape[1:])
    torch.testing.assert_close(logits.sigmoid(), expected)
    assert method.settings() == {"trees": 20, "depth": 4, "cells": 3000}


def shots(episode):
    return episode.support.features, episode.support.labels


def order(mask):
    """Cells of the background, then of the foreground."""
    return mask.flatten().sort(stable=True).indices


def test_cells_are_drawn_by_class_and_shot():
    features = [torch.arange(24.0).reshape(2, 3, 4), torch.rand(2, 3, 4)]
    soft = torch.tensor([[0, 0.5, 0.6, 1], [255, 255, 0, 0], [1, 1, 255, 0.2]])
    rows, classes = drawn_cells(Support(features, [soft, torch.zeros(3, 4)]), 100)
    assert classes.tolist() == [0] * 5 + [1] * 4 + [0] * 12
    assert rows[:9, 0].tolist() == [0, 1, 6, 7, 11, 2, 3, 8, 9]
    some, classes = drawn_cells(Support(features, [soft, torch.zeros(3, 4)]), 3)
    assert classes.tolist() == [0] * 3 + [1] * 3 + [0] * 3
    assert torch.equal(some, drawn_cells(Support(features, [soft, torch.zeros(3, 4)]), 3)[0])


def test_a_shared_support_is_fitted_once(monkeypatch):
    episode, truth = make_episode()
    method, fits = build_method("forest"), []
    fit = RandomForestClassifier.fit
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda *args, **more: fits.append(1) or fit(*args, **more))
    first = method.predict(episode).logits
    again = method.predict(Episode(episode.support, episode.query.flip(1))).logits
    assert torch.equal(again.flip(0), first)
    assert len(fits) == 1
    assert torch.equal(method.predict(Episode(Support(*shots(episode)), episode.query)).logits, first)
    assert len(fits) == 2
    assert ((first > 0) == (truth == 1)).float().mean() > 0.9


@pytest.mark.parametrize("value", [0, 1])
def test_a_support_of_one_class_gives_that_class_everywhere(value):
    episode, _ = make_episode(1)
    support = Support(episode.support.features, [torch.full((6, 8), value)])
    logits = build_method("forest").predict(Episode(support, episode.query)).logits
    assert logits.isfinite().all()
    assert ((logits > 0) == bool(value)).all()


def test_two_textures_are_told_apart():
    """Fine and coarse checks of equal mean colour, in the order in which the support does not show them."""
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    fine, coarse = ((rows // n + columns // n) % 2 for n in (2, 6))
    images = torch.stack([torch.where(columns < 48, fine, coarse), torch.where(rows < 32, coarse, fine)]).float()
    images = images[:, None].expand(-1, 3, -1, -1) * 0.6 + 0.2
    support, query = LowLevel().extract(images)
    label = (columns < 48)[::2, ::2].float()
    logits = build_method("forest").predict(Episode(Support([support], [label]), query)).logits
    truth = (rows >= 32)[::2, ::2]
    assert ((logits > 0) == truth).float().mean() > 0.9


def test_mistakes_are_named(monkeypatch):
    episode, _ = make_episode(1)
    empty = Support(episode.support.features, [torch.full((6, 8), 255)])
    with pytest.raises(RepriError, match="The support labels hold no labelled cell: mark the object in at least one"):
        build_method("forest").predict(Episode(empty, episode.query))
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(
        MissingExtraError, match=r"The method forest needs scikit-learn: pip install 'repri\[forest\]'\."
    ):
        build_method("forest").predict(episode)
