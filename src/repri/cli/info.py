"""``repri info``."""

from __future__ import annotations

import platform

import typer


def info() -> None:
    """Show what is installed and what the computation will run on."""
    import torch

    from repri import __version__
    from repri.inference import native_status

    native, text = native_status()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    rows = {
        "repri": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device,
        "kernel": text if native else f"not used: {text}",
    }
    for name, value in rows.items():
        typer.echo(f"{name:8} {value}")
