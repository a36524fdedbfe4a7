"""The last blocks of a vision transformer as a head on a frozen stage, to be trained further."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

__all__ = ["Blocks", "continue_transformer"]


class Block(nn.Module):
    """[B, N, C] → [B, N, C]: attention, then two linear layers, each with a norm before and a scale after it."""

    def __init__(self, channels: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels, eps=1e-6), nn.LayerNorm(channels, eps=1e-6)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.up, self.down = nn.Linear(channels, hidden), nn.Linear(hidden, channels)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        batch, cells, channels = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, cells, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, cells, channels)
        x = x + self.scale1 * self.out(mixed)
        return x + self.scale2 * self.down(F.gelu(self.up(self.norm2(x))))


class Blocks(nn.Module):
    """[B, C, h, w] → [B, C, h, w]: the features of a stage, through the blocks after it and the last norm.

    The features of a stage are normalised. The entry undoes this, except for the mean and length of each cell, so that
    the blocks get the input that they were trained on; there is no class token.

    Args:
        channels: C.
        depth: Number of blocks.
        heads: Attention heads of each block.
        hidden: Channels between the two linear layers of each block.
    """

    upsample = 1

    def __init__(self, channels: int, depth: int, heads: int, hidden: int):
        super().__init__()
        self.options = {"kind": "blocks", "channels": channels, "depth": depth, "heads": heads, "hidden": hidden}
        self.out_channels = channels
        self.entry_scale, self.entry_shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.blocks = nn.Sequential(*(Block(channels, heads, hidden) for _ in range(depth)))
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        cells = x.flatten(2).transpose(1, 2) * self.entry_scale + self.entry_shift
        return self.norm(self.blocks(cells)).transpose(1, 2).reshape(x.shape)


def continue_transformer(network: Any, stage: str) -> Blocks:
    """Copy the blocks of a DINOv2 after a stage, with their weights, to be trained.

    Args:
        network: A :class:`~repri.models.networks.hub.HubBackbone`.
        stage: Name of the last frozen stage.

    Returns:
        The blocks after that stage.
    """
    model, config = network.model, network.model.config
    _check(config)
    names = list(config.stage_names)
    depth = len(names) - 1 - names.index(stage)
    if depth < 1:
        raise RepriError(f"freeze: {stage} is the last stage, nothing would be trained: take 'backbone' and a head.")
    blocks = Blocks(config.hidden_size, depth, config.num_attention_heads, int(config.hidden_size * config.mlp_ratio))
    state: dict[str, Tensor] = {}
    for i, layer in enumerate(model.encoder.layer[-depth:]):
        theirs = layer.state_dict()
        for kind in ("weight", "bias"):
            parts = [_take(theirs, f"{name}.{kind}") for name in ("q", "k", "v")]
            state[f"blocks.{i}.qkv.{kind}"] = torch.cat(parts)
            for ours, their in (("norm1", "norm1"), ("norm2", "norm2"), ("up", "mlp.fc1"), ("down", "mlp.fc2")):
                state[f"blocks.{i}.{ours}.{kind}"] = theirs[f"{their}.{kind}"]
            state[f"blocks.{i}.out.{kind}"] = _take(theirs, f"out.{kind}")
        for n in (1, 2):
            state[f"blocks.{i}.scale{n}"] = theirs[f"layer_scale{n}.lambda1"]
    length = _length_after(network, names.index(stage))
    scale, shift = model.layernorm.weight, model.layernorm.bias
    state |= {"norm.weight": scale, "norm.bias": shift}
    state |= {"entry_scale": length / scale, "entry_shift": -length * shift / scale}
    blocks.load_state_dict({key: value.detach().clone() for key, value in state.items()})
    return blocks


def _check(config: Any) -> None:
    """Refuse transformers whose blocks compute something else than :class:`Block`."""
    if config.model_type != "dinov2":
        raise RepriError(f"freeze: a {config.model_type} can only be frozen whole, with 'backbone'.")
    usual = {"use_swiglu_ffn": False, "qkv_bias": True, "apply_layernorm": True, "hidden_act": "gelu"}
    for name, value in {**usual, "layer_norm_eps": 1e-6}.items():
        if getattr(config, name) != value:
            raise RepriError(
                f"freeze: a dinov2 with {name}: {getattr(config, name)} can only be frozen whole, with 'backbone'."
            )


ATTENTION = {
    "q": ("attention.q_proj", "attention.attention.query"),
    "k": ("attention.k_proj", "attention.attention.key"),
    "v": ("attention.v_proj", "attention.attention.value"),
    "out": ("attention.o_proj", "attention.output.dense"),
}
"""Our name → names in newer and older releases of transformers."""


def _take(state: dict[str, Tensor], name: str) -> Tensor:
    """Tensor of an attention layer, whichever release of transformers named it."""
    ours, kind = name.split(".")
    return next(state[f"{their}.{kind}"] for their in ATTENTION[ours] if f"{their}.{kind}" in state)


def _length_after(network: Any, index: int) -> Tensor:
    """Usual standard deviation within a cell before the norm, measured on an image of soft colours."""
    colours = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (network.rule.mean, network.rule.std))
    size = (network.rule.size, network.rule.size)
    image = F.interpolate(colours, size, mode="bicubic", align_corners=False).clamp(0, 1)
    device = next(network.model.parameters()).device
    with torch.inference_mode():
        hidden = network.model(((image - mean) / std).to(device), output_hidden_states=True).hidden_states[index]
    return hidden[0, 1:].std(-1).median().clone()
