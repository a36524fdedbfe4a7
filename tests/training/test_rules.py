"""Settings that contradict each other are refused, whatever the data."""

import pytest

from repri.runtime.errors import RepriError

from .make import SMALL, settings_from

PSPNET = {"network.name": "pspnet-resnet50", "network.freeze": "none"}
COMPACT = {"network.name": "compact-mobilenet_v2", "network.freeze": "none", "head.width": 256}
PUPIL = COMPACT | {"teacher.name": "filters", "loss.label_weight": 0.0}
BLOCKS = {"network.name": "hub:x", "network.freeze": "stage1"}
DISCRIMINANT = {"head.name": "discriminant"}
MISTAKES = [
    ({"optimiser.lr": -1.0}, "optimiser.lr must be a number ≥ 0, got -1.0"),
    ({"optimiser.lr": float("inf")}, "'optimiser.lr' must be a number, got inf"),
    ({"optimiser.batch": 0}, "optimiser.batch must be at least 1, got 0"),
    ({"data.min_pixels": 0}, "data.min_pixels must be at least 1"),
    ({"validation.images": 0}, "validation.images must be at least 1"),
    ({"loss.thin": 0}, "loss.thin must be at least 1"),
    ({"loss.smoothing": 1.0}, r"loss.smoothing must lie in \[0, 1\), got 1.0"),
    ({"protocol": "cleen"}, "no protocol named 'cleen', did you mean 'clean'"),
    ({"optimiser.name": "adam"}, "'optimiser.name' must be sgd or adamw, got 'adam'"),
    ({"head.name": "discriminants"}, "'head.name' must be psp or conv or discriminant"),
    ({"optimiser.nesterov": True, "optimiser.momentum": 0.0}, "nesterov needs the optimiser sgd and a momentum"),
    ({"optimiser.nesterov": True, "optimiser.name": "adamw"}, "nesterov needs the optimiser sgd and a momentum"),
    ({"protocol": "official", "data.fold": None}, "data.fold: official chooses the best epoch by the classes"),
    ({"network.freeze": "none"}, "set network.freeze: backbone to train a head"),
    ({"network.recompute": True}, "recompute is for a pspnet"),
    ({"loss.thin": 2}, "loss.thin is for the blocks of a transformer or for a discriminant"),
    (BLOCKS | {"network.layers": (-1,)}, "network.freeze: stage1 trains the blocks after it, and takes no"),
    (BLOCKS | {"loss.thin": 2, "loss.stride": 2}, "leave loss.stride out"),
    (BLOCKS | {"network.recompute": True}, "recompute is for a pspnet"),
    (DISCRIMINANT | {"optimiser.epochs": 3}, "computed in one pass, set optimiser.epochs: 1, got 3"),
    (DISCRIMINANT | {"head.upsample": 2}, "and no head.upsample"),
    (DISCRIMINANT | {"network.freeze": "none"}, "a discriminant sits on a frozen extractor"),
    (DISCRIMINANT | COMPACT, "a discriminant sits on a frozen extractor"),
    (PSPNET | {"network.freeze": "layer7"}, "pspnet-resnet50 has no layer 'layer7'; known: none, backbone, layer1"),
    (PSPNET | {"network.freeze": "layer2"}, "keeps an untrained backbone as it is: give network.weights"),
    (PSPNET | {"loss.thin": 2}, "pspnet-resnet50 takes no network.layers, head.upsample or loss.thin"),
    (COMPACT | {"network.freeze": "layer4"}, "has no layer 'layer4'; known: none, layer1, layer2, layer3"),
    (COMPACT | {"network.freeze": "layer2"}, "keeps an untrained backbone as it is: give network.weights"),
    (COMPACT | {"head.upsample": 2}, "takes no network.layers, head.upsample or loss.thin"),
    (COMPACT | {"network.recompute": True}, "recompute is for a pspnet-… network, not for compact-mobilenet_v2"),
    (PUPIL | {"teacher.name": None}, "loss.label_weight: 0 leaves nothing to learn from"),
    (PUPIL | {"teacher.weight": 0.0}, "loss.label_weight: 0 leaves nothing to learn from"),
    (PUPIL | {"loss.mixup": 0.4}, "A teacher needs a compact-… or pspnet-… network, without mixup"),
    (PUPIL | {"network.name": "filters"}, "A teacher needs a compact-… or pspnet-… network"),
    (PUPIL | {"protocol": "official"}, "nothing by which official chooses the best epoch: take clean"),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_contradictions_are_refused(changes, sentence):
    with pytest.raises(RepriError, match=sentence):
        settings_from(SMALL | changes)


@pytest.mark.parametrize("changes", [{}, PSPNET, COMPACT, PUPIL, BLOCKS | {"loss.thin": 2}, DISCRIMINANT])
def test_what_fits_together_is_accepted(changes):
    settings_from(SMALL | changes)
