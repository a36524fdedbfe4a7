"""``repri info``."""

from __future__ import annotations

import platform

import typer


def info() -> None:
    """Print the versions, the device, and the embedded model."""
    import torch

    from repri import __version__
    from repri.inference import native_status
    from repri.models import load_extractor
    from repri.models.networks.build import whole_name
    from repri.models.weights.checkpoints import read_checkpoint
    from repri.models.weights.embedded import EMBEDDED, HEADS_SHA256, SHA256
    from repri.runtime.distributed import default_device

    native, text = native_status()
    device = default_device()
    if device == "cpu":
        device = f"CPU, {torch.get_num_threads()} threads"
    elif device.startswith("cuda"):
        device = f"{device}, {torch.cuda.get_device_name(device)}"
    extractor, network = load_extractor(), read_checkpoint(EMBEDDED)
    values = sum(tensor.numel() for tensor in network.state.values()) / 1e6
    name = whole_name(network.config["backbone"])
    rows = {
        "repri": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device,
        "kernel": text if native else f"not used: {text}",
        "default": f"{name}, {values:.1f} million values, long side {extractor.rule.size} pixels",
        "weights": f"sha256 {SHA256}",
        "head": f"labels of {len(extractor.seen)} classes, sha256 {HEADS_SHA256}",
    }
    for name, value in rows.items():
        typer.echo(f"{name:8} {value}")
