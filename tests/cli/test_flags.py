"""Flags that are generated from a settings class."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from repri.cli.flags import flags_of, resolve, settings_command
from repri.evaluation.settings import EvaluationSettings
from repri.runtime.errors import RepriError
from repri.segmenter.settings import SegmentSettings


@dataclass(frozen=True)
class Data:
    name: str = "pascal"
    """Data set."""
    root: Path | None = None
    """Folder of the data set."""
    size: int | None = field(default=None, metadata={"flag": "size"})
    """Side in pixels."""
    fold: int | None = field(default=0, metadata={"none": "all"})
    """Fold whose classes are held out."""


@dataclass(frozen=True)
class Teacher:
    name: str | None = None
    """Extractor to learn from."""
    size: int = 224
    """Side of its images."""
    layers: tuple[str | int, ...] = ()
    """Layers of the teacher."""
    resume: bool = True
    """Whether the teacher goes on."""


@dataclass(frozen=True)
class Settings:
    output: str = "runs/x"
    """Folder of the run."""
    shots: tuple[int, ...] = (1,)
    """Support images for each class."""
    kind: Literal["sgd", "adamw"] = "sgd"
    """Optimiser."""
    lr: float = 0.1
    """Learning rate."""
    mixed_precision: bool = True
    """Use half precision."""
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the method."""
    data: Data = field(default_factory=Data)
    """What to train on."""
    teacher: Teacher = field(default_factory=Teacher)
    """Whom to learn from."""


def run(*arguments):
    """What the command of these settings is called with."""
    app, calls = typer.Typer(rich_markup_mode=None), []

    @app.command()
    @settings_command(Settings)
    def train(
        config: Path | None,
        given: dict[str, Any],
        images: Annotated[list[str] | None, typer.Argument(help="Images.")] = None,
        resume: Annotated[bool, typer.Option(help="Go on.")] = False,
    ) -> None:
        """Train a network."""
        calls.append((config, given, images, resume))

    done = CliRunner().invoke(app, [*arguments], catch_exceptions=True, terminal_width=200)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return calls[0] if calls else done.output


def test_every_setting_has_one_flag():
    names = {".".join(flag.path): flag.name for flag in flags_of(Settings, ["resume"])}
    assert names == {
        "output": "output",
        "shots": "shots",
        "kind": "kind",
        "lr": "lr",
        "mixed_precision": "mixed-precision",
        "data.name": "data",
        "data.root": "root",
        "data.size": "size",
        "data.fold": "fold",
        "teacher.name": "teacher",
        "teacher.size": "teacher-size",
        "teacher.layers": "layers",
        "teacher.resume": "teacher-resume",
    }


def test_what_is_given_is_handed_over():
    assert run() == (None, {}, None, False)
    options = "--data coco --root /x --size 64 --teacher-size 32 --layers layer3,-1 --lr 1e-3 --shots 1,5 --kind adamw"
    config, given, images, resume = run(
        "a.png", *options.split(), "--no-mixed-precision", "--resume", "--config=c.yaml"
    )
    assert (config, images, resume) == (Path("c.yaml"), ["a.png"], True)
    assert given == {
        "lr": 1e-3,
        "shots": (1, 5),
        "kind": "adamw",
        "mixed_precision": False,
        "data": {"name": "coco", "root": Path("/x"), "size": 64},
        "teacher": {"size": 32, "layers": ("layer3", -1)},
    }
    assert run("--layers", "-2,-1")[1] == {"teacher": {"layers": (-2, -1)}}


@pytest.mark.parametrize("word", ["none", "null", "all"])
def test_words_for_none(word):
    assert run("--fold", word)[1] == {"data": {"fold": None}}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--lr", "fast"], "--lr must be a number, got 'fast'"),
        (["--size", "1.5"], "--size must be a whole number or none, got '1.5'"),
        (["--kind", "adam"], "--kind must be sgd or adamw, got 'adam'"),
        (["--shots", "1,many"], "--shots must be a list (whole numbers), got '1,many'"),
    ],
)
def test_mistakes_name_the_flag(arguments, sentence):
    with pytest.raises(RepriError) as caught:
        run(*arguments)
    assert str(caught.value) == sentence


def test_help_is_the_docstring_and_the_default():
    text = " ".join(run("--help").split())
    for words in (
        "Train a network.",
        "--root PATH Folder of the data set.",
        "Side of its images. [default: 224]",
        "--kind [sgd|adamw] Optimiser. [default: sgd]",
        "--config",
        "Go on.",
    ):
        assert words in text


def test_flags_override_the_file(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("data: coco\nlr: 3\nteacher: {size: 5, name: hub}\n")
    settings = resolve(Settings, path, {"data": {"root": "/x"}, "teacher": {"size": 6}, "lr": 0.5}, "repri train")
    assert settings.data == Data("coco", Path("/x"))
    assert settings.teacher == Teacher("hub", 6)
    assert settings.lr == 0.5
    assert resolve(Settings, None, {}, "repri train") == Settings()


def test_mistakes_name_the_file_and_the_flags(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("root: 1\n")
    with pytest.raises(RepriError, match=r"x\.yaml with --lr 0\.5 --fold none: 'root' is now 'data\.root'\."):
        resolve(Settings, path, {"data": {"fold": None}, "lr": 0.5}, "repri train")
    path.write_text("teacher: [1]\n")
    with pytest.raises(RepriError, match=r"x\.yaml with --teacher-size 5: 'teacher\.name' must be text or null"):
        resolve(Settings, path, {"teacher": {"size": 5}}, "repri train")
    with pytest.raises(RepriError, match="repri train: unknown setting 'rot'"):
        resolve(Settings, None, {"rot": 1}, "repri train")


def test_two_settings_with_one_flag_are_a_bug():
    with pytest.raises(AssertionError, match="have the flag --output"):
        flags_of(Settings, ["output"])


def test_flags_need_neither_torch_nor_pydantic():
    code = "import sys, repri.cli.flags, repri.runtime.settings; print({'torch', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize("kind", [EvaluationSettings, SegmentSettings])
@pytest.mark.parametrize(("text", "expected"), [("none", "none"), ("default", "default")])
def test_no_refinement_is_not_the_default_refinement(kind, text, expected):
    flag = next(flag for flag in flags_of(kind) if flag.path == ("refine",))
    assert flag.value(text) == expected
