"""Features of several networks together."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.extractors.joint import JointExtractor
from repri.models.extractors.stitched import StitchedExtractor
from tests.models.grids import patches, places


@pytest.mark.parametrize("first", [patches(4, True), patches(6, False), StitchedExtractor(patches(6, False), 3)])
@pytest.mark.parametrize("second", [patches(4, True), patches(6, False), patches(8, True)])
def test_cells_of_all_parts_lie_at_the_same_pixels(first, second):
    """Features that are the place of a pixel are the same from both parts, up to the border of the coarser one."""
    joint = JointExtractor([first, second])
    out = joint.extract(places(48, 72))[0]
    a, b = out[:2], out[3:5]
    assert out.shape[1:] == first.extract(places(48, 72)).shape[2:]
    edge = -(-12 // first.stride)
    inner = (slice(None), slice(edge, -edge), slice(edge, -edge))
    assert torch.allclose(a[inner], b[inner], atol=0.51)  # shifts are by whole pixels
    assert (joint.rule.size, joint.rule.multiple) == (32, 6 if 6 in (first.rule.multiple, second.rule.multiple) else 1)
    assert joint.widths == (3, 3)


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "joint.yaml"
    path.write_text("parts:\n- {name: distilled}\n- {name: filters, shifts: 2}\n")
    return path


def test_a_description(described):
    joint, one = load_extractor(str(described)), load_extractor("distilled")
    image = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    found = joint.extract(image)
    assert found.shape == (1, 384 + 256, 4, 6)
    assert torch.equal(found[:, :384], one.extract(image))
    assert joint.fingerprint != one.fingerprint
    assert load_extractor(str(described), shifts=2).extract(image).shape == (1, 640, 8, 12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: []", "at least one part"),
        ("parts: distilled", "expected one key, parts, with a list"),
        ("parts: [{name: filters}]\nsize: 3", "expected one key, parts"),
        ("parts: [{name: filters, layer: [1]}]", r"part 1: unknown setting 'layer', did you mean 'layers'"),
        ("parts: [{weights: x}]", r"part 1: the setting 'name' is missing"),
        ("parts: [{name: nosuch}]", "unknown extractor 'nosuch'"),
    ],
)
def test_mistakes_in_a_description(tmp_path, text, message):
    path = tmp_path / "joint.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_extractor(str(path))


def test_nothing_is_said_twice(described):
    with pytest.raises(ValueError, match="takes no 'layers'"):
        load_extractor(str(described), layers=(-1,))


@pytest.mark.filterwarnings("ignore:.*is untrained")
@pytest.mark.parametrize("stride_in", ["1x1", "3x3"])
@pytest.mark.parametrize(("layer", "times"), [("layer4", 2), ("layer4", 4), ("layer3", 2)])
def test_every_so_many_cells_of_a_residual_network_without_those_between(layer, times, stride_in):
    torch.manual_seed(0)
    every = load_extractor("resnet50", layers=[layer], stride_in=stride_in)
    picture = torch.rand(1, 3, 75, 97)
    wanted, coarse = every.extract(picture)[..., ::times, ::times], every.coarse(times)
    assert (coarse.stride, coarse.strided, coarse.fingerprint == every.fingerprint) == (8 * times, True, False)
    torch.testing.assert_close(coarse.extract(picture), wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    assert every.coarse(3) is every
    assert every.coarse(1) is every


@pytest.mark.filterwarnings("ignore:.*is untrained")
def test_a_coarse_joint_extractor_has_its_parts_at_the_cells_that_are_left():
    first, second = load_extractor("resnet50", layers=["layer4"]), patches(6, False)
    picture = places(96, 96) / 96
    fine, coarse = JointExtractor([first, StitchedExtractor(second, 2)]), JointExtractor([first, second])
    thinned = fine.coarse(2)
    torch.testing.assert_close(thinned.extract(picture)[:, 2048:], coarse.extract(picture)[:, 2048:, ::2, ::2])
    assert (thinned.stride, thinned.widths, thinned.rule) == (16, fine.widths, fine.rule)
    assert fine.coarse(3) is fine
    assert JointExtractor([second, first]).coarse(2).parts[0] is second
