"""Learning another network's features."""

import csv

import pytest
import torch
import torch.nn.functional as F

from repri.features.view import geometry
from repri.models import load_extractor
from repri.models.networks.build import build_backbone
from repri.models.weights.checkpoints import save_checkpoint
from repri.runtime.distributed import World
from repri.training import TrainConfig, prepare, train
from repri.training.batches import at_cells
from repri.training.loop import loss_of, unlikeness, validate
from repri.training.network import build_trainee


@pytest.fixture
def backbone(tmp_path):
    """A file with an untrained MobileNet."""
    torch.manual_seed(0)
    state = {f"backbone.{key}": value for key, value in build_backbone("mobilenet_v2").state_dict().items()}
    save_checkpoint(tmp_path / "mobilenet.safetensors", state, {"backbone": "mobilenet_v2"})
    return str(tmp_path / "mobilenet.safetensors")


@pytest.fixture
def pupil(settings, backbone):
    more = {"network": "compact-mobilenet_v2", "weights": backbone, "freeze": "layer2", "size": 97, "width": 256}
    more |= {"teacher": "filters", "teacher_size": 96, "label_weight": 0.0, "fold": None, "optimiser": "adamw"}
    return settings | more | {"lr": 3e-3, "epochs": 3}


@pytest.mark.parametrize("flipped", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(375, 500), (500, 333)])
def test_a_teachers_features_are_found_at_the_networks_cells(shape, flipped):
    """With a teacher that tells where in the picture a cell is."""
    theirs, ours = geometry(shape, "clean", 420, 14), geometry(shape, "clean", 321)
    sides = zip(theirs.full, theirs.content, strict=True)
    centres = [(torch.arange(full // 14) + 0.5) * 14 / content for full, content in sides]
    places = torch.stack(torch.meshgrid(*centres, indexing="ij"))
    found = at_cells(places, theirs, ours.content, 16, flipped)
    assert found.shape[1:] == tuple(-(-side // 16) for side in ours.content)
    for axis, turned in ((0, flipped[1]), (1, flipped[0])):
        wanted = (torch.arange(found.shape[axis + 1]) * 16 + 0.5) / ours.content[axis]
        wanted = 1 - wanted if turned else wanted
        inside = (wanted > centres[axis][0]) & (wanted < centres[axis][-1])  # beyond, the last cell is repeated
        line = found[0, :, 0] if axis == 0 else found[1, 0]
        torch.testing.assert_close(line[inside], wanted[inside], rtol=0, atol=1e-5)
        assert inside.float().mean() > 0.85


def test_the_loss_is_one_minus_the_cosine_of_cells_in_the_picture():
    g = torch.Generator().manual_seed(0)
    features, targets = torch.randn(2, 4, 3, 3, generator=g), torch.randn(2, 4, 3, 3, generator=g)
    targets[1, :, 2] = 0  # outside
    expected = 0.0
    for b in range(2):
        for y in range(3):
            for x in range(3):
                if b == 0 or y < 2:
                    a, t = features[b, :, y, x], targets[b, :, y, x]
                    expected += 1 - float(a @ t / (a.norm() * t.norm()))
    assert len(unlikeness(features, targets)) == 15

    class Pupil(torch.nn.Module):
        def forward(self, x):
            return features, None

    labels = torch.full((2, 48, 48), 255, dtype=torch.uint8)
    found = loss_of(Pupil(), torch.zeros(2, 3, 48, 48), labels, TrainConfig(), True, targets)
    assert found.tolist() == pytest.approx([0, expected], rel=1e-5)


def test_features_are_learned_without_labels(pupil, tmp_path, monkeypatch):
    from repri.data.datasets.dataset import Dataset

    def refuse(self, id):
        raise AssertionError(f"the mask of {id} was read")

    monkeypatch.setattr(Dataset, "mask", refuse)
    monkeypatch.setattr(Dataset, "pair", refuse)
    plan = prepare(TrainConfig(**pupil))
    assert (len(plan.examples), len(plan.validation)) == (24, 8)  # every image
    _, before = validate(plan.trainee, plan.validation, 1, World())
    done = train(plan)
    rows = list(csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines()))
    assert [row["base_miou"] for row in rows] == ["", "", ""]
    assert float(rows[-1]["teacher_cosine"]) > before + 0.2
    assert done.best == max(float(row["teacher_cosine"]) for row in rows)
    assert not (tmp_path / "run" / "samples").exists()

    # The file gives what was trained, and what it gives is near to the teacher.
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    assert (extractor.channels, extractor.stride, extractor.rule.size) == (256, 16, 97)
    (batch,) = plan.validation.batches([[0]], 0)
    image = plan.validation.dataset.image(plan.validation.ids[0])
    from repri.features.view import resize

    found = extractor.extract(resize(image, None, "clean", 97).image[None])
    cosine = F.cosine_similarity(found, batch.targets[..., : found.shape[-2], : found.shape[-1]], dim=1)
    assert cosine.mean() > before + 0.2


def test_with_labels_too_and_on_from_a_trained_file(pupil, tmp_path):
    train(prepare(TrainConfig(**pupil | {"epochs": 1})))
    first = tmp_path / "run" / "model.safetensors"
    both = pupil | {"label_weight": 1.0, "fold": 0, "weights": str(first), "output": str(tmp_path / "both")}
    config = TrainConfig(**both | {"epochs": 1})
    started, trained = build_trainee(config, 7), load_extractor(str(first), fast=False)
    for key, value in trained.network.state_dict().items():
        assert torch.equal(started.state_dict()[f"network.{key}"], value)
    plan = prepare(config)
    assert len(plan.examples) <= 24
    train(plan)
    (row,) = csv.DictReader((tmp_path / "both" / "log.csv").read_text().splitlines())
    assert float(row["base_miou"]) >= 0
    assert -1 <= float(row["teacher_cosine"]) <= 1
    assert row["selected_by"] == row["base_miou"]
    assert (tmp_path / "both" / "samples" / "epoch-001.png").is_file()


def test_only_what_follows_the_frozen_layer_learns(pupil):
    trainee = build_trainee(TrainConfig(**pupil), 4).train()
    before = {key: value.clone() for key, value in trainee.state_dict().items()}
    images = torch.rand(2, 3, 97, 97)
    features, logits = trainee(trainee.trunk.extract(images))
    assert logits is None
    features.square().sum().backward()
    torch.optim.SGD([p for p in trainee.parameters() if p.requires_grad], 0.1).step()
    changed = {key for key, value in trainee.state_dict().items() if not torch.equal(value, before[key])}
    assert not any(f"layer{i}." in key for key in changed for i in (0, 1, 2))
    assert all(any(part in key for key in changed) for part in ("layer3.", "layer4.", "mix.", "bottleneck."))


def test_flips_of_stored_features_carry_the_targets_along(pupil):
    plan = prepare(TrainConfig(**pupil | {"network": "compact-mobilenet_v2"}))
    places = range(len(plan.examples))
    epochs = [[plan.examples.example(place, epoch) for epoch in range(6)] for place in places]
    turned = 0
    for place in places:
        x, _, targets = epochs[place][0]
        for other, _, moved in epochs[place][1:]:
            if not torch.equal(x, other):
                assert torch.equal(x.flip(-1), other)
                assert torch.equal(targets.flip(-1), moved)
                turned += 1
    assert turned > 5


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": None}, "label_weight: 0 leaves nothing to learn from"),
        ({"teacher_weight": 0.0}, "label_weight: 0 leaves nothing to learn from"),
        ({"mixup": 0.4}, "without mixup"),
        ({"network": "filters", "freeze": "backbone"}, "a teacher is for a compact-"),
        ({"width": 64}, "the teacher gives 256 channels, and the network 64"),
        ({"freeze": "layer4"}, "no layer named 'layer4' to freeze up to"),
        ({"weights": None}, "give weights"),
        ({"protocol": "official"}, "take clean"),
        ({"teacher": "nobody"}, "There is no extractor named 'nobody'"),
        ({"upsample": 2}, "takes no layers, upsample, recompute or thin"),
    ],
)
def test_mistakes_get_one_sentence(pupil, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(TrainConfig(**pupil | changes))
