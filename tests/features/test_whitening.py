"""Whitening: features in which all directions vary alike."""

import torch
import torch.nn.functional as F

from repri.features.whitening import whitening_of


def test_strong_directions_are_held_down():
    """Two kinds differ in a weak direction, drowned by a strong one: whitened, cosines tell them apart."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(4000, 16, generator=draw) * torch.tensor([3.0, 2.0] + [0.05] * 14)
    kinds = torch.arange(4000) % 2
    noise[:, 5] += 0.4 * (2 * kinds - 1)
    rows = F.normalize(noise, dim=1)
    whitening = whitening_of(rows)
    assert whitening.basis.shape == (16, 16)
    white = whitening(rows.T).T

    def told_apart(x):
        """How often a row is more alike to one of its kind than to one of the other."""
        same, other = (x[:-2] * x[2:]).sum(1), (x[:-2] * x[1:-1]).sum(1)
        return float((same > other).float().mean())

    assert told_apart(white) > told_apart(rows) + 0.1
    torch.testing.assert_close(white.norm(dim=1), torch.ones(len(white)))


def test_it_is_the_inverse_root_of_the_covariance():
    rows = F.normalize(torch.randn(500, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    whitening = whitening_of(rows)
    centred = (rows - rows.mean(0)).double()
    covariance = centred.T @ centred / len(rows)
    floored = covariance + 0.1 * covariance.diagonal().mean() * torch.eye(8)
    torch.testing.assert_close((whitening.basis @ whitening.basis.T).double(), floored.inverse(), rtol=1e-4, atol=1e-3)
    assert whitening_of(rows, 3).basis.shape == (8, 3)


def test_projections_are_whitened_features_with_their_own_length():
    draw = torch.Generator().manual_seed(2)
    whitening = whitening_of(F.normalize(torch.randn(500, 8, generator=draw), dim=1), 5)
    features = torch.randn(8, 3, 4, generator=draw)
    projected = whitening.project(features)
    unit = features[:, 1, 2] / features[:, 1, 2].norm()
    torch.testing.assert_close(projected[:, 1, 2], whitening.basis.T @ (unit - whitening.mean))
    torch.testing.assert_close(whitening(features), F.normalize(projected, dim=0))
    wider = torch.cat([torch.randn(2, 3, 4, generator=draw), features, torch.randn(1, 3, 4, generator=draw)])
    torch.testing.assert_close(whitening._replace(first=2).project(wider), projected)


def test_whitening_sees_through_a_linear_map_that_keeps_its_directions():
    draw = torch.Generator().manual_seed(3)
    whitening = whitening_of(F.normalize(torch.randn(500, 8, generator=draw), dim=1), 5)._replace(first=2)
    features = torch.randn(11, 300, generator=draw)
    matrix, mean = torch.randn(11, 11, generator=draw), torch.randn(11, generator=draw)
    unit = features.clone()
    unit[2:10] = F.normalize(features[2:10], dim=0)
    mapped = matrix @ (unit - mean[:, None])
    through = whitening.through(matrix, mean)
    torch.testing.assert_close(through.project(mapped), whitening.project(features), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(through(mapped), F.normalize(through.project(mapped), dim=0))
    assert whitening.through(matrix[:4], mean) is None  # most directions are lost
