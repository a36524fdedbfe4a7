"""``repri train`` as a person runs it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from repri.cli import app
from repri.cli.common import Bars
from repri.data.datasets.scenes import make_dataset
from tests.processes import launcher
from tests.training.episodic.make import EPISODIC
from tests.training.make import SMALL, draw_scenes, nested

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return draw_scenes(tmp_path_factory.mktemp("scenes"))


@pytest.fixture
def config_file(scenes, tmp_path, monkeypatch):
    """Settings of a run of about a second."""
    monkeypatch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(nested(SMALL | {"data.name": str(scenes), "output": str(tmp_path / "run")})))
    return path


@pytest.fixture
def one_thread():
    """Sums in the same order as in a process with OMP_NUM_THREADS=1."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def repri_train(config_file, *options):
    return CliRunner().invoke(app, ["train", "--config", str(config_file), *map(str, options)])


def process(command, config_file, *options):
    command = [*command, "-m", "repri", "train", "--config", str(config_file), *map(str, options)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def state_of(folder):
    return torch.load(folder / "last.pt", weights_only=True)


def flat(content, name=""):
    """All tensors and numbers in a checkpoint by their path."""
    if isinstance(content, torch.Tensor):
        return {name: content}
    if isinstance(content, (dict, list)):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        return {k: v for key, value in items for k, v in flat(value, f"{name}.{key}").items()}
    return {name: torch.tensor(0 if content is None else content)}


def assert_same(first, second):
    """Two runs are equal bit for bit."""
    one, two = state_of(first), state_of(second)
    assert one["progress"] == two["progress"]
    for part in ("model", "optimiser"):
        a, b = flat(one[part]), flat(two[part])
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert (first / "log.csv").read_text() == (second / "log.csv").read_text()


def test_help_needs_no_torch():
    code = (
        "import sys; from typer.testing import CliRunner; from repri.cli import app;"
        "done = CliRunner().invoke(app, ['train', '--help']); print(done.output); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
    for flag in (
        "--epochs",
        "--root",
        "--teacher-size",
        "--validate-every",
        "--no-mixed-precision",
        "--resume",
        "--train-shots",
        "--set",
    ):
        assert flag in done.stdout
    for flag in ("--method", "--train-shots", "--episodes", "--set"):
        assert flag in done.stdout


def test_a_dry_run_writes_nothing(config_file, tmp_path):
    done = repri_train(config_file, "--dry-run", "--epochs", "2")
    assert done.exit_code == 0, done.output
    for words in ("6 base classes", "training images", "5 steps of 4 images in an epoch, 10 in all", "GB of memory"):
        assert words in done.output
    assert not (tmp_path / "run" / "last.pt").exists()


def test_train_plot_and_evaluate(config_file, scenes, tmp_path):
    output = tmp_path / "run-fold{fold}"
    done = repri_train(config_file, "--output", output, "--fold", "1")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "run-fold1"
    assert f"written: {folder / 'model.safetensors'}" in done.output
    assert yaml.safe_load((folder / "config.yaml").read_text())["data"]["fold"] == 1
    done = CliRunner().invoke(app, ["train", "--plot", str(folder)])
    assert done.exit_code == 0, done.output
    assert (folder / "log.png").stat().st_size > 5000
    options = ["--split", "train", "--fold", "1", "--tasks", "6", "--runs", "1", "--size", "64"]
    model = str(folder / "model.safetensors")
    done = CliRunner().invoke(app, ["evaluate", "--data", str(scenes), "--extractor", model, *options])
    assert done.exit_code == 0, done.output
    assert "mean" in done.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--lr", "-1"), r"config\.yaml with --lr -1\.0: optimiser\.lr must be a number ≥ 0, got -1\.0"),
        (("--epochs", "many"), "--epochs must be a whole number, got 'many'"),
        (("--head", "con"), "--head must be psp or conv or discriminant, got 'con'"),
    ],
)
def test_mistakes_name_the_flag(config_file, options, sentence):
    done = repri_train(config_file, *options)
    with pytest.raises(ValueError, match=sentence):
        raise done.exception


def test_a_file_from_before_there_were_sections(config_file):
    config_file.write_text("data: pascal\nepochs: 3\n")
    done = repri_train(config_file)
    assert str(done.exception) == f"{config_file}: 'epochs' is now 'optimiser.epochs'."


def test_the_authors_choose_the_epoch_by_tasks(config_file, tmp_path):
    make_dataset(tmp_path / "data", train=12, val=24)
    done = repri_train(config_file, "--protocol", "official", "--selection-tasks", 20, "--root", tmp_path / "data")
    assert done.exit_code == 0, done.output
    (row,) = csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines())
    assert float(row["selected_by"]) != float(row["base_miou"])
    assert not (tmp_path / "run" / "selection").exists()


def test_the_tiny_recipe(tmp_path, monkeypatch):
    """As a newcomer runs it, with half of the epochs."""
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    done = repri_train(CONFIGS / "tiny.yaml", "--output", tmp_path / "tiny", "--epochs", 2)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((tmp_path / "tiny" / "log.csv").read_text().splitlines()))
    assert max(float(row["base_miou"]) for row in rows) > 25


def test_a_killed_run_goes_on_as_if_nothing_had_been(config_file, tmp_path, one_thread):
    """SIGKILL in mid-epoch, then --resume: the checkpoint of an undisturbed run, bit for bit."""
    done = repri_train(config_file, "--output", tmp_path / "whole", "--epochs", 4)
    assert done.exit_code == 0, done.output
    run = process([sys.executable], config_file, "--save-minutes", 0, "--epochs", 4)
    folder, seen = tmp_path / "run", 0
    while seen < 2 and run.poll() is None:
        if (folder / "last.pt").exists():
            seen = state_of(folder)["progress"]["step"]
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert state_of(folder)["progress"]["epoch"] < 4, "the run ended before it could be killed"
    done = repri_train(config_file, "--resume", "--epochs", 4)
    assert done.exit_code == 0, done.output
    assert_same(folder, tmp_path / "whole")


def test_sigterm_saves_and_says_so(config_file, tmp_path, monkeypatch):
    def show(self, what, done, total, text=""):
        if what == "training" and done == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Bars, "show", show)
    done = repri_train(config_file)
    assert done.exit_code == 143
    assert "stopped and saved after step 3 of 5; go on with --resume" in done.output
    progress = state_of(tmp_path / "run")["progress"]
    assert len(progress["losses"]) == progress["step"] == 3


def test_episodes_chosen_by_novel_classes_and_evaluated(config_file, tmp_path):
    """The result file of a method says that its checkpoint looked at the test, and the size follows the training."""
    data, folder = tmp_path / "data", tmp_path / "run-fold0"
    make_dataset(data, train=16, val=16)
    values = EPISODIC | {"data.name": "scenes", "data.root": str(data), "episodes.selection": "novel"}
    config_file.write_text(yaml.safe_dump(nested(values | {"output": str(tmp_path / "run-fold{fold}")})))
    done = repri_train(config_file, "--set", "width=8", "--selection-tasks", 8, "--epochs", 1)
    assert done.exit_code == 0, done.output
    assert f"written: {folder / 'method.safetensors'}" in done.output
    (row,) = csv.DictReader((folder / "log.csv").read_text().splitlines())
    assert float(row["selected_by"]) != float(row["base_miou"])
    method, result = str(tmp_path / "run-fold{fold}" / "method.safetensors"), tmp_path / "result.json"
    options = f"--data scenes --root {data} --fold 0 --tasks 4 --runs 1 --method {method}".split()
    done = CliRunner().invoke(app, ["evaluate", *options, "--extractor", "filters", "--output", str(result)])
    assert done.exit_code == 0, done.output
    content = json.loads(result.read_text())
    assert "chosen by tasks of the novel classes" in content["trained"]["0"]["more"]["warning"]
    assert content["extractor"]["0"]["size"] == 64
    done = CliRunner().invoke(app, ["evaluate", *options, "--extractor", "lowlevel"])
    assert "was trained on features of filters" in str(done.exception)


def test_two_processes_train_what_one_trains(config_file, tmp_path):
    """Two processes have one image each, and norms and losses look at both."""
    options = ("--dropout", 0, "--head", "psp", "--batch", 2)
    run = process(launcher(2), config_file, "--output", tmp_path / "two", *options)
    done = repri_train(config_file, "--output", tmp_path / "one", *options)
    assert done.exit_code == 0, done.output
    output, errors = run.communicate(timeout=240)
    assert run.returncode == 0, errors
    assert output.count("written:") == 1
    first, second = (state_of(tmp_path / name) for name in ("one", "two"))
    losses = [state["progress"]["rows"][-1]["loss"] for state in (first, second)]
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for key, value in first["model"].items():
        torch.testing.assert_close(second["model"][key], value, rtol=2e-3, atol=2e-4)
