"""Labels, order, loss, norms and networks of the base training, each against its definition."""

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.data.datasets.folds import contiguous_folds
from repri.data.datasets.open import open_dataset
from repri.data.datasets.scenes import make_dataset
from repri.data.io.classes import PASCAL, number_classes
from repri.models import load_extractor
from repri.training import TrainConfig, prepare, train
from repri.training.batches import base_labels, evenly, order, sampled
from repri.training.loop import loss_of, rate
from repri.training.network import build_trainee, square, upsampled


class Scores(nn.Module):
    """Logits that do not depend on the image."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x):
        return x, self.logits


def made_logits(classes=5, size=9):
    g = torch.Generator().manual_seed(3)
    logits = torch.randn(2, classes, size, size, generator=g)
    labels = torch.randint(0, classes, (2, size, size), generator=g).to(torch.uint8)
    labels[:, 0] = 255
    return logits, labels


@pytest.mark.parametrize("protocol", ["clean", "paper", "official"])
def test_the_loss_is_the_smoothed_cross_entropy(protocol):
    logits, labels = made_logits()
    config = TrainConfig(protocol=protocol, smoothing=0.1)
    found = loss_of(Scores(logits), torch.zeros(2, 3, 9, 9), labels, config, True)
    expected = 0.0
    spread = 0.1 / 4 if protocol == "official" else 0.1 / 5
    for b, y, x in np.argwhere(labels.numpy() != 255):
        target = torch.full((5,), spread)
        target[int(labels[b, y, x])] = 0.9 if protocol == "official" else 0.9 + spread
        expected -= float((target * F.log_softmax(logits[b, :, y, x], 0)).sum())
    assert found.tolist() == pytest.approx([expected, 0], rel=1e-5)


def test_mixup_mixes_neighbours():
    logits, labels = made_logits()
    seen = []

    class Watching(Scores):
        def forward(self, x):
            seen.append(x)
            return x, self.logits

    torch.manual_seed(5)
    share = float(torch.distributions.Beta(0.4, 0.4).sample())
    x = torch.rand(2, 3, 9, 9)
    torch.manual_seed(5)
    found = loss_of(Watching(logits), x, labels, TrainConfig(mixup=0.4), True)
    torch.testing.assert_close(seen[0], share * x + (1 - share) * x.flip(0))
    plain = [float(loss_of(Scores(logits), x, y, TrainConfig(), True)[0]) for y in (labels, labels.flip(0))]
    assert float(found[0]) == pytest.approx(share * plain[0] + (1 - share) * plain[1], rel=1e-5)


def test_the_rate_falls_like_a_cosine():
    config = TrainConfig(lr=0.1)
    assert [rate(config, i, 10) for i in (0, 5, 10)] == pytest.approx([0.1, 0.05, 0.0])
    assert rate(TrainConfig(lr=0.1, protocol="official"), 10, 10) == pytest.approx(1e-6)


def test_labels_of_the_base_training(scenes):
    dataset = open_dataset(scenes, None, "train")
    base = [id for id in dataset.classes if id not in dataset.novel(1)]
    table = base_labels(dataset, base, "clean")
    assert [table[id] for id in base] == list(range(1, len(base) + 1))
    assert all(table[id] == 255 for id in (*dataset.novel(1), 255))
    assert table[0] == 0
    assert base_labels(dataset, base, "official")[255] == 0  # void is background there
    names = number_classes(PASCAL)
    assert [names[id] for id in contiguous_folds(list(names), 4)[0]] == list(PASCAL[:5])


def test_the_order_is_a_shuffle_of_the_epoch():
    steps = order(23, 4, seed=1, epoch=2)
    assert [len(step) for step in steps] == [4] * 5
    assert len({place for step in steps for place in step}) == 20
    assert steps == order(23, 4, 1, 2)
    assert steps != order(23, 4, 1, 3)
    assert evenly(list("abcdefgh"), 4) == ["a", "c", "e", "g"]


def test_stored_features_are_flipped_with_their_labels(settings):
    plan = prepare(TrainConfig(**settings | {"protocol": "official"}))
    plain = prepare(TrainConfig(**settings | {"protocol": "official"})).validation
    examples = plan.examples
    dataset, store = examples.dataset, examples.store
    turned = 0
    for place in range(8):
        x, y, _ = examples.example(place, epoch=4)
        features = store.get(dataset[examples.ids[place]].image).float()
        axes = [axes for axes in ([], [-1], [-2], [-1, -2]) if torch.equal(x, features.flip(axes))]
        assert len(axes) == 1
        turned += axes[0] != []
        labels = examples.table[dataset.mask(examples.ids[place])]
        still = F.interpolate(torch.from_numpy(labels)[None, None].float(), (96, 96), mode="nearest")[0, 0].byte()
        assert (still.flip(axes[0]) == y).float().mean() > 0.97
    assert 0 < turned < 8
    assert torch.equal(plain.example(0, 0)[0], plain.example(0, 5)[0])


def test_an_unreadable_image_is_named_or_left_out(settings, tmp_path):
    make_dataset(tmp_path / "data", train=10, val=4)
    broken = tmp_path / "data" / "train" / "images" / "train003.png"
    broken.write_bytes(broken.read_bytes()[:-200])  # its header is whole
    settings |= {"data": str(tmp_path / "data" / "data.yaml"), "batch": 4}
    plan = prepare(TrainConfig(**settings))
    with pytest.raises(ValueError, match=r"train003\.png"):
        plan.check_images()
    with pytest.raises(ValueError, match=r"train003\.png"):
        train(plan)
    with pytest.raises(ValueError, match=r"stopped at the image train003: .*train003\.png"):
        plan.examples.example(plan.examples.ids.index("train003"), 0)
    plan = prepare(TrainConfig(**settings, skip_unreadable=True))
    assert plan.skipped == ["train003"]
    assert "train003" not in plan.examples.ids
    plan.check_images()
    mask = tmp_path / "data" / "train" / "masks" / "train005.png"
    mask.write_bytes(b"not a mask")
    with pytest.raises(ValueError, match=r"train005\.png"):
        prepare(TrainConfig(**settings))
    assert prepare(TrainConfig(**settings, skip_unreadable=True)).skipped == ["train003", "train005"]


@pytest.mark.parametrize("side", [33, 40])
@pytest.mark.parametrize("every", [1, 2, 4])
def test_sampled_labels_lie_where_the_logits_do(side, every):
    """A ramp over the cells, upsampled to the sampled pixels, is the ramp over the pixels."""
    aligned = side == 33  # 5 cells of 8 on 33 pixels, corner to corner; 5 cells of 8 on 40
    pixels = torch.arange(side, dtype=torch.float32).expand(1, side, side)
    cells = torch.arange(5) * 8.0 if aligned else torch.arange(5) * 8 + 3.5
    wanted = sampled(pixels, every, aligned)
    logits = upsampled(cells.expand(1, 1, 5, 5), square(wanted), aligned)
    inner = (wanted[0, 0] >= cells[0]) & (wanted[0, 0] <= cells[-1])  # beyond the outer cells nothing rises
    off = (logits[0, 0, 0] - wanted[0, 0]).abs()[inner]
    assert off.max() <= (0 if aligned or every == 1 else 0.5) + 1e-4  # the middle of an even block lies between pixels


@pytest.mark.parametrize("kind", ["conv", "psp"])
def test_a_trained_head_becomes_an_extractor(settings, kind, tmp_path):
    torch.manual_seed(0)
    config = TrainConfig(**settings | {"head": kind, "upsample": 2})
    trainee = build_trainee(config, 4).eval()
    for module in trainee.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
    trainee.export(tmp_path / "head.safetensors")
    image = torch.rand(1, 3, 64, 80)
    extractor = load_extractor(str(tmp_path / "head.safetensors"))
    assert (extractor.channels, extractor.stride) == (16, 2)
    with torch.inference_mode():
        stored = load_extractor("filters").extract(image).half().float()  # as it was in training
        expected = trainee.features(stored)
    torch.testing.assert_close(extractor.extract(image), expected.clone())
    assert extractor.fingerprint != load_extractor("filters").fingerprint


def test_a_pspnet_is_frozen_up_to_a_layer(settings, tmp_path):
    import warnings

    from repri.models.networks.build import build_backbone
    from repri.models.weights.checkpoints import save_checkpoint

    torch.manual_seed(0)
    backbone = build_backbone("resnet50", stem="plain")
    weights = tmp_path / "resnet50.safetensors"
    state = {f"backbone.{k}": v for k, v in backbone.state_dict().items()}
    save_checkpoint(weights, state, {"backbone": "resnet50", "stem": "plain"})
    changes = {"network": "pspnet-resnet50", "weights": str(weights), "freeze": "layer3", "width": 32}
    trainee = build_trainee(TrainConfig(**settings | changes), 4).train()
    images = torch.rand(2, 3, 33, 33)
    before = {k: v.clone() for k, v in trainee.state_dict().items()}
    features = trainee.trunk.extract(images)
    assert features.shape == (2, 1024, 5, 5)
    trainee(features)[1].sum().backward()
    torch.optim.SGD([p for p in trainee.parameters() if p.requires_grad], 0.1).step()
    changed = {k for k, v in trainee.state_dict().items() if not torch.equal(v, before[k])}
    assert not any(f"layer{i}." in key for key in changed for i in range(4))
    assert any("layer4." in key for key in changed)
    assert any("running_mean" in key for key in changed)
    trainee.eval().export(tmp_path / "model.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extractor = load_extractor(str(tmp_path / "model.safetensors"))
    with torch.inference_mode():
        expected = trainee.features(features)
    assert extractor.rule == trainee.rule._replace(size=96)
    torch.testing.assert_close(extractor.extract(images), expected.clone(), atol=1e-4, rtol=1e-3)


MISTAKES = [
    ({"lr": -1.0}, "lr must be a number ≥ 0"),
    ({"batch": 0}, "batch must be at least 1"),
    ({"classes": ("stripes",)}, "'stripes' is tested by fold 0"),
    ({"classes": ("strips",)}, "no class 'strips', did you mean 'stripes'"),
    ({"freeze": "none"}, "set freeze: backbone to train a head"),
    ({"freeze": "layer9"}, "'layer9' is not known"),
    ({"batch": 100}, "do not fill a batch of 100"),
    ({"network": "pspnet-resnet50", "freeze": "layer7"}, "no layer named 'layer7'"),
    ({"network": "pspnet-resnet50", "freeze": "layer2"}, "keeps an untrained backbone"),
    ({"network": "pspnet-resnet50", "freeze": "none", "weights": "nowhere.pth"}, "no weights file"),
    ({"accumulate": 3}, "cannot be shared"),
    ({"accumulate": 4}, "needs two images"),
    ({"loss_stride": 5}, "loss_stride must divide 96"),
    ({"min_pixels": 30000}, "no image with 30000 pixels"),
    ({"min_pixels": 0}, "min_pixels must be at least 1"),
    ({"network": "compact-resnet50", "freeze": "none"}, "no network named 'compact-resnet50'"),
    ({"network": "pspnet-mobilenet_v2", "freeze": "none"}, "no network named 'pspnet-mobilenet_v2'"),
    ({"protocol": "official", "classes": ("spots",), "smoothing": 0.6}, "smoothing: official spreads it over 1 other"),
    ({"protocol": "official", "fold": None}, "fold: official chooses the best epoch by the classes"),
    ({"classes": ()}, "0 classes to train on"),
    ({"network": "resnet50"}, "without weights is untrained"),
    ({"nesterov": True, "momentum": 0.0}, "nesterov needs the optimiser sgd and a momentum"),
    ({"root": "/nowhere"}, "there is no folder /nowhere"),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_mistakes_are_found_before_training(settings, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(TrainConfig(**settings | changes))
