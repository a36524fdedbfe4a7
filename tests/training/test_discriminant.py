"""Base training in one pass."""

import shutil
import warnings

import numpy as np
import pytest
import torch

from repri import Segmenter
from repri.evaluation import EvaluationSettings, evaluate_folds, plan_evaluation
from repri.experiments.plots import plot_training
from repri.features.extractor import FeatureExtractor
from repri.features.store import FeatureStore
from repri.methods import Episode, Support, build_method
from repri.models import load_extractor
from repri.models.extractors.filters import FilterBank
from repri.runtime.distributed import World
from repri.runtime.settings import parse
from repri.training import prepare, train
from repri.training.discriminant import add_image, empty_moments, fit_discriminant

from .make import DISCRIMINANT


def test_a_run_becomes_an_extractor_that_knows_backgrounds(fitted):
    plan = fitted.plan
    assert fitted.progress.best > 30  # base mIoU of the nearest class mean; a guess has 100 / 9 of two thirds
    assert (fitted.folder / "log.csv").is_file()
    extractor = load_extractor(fitted.model)
    assert extractor.channels == 12
    assert extractor.background is not None
    assert torch.equal(extractor.background, plan.trainee.head.background)
    dataset, (first, second) = plan.validation.dataset, plan.validation.ids[:2]
    view = extractor.view(dataset.image(first).shape[:2])
    shot, query = (extractor.extract(view.pixels(dataset.image(id))[None])[0] for id in (first, second))
    ids = dataset.mask(first)
    support = Support([shot], [view.labels((ids == ids[ids > 0][0]).astype("uint8"))])
    method = build_method("repri", "discriminant")
    out = method.predict(Episode(support, query, background=extractor.background))
    assert out.logits.shape == query.shape[-2:]
    with pytest.raises(ValueError, match="background='known' starts from the direction of backgrounds in general"):
        method.predict(Episode(support, query))


def test_a_finished_run_has_nothing_to_do_and_no_curve(make, fitted, tmp_path):
    shutil.copytree(fitted.folder, tmp_path / "run")
    again = train(prepare(make(DISCRIMINANT)), resume=True)
    assert again.best == fitted.progress.best
    with pytest.raises(ValueError, match="there is no curve to draw"):
        plot_training(tmp_path / "run")


def test_stored_features_of_the_backbone_give_the_same(fitted, tmp_path):
    extractor = load_extractor(fitted.model)
    images = [sample.image for sample in fitted.plan.validation.dataset.samples[:3]]
    direct = FeatureStore(extractor, "aspect", 96, tmp_path / "a")
    direct.prepare(images)
    short = FeatureStore(extractor, "aspect", 96, tmp_path / "b")
    FeatureStore(extractor.under, "aspect", 96, tmp_path / "b").prepare(images)
    extractor.under._forward = None  # must not be needed
    short.prepare(images)
    for image in images:
        assert torch.equal(direct.get(image), short.get(image))


def test_two_processes_find_the_same(make, fitted, monkeypatch):
    """Each takes every other image, and the sums of both are added."""
    plan, sums = prepare(make(DISCRIMINANT)), []
    plan.fill_stores(World())
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda part: sums.append(part.clone()))
    fit_discriminant(plan, World(1, 2))
    others = iter(sums)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda part: part.add_(next(others)))
    fit_discriminant(plan, World(0, 2))
    assert len(sums) == 3
    for key, value in fitted.plan.trainee.state_dict().items():
        torch.testing.assert_close(plan.trainee.state_dict()[key], value, atol=1e-4, rtol=1e-4)


def test_any_size_few_images_and_any_seed(make, tmp_path):
    """Cells that hang over the edge have the label of the last pixel; there are no batches, and nothing is random."""
    changes = DISCRIMINANT | {"data.size": 90, "data.images": 2, "optimiser.batch": 8, "protocol": "official"}
    heads = []
    for seed in (0, 1):
        plan = prepare(make(changes | {"seed": seed, "output": str(tmp_path / str(seed))}))
        train(plan)
        heads.append(plan.trainee.head.matrix)
        assert load_extractor(str(tmp_path / str(seed) / "model.safetensors")).background is not None
    assert torch.equal(*heads)


def test_every_third_cell(make):
    """They are a ninth of all, and nearly as good to compute a head from."""
    counted = {}
    for thin in (1, 3):
        plan = prepare(make(DISCRIMINANT | {"loss.thin": thin}))
        plan.fill_stores(World())
        moments = empty_moments(plan)
        for batch in plan.examples.batches([[0], [1]], 0):
            add_image(moments, plan, batch)
        counted[thin] = float(moments.count.sum())
    assert train(plan).best > 30
    assert 0.08 < counted[3] / counted[1] < 0.14


def test_cells_that_are_left_out_are_not_computed(make, monkeypatch):
    """Where an extractor can: the head is the same as from every other of all its cells."""
    heads = {}
    monkeypatch.setattr(FilterBank, "on_pixels", True)
    for coarse in (False, True):
        if coarse:
            monkeypatch.setattr(FilterBank, "coarse", lambda self, times: EveryOther(self))
        plan = prepare(make(DISCRIMINANT | {"loss.thin": 2}))
        assert isinstance(plan.examples.features.extractor, EveryOther) is coarse
        assert not isinstance(plan.validation.features.extractor, EveryOther)
        assert [len(images) for _, _, images in plan.frozen()] == (
            [len(plan.examples), len(plan.validation)] if coarse else [len(plan.examples) + len(plan.validation)]
        )
        plan.fill_stores(World())
        fit_discriminant(plan, World())
        heads[coarse] = plan.trainee.head.state_dict()
    for name, value in heads[False].items():
        torch.testing.assert_close(heads[True][name], value)


class EveryOther(FeatureExtractor):
    """Every other cell of an extractor whose cells lie on pixels."""

    def __init__(self, under):
        self.under, self.name, self.rule, self.channels = under, "every other", under.rule, under.channels
        self.stride, self.on_pixels = 2 * under.stride, True

    def _forward(self, images):
        return self.under._forward(images)[..., ::2, ::2]

    @property
    def fingerprint(self):
        return self.under.fingerprint + "every other"


def test_a_head_on_two_networks(make, tmp_path, monkeypatch):
    """The file that describes them is found from anywhere."""
    (tmp_path / "two.yaml").write_text("parts: [{name: filters}, {name: distilled}]")
    monkeypatch.chdir(tmp_path)
    plan = prepare(make(DISCRIMINANT | {"network.name": "two.yaml"}))
    assert plan.trainee.head.parts == [256, 384]
    assert train(plan).best > 30
    monkeypatch.chdir("/")
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    assert (extractor.channels, extractor.stride) == (12, 4)
    (tmp_path / "two.yaml").write_text("parts: [{name: filters}, {name: distilled, shifts: 2}]")
    with pytest.raises(ValueError, match=r"was trained on another .*two\.yaml"):
        load_extractor(str(tmp_path / "run" / "model.safetensors"))


def evaluation(data, folds, preset=None):
    """A plan of two tasks for each fold."""
    values = {
        "data": {"name": data, "folds": folds, "split": "train", "min_pixels": 1},
        "tasks": {"runs": 1, "tasks": 2},
        "extractor": {"size": 96},
        "method": {"preset": preset},
    }
    return plan_evaluation(parse(EvaluationSettings, values, "here"))


def test_evaluation_takes_the_preset_of_the_extractor_and_tells_what_it_has_seen(values, fitted):
    extractor, dataset, data = load_extractor(fitted.model), fitted.plan.examples.dataset, values["data.name"]
    assert extractor.seen == tuple(dataset.classes[id] for id in dataset.classes if id not in dataset.novel(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate_folds(evaluation(data, (0,)), lambda fold: extractor)[1]
    method = result["config"]["method"]
    assert (method["preset"], method["settings"]["background"]) == ("discriminant", "known")
    assert result["seen"] == {0: []}
    with pytest.warns(UserWarning, match="Fold 1 tests .* which are not novel to filters with a head"):
        result = evaluate_folds(evaluation(data, (1,), "clean"), lambda fold: extractor)[1]
    method = result["config"]["method"]
    assert (method["preset"], method["settings"]["background"]) == ("clean", "both")
    assert result["seen"] == {1: [dataset.classes[id] for id in dataset.novel(1)]}
    with pytest.raises(ValueError, match=r"want different presets \(fold 0 discriminant, fold 1 clean\): choose one"):
        evaluate_folds(evaluation(data, (0, 1)), lambda fold: load_extractor("filters") if fold else extractor)


def test_a_preset_that_the_extractor_cannot_have(values):
    sentence = "needs? an extractor that knows the direction of backgrounds"
    with pytest.raises(ValueError, match=sentence):
        evaluate_folds(evaluation(values["data.name"], (0,), "discriminant"), lambda fold: load_extractor("filters"))
    image = np.zeros((64, 64, 3), np.uint8)
    image[16:48, 16:48] = 200
    with pytest.raises(ValueError, match=sentence):
        Segmenter("filters", config="discriminant").fit(image, image[..., 0] > 0)
    with pytest.raises(ValueError, match="config must be a preset's name"):
        Segmenter("filters", config=3)
