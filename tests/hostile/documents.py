"""One valid file of every kind that is read, as plain values."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from repri.data.io.formats.brush import encode_brush
from repri.data.io.segmentations import encode
from repri.evaluation.settings import EvaluationSettings
from repri.segmenter.settings import SegmentSettings
from repri.training.settings import TrainSettings

__all__ = [
    "COCO",
    "CONFIG",
    "DESCRIPTION",
    "HEAD",
    "KEYS",
    "LABELME",
    "METHOD",
    "RECORD",
    "RESULT",
    "SETTINGS",
    "STUDIO",
    "TASKS",
    "YAML",
]

_SQUARE = np.zeros((20, 30), bool)
_SQUARE[3:9, 4:12] = True


def _png() -> str:
    """A small mask in base64."""
    file = io.BytesIO()
    Image.fromarray(_SQUARE[:5, :5]).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


_PNG, _COUNTS = _png(), encode(_SQUARE)["counts"]


def _region(kind: str, **value: Any) -> dict[str, Any]:
    return {"type": kind, "original_width": 30, "original_height": 20, "value": {kind: ["cat"]} | value}


COCO = {
    "images": [{"id": 1, "file_name": "a.png", "height": 20, "width": 30}],
    "annotations": [
        {
            "id": 1,
            "image_id": 1,
            "category_id": 1,
            "iscrowd": 0,
            "segmentation": [[1, 1, 9, 1, 9, 9]],
            "bbox": [1, 1, 8, 8],
        },
        {"id": 2, "image_id": 1, "category_id": 2, "segmentation": {"size": [20, 30], "counts": [5, 10, 585]}},
        {
            "id": 3,
            "image_id": 1,
            "category_id": 2,
            "segmentation": {"size": [20, 30], "counts": encode(_SQUARE)["counts"]},
        },
        {"id": 4, "image_id": 1, "category_id": 2, "segmentation": [], "bbox": [1, 2, 3, 4]},
    ],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
}

LABELME = {
    "imagePath": "a.png",
    "imageHeight": 20,
    "imageWidth": 30,
    "shapes": [
        {"label": "cat", "shape_type": "polygon", "points": [[1, 1], [9, 1], [9, 9]]},
        {"label": "dog", "shape_type": "circle", "points": [[5, 5], [9, 5]]},
        {"label": "dog", "shape_type": "linestrip", "points": [[5, 5], [9, 5]]},
        {"label": "cat", "shape_type": "rectangle", "points": [[5, 5], [9, 9]]},
        {"label": "cat", "shape_type": "mask", "points": [[5, 5], [9, 9]], "mask": _PNG},
    ],
}

STUDIO = [
    {
        "data": {"image": "/data/upload/1/0a1b2c3d-a.png"},
        "annotations": [
            {
                "was_cancelled": False,
                "result": [
                    _region("polygonlabels", points=[[1, 1], [50, 1], [50, 50]]),
                    _region("rectanglelabels", x=1, y=1, width=20, height=20, rotation=0),
                    _region("ellipselabels", x=30, y=30, radiusX=5, radiusY=7),
                    _region("keypointlabels", x=30, y=30, width=2),
                    _region("brushlabels", format="rle", rle=encode_brush(_SQUARE)),
                ],
            }
        ],
    }
]

SETTINGS = {
    SegmentSettings: {
        "support": {"name": "x", "classes": ["a"]},
        "query": "y",
        "output": "z",
        "extractor": {"name": "filters", "layers": [1], "size": 64},
        "method": {"name": "repri", "settings": {"lr": 0.1}},
        "look": {"scales": [0.5, 1], "tile": 100},
        "textures": 0.5,
    },
    EvaluationSettings: {
        "data": {"name": "pascal", "folds": [0, 1]},
        "tasks": {"shots": [1, 5], "tasks": 10},
        "refine": "none",
    },
    TrainSettings: {
        "data": {"fold": 1, "size": 64},
        "optimiser": {"lr": 0.1, "epochs": 2},
        "head": {"width": 8},
        "seed": 1,
    },
}

DESCRIPTION = {
    "name": "mine",
    "root": ".",
    "classes": ["cat", "dog"],
    "masks": "colour",
    "colours": {"cat": [255, 0, 0]},
    "splits": {
        "val": {"images": "images", "masks": "masks"},
        "test": "list.txt",
        "all": {"coco": "x.json", "images": "."},
    },
    "folds": [["cat"], ["dog"]],
}

TASKS = {
    "format": "repri-tasks-1",
    "dataset": "x",
    "split": "val",
    "classes": {"1": "cat"},
    "shots": 1,
    "seed": 0,
    "sampling": "queries",
    "runs": [[{"class": 1, "query": "a", "support": ["b"]}]],
}

RESULT = {
    "format": "repri-result-1",
    "miou": 50.0,
    "interval": [45.0, 55.0],
    "per_fold": {"0": {"miou": 50.0, "tasks_hash": "a"}},
    "protocol": "clean",
    "method": "repri",
    "shots": 1,
    "tasks": {"0": {"run": [0, 0], "class": [1, 2], "pixels": [[1, 2, 3, 4], [2, 3, 4, 5]]}},
}

HEAD = {
    "head": {"kind": "discriminant", "parts": [256], "width": 4},
    "base": {
        "name": "filters",
        "weights": None,
        "layers": None,
        "combine": "concat",
        "identity": "x",
        "size": 64,
        "seen": ["cat"],
    },
}

METHOD = {
    "method": "panet",
    "settings": {"width": 4, "align": 1.0, "mid": None},
    "extractor": {"name": "filters", "identity": "x", "widths": [3, 5]},
    "seen": ["cat"],
    "shots": 1,
    "episodes": 10,
    "more": {},
}

CONFIG = {"backbone": "mobilenet_v2", "bn_eps": 1e-5, "dilated": True, "classes": 15, "size": 417, "seen": ["cat"]}

KEYS = [
    "layer0.0.weight",
    "layer3.x.y",
    "layer3.0.conv1.weight",
    "backbone.layer3.z",
    "classifier.weight",
    "conv1.weight",
]

KEYS += [
    "features.18.0.weight",
    "features.0.weight",
    "features.1.running_mean",
    "features.x.conv.y",
    "layer1.0.conv1.weight",
]

KEYS += [
    "_conv_stem.weight",
    "_bn0.running_mean",
    "_blocks.0._bn0.weight",
    "_blocks.x",
    "conv2.weight",
    "module.fc",
    "",
]

RECORD = {
    "name": "x",
    "source": "x.png",
    "proportion": {"cat": 0.1},
    "confidence": 0.5,
    "presence": {"cat": 0.9},
    "made": "m",
}

YAML = [
    b"a: 1\nb: [x, {c: &z 2}]\nd: *z\ne: 2020-01-01\nf: 0x1F\ng: 1:30\n",
    b"&a [*a]",
    b"? {a: b}\n: c",
    b"!!binary x",
]
