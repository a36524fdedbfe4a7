"""Region models as a pair of ONNX files: an encoder and a decoder, run by onnxruntime.

Any pair in the way of SAM or SAM 2 will do. The names of the decoder's inputs tell which of the two it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repri.runtime.download import file_sha256
from repri.runtime.errors import MissingExtraError, RepriError

from .frame import Frame
from .model import Embedding, Prompts, RegionModel

__all__ = ["OnnxRegions"]

NEEDED = {"point_coords", "point_labels", "mask_input", "has_mask_input"}
"""Inputs that a decoder must have besides the embedding."""
MOST = 8
"""Prompts that are decoded at once; more take memory and save no time."""


class OnnxRegions(RegionModel):
    """A pair of ONNX files.

    Args:
        encoder: ``encoder.onnx`` or ``encoder.ort``.
        decoder: ``decoder.onnx`` or ``decoder.ort``.
        name: Name in messages and results.
        threads: Threads of one run; default: those of torch.
    """

    def __init__(self, encoder: Path, decoder: Path, name: str = "regions", threads: int | None = None):
        self.name, self.files = name, (encoder, decoder)
        self.threads = torch.get_num_threads() if threads is None else threads
        self._encoder, self._decoder = (_session(path, self.threads) for path in self.files)
        (self._image,) = self._encoder.get_inputs()
        self._outputs = [node.name for node in self._encoder.get_outputs()]
        inputs = {node.name: node.shape for node in self._decoder.get_inputs()}
        if missing := sorted(NEEDED - set(inputs)):
            raise RepriError(f"{decoder} is no decoder of SAM or SAM 2: it has no input {missing[0]}.")
        second = "high_res_feats_0" in inputs
        names = ["image_embed", "high_res_feats_0", "high_res_feats_1"] if second else ["image_embeddings"]
        if not set(names) <= set(inputs) or (second and not set(names) <= set(self._outputs)):
            raise RepriError(
                f"{encoder} and {decoder} do not belong together: the outputs of one must be inputs of the other."
            )
        self._names, self._many = names, not isinstance(inputs["point_coords"][0], int)
        self._sized = "orig_im_size" in inputs
        side, grid = self._image.shape[-1], inputs["mask_input"][-1]
        if len(self._image.shape) != 4 or not isinstance(side, int):
            raise RepriError(f"{encoder} takes {self._image.shape} and not a square image [1, 3, S, S].")
        self.frame = Frame("squash" if second else "pad", side, grid if isinstance(grid, int) else side // 4)

    @cached_property
    def fingerprint(self) -> str:
        return "-".join(file_sha256(path) for path in self.files)

    def _encode(self, pixels: Tensor) -> Sequence[Tensor]:
        values = dict(zip(self._outputs, self._encoder.run(None, {self._image.name: pixels.numpy()}), strict=True))
        names = self._names if len(self._names) > 1 else self._outputs[:1]
        return [torch.from_numpy(values[name]) for name in names]

    def _decode(self, embedding: Embedding, prompts: Prompts) -> tuple[Tensor, Tensor]:
        feed: dict[str, Any] = {
            name: tensor.float().numpy() for name, tensor in zip(self._names, embedding.tensors, strict=True)
        }
        given = prompts.masks is not None
        feed["has_mask_input"] = np.full(1, given, np.float32)
        if self._sized:  # only the masks on the decoder's own grid are used
            feed["orig_im_size"] = np.full(2, self.frame.grid, np.float32)
        parts = []
        step = MOST if self._many else 1
        for start in range(0, len(prompts.points), step):
            part = slice(start, start + step)
            points = prompts.points[part].numpy()
            masks = prompts.masks[part].numpy() if prompts.masks is not None else None
            if masks is None:
                masks = np.zeros((len(points), self.frame.grid, self.frame.grid), np.float32)
            feed |= {"point_coords": points, "point_labels": prompts.labels[part].numpy(), "mask_input": masks[:, None]}
            names = ["low_res_masks" if self._sized else "masks", "iou_predictions"]
            parts.append([torch.from_numpy(values) for values in self._decoder.run(names, feed)])
        logits, iou = (torch.cat(values) for values in zip(*parts, strict=True))
        return logits, iou


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("Region models need onnxruntime: pip install 'repri[regions]'.") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(1, threads)
    options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no class of its own for damaged files
        raise RepriError(f"{path} cannot be opened by onnxruntime: {str(error).splitlines()[0]}") from None
