"""The last blocks of a transformer, trained on the features of a frozen stage."""

import signal

import pytest
import torch

from repri.models import load_extractor
from repri.models.heads.blocks import continue_transformer
from repri.training import Stopped, prepare, train

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


@pytest.fixture
def blocks(dino):
    """Changes to the settings: the blocks after the first are trained."""
    return {
        "network.name": dino,
        "network.freeze": "stage1",
        "data.size": 56,
        "loss.thin": 2,
        "optimiser.name": "adamw",
        "optimiser.lr": 0.003,
        "optimiser.warmup": 2,
        "optimiser.classifier_factor": 10.0,
    }


def test_a_stopped_run_goes_on_bit_for_bit_and_becomes_an_extractor(make, blocks, dino, tmp_path):
    whole = prepare(make(blocks | {"output": str(tmp_path / "whole")}))
    before = [p.clone() for p in whole.trainee.head.parameters()]
    train(whole)
    assert all(not torch.equal(a, b) for a, b in zip(before, whole.trainee.head.parameters(), strict=True))

    def stop(what, done, total, text):
        if what == "training" and done == 3:
            signal.raise_signal(signal.SIGTERM)

    halved = make(blocks | {"output": str(tmp_path / "halved")})
    with pytest.raises(Stopped, match="stopped and saved after step 4 of 5"):
        train(prepare(halved), report=stop)
    train(prepare(halved), resume=True)
    one, two = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "halved"))
    assert one["progress"] == two["progress"]
    assert all(torch.equal(value, two["model"][key]) for key, value in one["model"].items())

    extractor = load_extractor(str(tmp_path / "whole" / "model.safetensors"))
    assert (extractor.channels, extractor.stride, extractor.rule.size) == (24, 14, 56)
    image = torch.rand(1, 3, 56, 70)
    features = extractor.extract(image)
    assert features.shape == (1, 24, 4, 5)
    with torch.inference_mode():
        under = load_extractor(dino, layers=("stage1",)).extract(image).half().float()  # as it is stored
        expected = whole.trainee.eval().features(under)
    torch.testing.assert_close(features, expected.clone())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"network.freeze": "stage3"}, "stage3 is the last stage"),
        ({"network.freeze": "stage7"}, "has no layer 'stage7'. Known: stem, stage1"),
        ({"loss.thin": 7}, "loss.thin: there are 4 cells in a row, got 7"),
        ({"data.size": 60}, "data.size must be a multiple of 14"),
    ],
)
def test_mistakes(make, blocks, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(make(blocks | changes))


def test_other_transformers_are_frozen_whole(make, blocks, tmp_path):
    config = transformers.DINOv3ViTConfig(
        hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, patch_size=16
    )
    transformers.DINOv3ViTBackbone(config).save_pretrained(tmp_path / "v3")
    with pytest.raises(ValueError, match="a dinov3_vit can only be frozen whole"):
        prepare(make(blocks | {"network.name": str(tmp_path / "v3"), "data.size": 64}))


def test_what_a_block_cannot_compute_is_refused(make, blocks, tmp_path):
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=56, patch_size=14, qkv_bias=False
    )
    transformers.Dinov2Backbone(config).save_pretrained(tmp_path / "odd")
    with pytest.raises(ValueError, match="a dinov2 with qkv_bias: False can only be frozen whole"):
        prepare(make(blocks | {"network.name": str(tmp_path / "odd")}))
