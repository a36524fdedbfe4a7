"""Runs with a teacher, with labels and without."""

import csv

import pytest
import torch
import torch.nn.functional as F

from repri.data.datasets.dataset import Dataset
from repri.models import load_extractor
from repri.runtime.distributed import World
from repri.training import prepare, train
from repri.training.build import build_trainee
from repri.training.validate import validate

from .make import Finished, settings_from


@pytest.fixture(scope="module")
def taught(finish, pupil, scenes, tmp_path_factory):
    """A run without labels, of which no mask may be read."""

    def refuse(self, id):
        raise AssertionError(f"the mask of {id} was read")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "mask", refuse)
        patch.setattr(Dataset, "pair", refuse)
        return finish("taught", pupil)


def rows_of(run: Finished):
    return list(csv.DictReader((run.folder / "log.csv").read_text().splitlines()))


def test_features_are_learned_without_labels(make, taught, pupil):
    plan = taught.plan
    assert (len(plan.examples), len(plan.validation)) == (24, 8)  # every image
    start = prepare(make(pupil))
    before = validate(start.trainee, start.validation, 1, World()).cosine
    rows = rows_of(taught)
    assert [row["base_miou"] for row in rows] == ["", ""]
    assert float(rows[-1]["teacher_cosine"]) > before + 0.2
    assert taught.progress.best == max(float(row["teacher_cosine"]) for row in rows)
    assert not (taught.folder / "samples").exists()

    # The file gives what was trained, and that is near to the teacher.
    extractor = load_extractor(taught.model)
    assert (extractor.channels, extractor.stride, extractor.rule.size) == (256, 16, 65)
    (batch,) = plan.validation.batches([[0]], 0)
    image = plan.validation.dataset.image(plan.validation.ids[0])
    features = extractor.extract(extractor.view(image.shape[:2], "aspect").pixels(image)[None])
    cosine = F.cosine_similarity(features, batch.targets[..., : features.shape[-2], : features.shape[-1]], dim=1)
    assert cosine.mean() > before + 0.2


def test_with_labels_too_and_on_from_a_trained_file(make, taught, pupil, tmp_path):
    both = {"loss.label_weight": 1.0, "data.fold": 0, "network.weights": taught.model, "optimiser.epochs": 1}
    settings = make(pupil | both)
    started, trained = build_trainee(settings, 7), load_extractor(taught.model, fast=False)
    for key, value in trained.network.state_dict().items():
        assert torch.equal(started.state_dict()[f"network.{key}"], value)
    plan = prepare(settings)
    assert len(plan.examples) <= 24
    (row,) = rows_of(Finished(plan, train(plan)))
    assert float(row["base_miou"]) >= 0
    assert -1 <= float(row["teacher_cosine"]) <= 1
    assert row["selected_by"] == row["base_miou"]
    assert (tmp_path / "run" / "samples" / "epoch-001.png").is_file()


def test_an_identity_depends_on_classes_and_images(make, trained):
    same = prepare(make())
    assert same.identity == trained.plan.identity
    assert prepare(make({"data.images": 8})).identity != same.identity
    assert prepare(make({"data.fold": 1})).identity != same.identity


def test_settings_of_a_file_and_of_python_are_the_same(values, make):
    assert make() == settings_from(values)
