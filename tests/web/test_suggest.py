"""Which image comes next."""

import torch
import torch.nn.functional as F

from repri.web.suggest import suggest


def test_near_duplicates_are_not_suggested_one_after_the_other():
    """Three groups of images that look alike. Uncertainty alone would stay in the most uncertain one."""
    g = torch.Generator().manual_seed(0)
    centres = F.normalize(torch.randn(3, 16, generator=g), dim=1)
    noise = torch.randn(3, 5, 16, generator=g)
    means = {f"{k}{n}": centres[c] + 0.01 * noise[c, n] for c, k in enumerate("abc") for n in range(5)}
    doubt = {id: {"a": 0.1, "b": 0.9, "c": 0.6}[id[0]] for id in means}
    assert [id[0] for id in suggest(means, doubt, ["a0"], 2)] == ["b", "c"]
    assert {id[0] for id in sorted(doubt, key=doubt.get)[-2:]} == {"b"}


def test_an_odd_image_waits():
    """One image is unlike all others and very uncertain; it stands for nothing but itself."""
    means = {"odd": torch.tensor([0.0, 0.0, 1.0]), "known": torch.tensor([1.0, 0.0, 0.0])}
    means |= {f"common{n}": torch.tensor([0.1 * n, 1.0, 0.0]) for n in range(5)}
    doubt = {id: 1.0 if id == "odd" else 0.5 for id in means}
    first, second, *_ = suggest(means, doubt, ["known"], 7)
    assert (first[:6], second) == ("common", "odd")


def test_the_first_image_is_a_typical_one():
    means = {"far": torch.tensor([0.0, 1.0]), **{f"near{n}": torch.tensor([1.0, 0.1 * n]) for n in range(4)}}
    assert suggest(means, {}, [])[0].startswith("near")


def test_nothing_is_left():
    assert suggest({"a": torch.ones(2)}, {}, ["a"], 3) == []
    assert suggest({"a": torch.ones(2)}, {}, [], 3) == ["a"]
