"""Commands that are killed, a disk that is full, several processes at once; ``make chaos`` kills more often."""

import os
import subprocess
import sys


def test_killed_commands_go_on(tmp_path):
    """In a process of its own, which has no other threads when it forks."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.hostile.chaos", "4", "0", "segment", "serve"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal, nothing left") == 2
