"""How tests start several processes, and what they allow one."""

import resource
import socket
import sys
from contextlib import contextmanager

__all__ = ["launcher", "no_more_than"]


def launcher(processes: int) -> list[str]:
    """The command before ``-m repri …``, with a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", port]


@contextmanager
def no_more_than(size: int):
    """Writing more bytes than that to a file fails, as it does on a full disk."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
