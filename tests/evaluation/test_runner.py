"""From tasks to counts, against the definition."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri import InferenceConfig, infer, true_proportion
from repri.evaluation import plan_evaluation
from repri.evaluation.metrics import count_pixels
from repri.evaluation.runner import EDGE, Runner, Truth, images_of, run_tasks
from repri.features import FeatureStore
from repri.inference.labels import area_labels
from repri.methods import build_method
from repri.protocols import get_protocol
from repri.runtime.errors import RepriError
from tests.make import Cells, square


def truth_of(mask, protocol, size=64):
    rules = get_protocol(protocol)
    view = Cells(8, on_pixels=True).view(mask.shape, rules.resize, size)
    return Truth(mask, view, rules)


@pytest.mark.parametrize("protocol", ["clean", "official", "paper"])
@pytest.mark.parametrize("method", ["repri", "repri-oracle"])
def test_scores_are_those_of_the_definition(settings, run, filters, protocol, method):
    """Each task again, from the image to the counts, without the store and the runner."""
    options = {"protocol": protocol, "method": method, "shots": (2,), "folds": (0,), "refine": "none", "tasks": 3}
    plan, counted = plan_evaluation(settings(**options)), run(**options)[2]["tasks"]["0"]["pixels"]
    rules = get_protocol(protocol)
    tasks = [task for members in plan.tasks[2, 0].runs for task in members]
    for task, pixels in zip(tasks, counted, strict=True):
        features, labels = [], []
        for id in (*task.support, task.query):
            image, mask = plan.dataset.pair(id)
            mask = np.where(mask == 255, 255, mask == task.class_id).astype(np.uint8)
            view = filters.view(mask.shape, rules.resize, 64)
            precision = torch.float32 if protocol == "official" else torch.float16
            features.append(filters.extract(view.pixels(image)[None])[0].to(precision).float())
            resized = view.mask(mask)[None]
            by_area = area_labels(resized, view.grid.cells) if protocol == "clean" else resized
            labels.append(by_area[0])
        inside = torch.zeros(view.full, dtype=torch.bool)
        inside[: view.content[0], : view.content[1]] = True
        valid = {"clean": inside, "paper": torch.ones_like(inside), "official": resized[0] != 255}[protocol]
        config = InferenceConfig.preset(protocol)
        config = config.oracle() if method == "repri-oracle" else config
        known = None
        if method == "repri-oracle" and protocol == "clean":
            known = [float(labels[-1][labels[-1] != 255].mean())]
        elif method == "repri-oracle":
            known = true_proportion(resized, features[-1].shape[-2:])
        stacked = torch.stack(features[:-1])[None], torch.stack(labels[:-1])[None]
        out = infer(*stacked, features[-1][None], config, valid[None], known)
        maps = out.probability if protocol == "clean" else out.query_logits
        full = F.interpolate(maps[None], view.full, mode="bilinear", align_corners=protocol == "official")
        if protocol == "clean":
            cut = full[..., : view.content[0], : view.content[1]]
            full = F.interpolate(cut, view.original, mode="bilinear", align_corners=False) - 0.5
        truth = torch.from_numpy(mask) if protocol == "clean" else resized[0]
        expected = count_pixels(full[0, 0] > 0, truth)
        assert np.abs(np.array(expected) - pixels).max() <= 2  # a pixel on the border may round either way


def test_the_cells_that_count_are_those_of_the_protocol():
    mask = square(50, 100, 10, 10, 30)
    mask[:8] = 255
    clean, paper, official = (truth_of(mask, name) for name in ("clean", "paper", "official"))
    assert torch.equal(clean.query_cells, clean.view.valid())
    assert paper.query_cells is None
    assert torch.equal(official.query_cells, official.view.labels(mask, "nearest") != 255)
    assert not official.query_cells[0].any()
    assert not official.query_cells[-1].any()
    assert tuple(clean.scored.shape) == (50, 100)
    assert tuple(official.scored.shape) == (64, 64)
    assert (official.scored[-1] == 255).all()


def test_the_true_proportion_is_never_0_or_1():
    small = np.zeros((64, 64), np.uint8)
    small[13, 13] = 1  # between the pixels that nearest resizing takes
    assert truth_of(small, "paper").proportion == pytest.approx(1 / 64**2, rel=0.3)
    assert truth_of(small * 0, "paper").proportion == EDGE
    assert truth_of(small * 0 + 1, "paper").proportion == 1 - EDGE


def test_an_object_that_nearest_resizing_loses_in_every_shot_is_labelled_by_area(settings, filters):
    plan = plan_evaluation(settings(protocol="paper", folds=(0,)))
    runner = Runner(plan.dataset, build_method("prototype"), FeatureStore(filters, "square", 64), plan.protocol)
    task = plan.tasks[1, 0].runs[0][0]
    usual = runner.load(task).episode.support.labels[0]
    assert set(usual.unique().tolist()) <= {0, 1, 255}
    tiny = np.zeros((48, 64), np.uint8)
    tiny[21, 30] = 1
    lost = Truth(tiny, runner.store.view((48, 64)), plan.protocol)
    assert not lost.labels.any()
    object.__setattr__(runner, "truth", lambda id, class_id: lost)
    assert 0 < runner.load(task).episode.support.labels[0].max() < 1


def test_images_of_a_list_come_once_in_the_order_of_the_data_set(settings):
    plan = plan_evaluation(settings(folds=(1,)))
    images = images_of(plan.dataset, plan.tasks[1, 1])
    order = [sample.image for sample in plan.dataset.samples]
    assert images == [image for image in order if image in set(images)]
    assert all(int(image.stem) % 2 == 1 for image in images)


def test_progress_comes_with_counts(settings, filters):
    plan = plan_evaluation(settings(folds=(0,)))
    runner = Runner(plan.dataset, build_method("prototype"), FeatureStore(filters, size=64), plan.protocol)
    told = []
    outcome = run_tasks(runner, plan.tasks[1, 0], progress=lambda *facts: told.append(facts))
    assert [(done, total, len(counts.run)) for done, total, counts in told] == [(20, 20, 20)]
    assert np.isnan(outcome.errors).all()  # the nearest mean has no proportion
    assert outcome.counts.run.tolist() == [0] * 10 + [1] * 10
    assert outcome.scores().miou > 50


def test_there_is_nothing_to_refine_at_the_networks_size(settings, filters):
    plan = plan_evaluation(settings(protocol="paper"))
    with pytest.raises(RepriError, match="The protocol paper scores at the network's size, where there is nothing to"):
        Runner(plan.dataset, build_method("ce"), FeatureStore(filters, "square", 64), plan.protocol, "guided")
