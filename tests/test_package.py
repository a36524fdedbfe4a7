"""What people install."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = ("embedded.safetensors", "discriminants.safetensors", "whitening.safetensors", "embedded.md")


def test_the_wheel_and_the_sources_hold_all_that_is_needed(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    content = zipfile.ZipFile(wheel)
    names = content.namelist()
    assert {f"repri/models/weights/{name}" for name in MODELS} <= set(names)
    assert any(name.startswith("repri/inference/") and name.endswith(".c") for name in names)
    package = ROOT / "src" / "repri"
    wanted = {f"repri/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert wanted <= set(names)
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE", "Apache-2.0.txt"}
    assert sum(entry.compress_size for entry in content.infolist()) < 20e6
    for name in MODELS:
        assert content.read(f"repri/models/weights/{name}") == (package / "models" / "weights" / name).read_bytes()
    (sources,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "NOTICE", "constraints.txt", "configs/tiny.yaml", "docs/training.md"} <= inside
