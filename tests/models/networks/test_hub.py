"""Backbones of transformers, small and untrained, saved in the hub's layout and loaded from the folder."""

import pytest
import torch

from repri.models import load_extractor
from repri.runtime.errors import RepriError

transformers = pytest.importorskip("transformers")

FAMILIES = {
    "dinov2": (
        lambda t: t.Dinov2Backbone(
            t.Dinov2Config(hidden_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14)
        ),
        14,
        {"channels": 24, "rows": 4},
    ),
    "dinov3": (
        lambda t: t.DINOv3ViTBackbone(
            t.DINOv3ViTConfig(
                hidden_size=24, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, patch_size=16
            )
        ),
        16,
        {"channels": 24, "rows": 4},
    ),
    "resnet": (
        lambda t: t.ResNetBackbone(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
        32,
        {"channels": 32, "rows": 2},
    ),
    "convnext": (
        lambda t: t.ConvNextBackbone(t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
        32,
        {"channels": 32, "rows": 2},
    ),
    "swin": (
        lambda t: t.SwinBackbone(
            t.SwinConfig(embed_dim=12, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], image_size=64, window_size=2)
        ),
        32,
        {"channels": 96, "rows": 2},
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_load_from_a_folder(tmp_path, family):
    build, multiple, expected = FAMILIES[family]
    model = build(transformers).eval()
    model.save_pretrained(tmp_path)
    extractor = load_extractor(str(tmp_path))
    side = 56 if family == "dinov2" else 64
    features = extractor.extract(torch.rand(2, 3, side, side))
    assert features.shape == (2, expected["channels"], expected["rows"], expected["rows"])
    assert extractor.channels == expected["channels"]
    assert extractor.stride == side // expected["rows"]
    assert extractor.rule.multiple == multiple
    several = load_extractor(str(tmp_path), layers=(-2, -1))
    assert several.extract(torch.rand(1, 3, side, side)).shape[1] == several.channels > extractor.channels


def test_incomplete_weights_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    FAMILIES["dinov2"][0](transformers).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    dropped = next(key for key in state if "layer.1.mlp" in key)
    save_file({k: v for k, v in state.items() if k != dropped}, path, metadata={"format": "pt"})
    with pytest.raises(RepriError, match="1 weights are missing or of another shape"):
        load_extractor(str(tmp_path))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RepriError, match=r"cannot be loaded: .*model\.safetensors"):
        load_extractor(str(tmp_path))


def test_the_fingerprint_knows_the_configuration_and_not_the_place(tmp_path):
    import json
    import shutil

    FAMILIES["dinov2"][0](transformers).save_pretrained(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    a = load_extractor(str(tmp_path / "a")).fingerprint
    assert a == load_extractor(f"hub:{tmp_path}/b").fingerprint
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    (tmp_path / "b" / "config.json").write_text(json.dumps(config | {"num_attention_heads": 4}))
    assert a != load_extractor(str(tmp_path / "b")).fingerprint


def test_offline_does_not_wait_for_the_network(monkeypatch):
    monkeypatch.setenv("REPRI_OFFLINE", "1")
    with pytest.raises(RepriError, match=r"no-such/model cannot be loaded: .*without network, give a folder"):
        load_extractor("hub:no-such/model")


def test_other_models_are_refused(tmp_path):
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(RepriError, match="is a bert model, and transformers has no backbone for it"):
        load_extractor(f"hub:{tmp_path}")


def test_the_models_own_normalisation_is_used(tmp_path):
    FAMILIES["dinov2"][0](transformers).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.2, 0.2, 0.2]}')
    rule = load_extractor(str(tmp_path)).rule
    assert rule.mean == (0.5, 0.5, 0.5)
    assert rule.std == (0.2, 0.2, 0.2)


def test_blocks_that_no_stage_needs_are_not_run(tmp_path):
    torch.manual_seed(0)
    FAMILIES["dinov2"][0](transformers).save_pretrained(tmp_path)
    for stage, blocks in (("stem", 1), ("stage1", 1), ("stage2", 2), ("stage3", 3)):
        extractor, whole = (load_extractor(str(tmp_path), layers=(stage,), fast=fast) for fast in (True, False))
        assert [len(e.run.model.encoder.layer) for e in (extractor, whole)] == [blocks, 3]
        assert len(extractor.network.model.encoder.layer) == 3
        assert extractor.fingerprint == whole.fingerprint
        image = torch.rand(1, 3, 56, 42)
        assert torch.equal(extractor.extract(image), whole.extract(image))


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(RepriError, match=r"nothing is no folder with a config\.json"):
        load_extractor(f"hub:{tmp_path}/nothing")


@pytest.mark.parametrize(
    "config",
    [
        "[1]",
        "[" * 5000,
        '{"model_type": 5}',
        '{"model_type": "dinov2", "hidden_size": "x"}',
        '{"model_type": "dinov2", "hidden_size": -5}',
        '{"model_type": "x", "auto_map": {"AutoConfig": "evil.Config"}}',
    ],
)
def test_a_config_of_something_else_is_one_sentence(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    with pytest.raises(RepriError, match=r"cannot be loaded|no backbone"):
        load_extractor(f"hub:{tmp_path}")
    assert not (tmp_path / "run").exists()  # no code of the folder runs
