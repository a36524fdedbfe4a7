"""Commands in two processes give the same as in one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from repri.data import read_mask
from repri.evaluation.results import load_result
from repri.models.load import EXTRACTORS
from tests.make import build_quick

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json
import os
import sys
from pathlib import Path
from repri.cli import app
from repri.models.load import EXTRACTORS
from tests.make import build_quick

EXTRACTORS.register("quick", build_quick)
for port, arguments in json.loads(Path(sys.argv[1]).read_text()):
    os.environ["MASTER_PORT"] = str(port)
    app(arguments, standalone_mode=False)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_evaluate_and_segment(repri, short, tree, tmp_path, monkeypatch):
    """Starting processes takes most of the time, so both commands share them."""

    def commands(name):
        out = tmp_path / name
        images = ["--support", tree / "support", "--query", tree / "query", "--output", out / "masks"]
        quick = ["--extractor", "quick"]
        evaluate = ["evaluate", *short, *quick, "--method", "ce", "--output", out / "result.json"]
        return [[str(part) for part in command] for command in (evaluate, ["segment", *images, *quick, "--batch", 1])]

    monkeypatch.setattr(EXTRACTORS, "_objects", {**EXTRACTORS._objects, "quick": build_quick})
    for command in commands("one"):
        done = repri(*command)
        assert done.code == 0, done.err
    (tmp_path / "commands.json").write_text(json.dumps([(free_port(), command) for command in commands("two")]))
    shared = {"OMP_NUM_THREADS": "1", "REPRI_CACHE": str(tmp_path / "other"), "WORLD_SIZE": "2"}
    shared["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    processes = []
    for rank in ("0", "1"):
        place = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "commands.json")]
        processes.append(subprocess.Popen(command, env=os.environ | shared | place, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    first, second = (load_result(tmp_path / name / "result.json") for name in ("one", "two"))
    assert first["tasks"] == second["tasks"]
    assert first["miou"] == second["miou"]
    assert second["timing"]["processes"] == 2
    masks = sorted((tmp_path / "one/masks/masks").iterdir())
    assert len(masks) == 4
    for path in masks:
        assert np.array_equal(read_mask(path), read_mask(tmp_path / "two/masks/masks" / path.name))
    assert len((tmp_path / "two/masks/results.csv").read_text().splitlines()) == 5
