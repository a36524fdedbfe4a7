"""Real weights through the public path, on real images."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from repri.models import load_extractor
from repri.models.load import load_checkpoint
from repri.models.weights.checkpoints import read_checkpoint

# ImageNet classes that are the VOC class.
IMAGENET = {
    1: [404, 895],  # aeroplane: airliner, warplane
    3: [*range(7, 25), *range(80, 101), *range(127, 147)],  # bird
    6: [654, 779, 874],  # bus: minibus, school bus, trolleybus
    8: [*range(281, 286)],  # cat
    12: [*range(151, 269)],  # dog
    19: [466, 547, 705, 820],  # train: bullet, electric, passenger car, steam
}


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


def read(path, size=None):
    image = Image.open(path).convert("RGB")
    image = image if size is None else image.resize(size, Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None] / 255


def single_class_images(test_data, most=6):
    """Validation images that hold one class only, with it."""
    root = test_data / "data" / "voc5i"
    found = {c: [] for c in IMAGENET}
    for line in (root / "lists" / "pascal" / "val.txt").read_text().splitlines():
        image, mask = line.split()
        classes = set(np.unique(np.asarray(Image.open(root / mask)))) - {0, 255}
        if len(classes) == 1 and (c := int(classes.pop())) in found and len(found[c]) < most:
            found[c].append(root / image)
        if all(len(paths) == most for paths in found.values()):
            break
    return [(c, path) for c, paths in found.items() for path in paths]


def test_resnet50_classifies_voc_images(test_data, resnet50):
    options = {"stride_in": "1x1", "bn_eps": 1.001e-5, "dilated": False, "classes": 1000}
    network = load_checkpoint(read_checkpoint(resnet50), **options).eval()
    mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    images = single_class_images(test_data)
    hits = 0
    with torch.inference_mode():
        for label, path in images:
            best = network.classify((read(path, (224, 224)) - mean) / std)[0].topk(5).indices.tolist()
            hits += bool(set(best) & set(IMAGENET[label]))
    assert len(images) == 36
    assert hits / len(images) > 0.8, f"{hits} of {len(images)}"


def test_resnet50_features_separate_objects(test_data, resnet50):
    """Dilated trunk features through load_extractor: cells of one class are more alike than of two."""
    options = {"stride_in": "1x1", "bn_eps": 1.001e-5}
    extractor = load_extractor("pspnet-resnet50", resnet50, layers=("layer3", "layer4"), **options)
    images = {c: [p for k, p in single_class_images(test_data, 2) if k == c] for c in (6, 8)}
    vectors = {}
    for c, paths in images.items():
        for i, path in enumerate(paths):
            mask = np.asarray(
                Image.open(str(path).replace("JPEGImages", "SegmentationClassAug").replace(".jpg", ".png"))
            )
            features = extractor.extract(read(path))[0]
            cells = torch.nn.functional.interpolate(torch.tensor(mask == c)[None, None].float(), features.shape[-2:])[
                0, 0
            ]
            vectors[c, i] = torch.nn.functional.normalize(features[:, cells > 0].mean(1), dim=0)
    same = min(vectors[c, 0] @ vectors[c, 1] for c in images)
    other = max(vectors[6, i] @ vectors[8, j] for i in range(2) for j in range(2))
    assert same > other


def test_dinov2_agrees_with_transformers(test_data):
    transformers = pytest.importorskip("transformers")
    folder = test_data / "weights" / "dinov2-small"
    model = transformers.Dinov2Model.from_pretrained(folder, dtype=torch.float32).eval()
    path = single_class_images(test_data, 1)[0][1]
    image = read(path, (420, 308))
    extractor = load_extractor(f"hub:{folder}", layers=("stage10", -1))
    features = extractor.extract(image)
    assert features.shape == (1, 768, 22, 30)
    assert (extractor.stride, extractor.channels) == (14, 768)
    mean, std = torch.tensor(extractor.rule.mean).view(3, 1, 1), torch.tensor(extractor.rule.std).view(3, 1, 1)
    with torch.inference_mode():
        out = model((image - mean) / std, output_hidden_states=True)
        last = out.last_hidden_state[:, 1:].mT.unflatten(2, (22, 30))
        tenth = model.layernorm(out.hidden_states[10])[:, 1:].mT.unflatten(2, (22, 30))
    torch.testing.assert_close(features, torch.cat([tenth, last], 1), atol=1e-3, rtol=1e-3)
    with pytest.raises(ValueError, match="multiples of 14, got 417×417: resize or pad to 420×420"):
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
    assert extractor.fingerprint != load_extractor(str(folder)).fingerprint


def test_missing_libraries_and_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no folder with a config\.json"):
        load_extractor(f"hub:{tmp_path}/nothing")
    try:
        import timm  # noqa: F401
    except Exception:
        with pytest.raises(ImportError, match="timm:resnet50d needs timm"):
            load_extractor("timm:resnet50d")
