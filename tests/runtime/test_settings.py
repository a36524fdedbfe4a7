"""Settings classes: from a mapping to a typed dataclass, with every mistake named."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.settings import as_mapping, field_docs, parse, read_yaml


@dataclass(frozen=True)
class Data:
    name: str = "pascal"
    """Data set."""
    root: Path | None = None
    """Folder of
    the data set."""
    size: int | None = field(default=None, metadata={"none": "own"})
    layers: tuple[str | int, ...] | None = None
    crop: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Optimiser:
    kind: Literal["sgd", "adamw"] = "sgd"
    lr: float = 0.1
    size: int = 3

    def __post_init__(self) -> None:
        if self.lr < 0:
            raise RepriError(f"lr must not be negative, got {self.lr}")


@dataclass(frozen=True)
class Settings:
    output: str
    data: Data = field(default_factory=Data)
    optimiser: Optimiser = field(default_factory=Optimiser)
    options: dict[str, float] = field(default_factory=dict)
    quick: bool = False


def test_values_are_nested_and_typed():
    values = {
        "output": "runs/x",
        "data": {"root": "~/x", "layers": ["layer3", -1], "crop": [1, 2]},
        "optimiser": {"lr": 1, "kind": "adamw"},
        "options": {"a": 1},
        "quick": True,
    }
    settings = parse(Settings, values, "here")
    assert settings == Settings(
        "runs/x",
        Data("pascal", Path("~/x"), None, ("layer3", -1), (1.0, 2.0)),
        Optimiser("adamw", 1.0),
        {"a": 1.0},
        True,
    )
    plain = as_mapping(settings)
    assert plain["data"] == {
        "name": "pascal",
        "root": "~/x",
        "size": None,
        "layers": ["layer3", -1],
        "crop": [1.0, 2.0],
    }
    assert parse(Settings, plain, "here") == settings


def test_a_name_stands_for_its_section():
    assert parse(Settings, {"output": "x", "data": "coco", "optimiser": None}, "x").data == Data("coco")
    assert parse(Settings, {"output": "x", "data": Data("coco")}, "x").data == Data("coco")


@pytest.mark.parametrize(
    ("value", "layers"), [("layer3,-1", ("layer3", -1)), (-1, (-1,)), ("layer3", ("layer3",)), (None, None)]
)
def test_lists_may_be_spelled_as_on_the_command_line(value, layers):
    assert parse(Settings, {"output": "x", "data": {"layers": value}}, "x").data.layers == layers


def test_a_word_for_none():
    assert parse(Settings, {"output": "x", "data": {"size": "own"}}, "x").data.size is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"lr": 1}, "x.yaml: 'lr' is now 'optimiser.lr'."),
        ({"rate": 1}, "x.yaml: 'rate' is now 'optimiser.lr'."),
        ({"size": 1}, "x.yaml: unknown setting 'size', did you mean 'data.size' or 'optimiser.size'?"),
        ({"outpt": 1}, "x.yaml: unknown setting 'outpt', did you mean 'output'?"),
        ({"roots": 1}, "x.yaml: unknown setting 'roots', did you mean 'data.root'?"),
        ({"data": {"rot": 1}}, "x.yaml: unknown setting 'data.rot', did you mean 'data.root'?"),
        ({"data": {"lr": 1}}, "x.yaml: unknown setting 'data.lr', did you mean 'optimiser.lr'?"),
        ({"zzz": 1}, "x.yaml: unknown setting 'zzz'. Known: output, data, optimiser, options, quick."),
        ({}, "x.yaml: the setting 'output' is missing"),
        ({"output": "x", "optimiser": 3}, "x.yaml: 'optimiser' is a section with the settings kind, lr, size, got 3"),
        ({"output": "x", "optimiser": {"kind": "adam"}}, "x.yaml: 'optimiser.kind' must be sgd or adamw, got 'adam'"),
        ({"output": "x", "optimiser": {"lr": "fast"}}, "x.yaml: 'optimiser.lr' must be a number, got 'fast'"),
        ({"output": "x", "optimiser": {"lr": -1}}, "x.yaml: optimiser: lr must not be negative, got -1.0"),
        ({"output": "x", "data": {"size": 1.5}}, "x.yaml: 'data.size' must be a whole number or null, got 1.5"),
        ({"output": "x", "data": {"crop": "1"}}, "x.yaml: 'data.crop' must be 2 values (numbers), got '1'"),
        ({"output": "x", "quick": "maybe"}, "x.yaml: 'quick' must be true or false, got 'maybe'"),
        (
            {"output": "x", "data": {"layers": ["a", [1]]}},
            "x.yaml: 'data.layers' must be a list (names or whole numbers) or null, got ['a', [1]] (1 does not fit)",
        ),
        (
            {"output": "x", "options": {"a": "b"}},
            "x.yaml: 'options' must be a mapping, got {'a': 'b'} (a does not fit)",
        ),
        ([1], "x.yaml: expected a mapping of settings, got [1]"),
    ],
)
def test_mistakes_are_named(values, sentence):
    with pytest.raises(RepriError) as caught:
        parse(Settings, values, "x.yaml", renamed={"rate": "optimiser.lr"})
    assert str(caught.value) == sentence


def test_docstrings_of_fields():
    assert field_docs(Data) == {"name": "Data set.", "root": "Folder of the data set."}


def test_yaml_files(tmp_path):
    path = tmp_path / "x.yaml"
    with pytest.raises(RepriError, match=r"cannot read .*x\.yaml: No such file"):
        read_yaml(path)
    for text, sentence in (("[1", r"x\.yaml is not YAML"), ("- 1", r"x\.yaml must hold a mapping of settings")):
        path.write_text(text)
        with pytest.raises(RepriError, match=sentence):
            read_yaml(path)
    path.write_text("a: {b: 1}")
    assert read_yaml(path) == {"a": {"b": 1}}
