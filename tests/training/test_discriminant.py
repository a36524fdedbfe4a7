"""Base training in one pass."""

import shutil
import warnings

import pytest
import torch
from repri.evaluation.evaluate import EvaluationConfig, evaluate
from repri.evaluation.evaluate import plan as plan_evaluation

from repri import Segmenter
from repri.experiments.plots import plot_training
from repri.features.extractor import FeatureExtractor
from repri.features.store import FeatureStore
from repri.methods import Episode, build_method
from repri.models import load_extractor
from repri.models.extractors.filters import FilterBank
from repri.runtime.distributed import World
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
    features = [
        extractor.extract(torch.from_numpy(plan.validation.dataset.image(id)).movedim(-1, 0)[None] / 255)[0]
        for id in plan.validation.ids[:2]
    ]
    ids = plan.validation.dataset.mask(plan.validation.ids[0])
    seen = int(ids[ids > 0][0])
    mask = torch.from_numpy((ids == seen).astype("uint8"))
    task = Episode(features[:1], [mask], features[1], background=extractor.background)
    out = build_method("repri", settings={"form": "discriminant"}).predict(task)
    assert out.logits.shape == features[1].shape[-2:]
    with pytest.raises(ValueError, match="only extractors with a discriminant head have one"):
        build_method("repri", settings={"form": "discriminant"}).predict(Episode(*(features[:1], [mask], features[1])))


def test_a_finished_run_has_nothing_to_do_and_no_curve(make, fitted, tmp_path):
    shutil.copytree(fitted.folder, tmp_path / "run")
    again = train(prepare(make(DISCRIMINANT)), resume=True)
    assert again.best == fitted.progress.best
    with pytest.raises(ValueError, match="there is no curve to draw"):
        plot_training(tmp_path / "run")


def test_stored_features_of_the_backbone_give_the_same(fitted, tmp_path):
    extractor = load_extractor(fitted.model)
    images = [sample.image for sample in fitted.plan.validation.dataset.samples[:3]]
    direct = FeatureStore(extractor, "clean", 96, tmp_path / "a")
    direct.prepare(images)
    short = FeatureStore(extractor, "clean", 96, tmp_path / "b")
    FeatureStore(extractor.under, "clean", 96, tmp_path / "b").prepare(images)
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


def test_evaluation_takes_the_preset_of_the_extractor_and_tells_what_it_has_seen(values, fitted):
    extractor, dataset = load_extractor(fitted.model), fitted.plan.examples.dataset
    assert extractor.seen == tuple(dataset.classes[id] for id in dataset.base(0))
    few = {"runs": 1, "tasks": 2, "split": "train", "min_pixels": 1, "size": 96}
    data = values["data.name"]
    honest = plan_evaluation(EvaluationConfig(data, folds=(0,), **few))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate(honest, lambda fold: extractor)[1]
    assert (result["config"]["form"], result["config"]["settings"]["background"]) == ("discriminant", "known")
    assert result["seen"] == {0: []}
    spoilt = plan_evaluation(EvaluationConfig(data, folds=(1,), **few, settings={"form": "clean"}))
    with pytest.warns(UserWarning, match="fold 1 tests .* which are not new to filters with a head"):
        result = evaluate(spoilt, lambda fold: extractor)[1]
    assert (result["config"]["form"], result["config"]["settings"]["background"]) == ("clean", "both")
    assert result["seen"] == {1: [dataset.classes[id] for id in dataset.novel(1)]}
    every = plan_evaluation(EvaluationConfig(data, folds=(0, 1), **few))
    with pytest.raises(ValueError, match="only the extractors of folds 0 know backgrounds: say which"):
        evaluate(every, lambda fold: load_extractor("filters") if fold else extractor)


def test_a_preset_that_the_extractor_cannot_have(values):
    few = {"folds": (0,), "runs": 1, "tasks": 2, "split": "train", "min_pixels": 1}
    planned = plan_evaluation(EvaluationConfig(values["data.name"], settings={"form": "discriminant"}, **few))
    with pytest.raises(ValueError, match="knows nothing of backgrounds"):
        evaluate(planned, lambda fold: load_extractor("filters"))
    with pytest.raises(ValueError, match="knows nothing of backgrounds"):
        Segmenter("filters", config="discriminant")
    with pytest.raises(ValueError, match="config must be a preset's name"):
        Segmenter("filters", config=3)
