"""The package that people install, and the names that it offers."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import repri

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
    bundled = [path for path in (package / "data" / "datasets" / "bundled").rglob("*") if path.is_file()]
    assert sum(path.suffix == ".jpg" for path in bundled) >= 11
    assert {f"repri/{path.relative_to(package)}" for path in bundled} <= set(names)
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
    assert {"examples/evaluate.py", "examples/add_dataset.yaml", "tests/test_examples.py"} <= inside


def test_every_public_name_is_there():
    for name in repri.__all__:
        value = getattr(repri, name)
        assert value.__name__ == name or name == "register_refiner"
        assert value.__doc__, name
    assert set(repri.__all__) >= {"Segmenter", "evaluate", "infer", "load_extractor", "open_dataset", "sample_tasks"}
    assert sorted(repri.__all__) == repri.__all__


def test_completion_offers_the_public_names():
    assert set(repri.__all__) <= set(dir(repri))


def test_the_package_is_imported_at_once():
    code = "import sys, repri; print([name for name in ('torch', 'numpy', 'PIL', 'yaml') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
