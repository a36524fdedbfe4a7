"""Embeddings that are computed once: in the feature store, one file per image, named by its pixels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from repri.features.files import TensorFiles
from repri.runtime.files import cache_folder

from .model import Embedding, RegionModel

__all__ = ["EmbeddingStore"]


class EmbeddingStore:
    """Embeddings of one region model.

    Args:
        model: The region model.
        folder: Folder of the store; default: the user cache.
        budget: Bytes that the whole feature store may take on disk.
    """

    def __init__(self, model: RegionModel, folder: Path | None = None, budget: int | None = None):
        self.model = model
        facts = hashlib.sha256(repr(("regions", model.fingerprint)).encode()).hexdigest()[:24]
        self._files = TensorFiles((cache_folder() if folder is None else folder) / "features", facts, budget)

    def get(self, image: np.ndarray) -> Embedding:
        """The embedding of an image [H, W, 3] uint8, computed if it is missing or damaged."""
        pixels = np.ascontiguousarray(image)
        name = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:40]
        kept = self._files.read(name)
        if kept is not None:
            return Embedding((image.shape[0], image.shape[1]), tuple(kept.values()))
        embedding = self.model.encode(image)
        tensors = {f"tensor{i}": tensor for i, tensor in enumerate(embedding.tensors)}
        self._files.make_room(sum(t.numel() * t.element_size() for t in tensors.values()), set())
        self._files.write(name, tensors)
        return embedding
