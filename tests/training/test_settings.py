"""The settings of a run: names, docstrings, flags, and files from before there were sections."""

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from repri.cli.flags import flags_of
from repri.data.datasets.index import MIN_PIXELS
from repri.runtime.errors import RepriError
from repri.runtime.settings import as_mapping, field_docs, field_types, parse, read_yaml
from repri.training.settings import RENAMED, DataSettings, NetworkSettings, TrainSettings

CONFIGS = Path(__file__).parents[2] / "configs"
SECTIONS = [TrainSettings, *(kind for kind in field_types(TrainSettings).values() if is_dataclass(kind))]


@pytest.mark.parametrize("kind", SECTIONS, ids=lambda kind: kind.__name__)
def test_every_setting_has_a_docstring(kind):
    docs = field_docs(kind)
    assert list(docs) == [field.name for field in fields(kind)]
    assert all((text.endswith(".") and text[0].isupper()) or text[0] == "α" for text in docs.values())


def test_every_setting_has_a_flag():
    flags = {
        ".".join(flag.path): flag.name for flag in flags_of(TrainSettings, ["config", "resume", "dry-run", "plot"])
    }
    for section, kind in (("", TrainSettings), *field_types(TrainSettings).items()):
        for name, wanted in field_types(kind).items() if is_dataclass(kind) else ():
            if not is_dataclass(wanted) and name != "settings":  # which --set fills
                assert (f"{section}.{name}" if section else name) in flags
    assert {flags[name] for name in RENAMED.values()} == {
        "size",
        "images",
        "layers",
        "teacher-layers",
        "teacher-size",
        "teacher-weight",
        "loss-stride",
        "validate-every",
        "validation-images",
    }
    assert [flags[f"{name}.name"] for name in ("data", "network", "head", "teacher", "optimiser")] == [
        "data",
        "network",
        "head",
        "teacher",
        "optimiser",
    ]


def test_a_pixel_count_is_the_same_everywhere():
    assert DataSettings().min_pixels == MIN_PIXELS


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"epochs": 3}, "'epochs' is now 'optimiser.epochs'."),
        ({"root": "x"}, "'root' is now 'data.root'."),
        ({"size": 3}, "'size' is now 'data.size'."),
        ({"teacher_size": 3}, "'teacher_size' is now 'teacher.size'."),
        ({"loss_stride": 3}, "'loss_stride' is now 'loss.stride'."),
        ({"validation_images": 3}, "'validation_images' is now 'validation.images'."),
        ({"epoch": 3}, "unknown setting 'epoch', did you mean 'optimiser.epochs'?"),
    ],
)
def test_former_names_are_told_their_place(values, sentence):
    with pytest.raises(RepriError) as caught:
        parse(TrainSettings, values, "train.yaml", RENAMED)
    assert str(caught.value) == f"train.yaml: {sentence}"


def test_what_a_network_is():
    assert [NetworkSettings(name).family for name in ("pspnet-vgg16", "compact-x", "hub:x")] == [
        "pspnet",
        "compact",
        "frozen",
    ]
    assert NetworkSettings("pspnet-vgg16").backbone == "vgg16"
    assert NetworkSettings("hub:x", freeze="stage9").stage == "stage9"
    assert NetworkSettings("hub:x", freeze="backbone").stage is None
    assert NetworkSettings("pspnet-vgg16", freeze="layer3").stage is None


def test_the_recipes_can_be_read():
    files = sorted(CONFIGS.glob("*.yaml"))
    assert {"tiny", "pascal-resnet50", "pascal-resnet101", "coco-resnet50", "pascal-vgg16"} <= {f.stem for f in files}
    for file in files:
        settings = parse(TrainSettings, read_yaml(file), str(file))
        assert settings.optimiser.batch in (8, 12, 16)
        assert parse(TrainSettings, as_mapping(settings), "again") == settings


def test_the_episodic_recipes_can_be_read():
    files = sorted(CONFIGS.glob("episodic/*.yaml"))
    assert [file.stem for file in files] == ["panet", "pfenet", "ppnet", "rpmm"]
    for file in files:
        settings = parse(TrainSettings, read_yaml(file), str(file))
        assert settings.method.name == file.stem
        assert (settings.episodes.novel, settings.selection, settings.episodes.train_shots) == ("ignore", "base", 1)
        assert f"--layers {','.join(map(str, settings.network.layers))} " in file.read_text()  # of the command above
        assert f"--size {settings.data.size} " in file.read_text()
