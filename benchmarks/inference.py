"""Speed of the inference at the paper's size (53×53×512, 50 steps), everything in one run.

    python benchmarks/inference.py [--threads 2] [--repeats 7] [--shots 1 5 10] [--tasks 1 8] [--busy]

Compared on the same features: a plain autograd loop (a direct transcription of the method), our torch
backend, our compiled kernel, and the limit: the bytes that one pass per step must read, divided by the
read bandwidth measured here on a buffer of that size. Times are medians; the methods take turns, so
that a busy machine slows all of them. "max Δp" is the largest difference between the probabilities
of the loop and of the kernel. With ``--busy``, each row is followed by one that is measured while another
process occupies one core.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from timing import medians, occupied_cores
from torch import Tensor

from repri.inference import InferenceConfig, infer, native_status

CHANNELS, SIZE, MASK = 512, (53, 53), (417, 417)


def autograd_loop(support: Tensor, masks: Tensor, query: Tensor, cfg: InferenceConfig) -> Tensor:
    """The method as one would first write it: tensors [T, K, h, w, C], autograd, an SGD optimiser."""
    shots, tau = support.shape[1], cfg.temperature
    labels = F.interpolate(masks.float(), size=support.shape[-2:], mode="nearest")
    fg, bg = labels == 1, labels == 0
    z_s, z_q = F.normalize(support, dim=2).movedim(2, -1), F.normalize(query, dim=1).movedim(1, -1)
    w = (z_s * fg[..., None]).sum((1, 2, 3)) / fg.sum((1, 2, 3))[:, None]

    def scores(z: Tensor) -> Tensor:
        dot = (z @ w.reshape(len(w), *[1] * (z.ndim - 3), -1, 1)).squeeze(-1)
        return tau * dot / (z.norm(dim=-1) * w.norm(dim=1).reshape(-1, *[1] * (z.ndim - 2)) + 1e-10)

    b = scores(z_q).mean((1, 2))
    w, b = w.requires_grad_(), b.requires_grad_()
    optimizer = torch.optim.SGD([w, b], lr=cfg.lr)

    def probability(z: Tensor) -> Tensor:
        return torch.sigmoid(scores(z) - b.reshape(-1, *[1] * (z.ndim - 2)))

    weight_kl = 1 / shots
    pi = probability(z_q).mean((1, 2)).detach()
    for t in range(cfg.steps):
        if t + 1 == cfg.t_pi:
            pi, weight_kl = probability(z_q).mean((1, 2)).detach(), weight_kl + 1
        p_s, p_q = probability(z_s), probability(z_q)
        ce = -((fg * (p_s + 1e-10).log() + bg * (1 - p_s + 1e-10).log()).sum((1, 2, 3)) / (fg | bg).sum((1, 2, 3)))
        entropy = -(p_q * (p_q + 1e-10).log() + (1 - p_q) * (1 - p_q + 1e-10).log()).mean((1, 2))
        p_hat = p_q.mean((1, 2))
        kl = p_hat * (p_hat / pi).log() + (1 - p_hat) * ((1 - p_hat) / (1 - pi)).log()
        optimizer.zero_grad()
        (ce + entropy / shots + weight_kl * kl).sum().backward()
        optimizer.step()
    return probability(z_q).detach()


def make(tasks: int, shots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rectified features with an object in them, like those of a network's last block."""
    generator = torch.Generator().manual_seed(0)
    masks = torch.zeros(tasks, shots + 1, *MASK, dtype=torch.uint8)
    masks[..., 120:300, 100:330] = 1
    cells = F.interpolate(masks.float(), size=SIZE, mode="nearest")[:, :, None]
    centres = torch.randn(2, CHANNELS, 1, 1, generator=generator)
    features = torch.randn(tasks, shots + 1, CHANNELS, *SIZE, generator=generator)
    features = features.add_(cells * centres[1] + (1 - cells) * centres[0]).relu_()
    return features[:, :-1].contiguous(), masks[:, :-1].contiguous(), features[:, -1].contiguous()


def read_bandwidth(size: int) -> float:
    """Bytes per second of summing a buffer of `size` bytes, best of many."""
    buffer = torch.ones(size // 4)
    best = float("inf")
    for _ in range(max(5, 2**30 // size)):
        start = time.perf_counter()
        buffer.sum()
        best = min(best, time.perf_counter() - start)
    return size / best


def extra_memory(run: Callable[[], object]) -> float:
    """Peak resident bytes that `run` adds, or NaN where Linux's counters are missing."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # so that memory freed before counts again
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _peak()
        run()
        return float(_peak() - before)
    except (OSError, AttributeError):
        return float("nan")


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


HEADER = """
                  ms per batch             × over autograd   ms at the limit   ours ÷ limit    memory
       T   K   autograd    torch     ours    torch     ours    fp32   16-bit    fp32  16-bit  ÷ features   max Δp"""


def times_row(label: str, tasks: int, shots: int, seconds: dict[str, float]) -> str:
    """The first columns of the table."""
    autograd, plain, ours = seconds["autograd"], seconds["torch"], seconds["ours"]
    return (
        f"{label:5} {tasks:2} {shots:3} {1e3 * autograd:10.0f} {1e3 * plain:8.1f} {1e3 * ours:8.1f}"
        f" {autograd / plain:7.1f}× {autograd / ours:7.1f}×"
    )


def compare(tasks: int, shots: int, cfg: InferenceConfig, repeats: int, busy: bool) -> None:
    """Print the row of one size, and the one with an occupied core."""
    support, masks, query = make(tasks, shots)
    methods: dict[str, Callable[[], object]] = {
        "autograd": partial(autograd_loop, support, masks, query, cfg),
        "torch": partial(infer, support, masks, query, cfg, backend="torch"),
        "ours": partial(infer, support, masks, query, cfg),
    }
    size = 4 * (support.numel() + query.numel())
    limits = [cfg.steps * n / read_bandwidth(n) for n in (size, size // 2)]
    seconds = medians(methods, repeats)
    memory = extra_memory(methods["ours"]) / size
    gap = (autograd_loop(support, masks, query, cfg) - infer(support, masks, query, cfg).probability).abs().max()
    print(
        f"{times_row('quiet' if busy else '', tasks, shots, seconds)}"
        f" {1e3 * limits[0]:7.1f} {1e3 * limits[1]:8.1f}"
        f" {seconds['ours'] / limits[0]:7.2f} {seconds['ours'] / limits[1]:7.2f} {memory:11.2f} {gap:8.0e}",
        flush=True,
    )
    if busy:
        with occupied_cores(1):
            print(times_row("busy", tasks, shots, medians(methods, repeats)), flush=True)


def compare_shared(cfg: InferenceConfig) -> None:
    """Print the time of one support for several queries, and of copies of it."""
    print("\none support for 8 queries (K = 5): ", end="", flush=True)
    support, masks, query = make(8, 5)
    copies = support[:1].repeat(8, 1, 1, 1, 1), masks[:1].repeat(8, 1, 1, 1)
    methods = {
        "shared": lambda: infer(support[:1], masks[:1], query, cfg),
        "copies": lambda: infer(*copies, query, cfg),
    }
    seconds = medians(methods, 3)
    print(f"{1e3 * seconds['shared']:.0f} ms shared, {1e3 * seconds['copies']:.0f} ms as copies")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    parser.add_argument("--repeats", type=int, default=7, help="number of runs for one task; a third of it for more")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5, 10], help="numbers of shots K")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 8], help="numbers of tasks T in a batch")
    parser.add_argument("--busy", action="store_true", help="measure again while a process occupies one core")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cfg = InferenceConfig.preset("original")
    native, text = native_status()
    cells = f"{SIZE[0]}×{SIZE[1]} cells"
    print(f"{CHANNELS} channels, {cells}, {cfg.steps} steps, {options.threads} threads, float32 input")
    print(f"compiled kernel: {text if native else 'not used, ' + text}")
    print(HEADER)
    for tasks in options.tasks:
        for shots in options.shots:
            compare(tasks, shots, cfg, options.repeats if tasks == 1 else max(2, options.repeats // 3), options.busy)
    if max(options.tasks) > 1:
        compare_shared(cfg)


if __name__ == "__main__":
    main()
