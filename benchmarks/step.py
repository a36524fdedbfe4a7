"""Time of a training step of PSPNet-ResNet-50 after its frozen layer3, with the bottleneck as it stands and factored.

python benchmarks/step.py [--size 161] [--batch 12] [--threads 2] [--repeats 3] [--half]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from extractors import sgemm_gflops
from timing import medians
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from repri.models.networks.build import build_backbone
from repri.models.networks.pspnet import PSPNet
from repri.models.networks.resnet import ResNet


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=161)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--half", action="store_true", help="mixed precision: the network computes in bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    backbone = build_backbone("resnet50")
    assert isinstance(backbone, ResNet)
    network = PSPNet(backbone).train()
    cells = -(-options.size // 8)
    x = torch.randn(options.batch, 1024, cells, cells).contiguous(memory_format=torch.channels_last)

    def step(bottleneck: Callable[[Tensor], Tensor]) -> None:
        network.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.half):
            features = bottleneck(backbone.get_submodule("layer4")(x))
        features.float().sum().backward()

    methods = {
        "plain": lambda: step(lambda y: network.bottleneck(network.ppm(y))),
        "factored": lambda: step(network.factored_bottleneck),
    }
    gflop = {}
    for name, run in methods.items():
        with FlopCounterMode(display=False) as counter:
            run()
        gflop[name] = counter.get_total_flops() / 1e9
    times, peak = medians(methods, options.repeats), sgemm_gflops()
    for name, seconds in times.items():
        print(
            f"{name:9} {seconds:6.2f} s a step {gflop[name]:7.0f} GFLOP {times['plain'] / seconds:5.2f}×"
            f" {100 * gflop[name] / seconds / peak:4.0f} % of sgemm's {peak:.0f} GFLOP/s"
        )


if __name__ == "__main__":
    main()
