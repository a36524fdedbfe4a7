"""Our networks in the layouts of other projects' files, and weights that tests can tell apart."""

import torch

from repri.models.networks.build import build_backbone


def random_backbone(name, **options):
    """A backbone whose tensors are all different, so that no two can be mistaken for each other."""
    backbone = build_backbone(name, **options)
    with torch.no_grad():
        for tensor in backbone.state_dict().values():
            if tensor.dtype.is_floating_point:
                tensor.uniform_(0.1, 1.0)
    return backbone


def stirred(network):
    """A network with norms that do something: means, variances, scales and biases are random."""
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, tensor in network.state_dict().items():
            if key.endswith(("running_mean", "bias")):
                tensor.normal_(0, 0.2, generator=g)
            elif key.endswith("running_var") or (tensor.ndim == 1 and tensor.dtype.is_floating_point):
                tensor.uniform_(0.5, 1.5, generator=g)
    return network.eval()


def to_resnet_names(state):
    """A ResNet under the names of ImageNet files: torchvision's for a plain stem, semseg's for a deep one."""
    stem = {"0": "conv1", "1": "bn1", "3": "conv2", "4": "bn2", "6": "conv3", "7": "bn3"}
    renamed = {}
    for key, value in state.items():
        parts = key.split(".")
        if parts[0] == "layer0":
            parts = [stem[parts[1]], *parts[2:]]
        renamed[".".join(parts)] = value
    return renamed | {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}


def to_vgg_names(state, batch_norm):
    """A VGG-16 under torchvision's ``features.N``: modules are numbered through, poolings counted."""
    per = 3 if batch_norm else 2
    starts = [0, 2 * per + 1, 4 * per + 2, 7 * per + 3, 10 * per + 4]
    renamed = {}
    for key, value in state.items():
        group, index, leaf = key.split(".")
        renamed[f"features.{starts[int(group[-1])] + int(index)}.{leaf}"] = value
    return renamed | {"classifier.0.weight": torch.zeros(4, 4)}


def to_authors_names(state):
    """A PSPNet under the names of the RePRI code."""
    return {f"module.{key.removeprefix('backbone.')}": value for key, value in state.items()}


def numbered_blocks(network):
    """Blocks of a MobileNet in their order, whatever layer they are in."""
    layers = [network.get_submodule(f"layer{i}") for i in range(5)]
    return [block for i, layer in enumerate(layers) for block in list(layer)[i == 0 :]]


def to_mobilenet_names(network):
    """A MobileNetV2 under torchvision's names: the last convolution of a block and its norm stand one level higher."""
    state = {f"features.0.{key}": value for key, value in network.layer0[0].state_dict().items()}
    for n, block in enumerate(numbered_blocks(network), 1):
        steps = [block.spread] if n == 1 else [block.expand, block.spread]
        for i, step in enumerate(steps):
            state |= {f"features.{n}.conv.{i}.{key}": value for key, value in step.state_dict().items()}
        for i, module in enumerate(block.project):
            state |= {f"features.{n}.conv.{len(steps) + i}.{key}": value for key, value in module.state_dict().items()}
    last = {"features.18.0.weight": torch.zeros(1280, 320, 1, 1), "features.18.1.bias": torch.zeros(1280)}
    return state | last | {"classifier.1.weight": torch.zeros(1000, 1280)}


def to_lite_names(network):
    """An EfficientNet-Lite0 under the names of its published files."""
    names = {"expand": ("_expand_conv", "_bn0"), "spread": ("_depthwise_conv", "_bn1")}
    names["project"] = ("_project_conv", "_bn2")
    stem = ("_conv_stem", "_bn0")
    state = {f"{stem[int(key[0])]}.{key[2:]}": value for key, value in network.layer0[0].state_dict().items()}
    for n, block in enumerate(numbered_blocks(network)):
        for step, theirs in names.items():
            tensors = block.get_submodule(step).state_dict()
            state |= {f"_blocks.{n}.{theirs[int(key[0])]}.{key[2:]}": value for key, value in tensors.items()}
    return state | {"_conv_head.weight": torch.zeros(4), "_bn1.bias": torch.zeros(4), "_fc.weight": torch.zeros(4, 4)}


def same_tensors(first, second):
    """Whether two networks have the same keys with equal tensors."""
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
