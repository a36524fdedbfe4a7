"""Start the server and wait until it ends."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.runtime.errors import MissingExtraError, RepriError

from .security import is_loopback

__all__ = ["Address", "Latency", "run"]


class Address(NamedTuple):
    """Where the page is."""

    url: str
    """The address of the page, with the token if there is one."""
    token: str | None
    """The secret, if other machines can reach the server."""


class Latency(NamedTuple):
    """Milliseconds from the end of a stroke to the result of the current image."""

    median: float
    p95: float


def run(
    folder: Path | None, host: str, port: int, extractor: str, ready: Callable[[Address, int | None], None]
) -> Latency | None:
    """Serve the page until somebody ends the program.

    Args:
        folder: Folder of images; None: pages create projects of their own.
        host: The host to listen on.
        port: The port; 0 takes a free one.
        extractor: Name of the extractor.
        ready: Is called with the address of the page and the number of images when the server listens.

    Returns:
        How quickly strokes were answered, if there were any.
    """
    if not host.strip() or "\0" in host:
        raise RepriError("--host names no address: give 127.0.0.1 for this machine alone, or 0.0.0.0 for the network.")
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtraError("The web page needs more packages: pip install 'repri[web]'.") from None
    import torch

    from repri.runtime.parallel import usable_cores
    from repri.segmenter import Segmenter

    from .app import build_app
    from .projects import Projects

    with _listen(host, port) as listening:
        torch.set_num_threads(max(1, usable_cores() // 2))  # two threads work at the same time
        segmenter = Segmenter(extractor)
        known = Projects(segmenter, data_folder() / "projects", folder)
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        shown = f"[{shown}]" if ":" in shown else shown
        url = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
        config = uvicorn.Config(
            build_app(known, host, token), log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        ready(Address(url, token), None if known.folder is None else len(known.folder.project.images))
        uvicorn.Server(config).run([listening])
    spent = [ms for session in known.sessions() for ms in session.latencies]
    return Latency(float(np.median(spent)), float(np.percentile(spent, 95))) if spent else None


def data_folder() -> Path:
    """Folder of the projects that pages create: the user's data folder, or ``REPRI_CACHE`` if it is set."""
    import os

    import platformdirs

    from repri.runtime.files import cache_folder

    if os.environ.get("REPRI_CACHE"):
        return cache_folder()
    return Path(platformdirs.user_data_dir("repri", appauthor=False)).expanduser()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port that is taken is noticed before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, ValueError) as error:  # no address at all is a ValueError
        listening.close()
        why = getattr(error, "strerror", None) or "this is no address"
        raise RepriError(
            f"The server cannot listen on {host[:100]}:{port} ({why}): choose another --port, or another --host."
        ) from None
    return listening
