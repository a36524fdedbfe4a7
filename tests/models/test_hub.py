"""Backbone families of transformers, small and untrained, saved in the hub's layout and loaded from the folder."""

import pytest
import torch

from repri.models import load_extractor

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


def test_other_models_are_refused(tmp_path):
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="a bert model, which transformers offers no backbone for"):
        load_extractor(f"hub:{tmp_path}")


def test_the_models_own_normalisation_is_used(tmp_path):
    FAMILIES["dinov2"][0](transformers).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.2, 0.2, 0.2]}')
    rule = load_extractor(str(tmp_path)).rule
    assert rule.mean == (0.5, 0.5, 0.5)
    assert rule.std == (0.2, 0.2, 0.2)
