"""Ways to look at an image."""

import numpy as np
import torch

from repri.segmenter.look import Look
from tests.make import build_quick, noise


def test_every_scale_with_and_without_its_mirror_image():
    assert Look(build_quick(), 64).ways() == [(1.0, False)]
    ways = Look(build_quick(), 64, mirror=True, scales=(0.5, 2.0)).ways()
    assert ways == [(0.5, False), (0.5, True), (2.0, False), (2.0, True)]


def test_the_cells_of_a_whole_image():
    look, image = Look(build_quick(), 64), noise(40, 60)
    seen = look.see(image)
    assert seen.features.shape == (4, 6, 8)
    assert seen.features.dtype == torch.float16
    assert seen.white.shape == (4, 6, 8)
    assert seen.valid.shape == (6, 8)
    assert (seen.size, seen.corners, seen.mirrored) == ((40, 60), ((0, 0),), False)
    assert look.see(image, 2.0).features.shape == (4, 11, 16)
    assert look.see(image, 0.01).features.shape == (4, 1, 1)


def test_a_mirror_image_is_turned_back():
    look, image = Look(build_quick(), 64), noise(64, 64)
    plain, turned = look.see(image), look.see(image, mirrored=True)
    assert torch.equal(turned.features, plain.features.flip(-1))
    np.testing.assert_allclose(
        turned.restore(turned.features.float()), plain.restore(plain.features.float()), atol=1e-3
    )


def test_large_images_are_seen_in_tiles():
    look = Look(build_quick(), 64, tile=64)
    image = noise(100, 150)
    assert look.tiled(image)
    assert not look.tiled(image[:64, :64])
    assert len(look.see(image[:64, :64]).views) == 1
    seen = look.see(image)
    tiles = len(seen.corners)
    assert tiles == 2 * 3
    assert seen.features.shape == (4, 8 * tiles, 8)
    assert seen.valid.shape == (8 * tiles, 8)
    assert seen.size == (100, 150)
    torch.testing.assert_close(seen.restore(torch.full((2, 8 * tiles, 8), 0.25)), torch.full((2, 100, 150), 0.25))
    brightness = seen.restore(seen.features[3:].float())[0]
    coarse = torch.nn.functional.avg_pool2d(torch.from_numpy(image).float().mean(-1)[None] / 255, 25)[0]
    found = torch.nn.functional.avg_pool2d(brightness[None], 25)[0]
    assert torch.corrcoef(torch.stack([found.flatten(), coarse.flatten()]))[0, 1] > 0.5


def test_thin_images_have_tiles_along_one_side():
    seen = Look(build_quick(), 64, tile=64).see(noise(20, 200))
    assert {top for top, _ in seen.corners} == {0}
    assert seen.views[0].original == (20, 64)


def test_kept_features_are_recalled_to_the_bit():
    look, image = Look(build_quick(), 64), noise(40, 60)
    seen = look.see(image)
    again = look.recall((40, 60), seen.features, seen.white)
    assert torch.equal(again.white, seen.white)
    assert torch.equal(again.valid, seen.valid)
    assert (again.views, again.corners, again.size) == (seen.views, seen.corners, seen.size)
