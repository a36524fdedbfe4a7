"""Drawing helpers, against the plain definitions of what they draw."""

import numpy as np
import pytest

from repri.runtime.draw import borders, colour_map, highlight, hue_map, outline, overlay, stack
from tests.data.make import make_image


@pytest.fixture
def mask():
    """Two classes that touch, and a void strip."""
    mask = np.zeros((20, 30), np.uint8)
    mask[4:12, 5:15] = 1
    mask[4:12, 15:20] = 2
    mask[-2:] = 255
    return mask


def test_voc_colours():
    assert colour_map()[[0, 1, 2, 15, 20]].tolist() == [
        [0, 0, 0],
        [128, 0, 0],
        [0, 128, 0],
        [192, 128, 128],
        [0, 64, 128],
    ]


def test_hues_differ_between_neighbouring_ids():
    colours = hue_map().astype(int)
    assert (np.abs(np.diff(colours[1:255], axis=0)).max(1) > 60).all()
    assert hue_map(8).shape == (8, 3)


def test_overlay_tints_the_inside_and_outlines_each_class(mask):
    image = make_image(20, 30)
    shown = overlay(image, mask, {1: (255, 64, 32)})
    assert (shown[mask == 0] == image[mask == 0]).all()
    tinted = 0.55 * image[7, 8] + 0.45 * np.array([255, 64, 32])
    assert np.abs(shown[7, 8] - tinted).max() <= 1
    assert shown[4, 5].tolist() == [255, 64, 32]
    assert shown[4, 17].tolist() == colour_map()[2].tolist()
    assert shown[-2, 3].tolist() == [160, 160, 160]


def test_overlay_with_one_colour_for_all_lines(mask):
    image = make_image(20, 30)
    shown = overlay(image, mask, opacity=0.5, line=(255, 255, 255))
    edge = borders(mask)
    assert (shown[edge] == 255).all()
    inside = ~edge & (mask == 2)
    assert (shown[inside] == (image[inside].astype(int) + colour_map()[2]) // 2).all()


def test_ids_beyond_the_colour_map_have_a_colour_too():
    wide = np.array([[0, 300, 300, 300]], np.uint16)
    assert overlay(np.zeros((1, 4, 3), np.uint8), wide)[0, 1].tolist() == colour_map()[300 % 256].tolist()


def test_outline_is_inside_and_leaves_out_the_edge_of_the_image():
    region = np.zeros((6, 6), bool)
    region[:4, :4] = True
    wanted = np.zeros((6, 6), bool)
    wanted[3, :4] = wanted[:4, 3] = True
    assert (outline(region) == wanted).all()


def test_highlight_fades_all_but_the_region(mask):
    image = make_image(20, 30)
    shown = highlight(image, mask == 1, width=2)
    assert (shown[mask == 1] == image[mask == 1]).all()
    assert shown[2, 3].tolist() == shown[13, 16].tolist() == [230, 26, 26]
    assert np.abs(shown[0, 0] - (0.3 * image[0, 0] + 127.5)).max() <= 0.5


def test_stack_fills_narrow_rows_with_white():
    sheet = stack([np.zeros((2, 3, 3), np.uint8), np.zeros((1, 5, 3), np.uint8)])
    assert (sheet[:2, 3:] == 255).all()
    assert not sheet[:2, :3].any()
