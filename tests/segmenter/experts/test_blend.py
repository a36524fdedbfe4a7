"""Two experts on one image."""

import math

import pytest
import torch
import torch.nn.functional as F

from repri.segmenter.experts.blend import FLOOR, Choice, as_logs, blended, likeness, raised, sameness, weight_for
from repri.segmenter.look import Seen


def seen(white, valid=None):
    valid = torch.ones(white.shape[1:], dtype=torch.bool) if valid is None else valid
    return Seen(white, white, valid, (), (), (8, 8), False)


def directions(*angles, size=(2, 2)):
    """[2, h, w] unit vectors, one angle for each cell."""
    values = torch.tensor(angles).reshape(size)
    return torch.stack([values.cos(), values.sin()])


def test_a_weight_of_0_or_1_leaves_one_expert():
    objects, textures = torch.rand(2, 4, 5) / 2, torch.randn(3, 4, 5).log_softmax(0)
    assert torch.allclose(blended(objects, textures, 0.0), objects, atol=2 * FLOOR)
    assert torch.allclose(blended(objects, textures, 1.0), textures.exp()[1:], atol=2 * FLOOR)


def test_the_product_of_powers():
    objects, textures = torch.tensor([[[0.9]]]), torch.tensor([0.7, 0.3]).log()[:, None, None]
    product = 0.9**0.4 * 0.3**0.6, 0.1**0.4 * 0.7**0.6
    assert float(blended(objects, textures, 0.6)) == pytest.approx(product[0] / sum(product), abs=1e-5)


def test_no_expert_has_a_veto():
    logs = as_logs(torch.tensor([[[0.0, 1.0]]]))
    assert logs.min() == pytest.approx(math.log(FLOOR))


def test_the_least_part_of_an_image():
    p = torch.tensor([[[0.9, 0.3, 0.2, 0.1, 0.01, 0.001, 1e-6, 1e-6]]])
    assert int((raised(p, 3 / 8) >= 0.5 - 1e-6).sum()) == 3
    assert raised(p, 1 / 8) is p
    faint = p * 1e-3
    assert int((raised(faint, 3 / 8) >= 0.5).sum()) == 0  # nothing resembles the object


@pytest.mark.parametrize("power", [1, 3, 8])
def test_the_least_part_by_sorting(power):
    p = torch.rand(1, 30, 40, generator=torch.Generator().manual_seed(0)) ** power
    for least in (0.01, 0.3, 0.6, 1.0):
        lowest = p.flatten().sort(descending=True).values[round(least * 1200) - 1]
        shift = (-lowest.logit()).clamp(0, 3)
        assert torch.allclose(raised(p, least), (p.logit(1e-6) + shift).sigmoid(), atol=1e-5)


def test_likeness_is_the_mean_of_the_largest_cosines():
    random = torch.Generator().manual_seed(0)
    support = [F.normalize(torch.randn(8, 30, 25, generator=random), dim=0) for _ in range(2)]
    query = F.normalize(torch.randn(8, 4, 5, generator=random), dim=0)
    cosines = torch.cat([white.flatten(1) for white in support], 1).mT @ query.flatten(1)
    assert likeness(seen(query), support) == pytest.approx(float(cosines.amax(0).mean()), abs=1e-5)


def test_likeness_is_high_for_what_the_support_shows_and_for_uniform_images():
    support = [directions(0.0, 1.5, 3.0, 4.5)]
    assert likeness(seen(directions(0.0, 1.5, 3.0, 4.5)), support) == pytest.approx(1.0, abs=1e-5)
    away = [directions(0.75, 0.75, 0.75, 0.75)]
    mixed = seen(directions(2.3, 2.3 + math.pi / 2, 2.3 + math.pi, 2.3 - math.pi / 2))
    assert likeness(mixed, away) < 0.3
    uniform = seen(directions(3.9, 3.9, 3.9, 3.9))
    assert likeness(uniform, away) == pytest.approx(1.0, abs=1e-5)  # both are all of one kind
    assert likeness(uniform, [directions(0.0, 1.5, 0.3, 1.2)]) < 0.8


def test_padding_does_not_count():
    white = directions(0.0, 0.0, 2.0, 4.0)
    valid = torch.tensor([[True, True], [False, False]])
    assert likeness(seen(white, valid), [directions(0.0, 0.0, 0.0, 0.0)]) == pytest.approx(1.0, abs=1e-5)


def test_the_weight_falls_with_likeness():
    support = [F.normalize(torch.randn(8, 3, 3, generator=torch.Generator().manual_seed(0)), dim=0)]
    same = seen(support[0])
    choice = Choice(weight=0.7, alike=0.6)
    assert weight_for(choice, same, support) == pytest.approx(0.7, abs=1e-3)
    other = seen(F.normalize(torch.randn(8, 3, 3, generator=torch.Generator().manual_seed(1)), dim=0))
    assert weight_for(Choice(weight=0.7, alike=0.95), other, support) < 0.01
    assert weight_for(Choice(), same, support) == 0


def test_a_choice_says_what_was_chosen():
    scores = {"textures 0, 417 pixels": 0.5, "textures 0.7, 417 pixels": 0.8}
    chosen = Choice(0.7, scores=scores, parts="each image by the others", iou=0.8)
    assert str(chosen) == (
        "objects and textures (weight 0.7): IoU 0.80 on each image by the others, 0.50 with the default"
    )
    kind = Choice(0.7, scores=scores, parts="x", iou=0.4)
    assert str(kind).endswith("IoU 0.40 on x, 0.50 with the default; textures count because the support is of one kind")
    assert str(Choice(scores=scores, parts="each image by the others")).startswith("objects, the default: no setting")
    assert str(Choice(0.0, 592, scores=scores, parts="x", iou=0.8)).startswith("objects at 592 pixels: IoU 0.80")


def test_sameness_is_the_mean_cosine_of_two_cells():
    white = directions(0.0, 0.3, 1.2, 2.0)
    cells = white.flatten(1)
    assert sameness(cells) == pytest.approx(float((cells.mT @ cells).mean()), abs=1e-6)
    assert sameness(cells[:, :2]) == pytest.approx((2 + 2 * math.cos(0.3)) / 4, abs=1e-6)
