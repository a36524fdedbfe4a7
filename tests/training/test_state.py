"""Checkpoints on disk: nothing is lost, and only the same run goes on from one."""

import pytest
import torch
import yaml

from repri.data.datasets.scenes import make_dataset
from repri.runtime.errors import RepriError
from repri.runtime.settings import parse
from repri.training import TrainSettings, prepare, train
from repri.training.state import FORMAT, Progress, load_state, save_state
from tests.processes import no_more_than


def test_a_finished_run_is_resumed_with_the_same_settings(make, copied, tmp_path):
    (copied / ".123-456.pt").write_bytes(b"half of a checkpoint")
    assert train(prepare(make({"run.save_minutes": 3.0})), resume=True).epoch == 1  # nothing is left to do
    assert not (copied / ".123-456.pt").exists()
    with pytest.raises(RepriError, match=r"was trained with optimiser\.epochs=1, not 2"):
        train(prepare(make({"optimiser.epochs": 2})), resume=True)


def test_other_images_do_not_resume(make, copied, tmp_path):
    make_dataset(tmp_path / "data", train=12, val=4)
    with pytest.raises(RepriError, match="was trained on other images"):
        train(prepare(make({"data.root": str(tmp_path / "data")})), resume=True)


def test_damaged_and_older_checkpoints(make, copied):
    content = torch.load(copied / "last.pt", weights_only=True)
    torch.save(content | {"format": "repri-training-3"}, copied / "last.pt")
    with pytest.raises(RepriError, match=r"last\.pt was written by another version of repri, and cannot be resumed"):
        load_state(copied, make(), content["examples"])
    torch.save(content | {"format": "another"}, copied / "last.pt")
    with pytest.raises(RepriError, match=r"last\.pt is damaged or no checkpoint .*its format is 'another'"):
        load_state(copied, make(), content["examples"])
    (copied / "last.pt").write_bytes(b"x" * 100)
    with pytest.raises(RepriError, match=r"last\.pt is damaged"):
        load_state(copied, make(), content["examples"])


def test_settings_that_came_later_had_their_default(make, copied):
    import json

    content = torch.load(copied / "last.pt", weights_only=True)
    assert content["format"] == FORMAT
    config = json.loads(content["config"])
    del config["loss"]["mixup"]
    torch.save(content | {"config": json.dumps(config)}, copied / "last.pt")
    progress, _, _ = load_state(copied, make(), content["examples"])
    assert progress.epoch == 1
    with pytest.raises(RepriError, match=r"was trained with loss\.mixup=0\.0, not 0\.4"):
        load_state(copied, make({"loss.mixup": 0.4}), content["examples"])


def test_the_saved_settings_repeat_the_run(trained):
    values = yaml.safe_load((trained.folder / "config.yaml").read_text())
    assert parse(TrainSettings, values, "config.yaml") == trained.plan.settings
    assert values["optimiser"]["epochs"] == 1


def test_a_full_disk_leaves_the_last_checkpoint(make, tmp_path, monkeypatch):
    plan = prepare(make({"optimiser.epochs": 2}))
    saved = []
    real = torch.save

    def save(content, path):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(real(content, path))

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(ValueError, match="No space left on device"):
        train(plan)
    progress = torch.load(tmp_path / "run" / "last.pt", weights_only=True)["progress"]
    assert (progress["epoch"], progress["step"]) == (0, plan.steps_per_epoch)  # saved before the first validation
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_really_full_disk_is_one_sentence(make, tmp_path):
    """torch.save has errors of its own for it."""
    folder = tmp_path / "run"
    content = (folder, make(), "", Progress(), {"weight": torch.randn(1000, 100)}, {})
    save_state(*content)
    before = (folder / "last.pt").read_bytes()
    with no_more_than(100_000), pytest.raises(ValueError, match=r"Cannot write .*last\.pt.* make room"):
        save_state(*content)
    assert (folder / "last.pt").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["last.pt"]
