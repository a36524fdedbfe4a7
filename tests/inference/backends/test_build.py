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
        (folder,) = (os.path.join(os.environ["REPRI_CACHE"], name) for name in os.listdir(os.environ["REPRI_CACHE"]))
        (library,) = (os.path.join(folder, name) for name in os.listdir(folder))
        content = open(library, "rb").read()
        open(library, "wb").write(content[: len(content) // 2])
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
def test_only_a_whole_library_of_the_user_is_loaded(tmp_path):
    """Half a library is built again. Where others could have put one of theirs, the kernel is built elsewhere."""
    own, shared, temporary = (tmp_path / name for name in ("own", "shared", "temporary"))
    for folder in (own, shared, temporary):
        folder.mkdir()
    shared.chmod(0o777)
    lines = printed(own, {"DAMAGE": "1"}, {}, {"REPRI_CACHE": str(shared), "TMPDIR": str(temporary)})
    assert len(lines) == 3
    assert all(line.startswith("True ") and line.endswith(" True") for line in lines), lines
    assert lines[2].startswith(f"True {temporary}")
    assert list(shared.iterdir()) == []
    (folder,) = own.iterdir()
    (library,) = folder.iterdir()
    assert library.stat().st_size > 1000
    assert folder.stat().st_mode & 0o777 == 0o700
