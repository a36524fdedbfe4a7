"""PSPNet and its backbones: sizes, shapes, and the fast equivalent."""

import pytest
import torch

from repri.models.load import build_backbone, load_extractor
from repri.models.networks.fast import accelerate
from repri.models.networks.pspnet import PSPNet

# Convolutions and norms of the published networks, without their ImageNet heads.
BACKBONE_PARAMETERS = {
    ("resnet50", "plain"): 23_508_032,
    ("resnet50", "deep"): 23_631_808,
    ("resnet101", "plain"): 42_500_160,
    ("resnet101", "deep"): 42_623_936,
    ("vgg16", None): 14_714_688,
    ("vgg16_bn", None): 14_723_136,
}
HEAD_PARAMETERS = {
    2048: 4 * (2048 * 512 + 1024) + 4096 * 512 * 9 + 1024,
    512: 4 * (512 * 128 + 256) + 1024 * 512 * 9 + 1024,
}


def build(name, stem, **options):
    torch.manual_seed(0)
    return randomise(build_backbone(name, **({"stem": stem} if stem else {}), **options))


def randomise(network):
    """Norms that do something."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.0)
            module.bias.data.normal_(0, 0.1)
    return network


@pytest.mark.parametrize(("name", "stem"), BACKBONE_PARAMETERS)
def test_parameters_and_shapes(name, stem):
    backbone = build(name, stem)
    assert sum(p.numel() for p in backbone.parameters()) == BACKBONE_PARAMETERS[name, stem]
    network = PSPNet(backbone, classes=16).eval()
    channels = backbone.channels["layer4"]
    total = BACKBONE_PARAMETERS[name, stem] + HEAD_PARAMETERS[channels] + 512 * 16 + 16
    assert sum(p.numel() for p in network.parameters()) == total
    with torch.inference_mode():
        outputs = network(torch.rand(1, 3, 65, 89))
        assert outputs["layer4"].shape == (1, channels, 9, 12)
        assert outputs["bottleneck"].shape == (1, 512, 9, 12)
        assert network.segment(torch.rand(1, 3, 65, 89)).shape == (1, 16, 65, 89)


def test_417_pixels_give_53_cells():
    with torch.inference_mode():
        for name, stem in (("resnet50", "deep"), ("vgg16", None)):
            assert PSPNet(build(name, stem)).eval()(torch.rand(1, 3, 417, 417))["bottleneck"].shape == (1, 512, 53, 53)


@pytest.mark.parametrize(
    ("name", "stem"), [("resnet50", "deep"), ("resnet50", "plain"), ("vgg16", None), ("vgg16_bn", None)]
)
@pytest.mark.parametrize("size", [(65, 65), (40, 97)])
def test_the_fast_network_is_the_same_network(name, stem, size):
    network = randomise(PSPNet(build(name, stem))).eval()
    images = torch.randn(2, 3, *size)
    with torch.inference_mode():
        slow, fast = network(images), accelerate(network)(images)
    assert slow.keys() == fast.keys()
    for layer in slow:
        error = (slow[layer] - fast[layer]).abs().max() / slow[layer].abs().max()
        assert error < 1e-5, layer


def test_stride_in_the_first_convolution_keeps_shapes():
    a, b = (build("resnet50", "plain", stride_in=where, dilated=False) for where in ("3x3", "1x1"))
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        x, y = a.eval()(images), b.eval()(images)
    assert {k: v.shape for k, v in x.items()} == {k: v.shape for k, v in y.items()}
    assert x["layer4"].shape == (1, 2048, 2, 2)
    assert not torch.allclose(x["layer2"], y["layer2"])


def test_the_factored_bottleneck_is_the_bottleneck_gradients_too():
    network = PSPNet(build("vgg16", None), dropout=0).double().train()
    x = torch.randn(2, 512, 7, 9, dtype=torch.float64, requires_grad=True)
    learned = [x, *network.ppm.parameters(), *network.bottleneck.parameters()]
    plain, factored = network.bottleneck(network.ppm(x)), network.factored_bottleneck(x)
    torch.testing.assert_close(factored, plain)
    wanted = torch.randn_like(plain)
    for a, b in zip(*(torch.autograd.grad(y, learned, wanted) for y in (factored, plain)), strict=True):
        torch.testing.assert_close(a, b)


def test_unknown_options_are_named():
    with pytest.raises(ValueError, match="resnet50 has no option 'stm'"):
        build_backbone("resnet50", stm="deep")
    for options in ({"stride_in": "1X1"}, {"stem": "dep"}):
        with pytest.raises(ValueError, match="stem 'deep' or 'plain' and stride_in '3x3' or '1x1', got"):
            build_backbone("resnet50", **options)
    with pytest.raises(ValueError, match="unknown backbone 'alexnet'"):
        build_backbone("alexnet")
    with pytest.raises(ValueError, match="no class head"):
        build_backbone("resnet50").classify(torch.rand(1, 3, 64, 64))


@pytest.mark.filterwarnings("ignore:.*is untrained")
@pytest.mark.parametrize("name", ["resnet50", "vgg16"])
def test_layers_beyond_the_last_wanted_are_not_computed(name):
    image = torch.rand(1, 3, 33, 33)
    torch.manual_seed(0)
    part = load_extractor(name, layers=("layer2",))
    torch.manual_seed(0)
    whole = load_extractor(name, layers=("layer2", "layer4"))
    assert set(part.run(image)) == {"layer1", "layer2"}
    torch.testing.assert_close(part.run(image)["layer2"], whole.run(image)["layer2"])
