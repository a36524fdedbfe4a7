"""The discriminant: features in which classes vary alike in all directions."""

import pytest
import torch
import torch.nn.functional as F

from repri.models.heads.discriminant import Discriminant, Moments
from repri.runtime.errors import RepriError


def classes(count=4, cells=400, channels=12):
    """Unit features of classes that differ along quiet directions and vary along loud ones."""
    g = torch.Generator().manual_seed(0)
    spread = torch.linspace(2.0, 0.05, channels)
    rows = []
    for _ in range(count):
        centre = 0.2 * torch.randn(channels, generator=g)
        centre[: channels // 2] = 0.3
        rows.append(F.normalize(centre + spread * torch.randn(cells, channels, generator=g) * 0.3, dim=1))
    return rows


def fitted(rows, width=12, parts=(12,)):
    moments = Moments.empty(len(rows), rows[0].shape[1])
    for label, cells in enumerate(rows):
        for part in cells.split(150):
            moments.add(part, label)
    head = Discriminant(parts, width)
    return head, head.fit(moments)


def apply(head, rows):
    return head(rows.T[None, :, None])[0, :, 0].T


def test_cells_of_a_class_vary_alike():
    rows = classes()
    head, _ = fitted(rows)
    plain, mapped = (
        torch.linalg.eigvalsh(torch.stack([f(cells).T.cov(correction=0) for cells in rows]).mean(0))
        for f in (lambda cells: cells, lambda cells: apply(head, cells))
    )
    torch.testing.assert_close(mapped, plain / (plain + plain.mean()), atol=1e-4, rtol=1e-3)
    assert mapped[-1] / mapped[-8] < plain[-1] / plain[-8] / 1.5


def test_means_and_background_are_those_of_the_mapped_cells():
    rows = classes()
    head, means = fitted(rows)
    for cells, mean in zip(rows, means, strict=True):
        torch.testing.assert_close(apply(head, cells).mean(0), mean, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(means.mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    assert torch.equal(head.background, means[0])


def test_fewer_directions_are_the_first_of_all():
    rows = classes()
    head, _ = fitted(rows)
    narrow, _ = fitted(rows, 5)
    torch.testing.assert_close(narrow.matrix.abs(), head.matrix[:5].abs(), atol=1e-4, rtol=1e-3)
    variance = apply(head, torch.cat(rows)).var(0)
    assert float(variance[:5].sum()) > float(variance[5:].sum())


def test_layers_count_alike_whatever_their_length():
    head, _ = fitted(classes(), parts=(6, 6))
    x = torch.rand(1, 12, 3, 4) + 0.1
    louder = x.clone()
    louder[:, 6:] *= 100
    torch.testing.assert_close(head(x), head(louder))


def test_too_little_to_learn_from():
    moments = Moments.empty(3, 12)
    moments.add(torch.rand(5, 12), 1)
    with pytest.raises(RepriError, match="cells of the background and of at least one class"):
        Discriminant([12], 4).fit(moments)
    still = Moments.empty(2, 12)
    for label in (0, 1):
        still.add(torch.full((5, 12), 0.25), label)
    with pytest.raises(RepriError, match="needs features that vary within a class"):
        Discriminant([12], 4).fit(still)
    with pytest.raises(RepriError, match="of 12 channels has 1 to 12, got 13"):
        Discriminant([12], 13)


def test_a_class_that_was_never_seen_is_left_out():
    rows = classes(3)
    moments = Moments.empty(4, 12)
    for label, cells in zip((0, 1, 3), rows, strict=True):
        moments.add(cells, label)
    head, _ = fitted(rows)
    other = Discriminant([12], 12)
    means = other.fit(moments)
    torch.testing.assert_close(other.mean, head.mean)
    assert not means[2].any()
