"""The compiled kernel is built where there is a compiler, and torch does the work elsewhere."""

import json
import os
import subprocess
import sys

import pytest

from repri.inference import native_status

SCRIPT = """
import json
import os
import sys
import torch
from repri.inference import infer, native_status

features = torch.randn(1, 1, 64, 24, 24)
mask = torch.zeros(1, 1, 24, 24)
mask[..., :9] = 1
for environment in json.loads(sys.argv[1]):
    if os.fork() == 0:  # torch is imported once, for all of them
        os.environ.update(environment)
        status = native_status()
        print(*status, infer(features, mask, features[:, 0]).probability.isfinite().all().item(), flush=True)
        os._exit(0)
    os.wait()
    if environment.get("DAMAGE"):
        (library,) = (os.path.join(os.environ["REPRI_CACHE"], name) for name in os.listdir(os.environ["REPRI_CACHE"]))
        open(library, "wb").write(b"not a library")
"""


def printed(cache, *environments):
    """What a process with a cache of its own says of the kernel in some environments."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(environments)]
    environment = os.environ | {"REPRI_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_without_a_compiler_torch_does_the_work(tmp_path):
    cases = ({"REPRI_NATIVE": "0"}, {"PATH": "/nonexistent", "CC": ""}, {"CC": "/bin/false"})
    lines = printed(tmp_path, *cases)
    expected = ("False REPRI_NATIVE=0", "False no C compiler", "False building the kernel failed")
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True)), lines
    assert all(line.endswith("True") for line in lines)
    assert list(tmp_path.iterdir()) == []  # nothing half-built is left behind


@pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")
def test_a_damaged_library_is_built_again(tmp_path):
    lines = printed(tmp_path, {"DAMAGE": "1"}, {})
    assert len(lines) == 2
    assert all(line.startswith("True ") and line.endswith(" True") for line in lines), lines
    (library,) = tmp_path.iterdir()
    assert library.stat().st_size > 1000
