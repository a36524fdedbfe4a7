"""The last blocks of a transformer, trained on the features of a frozen stage."""

import signal

import pytest
import torch

from repri.models import load_extractor
from repri.models.heads.blocks import continue_transformer
from repri.runtime.settings import parse
from repri.training import Stopped, TrainConfig, prepare, train
from repri.training.batches import Batch
from repri.training.loop import build_optimiser, rate, thinned

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def dino(tmp_path_factory):
    """A DINOv2 of three small blocks, whose scales are not all one."""
    torch.manual_seed(0)
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14, layerscale_value=0.5
    )
    model = transformers.Dinov2Backbone(config)
    for parameter in model.layernorm.parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.5)
    folder = tmp_path_factory.mktemp("dino")
    model.save_pretrained(folder)
    return str(folder)


def test_blocks_are_the_models_own(dino):
    network = load_extractor(dino, layers=("stage1",)).network
    blocks = continue_transformer(network, "stage1")
    cells = torch.rand(2, 9, 24)
    theirs = ours = cells
    with torch.inference_mode():
        for block, layer in zip(blocks.blocks, network.model.encoder.layer[1:], strict=True):
            ours, theirs = block(ours), layer(theirs)
            theirs = theirs[0] if isinstance(theirs, tuple) else theirs
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(blocks.norm(ours), network.model.layernorm(theirs))


def test_the_norm_is_undone_at_the_entry(dino):
    network = load_extractor(dino, layers=("stage1",)).network
    blocks = continue_transformer(network, "stage1")
    raw = torch.randn(5, 24)
    raw = (raw - raw.mean(-1, keepdim=True)) / raw.std(-1, keepdim=True, unbiased=False)
    with torch.inference_mode():
        entered = network.model.layernorm(raw) * blocks.entry_scale + blocks.entry_shift
    ratio = entered / raw
    torch.testing.assert_close(ratio, ratio[0, 0].expand(5, 24), rtol=1e-3, atol=0)
    assert 0.01 < float(ratio[0, 0]) < 100


def test_blocks_are_trained_and_become_an_extractor(settings, dino, tmp_path):
    changes = {"network": dino, "freeze": "stage1", "size": 84, "optimiser": "adamw", "lr": 0.003, "warmup": 2}
    plan = prepare(TrainConfig(**settings | changes | {"thin": 2, "classifier_factor": 10.0, "epochs": 1}))
    before = [p.clone() for p in plan.trainee.head.parameters()]
    train(plan)
    assert all(not torch.equal(a, b) for a, b in zip(before, plan.trainee.head.parameters(), strict=True))
    extractor = load_extractor(str(tmp_path / "run" / "model.safetensors"))
    assert (extractor.channels, extractor.stride, extractor.rule.size) == (24, 14, 84)
    image = torch.rand(1, 3, 56, 70)
    features = extractor.extract(image)
    assert features.shape == (1, 24, 4, 5)
    with torch.inference_mode():
        under = load_extractor(dino, layers=("stage1",)).extract(image).half().float()  # as it is stored
        expected = plan.trainee.eval().features(under)
    torch.testing.assert_close(features, expected.clone())


def test_thinned_cells_keep_their_labels(settings, dino):
    config = TrainConfig(**settings | {"network": dino, "freeze": "stage2", "size": 84, "thin": 2})
    plan = prepare(config)
    rows = torch.arange(84 * 84).view(1, 84, 84)
    cells = rows[:, 7::14, 7::14]  # the pixel in the middle of each cell
    seen = set()
    for iteration in range(16):
        _, x, labels, _ = thinned(Batch(["a"], cells[:, None].float(), rows), config, plan.trainee.stride, iteration)
        assert x.shape[-2:] == (3, 3)
        assert torch.equal(x[:, 0].long(), labels)
        seen |= set(labels.flatten().tolist())
    assert len(seen) == 36  # every cell has its turn


def test_step_sizes(settings):
    config = TrainConfig(**settings | {"warmup": 4, "classifier_factor": 5.0})
    assert [round(rate(config, i, 10**6) / config.lr, 3) for i in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    trainee = prepare(config).trainee
    body, classifier = build_optimiser(trainee, config).param_groups
    assert (body["factor"], classifier["factor"]) == (1.0, 5.0)
    assert {id(p) for p in classifier["params"]} == {id(p) for p in trainee.last.parameters()}
    assert len(body["params"]) + len(classifier["params"]) == len(list(trainee.parameters()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"freeze": "stage3"}, "stage3 is the last stage"),
        ({"freeze": "stage7"}, "has no layer 'stage7'; known: stem, stage1"),
        ({"freeze": "stage1", "layers": (-1,)}, "needs no layers"),
        ({"freeze": "backbone", "thin": 2}, "thin for the blocks of a transformer"),
        ({"freeze": "stage1", "thin": 7}, "thin: there are 6 cells in a row"),
        ({"freeze": "stage1", "thin": 2, "loss_stride": 2}, "leave loss_stride out"),
        ({"freeze": "stage1", "recompute": True}, "recompute is for a pspnet"),
        ({"freeze": "stage1", "warmup": 13}, "warmup takes 13 of 10 steps"),
        ({"freeze": "backbone", "thin": 0}, "thin must be at least 1"),
        ({"freeze": "backbone", "optimiser": "adam"}, "optimiser"),
    ],
)
def test_mistakes(settings, dino, changes, sentence):
    values = settings | {"network": dino, "size": 84} | changes
    with pytest.raises(ValueError, match=sentence):
        prepare(parse(TrainConfig, values, "here"))


def test_other_transformers_are_frozen_whole(settings, tmp_path):
    config = transformers.DINOv3ViTConfig(
        hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, patch_size=16
    )
    transformers.DINOv3ViTBackbone(config).save_pretrained(tmp_path / "v3")
    with pytest.raises(ValueError, match="a dinov3_vit can only be frozen whole"):
        prepare(TrainConfig(**settings | {"network": str(tmp_path / "v3"), "freeze": "stage1", "size": 96}))


def test_what_a_block_cannot_compute_is_refused(settings, tmp_path):
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=56, patch_size=14, qkv_bias=False
    )
    transformers.Dinov2Backbone(config).save_pretrained(tmp_path / "odd")
    with pytest.raises(ValueError, match="a dinov2 with qkv_bias: False can only be frozen whole"):
        prepare(TrainConfig(**settings | {"network": str(tmp_path / "odd"), "freeze": "stage1", "size": 84}))


def test_a_stopped_run_goes_on_bit_for_bit(settings, dino, tmp_path):
    changes = {"network": dino, "freeze": "stage1", "size": 84, "optimiser": "adamw", "lr": 0.003, "thin": 2}
    whole = TrainConfig(**settings | changes | {"output": str(tmp_path / "whole")})
    train(prepare(whole))
    halved = TrainConfig(**settings | changes | {"output": str(tmp_path / "halved")})

    def stop(what, done, total, text):
        if what == "training" and done == 8:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped):
        train(prepare(halved), report=stop)
    train(prepare(halved), resume=True)
    one, two = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "halved"))
    assert one["progress"] == two["progress"]
    assert all(torch.equal(value, two["model"][key]) for key, value in one["model"].items())
