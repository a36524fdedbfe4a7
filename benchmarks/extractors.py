"""Speed of feature extraction on this machine, everything in one run.

    python benchmarks/extractors.py [--threads 2] [--repeats 5] [--compile] [--lowlevel]

PSPNet-ResNet-50 at 417² and DINOv2-small at 420², untrained (the speed is the same), and the embedded model: the plain
eager module, ours, and what share of this machine's matrix-product speed each reaches. A share is computed
from the multiplications of the plain module, so that skipping work counts as speed; a 1-shot task is
two images. The last line is the speed of the extractor lowlevel, which has no network; --lowlevel prints it alone.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable

import torch
import torch.nn as nn
from timing import medians
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from repri.models import load_extractor
from repri.models.extractors.network import NetworkExtractor
from repri.models.networks.fast import accelerate
from repri.models.networks.packed import pack


def sgemm_gflops(size: int = 2048) -> float:
    """Best float32 matrix product, GFLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def count_gflop(network: nn.Module, images: Tensor) -> float:
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network(images)
    return counter.get_total_flops() / 1e9


def dinov2_small() -> nn.Module:
    """The architecture of facebook/dinov2-small, untrained."""
    from transformers import Dinov2Backbone, Dinov2Config

    config = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, patch_size=14, image_size=518)
    return Dinov2Backbone(config).eval()


def report(name: str, size: int, found: dict[str, float], gflop: float, peak: float) -> None:
    plain = found["eager"]
    for method, seconds in found.items():
        print(
            f"{name:16} {size}²  {method:22} {1e3 * seconds:8.0f} ms {0.5 / seconds:7.2f} tasks/s"
            f" {plain / seconds:6.2f}× {100 * gflop / seconds / peak:5.0f} % of sgemm",
            flush=True,
        )


def report_lowlevel(repeats: int) -> None:
    """Print the speed of the extractor that describes the pixels themselves, at its own size."""
    extractor, images = load_extractor("lowlevel"), torch.rand(1, 3, 480, 640)
    seconds = medians({"lowlevel": lambda: extractor.extract(images)}, 4 * repeats)["lowlevel"]
    print(
        f"lowlevel         640×480 {1e3 * seconds:30.0f} ms {0.5 / seconds:7.2f} tasks/s {0.3072 / seconds:6.1f} MP/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="also torch.compile (a minute to start)")
    parser.add_argument("--lowlevel", action="store_true", help="only the extractor lowlevel")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.lowlevel:
        report_lowlevel(options.repeats)
        return
    peak = sgemm_gflops()
    print(f"{options.threads} threads, sgemm {peak:.0f} GFLOP/s, float32, one image at a time\n")

    report_networks(options.repeats, options.compile, peak)
    report_lowlevel(options.repeats)


def report_networks(repeats: int, compile: bool, peak: float) -> None:
    """Print the speed of each network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extractor = load_extractor("pspnet-resnet50")
    assert isinstance(extractor, NetworkExtractor)
    images = torch.rand(1, 3, 417, 417)

    def plain(network: Callable[[Tensor], object], x: Tensor) -> object:
        with torch.inference_mode():
            return network(x)

    methods: dict[str, Callable[[], object]] = {
        "eager": lambda: plain(extractor.network, images),
        "ours": lambda: extractor.extract(images),
    }
    if compile:
        compiled = torch.compile(accelerate(extractor.network))
        methods["ours, torch.compile"] = lambda: plain(compiled, images)
    gflop = count_gflop(extractor.network, images)
    report(f"PSPNet-R50 {gflop:.0f}G", 417, medians(methods, repeats), gflop, peak)

    try:
        dino = dinov2_small()
    except ImportError:
        print("DINOv2-small: transformers is not installed (pip install 'repri[hub]')")
        return
    larger = torch.rand(1, 3, 420, 420)
    gflop = count_gflop(dino, larger)
    packed = pack(copy.deepcopy(dino))
    methods = {"eager": lambda: plain(dino, larger), "ours": lambda: plain(packed, larger)}
    if compile:
        compiled_dino = torch.compile(dino)
        methods["ours, torch.compile"] = lambda: plain(compiled_dino, larger)
    report(f"DINOv2-S {gflop:.0f}G", 420, medians(methods, repeats), gflop, peak)

    embedded = load_extractor()
    both = {"dino": lambda: plain(packed, larger), "embedded": lambda: embedded.extract(images)}
    found = medians(both, repeats)
    print(
        f"embedded model   417²  {1e3 * found['embedded']:31.0f} ms {0.5 / found['embedded']:7.2f} tasks/s"
        f" {found['dino'] / found['embedded']:6.2f}× as fast as our DINOv2-S at 420²"
    )


if __name__ == "__main__":
    main()
