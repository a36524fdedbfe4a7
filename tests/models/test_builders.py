"""Our own extractors by name."""

import pytest
import torch

from repri.models import EXTRACTORS, load_extractor
from repri.models.networks.build import BACKBONES, WHOLE
from repri.models.weights.embedded import DEFAULTS

PINNED = {
    "filters": (
        "bde0b9b10e99151f57b75c29d2c08757382b4d128c69e1de20d988c9ab88788e",
        "bde0b9b10e99151f57b75c29d2c08757382b4d128c69e1de20d988c9ab88788e",
    ),
    "default": (
        "eb30c144ba6e8e41b158177c0468fde11f39a205e79fca837c725b86c16d26c0",
        "ad5810e5c620b6eff1943e8be7101d4a55cb76cfb88dc54efb36fb36dd8b0da7",
    ),
    "distilled": (
        "2b63ad303c7edadad46c1a5628429bcb3e71e0e9eb8155c1b2d0ad8263942626",
        "524081309f392015072596931274584909fe937a5b2cafbfc9da764be684ef33",
    ),
}
"""Extractor → fingerprint on a CPU, and identity. Stored features and trained heads refer to them."""


@pytest.mark.parametrize("name", PINNED)
def test_fingerprints_never_change(name):
    extractor = load_extractor(name)
    assert (extractor.fingerprint, extractor.identity) == PINNED[name]
    assert extractor.name == name


def test_every_name_is_registered_with_a_line():
    own = [*DEFAULTS, "twin", "distilled", "filters", "lowlevel", *WHOLE, *BACKBONES, "hub:", "timm:"]
    assert set(own) <= set(EXTRACTORS)
    assert all(EXTRACTORS.about(name) for name in own)


@pytest.mark.parametrize(("name", "channels"), [("compact-mobilenet_v2", 384), ("vgg16", 512)])
def test_untrained_networks_warn_where_they_are_loaded(name, channels):
    with pytest.warns(UserWarning, match=f"{name} without weights is untrained") as caught:
        extractor = load_extractor(name)
    assert caught[0].filename == __file__
    assert extractor.channels == channels


@pytest.mark.filterwarnings("ignore:.*is untrained")
def test_images_that_cannot_be_used():
    extractor = load_extractor("mobilenet_v2", layers=("layer1",))
    assert extractor.extract(torch.rand(1, 3, 33, 41)).shape == (1, 24, 9, 11)
    for wrong, message in (
        (torch.zeros(1, 3, 33, 41, dtype=torch.uint8), "images must be float in .0, 1., got torch.uint8: divide"),
        (torch.zeros(3, 33, 41), "images must be a tensor .B, 3, H, W., got .3, 33, 41."),
        (torch.zeros(1, 3, 0, 41), "got .1, 3, 0, 41."),
        ([1, 2], "images must be a tensor .B, 3, H, W., got list"),
    ):
        with pytest.raises(ValueError, match=message):
            extractor.extract(wrong)
