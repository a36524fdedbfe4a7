"""Packed products are those of the layers they replace."""

import copy

import pytest
import torch
import torch.nn as nn

from repri.models.networks import packed
from repri.models.networks.build import build_backbone
from repri.models.networks.fast import accelerate
from repri.models.networks.mobile import CompactNet
from repri.models.networks.packed import PackedLinear, pack
from tests.models.layouts import stirred

needs_onednn = pytest.mark.skipif(not packed._usable(), reason="This build of PyTorch has no packed products.")


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(8, 24, 1), nn.Identity(), nn.ReLU6(), nn.Conv2d(24, 16, 1, stride=2), nn.Conv2d(16, 12, 3, padding=1)
    ).requires_grad_(False)


@needs_onednn
@pytest.mark.parametrize("size", [(1, 1), (2, 7), (40, 33), (90, 90)])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_products_of_maps_are_equal(size, layout):
    plain = layers()
    maps = 9 * torch.randn(3, 8, *size).contiguous(memory_format=layout)
    fast = pack(copy.deepcopy(plain))
    torch.testing.assert_close(fast(maps), plain(maps), rtol=1e-4, atol=1e-4)
    assert float(plain[:3](maps).max()) == float(fast[:3](maps).max()) == 6.0


@needs_onednn
def test_only_products_with_a_matrix_are_packed():
    fast = pack(layers())
    assert isinstance(fast[0], PackedLinear)
    assert fast[0].limited
    assert isinstance(fast[2], nn.Identity)
    assert [type(fast[i]) for i in (3, 4)] == [nn.Conv2d, nn.Conv2d]
    assert type(pack(layers().double())[0]) is nn.Conv2d
    assert type(pack(nn.Sequential(nn.Conv2d(8, 8, 1, groups=2)))[0]) is nn.Conv2d


@needs_onednn
def test_a_linear_layer_takes_any_number_of_tokens():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Linear(48, 5, bias=False)).requires_grad_(False)
    fast = pack(copy.deepcopy(plain))
    for shape in ((1, 32), (900, 32), (2, 17, 32)):
        tokens = torch.randn(*shape)
        torch.testing.assert_close(fast(tokens), plain(tokens), rtol=1e-5, atol=1e-5)
    assert copy.deepcopy(fast)(tokens).equal(fast(tokens))
    assert [sum(p.numel() for p in net.parameters()) for net in (plain, fast)] == [32 * 48 + 48 + 48 * 5] * 2


@needs_onednn
def test_an_image_has_the_same_features_in_any_batch():
    network = pack(accelerate(stirred(CompactNet(build_backbone("efficientnet_lite0", dilated=False), width=32))))
    images = torch.rand(3, 3, 96, 128)
    with torch.inference_mode():
        together = network(images)["bottleneck"]
        alone = torch.cat([network(image[None])["bottleneck"] for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_without_onednn_the_network_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(packed, "_usable", lambda: False)
    assert type(pack(layers())[0]) is nn.Conv2d


def test_operators_of_another_version_are_not_used(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(packed, "PackedLinear", refuse)
    packed._usable.cache_clear()
    try:
        assert type(pack(layers())[0]) is nn.Conv2d
    finally:
        monkeypatch.undo()
        packed._usable.cache_clear()
