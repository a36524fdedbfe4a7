"""Embeddings in the feature store."""

import numpy as np
import torch

from repri.regions.store import EmbeddingStore

from .make import ColourRegions, two_squares


def test_an_embedding_is_computed_once(tmp_path):
    model, (image, _) = ColourRegions(), two_squares()
    first = EmbeddingStore(model, tmp_path).get(image)
    again = EmbeddingStore(model, tmp_path).get(image.copy())
    assert model.encoded == 1
    assert again.size == first.size == (96, 128)
    assert all(torch.equal(a, b) for a, b in zip(first.tensors, again.tensors, strict=True))
    assert first.tensors[0].dtype == torch.float16
    EmbeddingStore(model, tmp_path).get(np.ascontiguousarray(image[::-1]))
    assert model.encoded == 2


def test_a_damaged_file_is_computed_again(tmp_path):
    model, (image, _) = ColourRegions(), two_squares()
    store = EmbeddingStore(model, tmp_path)
    whole = store.get(image)
    (file,) = tmp_path.rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-5] ^= 0xFF
    file.write_bytes(content)
    assert torch.equal(store.get(image).tensors[0], whole.tensors[0])
    assert model.encoded == 2
