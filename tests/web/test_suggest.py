"""Which image comes next."""

import numpy as np
import torch
import torch.nn.functional as F

from repri.segmenter.look import Seen
from repri.web.suggest import Summary, suggest, summary_of


def known(places, doubts=None):
    return {id: Summary(place, (doubts or {}).get(id, 0.1)) for id, place in places.items()}


def test_near_duplicates_are_not_suggested_one_after_the_other():
    """Three groups of images that look alike. Uncertainty alone would stay in the most uncertain one."""
    g = torch.Generator().manual_seed(0)
    centres = F.normalize(torch.randn(3, 16, generator=g), dim=1)
    noise = torch.randn(3, 5, 16, generator=g)
    places = {f"{k}{n}": centres[c] + 0.01 * noise[c, n] for c, k in enumerate("abc") for n in range(5)}
    doubt = {id: {"a": 0.01, "b": 0.09, "c": 0.06}[id[0]] for id in places}
    assert [id[0] for id in suggest(known(places, doubt), ["a0"], 2)] == ["b", "c"]
    assert {id[0] for id in sorted(doubt, key=doubt.get)[-2:]} == {"b"}


def test_an_odd_image_waits():
    """One image is unlike all others and very uncertain; it stands for nothing but itself."""
    places = {"odd": torch.tensor([0.0, 0.0, 1.0]), "known": torch.tensor([1.0, 0.0, 0.0])}
    places |= {f"common{n}": torch.tensor([0.1 * n, 1.0, 0.0]) for n in range(5)}
    doubt = {id: 0.2 if id == "odd" else 0.1 for id in places}
    first, second, *_ = suggest(known(places, doubt), ["known"], 7)
    assert (first[:6], second) == ("common", "odd")


def test_the_first_image_is_a_typical_one():
    places = {"far": torch.tensor([0.0, 1.0]), **{f"near{n}": torch.tensor([1.0, 0.1 * n]) for n in range(4)}}
    assert suggest(known(places), [])[0].startswith("near")


def test_nothing_is_left():
    one = known({"a": torch.ones(2)})
    assert suggest(one, ["a"], 3) == []
    assert suggest(one, [], 3) == ["a"]


def test_a_summary_is_of_the_objects():
    """Two rows of cells of different features, and a column of padding."""
    white = torch.tensor([[[1.0, 1.0, 9.0], [0.0, 0.0, 9.0]], [[0.0, 0.0, 9.0], [1.0, 1.0, 9.0]]])
    valid = torch.tensor([[True, True, False]] * 2)
    seen = Seen(white, white, valid, (), (), (4, 4), False)
    assert torch.allclose(summary_of(seen).place, torch.tensor([0.5, 0.5]))
    sure, unsure = np.zeros((2, 4, 4), np.uint8)
    sure[:2], unsure[:2] = 255, 128
    of_sure, of_unsure = summary_of(seen, [sure]), summary_of(seen, [unsure])
    assert torch.allclose(of_sure.place, torch.tensor([1.0, 0.0]), atol=1e-3)
    assert (of_sure.doubt, round(of_unsure.doubt, 3)) == (0.0, 0.125)
    assert torch.allclose(summary_of(seen, [sure * 0]).place, torch.tensor([0.5, 0.5]))
