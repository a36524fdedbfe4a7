"""Which image comes next."""

import torch
import torch.nn.functional as F

from repri.web.suggest import suggest


def test_near_duplicates_are_not_suggested_one_after_the_other():
    """Two groups of images that look alike; the uncertain group is larger. Uncertainty alone would stay in it."""
    g = torch.Generator().manual_seed(0)
    centres = F.normalize(torch.randn(3, 16, generator=g), dim=1)
    groups = {"a": (0, 5), "b": (1, 5), "c": (2, 5)}
    means = {
        f"{k}{n}": centres[c] + 0.01 * torch.randn(16, generator=g) for k, (c, m) in groups.items() for n in range(m)
    }
    doubt = {id: {"a": 0.1, "b": 0.9, "c": 0.6}[id[0]] for id in means}
    assert [id[0] for id in suggest(means, doubt, ["a0"], 2)] == ["b", "c"]
    assert sorted(doubt, key=doubt.get)[-2:][0][0] == "b", "by uncertainty alone both are of one group"


def test_the_first_image_is_a_typical_one():
    means = {"far": torch.tensor([0.0, 1.0]), **{f"near{n}": torch.tensor([1.0, 0.1 * n]) for n in range(4)}}
    assert suggest(means, {}, [])[0].startswith("near")


def test_nothing_is_left():
    assert suggest({"a": torch.ones(2)}, {}, ["a"], 3) == []
    assert suggest({"a": torch.ones(2)}, {}, [], 3) == ["a"]
