"""Models of transformers, small and untrained."""

import numpy as np
import pytest
import torch

from repri.regions.hub import HubRegions, load_hub
from repri.runtime.errors import RepriError

transformers = pytest.importorskip("transformers")


def small_sam():
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "output_channels": 16}
    vision |= {"image_size": 64, "patch_size": 16, "mlp_dim": 16, "window_size": 2, "global_attn_indexes": [0]}
    vision |= {"num_pos_feats": 8}
    prompt = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}
    decoder = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "mlp_dim": 16,
        "iou_head_hidden_dim": 8,
    }
    decoder |= {"attention_downsample_rate": 1}
    config = transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)
    return transformers.SamModel(config)


def small_sam2():
    hiera = {"hidden_size": 8, "num_attention_heads": 1, "image_size": [64, 64], "blocks_per_stage": [1, 1, 1, 1]}
    hiera |= {"embed_dim_per_stage": [8, 16, 32, 64], "num_attention_heads_per_stage": [1, 1, 2, 2]}
    hiera |= {
        "window_size_per_stage": [4, 2, 2, 2],
        "global_attention_blocks": [],
        "model_type": "sam2_hiera_det_model",
    }
    hiera |= {"window_positional_embedding_background_size": [4, 4]}
    vision = {"backbone_config": hiera, "backbone_channel_list": [64, 32, 16, 8], "fpn_hidden_size": 16}
    vision |= {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}
    prompt = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}
    decoder = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16}
    decoder |= {"attention_downsample_rate": 1, "iou_head_hidden_dim": 8}
    config = transformers.Sam2Config(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)
    return transformers.Sam2Model(config)


@pytest.fixture(scope="module", params=[small_sam, small_sam2])
def model(request):
    torch.manual_seed(0)
    return HubRegions(request.param(), "small")


@pytest.fixture(scope="module")
def embedding(model):
    return model.encode(np.random.default_rng(0).integers(0, 255, (40, 64, 3), np.uint8))


def test_each_kind_of_prompt_gives_three_masks(model, embedding):
    prompts = [
        {"points": [(10, 10), (20, 20)], "labels": [1, 0]},
        {"box": (4, 4, 30, 30)},
        {"points": [(10, 10)], "box": (4, 4, 30, 30)},
        {"points": [(10, 10)], "mask": torch.rand(40, 64)},
        {"mask": torch.rand(40, 64)},
    ]
    seen = []
    for prompt in prompts:
        found = model.masks(embedding, **prompt)
        assert found.logits.shape[:2] == (1, 3)
        assert found.at_size().shape == (1, 3, 40, 64)
        seen.append(found.logits)
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_prompts_in_a_batch_are_those_one_by_one(model, embedding):
    together = model.masks(embedding, points=[[(10, 10)], [(50, 30)]])
    alone = model.masks(embedding, points=[(50, 30)])
    assert torch.allclose(together.logits[1], alone.logits[0], atol=1e-5)
    soft = torch.rand(2, 40, 64)
    both = model.masks(embedding, points=[[(10, 10)], [(50, 30)]], mask=soft)
    one = model.masks(embedding, points=[(50, 30)], mask=soft[1])
    assert torch.allclose(both.logits[1], one.logits[0], atol=1e-5)


def test_a_folder_in_the_layout_of_the_hub(tmp_path, model, embedding):
    model._network.save_pretrained(tmp_path)
    again = load_hub(str(tmp_path))
    assert again.fingerprint == model.fingerprint
    first, second = (m.masks(embedding, points=[(10, 10)]).logits for m in (model, again))
    assert torch.allclose(first, second, atol=1e-5)
    with pytest.raises(RepriError, match="cannot be loaded"):
        load_hub(str(tmp_path / "nothing"))


def test_other_models_give_no_regions():
    class Other:
        config = transformers.BertConfig()

        def eval(self):
            return self

    with pytest.raises(RepriError, match="'bert', which gives no regions"):
        HubRegions(Other())
