"""The guided filter, against its definition and on edges."""

import torch

from repri.refine.guided import _box, _solve, guided, guided_in_strips
from tests.make import noise


def test_borders_move_to_the_edges_of_the_image():
    image = torch.zeros(3, 64, 96)
    image[:, :, 50:] = 0.8
    image += 0.02 * torch.randn(3, 64, 96, generator=torch.Generator().manual_seed(0))
    truth = torch.zeros(1, 64, 96)
    truth[..., 50:] = 1
    ramp = ((torch.arange(96) - 40) / 24).clamp(0, 1).expand(1, 64, 96)
    found = guided(ramp, image.clamp(0, 1), radius=0.08)
    off = ((ramp > 0.5).float() - truth).abs().mean(), ((found > 0.5).float() - truth).abs().mean()
    assert off[1] < 0.4 * off[0] + 1e-3


def test_a_plain_image_changes_little():
    maps = torch.rand(2, 8, 8).repeat_interleave(8, 1).repeat_interleave(8, 2)
    flat = guided(maps, torch.full((3, 64, 64), 0.5), radius=0.01)
    assert (flat - maps).abs().mean() < 0.1
    assert flat.shape == maps.shape
    assert 0 <= flat.min() <= flat.max() <= 1


def test_small_systems_are_solved():
    g = torch.Generator().manual_seed(1)
    root = torch.randn(3, 3, 4, 5, generator=g, dtype=torch.float64)
    sigma = torch.einsum("ikhw,jkhw->ijhw", root, root)
    right = torch.randn(3, 2, 4, 5, generator=g, dtype=torch.float64)
    found = _solve(sigma, right, 0.1)
    matrix = sigma.permute(2, 3, 0, 1) + 0.1 * torch.eye(3, dtype=torch.float64)
    expected = torch.linalg.solve(matrix, right.permute(2, 3, 0, 1)).permute(3, 2, 0, 1)
    torch.testing.assert_close(found, expected)


def test_means_over_windows():
    maps = torch.rand(2, 7, 9)
    expected = torch.nn.functional.avg_pool2d(maps[None], 5, 1, 2, count_include_pad=False)[0]
    torch.testing.assert_close(_box(maps, 2), expected)


def test_tiny_images():
    assert guided(torch.rand(1, 1, 3), torch.rand(3, 1, 3)).shape == (1, 1, 3)


def test_strips_give_the_same_maps():
    """Large images are worked on in strips, which need a few bytes for each pixel."""
    image = noise(331, 427)
    maps = torch.rand(2, 331, 427, generator=torch.Generator().manual_seed(0)) / 2
    colours = torch.from_numpy(image).movedim(-1, 0).float() / 255
    for side, radius in ((96, 0.02), (192, 0.01)):
        whole = guided(maps, colours, radius, side=side)
        whole = whole / whole.sum(0).clamp_min(1)
        assert torch.allclose(guided_in_strips(maps.clone(), image, radius, side=side), whole, atol=2e-5)
