"""Base training in one pass."""

import os
import shutil
import subprocess
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
from repri.models.heads.discriminant import Moments
from repri.runtime.distributed import World
from repri.runtime.settings import parse
from repri.training import TrainConfig, prepare, train
from repri.training.discriminant import add_picture
from repri.training.estimate import measure
from tests.processes import launcher

CHANGES = {"head": "discriminant", "width": 12, "epochs": 1}


def test_a_run_becomes_an_extractor_that_knows_backgrounds(settings, tmp_path):
    plan = prepare(TrainConfig(**settings | CHANGES))
    done = train(plan)
    assert done.best > 30  # base mIoU of the nearest class mean; a guess has 100 / 9 of two thirds
    assert (tmp_path / "run" / "log.csv").is_file()
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
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
    again = train(prepare(TrainConfig(**settings | CHANGES)), resume=True)  # nothing is left to do
    assert again.best == done.best


def test_stored_features_of_the_backbone_give_the_same(settings, tmp_path):
    plan = prepare(TrainConfig(**settings | CHANGES))
    train(plan)
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    images = [sample.image for sample in plan.validation.dataset.samples[:3]]
    direct = FeatureStore(extractor, "clean", 96, tmp_path / "a")
    direct.prepare(images)
    short = FeatureStore(extractor, "clean", 96, tmp_path / "b")
    FeatureStore(extractor.under, "clean", 96, tmp_path / "b").prepare(images)
    extractor.under._forward = None  # must not be needed
    short.prepare(images)
    for image in images:
        assert torch.equal(direct.get(image), short.get(image))


def test_two_processes_find_the_same(settings, config_file, tmp_path):
    changes = [f"--set={key}={value}" for key, value in CHANGES.items()]
    plan = prepare(TrainConfig(**settings | CHANGES | {"output": str(tmp_path / "one")}))
    train(plan)
    command = [*launcher(2), "-m", "repri", "train", "--config", str(config_file), *changes]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, f"--output={tmp_path / 'two'}"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    one, two = (load_extractor(str(tmp_path / name / "model.safetensors")) for name in ("one", "two"))
    torch.testing.assert_close(one.background, two.background, atol=1e-4, rtol=1e-4)


def test_any_size_and_few_images(settings, tmp_path):
    """Cells that hang over the edge have the label of the last pixel; there are no batches to fill."""
    changes = CHANGES | {"size": 90, "images": 2, "batch": 8, "protocol": "official"}
    plan = prepare(TrainConfig(**settings | changes))
    assert "an image takes" in measure(plan, World())
    train(plan)
    assert load_extractor(str(tmp_path / "run" / "model.safetensors")).background is not None
    with pytest.raises(ValueError, match="there is no curve to draw"):
        plot_training(tmp_path / "run")


def test_nothing_depends_on_the_seed(settings, tmp_path):
    found = []
    for seed in (0, 1):
        plan = prepare(TrainConfig(**settings | CHANGES | {"seed": seed, "output": str(tmp_path / str(seed))}))
        train(plan)
        found.append(plan.trainee.head.matrix)
    assert torch.equal(*found)


def test_evaluation_takes_the_form_of_the_extractor_and_tells_what_it_has_seen(settings, tmp_path):
    plan = prepare(TrainConfig(**settings | CHANGES))
    train(plan)
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    dataset = plan.examples.dataset
    assert extractor.seen == tuple(name for id, name in dataset.classes.items() if id not in dataset.novel(0))
    few = {"runs": 1, "tasks": 2, "split": "train", "min_pixels": 1, "size": 96}
    honest = plan_evaluation(EvaluationConfig(settings["data"], folds=(0,), **few))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate(honest, lambda fold: extractor)[1]
    assert (result["config"]["form"], result["config"]["settings"]["background"]) == ("discriminant", "known")
    assert result["seen"] == {0: []}
    spoilt = plan_evaluation(EvaluationConfig(settings["data"], folds=(1,), **few, settings={"form": "clean"}))
    with pytest.warns(UserWarning, match="fold 1 tests .* which are not new to filters with a head"):
        result = evaluate(spoilt, lambda fold: extractor)[1]
    assert (result["config"]["form"], result["config"]["settings"]["background"]) == ("clean", "both")
    assert result["seen"] == {1: [dataset.classes[id] for id in dataset.novel(1)]}
    every = plan_evaluation(EvaluationConfig(settings["data"], folds=(0, 1), **few))
    with pytest.raises(ValueError, match="only the extractors of folds 0 know backgrounds: say which"):
        evaluate(every, lambda fold: load_extractor("filters") if fold else extractor)


def test_every_so_many_cells(settings):
    """Which are a ninth of all, and nearly as good to compute a head from."""
    counted = {}
    for thin in (1, 3):
        plan = prepare(TrainConfig(**settings | CHANGES | {"thin": thin}))
        found = Moments.empty(len(plan.classes) + 1, len(plan.trainee.head.mean))
        for batch in plan.examples.batches([[0], [1]], 0):
            add_picture(found, plan, plan.trainee.head, batch)
        counted[thin] = float(found.count.sum())
        assert train(plan).best > 30
        shutil.rmtree(settings["output"])
    assert 0.08 < counted[3] / counted[1] < 0.14


def test_cells_that_are_left_out_are_not_computed(settings, monkeypatch):
    """Where an extractor can: the head is the same as from every other of all its cells."""
    heads = {}
    monkeypatch.setattr(FilterBank, "strided", True)
    for coarse in (False, True):
        if coarse:
            monkeypatch.setattr(FilterBank, "coarse", lambda self, times: EveryOther(self))
        plan = prepare(TrainConfig(**settings | CHANGES | {"thin": 2}))
        assert isinstance(plan.examples.store.extractor, EveryOther) is coarse
        assert not isinstance(plan.validation.store.extractor, EveryOther)
        assert [len(images) for _, _, images in plan.frozen()] == (
            [len(plan.examples), len(plan.validation)] if coarse else [len(plan.examples) + len(plan.validation)]
        )
        assert "an image takes" in measure(plan, World())
        train(plan)
        heads[coarse] = plan.trainee.head.state_dict()
        shutil.rmtree(settings["output"])
    for name, value in heads[False].items():
        torch.testing.assert_close(heads[True][name], value)


class EveryOther(FeatureExtractor):
    """Of another's cells, which lie on pixels."""

    def __init__(self, under):
        self.under, self.name, self.rule, self.channels = under, "every other", under.rule, under.channels
        self.stride, self.strided = 2 * under.stride, True

    def _forward(self, images):
        return self.under._forward(images)[..., ::2, ::2]

    @property
    def fingerprint(self):
        return self.under.fingerprint + "every other"


def test_a_head_on_two_networks(settings, tmp_path, monkeypatch):
    """Described in a file, which is found from anywhere."""
    (tmp_path / "two.yaml").write_text("parts: [{name: filters}, {name: distilled}]")
    monkeypatch.chdir(tmp_path)
    plan = prepare(TrainConfig(**settings | CHANGES | {"network": "two.yaml"}))
    assert plan.trainee.head.parts == [256, 384]
    assert train(plan).best > 30
    monkeypatch.chdir("/")
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    assert (extractor.channels, extractor.stride) == (12, 4)
    (tmp_path / "two.yaml").write_text("parts: [{name: filters}, {name: distilled, shifts: 2}]")
    with pytest.raises(ValueError, match=r"was trained on another .*two\.yaml"):
        load_extractor(str(tmp_path / "run" / "model.safetensors"))


def test_what_was_seen_is_handed_on(settings, tmp_path):
    """A head on an extractor that had labels of its own."""
    train(prepare(TrainConfig(**settings | CHANGES)))
    first = str(tmp_path / "run" / "model.safetensors")
    other = {"network": first, "width": 6, "output": str(tmp_path / "second")}
    with pytest.raises(ValueError, match=r"fold 1 tests .*, whose labels what this starts from"):
        prepare(TrainConfig(**settings | CHANGES | other | {"fold": 1}))
    plan = prepare(TrainConfig(**settings | CHANGES | other | {"fold": None}))
    train(plan)
    again = load_extractor(str(tmp_path / "second" / "model.safetensors"))
    assert set(again.seen) == set(plan.examples.dataset.classes.values())


def test_a_form_that_the_extractor_cannot_have(settings):
    few = {"folds": (0,), "runs": 1, "tasks": 2, "split": "train", "min_pixels": 1}
    planned = plan_evaluation(EvaluationConfig(settings["data"], settings={"form": "discriminant"}, **few))
    with pytest.raises(ValueError, match="knows nothing of backgrounds"):
        evaluate(planned, lambda fold: load_extractor("filters"))
    with pytest.raises(ValueError, match="knows nothing of backgrounds"):
        Segmenter("filters", config="discriminant")
    with pytest.raises(ValueError, match="config must be a preset's name"):
        Segmenter("filters", config=3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 3}, "computed in one pass, set epochs: 1"),
        ({"width": 4000}, "channels has 1 to"),
        ({"upsample": 2}, "no upsample"),
        ({"freeze": "none"}, "sits on a frozen extractor"),
        ({"network": "compact-mobilenet_v2"}, "sits on a frozen extractor"),
        ({"head": "discriminants"}, "head"),
    ],
)
def test_mistakes(settings, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(parse(TrainConfig, settings | CHANGES | changes, "config.yaml"))
