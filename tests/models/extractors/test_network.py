"""Layers of a network as features."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.features.whitening import Whitening
from repri.models import InputRule
from repri.models.extractors.network import NetworkExtractor
from repri.runtime.errors import RepriError

RULE = InputRule(32)


class Two(nn.Module):
    """Two layers of different strides, and one as wide as the second."""

    def __init__(self):
        super().__init__()
        self.channels, self.strides = {"a": 3, "b": 6, "c": 6}, {"a": 2, "b": 4, "c": 4}
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        b = F.avg_pool2d(torch.cat([x, -x], 1), 4)
        return {"a": self.scale * F.avg_pool2d(x, 2), "b": b, "c": 3 * b}


def test_layers_are_concatenated_on_the_grid_of_the_last():
    extractor = NetworkExtractor("two", Two(), ["a", "b"], RULE)
    images = torch.rand(2, 3, 16, 24)
    features = extractor.extract(images)
    assert features.shape == (2, 9, 4, 6)
    assert (extractor.stride, extractor.channels, extractor.widths) == (4, 9, (3, 6))
    assert extractor.cells((16, 24)) == (4, 6)
    torch.testing.assert_close(features[:, 3:6], F.avg_pool2d(images, 4))


def test_layers_are_averaged():
    extractor = NetworkExtractor("two", Two(), ["b", "c"], RULE, combine="mean")
    images = torch.rand(1, 3, 16, 24)
    torch.testing.assert_close(extractor.extract(images)[:, :3], 2 * F.avg_pool2d(images, 4))
    assert extractor.widths == (6,)


def test_an_equivalent_is_executed_and_no_part_of_the_fingerprint():
    calls = []

    def faster(network):
        def run(images):
            calls.append(1)
            return network(images)

        return run

    plain, fast = (NetworkExtractor("two", Two(), ["b"], RULE, faster=make) for make in (None, faster))
    images = torch.rand(1, 3, 16, 16)
    assert torch.equal(plain.extract(images), fast.extract(images))
    assert calls == [1]
    assert plain.fingerprint == fast.fingerprint


def test_the_fingerprint_knows_layers_rule_description_and_weights():
    described, heavier = Two(), Two()
    described.description = [("heads", "3")]
    heavier.scale.data.fill_(2.0)
    extractors = [
        NetworkExtractor("two", Two(), ["b"], RULE),
        NetworkExtractor("two", Two(), ["a"], RULE),
        NetworkExtractor("two", Two(), ["b"], RULE._replace(size=33)),
        NetworkExtractor("two", described, ["b"], RULE),
        NetworkExtractor("two", heavier, ["b"], RULE),
    ]
    assert len({extractor.fingerprint for extractor in extractors}) == len(extractors)
    assert len({extractor.identity for extractor in extractors}) == len(extractors)
    assert NetworkExtractor("other", Two(), ["b"], RULE).fingerprint == extractors[0].fingerprint


def test_another_name_leaves_the_extractor_as_it_is():
    extractor = NetworkExtractor("two", Two(), ["b"], RULE, seen=["cat"])
    whitening = Whitening(torch.zeros(6), torch.eye(6))
    other = extractor.known_as("second", whitening)
    assert (extractor.name, extractor.whitening) == ("two", None)
    assert (other.name, other.whitening, other.seen) == ("second", whitening, ("cat",))
    assert other.fingerprint == extractor.fingerprint


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        (["d"], {}, r"two has no layers \['d'\]\. Known: a, b, c"),
        ([], {}, r"two has no layers \[\]"),
        (["a", "b"], {"combine": "mean"}, r"two: layers of \[3, 6\] channels cannot be averaged"),
        (["a"], {"combine": "sum"}, "combine must be 'concat' or 'mean', got 'sum'"),
        (["a"], {"device": "gpu"}, "The device 'gpu' cannot be used"),
    ],
)
def test_mistakes_are_named(layers, options, message):
    with pytest.raises(RepriError, match=message):
        NetworkExtractor("two", Two(), layers, RULE, **options)
