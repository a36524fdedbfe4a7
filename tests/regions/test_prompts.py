"""Prompts from a probability map."""

import torch

from repri.regions.prompts import peaks


def test_the_highest_peaks_are_apart():
    p = torch.zeros(50, 100)
    p[10, 20], p[11, 21], p[40, 80], p[10, 60] = 0.9, 0.85, 0.8, 0.2
    assert peaks(p, 6, 0.12, 0.3).tolist() == [[10, 20], [40, 80]]
    assert peaks(p, 1).tolist() == [[10, 20]]
    assert peaks(p, 6, 0.12, 0.1).tolist() == [[10, 20], [40, 80], [10, 60]]


def test_the_middle_of_a_plateau_is_taken():
    p = torch.zeros(64, 64)
    p[20:41, 10:31] = 0.9
    (row, column), *_ = peaks(p, 1).tolist()
    assert abs(row - 30) <= 8
    assert abs(column - 20) <= 8


def test_an_empty_map_has_one_peak():
    assert len(peaks(torch.zeros(8, 8), 5)) == 1
