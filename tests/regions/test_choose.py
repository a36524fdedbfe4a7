"""Candidates and how they are merged, on made data."""

import itertools

import torch

from repri.regions.choose import components, expected_iou, merged, untouched


def strip(*cells):
    mask = torch.zeros(1, 12)
    mask[0, list(cells)] = 1
    return mask


def test_merging_finds_the_best_union_of_parts():
    p = strip(0, 1, 2, 3, 8, 9) * 0.8 + 0.02
    masks = torch.stack([strip(0, 1, 2), strip(3), strip(8, 9), strip(*range(12)), strip(5, 6)])
    chosen = merged(masks, p)
    every = [c for n in range(1, 6) for c in itertools.combinations(range(5), n)]
    values = {c: float(expected_iou(masks[list(c)].amax(0)[None], p)) for c in every}
    assert tuple(sorted(chosen)) == max(values, key=values.get) == (0, 1, 2)


def test_nothing_agrees_with_an_empty_map():
    assert merged(torch.ones(2, 4, 4), torch.zeros(4, 4)) == []


def test_parts_that_no_region_touches():
    mask = strip(0, 1, 2, 5, 6, 9) > 0
    regions = strip(2, 3, 9) > 0
    assert untouched(mask, regions)[0].nonzero()[:, 0].tolist() == [5, 6]
    assert not untouched(torch.zeros(3, 3).bool(), torch.ones(3, 3).bool()).any()


def test_corners_connect():
    assert components(torch.eye(3).bool()).max() == 1
