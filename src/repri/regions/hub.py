"""Region models of ``transformers``: SAM and SAM 2, from the hub or from a folder in the hub's layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from repri.features.extractor import fingerprint_of
from repri.runtime.errors import MissingExtraError, RepriError

from .frame import Frame
from .model import NO_POINT, Embedding, Prompts, RegionModel

__all__ = ["HubRegions", "load_hub"]

KINDS = {"sam": ("SamModel", "pad"), "sam2": ("Sam2Model", "squash"), "sam2_video": ("Sam2Model", "squash")}
"""Kind of model in ``config.json`` → its class, and how images fit its input."""


class HubRegions(RegionModel):
    """A ``SamModel`` or ``Sam2Model``.

    Args:
        network: The loaded model.
        name: Name in messages and results.
    """

    def __init__(self, network: Any, name: str = "regions"):
        self.name, self._network = name, network.eval()
        config = network.config
        kind = config.model_type
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise RepriError(f"{name} is a model of the kind {kind!r}, which gives no regions. Known: {known}.")
        self._second = KINDS[kind][1] == "squash"
        vision = config.vision_config
        side = vision.backbone_config.image_size[0] if self._second else vision.image_size
        self.frame = Frame("squash" if self._second else "pad", side, side // 4)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(("regions", self._network.config.model_type), self._network.state_dict().items())

    def _encode(self, pixels: Tensor) -> Sequence[Tensor]:
        with torch.inference_mode():
            out = self._network.get_image_embeddings(pixels)
        return [tensor.clone() for tensor in (out if self._second else [out])]

    def _decode(self, embedding: Embedding, prompts: Prompts) -> tuple[Tensor, Tensor]:
        if prompts.masks is None:
            return self._run(embedding, prompts.points, prompts.labels, None)
        # A mask prompt belongs to an image there, not to a prompt: one at a time.
        parts = [
            self._run(embedding, points[None], labels[None], mask[None, None])
            for points, labels, mask in zip(prompts.points, prompts.labels, prompts.masks, strict=True)
        ]
        logits, iou = (torch.cat(values) for values in zip(*parts, strict=True))
        return logits, iou

    def _run(self, embedding: Embedding, points: Tensor, labels: Tensor, masks: Tensor | None) -> tuple[Tensor, Tensor]:
        given: dict[str, Any] = {"input_masks": masks}
        if labels[0, -1] == NO_POINT:  # transformers adds the empty point itself
            points, labels = points[:, :-1], labels[:, :-1]
        else:
            given["input_boxes"] = points[None, :, -2:].flatten(2)
            points, labels = points[:, :-2], labels[:, :-2]
        if points.shape[1]:
            given |= {"input_points": points[None], "input_labels": labels[None].long()}
        tensors = [tensor.float() for tensor in embedding.tensors]
        with torch.inference_mode():
            out = self._network(image_embeddings=tensors if self._second else tensors[0], **given)
        return out.pred_masks[0].clone(), out.iou_scores[0].clone()


def load_hub(source: str, device: str = "cpu") -> HubRegions:
    """A model by its name on the hub or its folder.

    Args:
        source: Such as ``facebook/sam2.1-hiera-tiny`` or ``facebook/sam-vit-base``, or a folder with ``config.json``.
        device: Only ``cpu`` for now.

    Returns:
        The region model.
    """
    try:
        import transformers
    except ImportError:
        raise MissingExtraError(f"hub:{source} needs transformers: pip install 'repri[hub]'") from None
    try:
        kind = transformers.AutoConfig.from_pretrained(source).model_type
        if kind not in KINDS:
            raise RepriError(f"hub:{source} is a model of the kind {kind!r}, which gives no regions.")
        network = getattr(transformers, KINDS[kind][0]).from_pretrained(source)
    except OSError as error:
        raise RepriError(f"hub:{source} cannot be loaded: {str(error).splitlines()[0]}") from None
    return HubRegions(network, f"hub:{source}")
