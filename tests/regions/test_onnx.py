"""Pairs of ONNX files."""

import numpy as np
import pytest
import torch

from repri.models.weights.pairs import pair_folder, pair_in
from repri.regions.onnx import OnnxRegions
from repri.runtime.errors import RepriError

from .make import two_squares, write_pair


@pytest.mark.parametrize("kind", ["sam", "sam2"])
def test_a_pair_is_recognised_and_gives_masks_where_the_points_are(tmp_path, kind):
    folder = write_pair(tmp_path, kind)
    model = OnnxRegions(*pair_in(folder), threads=1)
    image = np.random.default_rng(0).integers(0, 255, (48, 96, 3), np.uint8)
    embedding = model.encode(image)
    assert [t.dtype for t in embedding.tensors] == [torch.float16] * (3 if kind == "sam2" else 1)
    found = model.masks(embedding, points=[[(12, 12)], [(84, 36)], [(48, 24)]])
    assert found.logits.shape[:2] == (3, 3 if kind == "sam2" else 1)
    assert model.frame.fit == ("squash" if kind == "sam2" else "pad")
    masks = found.best()
    assert masks.shape == (3, 48, 96)
    for mask, (x, y) in zip(masks, [(12, 12), (84, 36), (48, 24)], strict=True):
        rows, columns = mask.nonzero().float().mean(0).tolist()
        assert abs(rows + 0.5 - y) < 2
        assert abs(columns + 0.5 - x) < 2
    assert found.iou.argmax(1).tolist() == [1, 1, 1] if kind == "sam2" else [0, 0, 0]


def test_a_mask_prompt_arrives_in_its_place(tmp_path):
    model = OnnxRegions(*pair_in(write_pair(tmp_path, "sam")), threads=1)
    soft = torch.zeros(48, 96)
    soft[:, 64:] = 1
    embedding = model.encode(np.zeros((48, 96, 3), np.uint8))
    plain, given = (model.masks(embedding, points=[(10, 10)], mask=m).logits[0, 0] for m in (None, soft))
    raised = given - plain  # this decoder adds the mask's logits
    assert (raised[:, -4:] > 3).all()
    assert (raised[:, :8] < -3).all()


def test_files_that_are_no_pair(tmp_path):
    folder = write_pair(tmp_path / "a")
    with pytest.raises(RepriError, match="no decoder of SAM"):
        OnnxRegions(folder / "encoder.onnx", folder / "encoder.onnx")
    other = write_pair(tmp_path / "b", "sam")
    with pytest.raises(RepriError, match="do not belong together"):
        OnnxRegions(other / "encoder.onnx", folder / "decoder.onnx")
    (folder / "decoder.onnx").write_bytes(b"nothing")
    with pytest.raises(RepriError, match="cannot be opened"):
        OnnxRegions(*pair_in(folder))
    assert pair_in(tmp_path) is None


def test_the_real_sam2_finds_a_square():
    pair = pair_in(pair_folder("sam2-tiny"))
    if pair is None:
        pytest.skip("sam2-tiny is not in the cache: repri weights get sam2-tiny")
    image, mask = two_squares()
    model = OnnxRegions(*pair)
    found = model.masks(model.encode(image), points=[(24, 24)]).at_size()[0].numpy()
    truth = np.zeros_like(mask, bool)
    truth[8:40, 8:40] = True
    assert max((m & truth).sum() / (m | truth).sum() for m in found) > 0.9
