"""``repri info``."""

import platform

import torch
from typer.testing import CliRunner

from repri import __version__
from repri.cli import app
from repri.models.weights import embedded


def test_versions_and_the_embedded_model():
    done = CliRunner().invoke(app, ["info"])
    assert done.exit_code == 0, done.output
    rows = {line[:8].strip(): line[9:] for line in done.output.splitlines()}
    assert (rows["repri"], rows["python"], rows["torch"]) == (__version__, platform.python_version(), torch.__version__)
    assert rows["default"] == "compact-efficientnet_lite0, 5.7 million values, long side 417 pixels"
    assert rows["weights"] == f"sha256 {embedded.SHA256}"
    assert rows["head"] == f"labels of 20 classes, sha256 {embedded.HEADS_SHA256}"
    assert rows["kernel"]
