"""Real weights through the public functions, on real images."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from repri.features.extractor import IMAGENET
from repri.models import load_extractor
from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint
from repri.runtime.errors import RepriError

CLASSES = {
    1: [404, 895],  # aeroplane: airliner, warplane
    3: [*range(7, 25), *range(80, 101), *range(127, 147)],  # bird
    6: [654, 779, 874],  # bus: minibus, school bus, trolleybus
    8: [*range(281, 286)],  # cat
    12: [*range(151, 269)],  # dog
    19: [466, 547, 705, 820],  # train: bullet, electric, passenger car, steam
}
"""VOC class → ImageNet classes of that kind."""


@pytest.fixture(scope="module")
def resnet50(test_data, request):
    folder = request.config.cache.mkdir("weights")
    path = folder / "resnet50.pth"
    if not path.is_file():
        tool = test_data / "tools" / "get_weights.py"
        command = [sys.executable, tool, "resnet50", "--out", folder]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=90)
        except subprocess.SubprocessError as error:
            pytest.skip(f"ResNet-50 could not be fetched: {error}")
    return path


@pytest.fixture(scope="module")
def labelled(test_data):
    """Six validation images of each class that show no other class: class → (image, mask)."""
    root = test_data / "data" / "voc5i"
    pairs = {c: [] for c in CLASSES}
    for line in (root / "lists" / "pascal" / "val.txt").read_text().splitlines():
        image, mask = line.split()
        classes = set(np.unique(np.asarray(Image.open(root / mask)))) - {0, 255}
        if len(classes) == 1 and (c := int(classes.pop())) in pairs and len(pairs[c]) < 6:
            pairs[c].append((root / image, root / mask))
        if all(len(chosen) == 6 for chosen in pairs.values()):
            break
    return pairs


def read(path, size=None):
    image = Image.open(path).convert("RGB")
    image = image if size is None else image.resize(size, Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None] / 255


def normalised(images, rule):
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (rule.mean, rule.std))
    return (images - mean) / std


def test_resnet50_classifies_voc_images(labelled, resnet50):
    """The backbone, converted from its file, with the ImageNet classifier of the file on top."""
    checkpoint = read_checkpoint(resnet50)
    network = load_checkpoint(checkpoint, stride_in="1x1", bn_eps=1.001e-5, dilated=False).eval()
    weight, bias = (checkpoint.state[f"backbone.fc.{key}"] for key in ("weight", "bias"))
    hits = 0
    with torch.inference_mode():
        for label, pairs in labelled.items():
            images = torch.cat([read(path, (224, 224)) for path, _ in pairs])
            features = network(normalised(images, IMAGENET))["layer4"].mean((2, 3))
            for best in F.linear(features, weight, bias).topk(5).indices.tolist():
                hits += bool(set(best) & set(CLASSES[label]))
    assert hits / 36 > 0.8, f"{hits} of 36"


def test_resnet50_features_separate_objects(labelled, resnet50):
    """Cells of one class are more alike than those of two classes, in dilated layers."""
    options = {"stride_in": "1x1", "bn_eps": 1.001e-5}
    extractor = load_extractor("pspnet-resnet50", resnet50, layers=("layer3", "layer4"), **options)
    vectors = {}
    for c in (6, 8):
        for i, (path, mask) in enumerate(labelled[c][:2]):
            features = extractor.extract(read(path, (257, 193)))[0]
            inside = torch.tensor(np.asarray(Image.open(mask)) == c)[None, None].float()
            cells = F.interpolate(inside, features.shape[-2:])[0, 0]
            vectors[c, i] = F.normalize(features[:, cells > 0].mean(1), dim=0)
    same = min(vectors[c, 0] @ vectors[c, 1] for c in (6, 8))
    other = max(vectors[6, i] @ vectors[8, j] for i in range(2) for j in range(2))
    assert same > other


def test_dinov2_agrees_with_transformers(test_data, labelled):
    transformers = pytest.importorskip("transformers")
    folder = test_data / "weights" / "dinov2-small"
    model = transformers.Dinov2Model.from_pretrained(folder, dtype=torch.float32).eval()
    image = read(labelled[1][0][0], (210, 154))
    extractor = load_extractor(f"hub:{folder}", layers=("stage10", -1))
    features = extractor.extract(image)
    assert features.shape == (1, 768, 11, 15)
    assert (extractor.stride, extractor.channels) == (14, 768)
    with torch.inference_mode():
        out = model(normalised(image, extractor.rule), output_hidden_states=True)
        last = out.last_hidden_state[:, 1:].mT.unflatten(2, (11, 15))
        tenth = model.layernorm(out.hidden_states[10])[:, 1:].mT.unflatten(2, (11, 15))
    torch.testing.assert_close(features, torch.cat([tenth, last], 1), atol=1e-3, rtol=1e-3)
    with pytest.raises(RepriError, match="multiples of 14, got 417×417: resize or pad to 420×420"):
        extractor.extract(torch.rand(1, 3, 417, 417))


def test_layers_are_averaged_and_a_head_applied(test_data):
    pytest.importorskip("transformers")
    folder = test_data / "weights" / "dinov2-small"
    image = torch.rand(1, 3, 56, 70)
    both = load_extractor(str(folder), layers=(-2, -1)).extract(image)
    mean = load_extractor(str(folder), layers=(-2, -1), combine="mean").extract(image)
    torch.testing.assert_close(mean, (both[:, :384] + both[:, 384:]) / 2)
    head = torch.nn.Conv2d(384, 16, 1)
    extractor = load_extractor(str(folder), head=head)
    assert extractor.channels == 16
    torch.testing.assert_close(extractor.extract(image), head(both[:, 384:]).detach())
    assert extractor.fingerprint != extractor.under.fingerprint
