"""Whole runs on generated scenes: they learn, never lose work, and are the same in one process and in two."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from repri.cli import app
from repri.data.datasets.scenes import make_dataset
from repri.models import load_extractor
from repri.models.heads.files import load_head
from repri.runtime.distributed import World
from repri.runtime.settings import parse, read_yaml
from repri.training import TrainConfig, prepare, train
from repri.training.estimate import measure
from repri.training.loop import _stop_signal
from repri.training.network import build_trainee
from repri.training.state import Progress, save_state
from tests.processes import launcher, no_more_than

CONFIGS = Path(__file__).parents[2] / "configs"


def state_of(folder):
    return torch.load(folder / "last.pt", weights_only=True)


def same(first, second):
    """Whether two checkpoints are equal bit for bit, but for the settings' text."""
    assert first["progress"] == second["progress"]
    for part in ("model", "optimiser"):
        a, b = (_flat(content[part]) for content in (first, second))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a)


def _flat(content, name=""):
    if isinstance(content, torch.Tensor):
        return {name: content}
    if isinstance(content, (dict, list)):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        return {k: v for key, value in items for k, v in _flat(value, f"{name}.{key}").items()}
    return {name: torch.tensor(0 if content is None else content)}


def launch(config_file, *more, processes=1, wait=True):
    command = launcher(processes) if processes > 1 else [sys.executable]
    command += ["-m", "repri", "train", "--config", str(config_file), *map(str, more)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if wait:
        output, errors = run.communicate(timeout=240)
        return run.returncode, output, errors
    return run


def test_a_run_learns_and_leaves_what_it_should(settings, tmp_path):
    plan = prepare(TrainConfig(**settings | {"epochs": 30, "validate_every": 30, "lr": 0.2}))
    train(plan)
    folder = tmp_path / "run"
    names = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "last.pt", "log.csv", "model.safetensors", "samples"} <= names
    rows = list(csv.DictReader((folder / "log.csv").read_text().splitlines()))
    losses = [float(row["loss"]) for row in rows]
    assert len(rows) == 30
    assert losses[-1] < 0.8 * losses[0]
    assert float(rows[-1]["base_miou"]) > 15  # one of seven labels everywhere gives less
    with pytest.raises(ValueError, match="holds a run already"):
        train(prepare(TrainConfig(**settings)))


def test_a_killed_run_goes_on_as_if_nothing_had_been(settings, config_file, tmp_path):
    """SIGKILL in mid-epoch, then --resume: the checkpoint of an undisturbed run, bit for bit."""
    code, _, errors = launch(config_file, "--output", tmp_path / "whole")
    assert code == 0, errors
    run = launch(config_file, "--set", "save_minutes=0", wait=False)
    folder, seen = tmp_path / "run", 0
    while seen < 2 and run.poll() is None:
        if (folder / "last.pt").exists():
            seen = state_of(folder)["progress"]["step"]
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    progress = state_of(folder)["progress"]
    assert progress["step"] > 0 or progress["epoch"] < 2, "the run ended before it could be killed"
    code, _, errors = launch(config_file, "--resume")
    assert code == 0, errors
    same(state_of(folder), state_of(tmp_path / "whole"))
    logs = [(tmp_path / name / "log.csv").read_text() for name in ("run", "whole")]
    assert logs[0] == logs[1]


def test_sigterm_saves_and_says_so(config_file, tmp_path):
    run = launch(config_file, "--set", "epochs=500", wait=False)
    while not (tmp_path / "run" / "log.csv").exists() and run.poll() is None:
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 143
    assert "go on with --resume" in errors
    assert "Traceback" not in errors
    progress = state_of(tmp_path / "run")["progress"]
    assert len(progress["losses"]) == progress["step"]


@pytest.mark.parametrize("batch", [4, 2])
def test_two_processes_train_what_one_trains(batch, settings, config_file, tmp_path):
    """The same global batch, be it one image each: norms and losses look at all of it."""
    options = ("--set", "dropout=0", "--set", "network=filters", "--set", "head=psp", "--set", f"batch={batch}")
    for name, processes in (("one", 1), ("two", 2)):
        code, _, errors = launch(config_file, "--output", tmp_path / name, *options, processes=processes)
        assert code == 0, errors
    first, second = (state_of(tmp_path / name) for name in ("one", "two"))
    torch.testing.assert_close(
        first["progress"]["rows"][-1]["loss"], second["progress"]["rows"][-1]["loss"], rtol=1e-4, atol=1e-5
    )
    for key, value in first["model"].items():
        torch.testing.assert_close(second["model"][key], value, rtol=2e-3, atol=2e-4)


def test_parts_of_a_batch_add_up(settings, tmp_path):
    """Without norms in the way, two accumulated halves give the gradient of the whole."""
    folders = []
    for accumulate in (1, 2):
        changes = {"accumulate": accumulate, "output": str(tmp_path / f"x{accumulate}"), "epochs": 1, "dropout": 0.0}
        plan = prepare(TrainConfig(**settings | changes))
        for module in plan.trainee.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.train = lambda mode=True: None  # ty: ignore
                module.training = False
        train(plan)
        folders.append(state_of(plan.folder)["model"])
    for key in folders[0]:
        torch.testing.assert_close(folders[0][key], folders[1][key], rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_no_number_stops_with_the_batch(settings):
    plan = prepare(TrainConfig(**settings | {"lr": 1e30, "epochs": 3}))
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step \d+ .* with the images train\d+"):
        train(plan)


def test_other_settings_do_not_resume(settings, tmp_path):
    train(prepare(TrainConfig(**settings | {"epochs": 1})))
    with pytest.raises(ValueError, match="was trained with epochs=1, not 2"):
        train(prepare(TrainConfig(**settings)), resume=True)
    (tmp_path / "run" / "last.pt").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"last\.pt is damaged"):
        train(prepare(TrainConfig(**settings | {"epochs": 1})), resume=True)
    with pytest.raises(ValueError, match="nothing to resume"):
        train(prepare(TrainConfig(**settings | {"output": str(tmp_path / "other")})), resume=True)


def test_other_images_do_not_resume(settings, tmp_path):
    train(prepare(TrainConfig(**settings | {"epochs": 1})))
    make_dataset(tmp_path / "data", train=12, val=4)
    plan = prepare(TrainConfig(**settings | {"epochs": 1, "root": str(tmp_path / "data")}))
    with pytest.raises(ValueError, match="was trained on other images"):
        train(plan, resume=True)


def test_a_gradient_that_is_no_number_changes_nothing(settings, tmp_path):
    plan = prepare(TrainConfig(**settings))
    plan.trainee.classifier.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(ValueError, match="the loss is nan"):
        train(plan)
    assert all(p.isfinite().all() for p in plan.trainee.parameters())


@pytest.mark.parametrize("changes", [{"protocol": "paper"}, {"mixup": 0.4}, {"loss_stride": 2}, {"fold": None}])
def test_other_settings_run(settings, changes, tmp_path):
    assert train(prepare(TrainConfig(**settings | {"epochs": 1} | changes))).epoch == 1
    assert load_extractor(str(tmp_path / "run" / "model.safetensors")).rule.size == 96


def test_the_authors_selection_is_episodic(settings, config_file, tmp_path):
    make_dataset(tmp_path / "data", train=12, val=24)
    options = [
        "--set",
        "protocol=official",
        "--set",
        "selection_tasks=20",
        "--set",
        "epochs=1",
        "--root",
        str(tmp_path / "data"),
    ]
    done = CliRunner().invoke(app, ["train", "--config", str(config_file), *options])
    assert done.exit_code == 0, done.output
    (row,) = csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines())
    assert float(row["selected_by"]) != float(row["base_miou"])


def test_recomputing_gives_the_same_gradient(settings, tmp_path):
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(0)
        config = TrainConfig(**settings | {"network": "pspnet-resnet50", "freeze": "none", "width": 8, "dropout": 0.0})
        trainee = build_trainee(replace(config, recompute=recompute), 3).train()
        x = torch.rand(2, 3, 33, 33, generator=torch.Generator().manual_seed(1))
        trainee(x)[1].square().mean().backward()
        gradients.append([p.grad for p in trainee.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*gradients, strict=True))


def test_the_recipes_can_be_read():
    files = sorted(CONFIGS.glob("*.yaml"))
    assert {"tiny", "pascal-resnet50", "pascal-resnet101", "coco-resnet50", "pascal-vgg16"} <= {f.stem for f in files}
    for file in files:
        config = parse(TrainConfig, read_yaml(file), str(file))
        assert config.batch in (8, 12, 16)


def test_the_tiny_recipe(tmp_path, monkeypatch):
    """As a newcomer runs it."""
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    options = ["--config", str(CONFIGS / "tiny.yaml"), "--output", str(tmp_path / "tiny")]
    done = CliRunner().invoke(app, ["train", *options])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((tmp_path / "tiny" / "log.csv").read_text().splitlines()))
    assert max(float(row["base_miou"]) for row in rows) > 30


def test_a_full_disk_leaves_the_last_checkpoint(settings, tmp_path, monkeypatch):
    plan = prepare(TrainConfig(**settings | {"epochs": 3}))
    saved = []
    real = torch.save

    def save(content, path):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(real(content, path))

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(ValueError, match="No space left on device"):
        train(plan)
    progress = state_of(tmp_path / "run")["progress"]
    assert (progress["epoch"], progress["step"]) == (0, plan.steps_per_epoch)  # saved before the first validation
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_really_full_disk_is_one_sentence(settings, tmp_path):
    """torch.save has errors of its own for it."""
    folder, config = tmp_path / "run", TrainConfig(**settings)
    content = (folder, config, "", Progress(), {"weight": torch.randn(1000, 100)}, {})
    save_state(*content)
    before = (folder / "last.pt").read_bytes()
    with no_more_than(100_000), pytest.raises(ValueError, match=r"cannot write .*last\.pt.* make room"):
        save_state(*content)
    assert (folder / "last.pt").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["last.pt"]


def test_the_command(settings, config_file, tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["train", "--config", str(config_file), "--dry-run"])
    assert done.exit_code == 0, done.output
    for words in ("6 base classes", "training images", "steps of 4 images", "a step takes", "GB of memory"):
        assert words in done.output
    assert not (tmp_path / "run" / "last.pt").exists()
    assert "0.00 M frozen" in done.output  # filters learned nothing
    done = runner.invoke(app, ["train", "--config", str(config_file), "--dry-run", "--set", "network=distilled"])
    assert "5.65 M frozen" in done.output
    done = runner.invoke(app, ["train", "--config", str(config_file), "--set", "lr=-1"])
    assert "lr must be a number ≥ 0, got -1.0" in str(done.exception)
    assert "batch" not in str(done.exception)  # the other settings are not told
    done = runner.invoke(app, ["train", "--config", str(config_file), "--set", "epoch=3"])
    assert "did you mean 'epochs'" in str(done.exception)
    assert "--set epoch" in str(done.exception)  # not only the file's name: it is not the file's mistake
    done = runner.invoke(app, ["train", "--config", str(config_file), "--set", "epochs=1"])
    assert done.exit_code == 0, done.output
    assert "model.safetensors" in done.output
    done = runner.invoke(app, ["train", "--plot", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "log.png").stat().st_size > 5000
    options = ["--split", "train", "--fold", "0", "--tasks", "6", "--runs", "1", "--size", "96"]
    model = str(tmp_path / "run" / "model.safetensors")
    done = runner.invoke(app, ["evaluate", "--data", settings["data"], "--extractor", model, *options])
    assert done.exit_code == 0, done.output
    assert "mean" in done.output


def test_a_disk_that_is_full_ends_the_log_and_not_the_run(settings, monkeypatch, tmp_path):
    event_file_writer = pytest.importorskip("tensorboardX.event_file_writer")
    written = []

    def write(self, event):
        written.append(event)
        if len(written) > 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(event_file_writer.EventsWriter, "write_event", write)
    with pytest.warns(UserWarning, match="TensorBoard's log ends here, it cannot be written: No space left"):
        train(prepare(TrainConfig(**settings | {"epochs": 5})))
    assert len(written) == 4  # it is not tried again
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_epochs_that_cannot_be_told_apart(settings, monkeypatch, tmp_path):
    """Where no score can be had, the last network is kept."""
    monkeypatch.setattr("repri.training.loop._base_miou", lambda table: float("nan"))
    plan = prepare(TrainConfig(**settings))
    assert train(plan).best == float("-inf")
    head, _ = load_head(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(value, plan.trainee.head.state_dict()[key]) for key, value in head.state_dict().items())


def test_another_frozen_network_does_not_resume(settings, tmp_path):
    """Under the same name as before."""
    for name, seed in (("first", 1), ("second", 2)):
        train(prepare(TrainConfig(**settings | {"output": str(tmp_path / name), "epochs": 1, "seed": seed})))
    path = tmp_path / "network.safetensors"
    path.write_bytes((tmp_path / "first" / "model.safetensors").read_bytes())
    changes = settings | {"network": str(path), "epochs": 1}
    train(prepare(TrainConfig(**changes)))
    train(prepare(TrainConfig(**changes)), resume=True)
    path.write_bytes((tmp_path / "second" / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match="with another frozen network or teacher"):
        train(prepare(TrainConfig(**changes)), resume=True)


def test_what_is_there_is_not_written_over(settings, tmp_path):
    folder = tmp_path / "run"
    train(prepare(TrainConfig(**settings | {"epochs": 1})))
    (folder / ".123-456.pt").write_bytes(b"half of a checkpoint")
    train(prepare(TrainConfig(**settings | {"epochs": 1})), resume=True)
    assert not (folder / ".123-456.pt").exists()
    (folder / "last.pt").unlink()
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"holds a network already, and no last\.pt to go on from"):
            train(prepare(TrainConfig(**settings | {"epochs": 1})), resume=resume)


def test_a_run_that_was_stopped_before_it_saved_begins_again(settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("epochs: 2\n")
    assert train(prepare(TrainConfig(**settings)), resume=True).epoch == 2


def test_signals_that_come_twice():
    """A scheduler's SIGTERM may reach a process again through torchrun; only Ctrl-C insists."""
    before = signal.getsignal(signal.SIGTERM)
    with _stop_signal() as stopping:
        assert not stopping()
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stopping()
    assert signal.getsignal(signal.SIGTERM) == before
    given = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background may have it ignored
    try:
        with _stop_signal() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert stopping()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with _stop_signal() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert not stopping()
    finally:
        signal.signal(signal.SIGINT, given)


def test_a_store_that_is_too_small_is_noticed_by_the_dry_run(settings, monkeypatch):
    monkeypatch.setenv("REPRI_STORE_GB", "0.01")
    plan = prepare(TrainConfig(**settings | {"size": 112}))
    with pytest.raises(ValueError, match=r"features of 30 images take 0\.012 GB, the store may hold 0\.01 GB"):
        measure(plan, World())
