"""The losses against their definitions."""

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.training.batches import Example
from repri.training.loss import losses, unlikeness
from repri.training.settings import LossSettings, RunSettings, TrainSettings


class Fixed(nn.Module):
    """Features and logits that do not depend on the image, which is remembered."""

    def __init__(self, features, logits):
        super().__init__()
        self.features, self.logits, self.seen = features, logits, None

    def forward(self, x):
        self.seen = x
        return x if self.features is None else self.features, self.logits


def made_logits(classes=5, size=9):
    g = torch.Generator().manual_seed(3)
    logits = torch.randn(2, classes, size, size, generator=g)
    labels = torch.randint(0, classes, (2, size, size), generator=g).to(torch.uint8)
    labels[:, 0] = 255
    return logits, labels


@pytest.mark.parametrize("protocol", ["clean", "paper", "official"])
def test_the_smoothed_cross_entropy(protocol):
    logits, labels = made_logits()
    example = Example(torch.zeros(2, 3, 9, 9), labels)
    result = losses(Fixed(None, logits), example, TrainSettings(protocol=protocol), True)
    expected = 0.0
    spread = 0.1 / 4 if protocol == "official" else 0.1 / 5
    for b, y, x in np.argwhere(labels.numpy() != 255):
        target = torch.full((5,), spread)
        target[int(labels[b, y, x])] = 0.9 if protocol == "official" else 0.9 + spread
        expected -= float((target * F.log_softmax(logits[b, :, y, x], 0)).sum())
    assert result.tolist() == pytest.approx([expected, 0], rel=1e-5)


@pytest.mark.parametrize("half", [False, True])
def test_mixed_precision_on_a_cpu(half):
    """The network computes in half precision where that is asked for, and the losses in single precision."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.kinds = nn.Conv2d(3, 5, 1), []

        def forward(self, x):
            logits = self.layer(x)
            self.kinds.append(logits.dtype)
            return logits, logits

    network, (_, labels) = Network(), made_logits()
    settings = TrainSettings(run=RunSettings(mixed_precision_on_cpu=half))
    result = losses(network, Example(torch.rand(2, 3, 9, 9), labels), settings, True)
    assert network.kinds == [torch.bfloat16 if half else torch.float32]
    assert result.dtype == torch.float32
    result.sum().backward()
    assert network.layer.weight.grad.dtype == torch.float32


def test_mixup_mixes_neighbours():
    logits, labels = made_logits()
    torch.manual_seed(5)
    mixing = float(torch.distributions.Beta(0.4, 0.4).sample())
    x = torch.rand(2, 3, 9, 9)
    torch.manual_seed(5)
    model = Fixed(None, logits)
    result = losses(model, Example(x, labels), TrainSettings(loss=LossSettings(mixup=0.4)), True)
    torch.testing.assert_close(model.seen, mixing * x + (1 - mixing) * x.flip(0))
    plain = [float(losses(model, Example(x, y), TrainSettings(), True)[0]) for y in (labels, labels.flip(0))]
    assert float(result[0]) == pytest.approx(mixing * plain[0] + (1 - mixing) * plain[1], rel=1e-5)


def test_one_minus_the_cosine_of_cells_in_the_image():
    g = torch.Generator().manual_seed(0)
    features, targets = torch.randn(2, 4, 3, 3, generator=g), torch.randn(2, 4, 3, 3, generator=g)
    targets[1, :, 2] = 0  # outside
    expected = 0.0
    for b in range(2):
        for y in range(3):
            for x in range(3):
                if b == 0 or y < 2:
                    a, t = features[b, :, y, x], targets[b, :, y, x]
                    expected += 1 - float(a @ t / (a.norm() * t.norm()))
    assert len(unlikeness(features, targets)) == 15
    labels = torch.full((2, 48, 48), 255, dtype=torch.uint8)
    example = Example(torch.zeros(2, 3, 48, 48), labels, targets)
    assert losses(Fixed(features, None), example, TrainSettings(), True).tolist() == pytest.approx(
        [0, expected], rel=1e-5
    )
