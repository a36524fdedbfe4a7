"""Small region models whose regions are areas of one colour: one in Python, and pairs of ONNX files."""

import numpy as np
import torch
import torch.nn.functional as F

from repri.regions.frame import Frame
from repri.regions.model import RegionModel

SIDE, GRID = 64, 16


class ColourRegions(RegionModel):
    """The region of a point is everything of its colour; of a box, its colour at the middle inside the box. Three
    masks differ in how much colours may differ."""

    name, fingerprint = "colours", "colours-1"
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def __init__(self, fit="squash", side=256):
        self.frame = Frame(fit, side, side // 4)
        self.encoded = self.prompted = 0

    def _encode(self, pixels):
        self.encoded += 1
        return [F.avg_pool2d(pixels, 4)]

    def _decode(self, embedding, prompts):
        self.prompted += len(prompts.points)
        colours, grid = embedding.tensors[0][0].float(), self.frame.grid
        logits, iou = [], []
        for points, labels in zip(prompts.points, prompts.labels, strict=True):
            boxed = labels[-1] == 3
            at = (points[-2:].mean(0) if boxed else points[0]) / self.frame.side * grid
            x, y = at.long().clamp(0, grid - 1).tolist()
            distance = (colours - colours[:, y, x][:, None, None]).abs().sum(0)
            maps = torch.stack([reach - distance for reach in (0.1, 0.3, 3.5)]) * 20
            if boxed:
                (left, top), (right, bottom) = (points[-2:] / self.frame.side * grid).round().long().tolist()
                inside = torch.zeros(grid, grid, dtype=torch.bool)
                inside[top:bottom, left:right] = True
                maps = maps.masked_fill(~inside, -20)
            logits.append(maps)
            iou.append(torch.tensor([0.9, 0.8, 0.5]))
        return torch.stack(logits), torch.stack(iou)


def two_squares(height=96, width=128):
    """An image with two red squares on blue, and their mask."""
    image = np.full((height, width, 3), (20, 40, 120), np.uint8)
    mask = np.zeros((height, width), np.uint8)
    for top, left in ((8, 8), (56, 80)):
        image[top : top + 32, left : left + 32] = (220, 30, 30)
        mask[top : top + 32, left : left + 32] = 1
    return image, mask


def write_pair(folder, kind="sam2"):
    """Write ``encoder.onnx`` and ``decoder.onnx``: masks are a square of two cells around the first point of a prompt,
    and with a mask prompt the mask itself."""
    import onnx
    from onnx import TensorProto, helper

    folder.mkdir(parents=True, exist_ok=True)
    real, second = TensorProto.FLOAT, kind == "sam2"
    value = helper.make_tensor_value_info
    image = value("image", real, [1, 3, SIDE, SIDE])
    names = ["image_embed", "high_res_feats_0", "high_res_feats_1"] if second else ["image_embeddings"]
    strides = (16, 4, 8)[: len(names)]
    pools = [
        helper.make_node("AveragePool", ["image"], [name], kernel_shape=[n, n], strides=[n, n])
        for name, n in zip(names, strides, strict=True)
    ]
    maps = [value(name, real, [1, 3, SIDE // n, SIDE // n]) for name, n in zip(names, strides, strict=True)]
    _save(onnx, folder / "encoder.onnx", pools, [image], maps)

    prompts = "P" if second else 1
    inputs = [
        *maps,
        value("point_coords", real, [prompts, "n", 2]),
        value("point_labels", real, [prompts, "n"]),
        value("mask_input", real, [prompts, 1, GRID, GRID]),
        value("has_mask_input", real, [1]),
    ]
    rows, columns = np.meshgrid(np.arange(GRID), np.arange(GRID), indexing="ij")
    constants = {
        "places": ((np.stack([columns, rows]) + 0.5) * SIDE / GRID).astype(np.float32)[None],  # [1, 2, g, g]
        "reach": np.float32(8.0),
        "first": np.array([0]),
        "shape": np.array([-1, 2, 1, 1]),
        "scores": np.array([[0.5, 0.9, 0.1][: 3 if second else 1]], np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["point_coords", "first"], ["picked"], axis=1),
        helper.make_node("Reshape", ["picked", "shape"], ["point"]),
        helper.make_node("Sub", ["places", "point"], ["step"]),
        helper.make_node("Abs", ["step"], ["size"]),
        helper.make_node("ReduceMax", ["size", "first1"], ["far"], keepdims=1),
        helper.make_node("Sub", ["reach", "far"], ["square"]),
        helper.make_node("Mul", ["mask_input", "has_mask_input"], ["given"]),
        helper.make_node("Add", ["square", "given"], ["sum"]),
        helper.make_node("Concat", ["sum"] * (3 if second else 1), ["masks" if second else "low_res_masks"], axis=1),
        helper.make_node("ReduceMean", ["sum", "last3"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["none"]),
        helper.make_node("Add", ["none", "scores"], ["iou_predictions"]),
    ]
    constants |= {"first1": np.array([1]), "last3": np.array([2, 3]), "zero": np.float32(0)}
    outputs = [
        value("masks" if second else "low_res_masks", real, [prompts, "m", GRID, GRID]),
        value("iou_predictions", real, [prompts, "m"]),
    ]
    if not second:
        inputs.append(value("orig_im_size", real, [2]))
    _save(onnx, folder / "decoder.onnx", nodes, inputs, outputs, constants)
    return folder


def _save(onnx, path, nodes, inputs, outputs, constants=None):
    from onnx import helper, numpy_helper

    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path))
