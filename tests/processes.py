"""How tests start several processes."""

import socket
import sys

__all__ = ["launcher"]


def launcher(processes: int) -> list[str]:
    """The command before ``-m repri …``, with a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", port]
