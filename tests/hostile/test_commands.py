"""Commands on odd input: one sentence and exit code 1, and nothing is left behind."""

import errno
import json
import os
import shutil
import warnings
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from repri.cli import main
from repri.models.load import EXTRACTORS
from repri.runtime import files
from tests.make import build_quick

from .documents import COCO, RESULT

LAUGHS = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))])


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    """An extractor that needs no time, and a cache of its own."""
    monkeypatch.setattr(EXTRACTORS, "_objects", {**EXTRACTORS._objects, "quick": build_quick})
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def place(tmp_path):
    """A support and three queries."""
    for folder in ("support/images", "support/masks", "query"):
        (tmp_path / folder).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number, name in enumerate(("support/images/s", "query/a", "query/b", "query/c")):
        image = rng.integers(0, 60, (40, 60, 3)).astype(np.uint8)
        image[10 : 20 + number, 10:30] = 200
        Image.fromarray(image).save(tmp_path / f"{name}.png")
        if number == 0:
            Image.fromarray((image[..., 0] == 200).astype(np.uint8) * 255).save(tmp_path / "support/masks/s.png")
    return tmp_path


@pytest.fixture
def repri(monkeypatch, capsys):
    """Runs a command as the shell does; returns its exit code and what it printed on stderr."""

    def run(*arguments):
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr("sys.argv", ["repri", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, capsys.readouterr().err

    return run


def segment(place, *more):
    options = ("--support", place / "support", "--query", place / "query", "--output", place / "out")
    return ("segment", *options, "--extractor", "quick", "--no-auto", *more)


def deep(folder):
    (folder / "x.json").write_text("[" * 50_000)
    return ("compare", folder / "x.json"), "nests more than 64 levels"


def foreign(content):
    def make(folder):
        (folder / "x.json").write_text(json.dumps(content))
        return ("compare", folder / "x.json"), "x.json"

    return make


def settings(text, sentence):
    def make(folder):
        (folder / "x.yaml").write_text(text)
        return ("segment", "--config", folder / "x.yaml"), sentence

    return make


def flags(sentence, *more):
    def make(folder):
        return segment(folder, *more), sentence

    return make


def joined(folder):
    (folder / "x.yaml").write_text(f"parts: [{{name: {folder / 'x.yaml'}}}]")
    return segment(folder, "--extractor", folder / "x.yaml"), "names itself as the extractor that it is made of"


def pipe(folder):
    os.mkfifo(folder / "pipe.png")
    (folder / "list.txt").write_text("pipe.png\n")
    return segment(folder, "--query", folder / "list.txt"), "pipe.png is not a regular file"


def device(folder):
    return ("segment", "--config", "/dev/zero"), "/dev/zero is not a regular file"


def loop(folder):
    (folder / "out").symlink_to(folder / "out")
    return segment(folder), "Cannot write"


def deflated(folder):
    torch.save({"a.weight": torch.zeros(17_000_000)}, folder / "x.pth")
    with zipfile.ZipFile(folder / "x.pth") as source, zipfile.ZipFile(folder / "y.pth", "w") as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member), zipfile.ZIP_DEFLATED, compresslevel=1)
    return ("weights", "check", folder / "y.pth"), "unpacks to 68 MB, more than 8 times as much"


def repeated(folder):
    torch.save({"a.weight": torch.zeros(1).expand(40_000_000)}, folder / "x.pth")
    return ("weights", "check", folder / "x.pth"), "unpacks to 160 MB, more than 8 times as much"


def class_list(write, sentence):
    def make(folder):
        write(folder / "support/classes.txt")
        return segment(folder), sentence

    return make


def large_support(folder):
    Image.new("1", (9000, 7000)).save(folder / "support/images/s.png")
    mask = Image.new("1", (9000, 7000))
    mask.paste(1, (0, 0, 50, 50))
    mask.save(folder / "support/masks/s.png")
    return segment(folder), "s.png has 63,000,000 pixels, as an annotated image, the limit is 60,000,000"


def plot(folder):
    (folder / "x.json").write_text(json.dumps(RESULT))
    return ("compare", folder / "x.json", "--plot", folder), "cannot be drawn: give a file name that ends in .png"


CASES = {
    "deep json": deep,
    "list for a result": foreign([]),
    "text for a result": foreign("x"),
    "other result": foreign(COCO),
    "words in a result": foreign(RESULT | {"miou": "high"}),
    "folds of a result": foreign(RESULT | {"per_fold": {"0": 5}}),
    "nan in a result": foreign(RESULT | {"interval": [float("nan"), 1]}),
    "tasks of a result": foreign(RESULT | {"tasks": {"0": {"run": [1], "class": [1, 2], "pixels": []}}}),
    "aliases": settings(LAUGHS, "counting those of its aliases"),
    "a month": settings("query: 2020-13-45", "x.yaml is not YAML that can be used: month must be in 1..12"),
    "unknown setting": settings("qery: x", "unknown setting 'qery', did you mean 'query'"),
    "infinite scale": flags("--scales must be", "--scales", "inf"),
    "no number": flags("--scales must be", "--scales", "nan"),
    "huge batch": flags("--batch must lie between -2147483648 and 2147483647, got 1e+23", "--batch", "1" + "0" * 23),
    "large batch": flags("batch must lie between 1 and 10000, got 2000000000", "--batch", "2000000000"),
    "many steps": flags("steps must be an integer from 0 to 100,000", "--set", "steps=2000000"),
    "huge size": flags("the limit is 4,096: set REPRI_MAX_SIZE to raise it", "--size", "16384"),
    "no extractor": flags("No extractor is named", "--extractor", " "),
    "null character": settings('query: "a\\0b"', "'query' must not hold a null character"),
    "huge number": settings("batch: 1" + "0" * 400, "must lie between -2147483648 and 2147483647"),
    "class list is a folder": class_list(lambda path: path.mkdir(), "classes.txt is a folder, not a file"),
    "class list is a pipe": class_list(os.mkfifo, "classes.txt is not a regular file"),
    "class list is a loop": class_list(lambda path: path.symlink_to(path), "cannot read"),
    "too many classes": class_list(
        lambda path: path.write_text("\n".join(map(str, range(70_000)))), "there are 70,000 classes"
    ),
    "large support": large_support,
    "no host": lambda folder: (("serve", folder / "query", "--host", " "), "--host names no address"),
    "odd host": lambda folder: (
        ("serve", folder / "query", "--host", "x" * 300),
        "choose another --port, or another --host",
    ),
    "no shots": lambda folder: (("evaluate", "--data", "scenes", "--shots", ""), "shots must name numbers"),
    "no folds": lambda folder: (("evaluate", "--data", "scenes", "--fold", ""), "folds must name folds"),
    "wide head": lambda folder: (("train", "--data", "scenes", "--width", "1000000"), "head.width must be at most"),
    "size of one": flags("size must be at least", "--size", "1"),
    "empty query": flags("--query is missing", "--query", ""),
    "blank query": flags("no images are named", "--query", " "),
    "empty support": flags("--support is missing", "--support", ""),
    "deep value": flags("--set lr", "--set", "lr=" + "[" * 3000),
    "names itself": joined,
    "pipe": pipe,
    "device": device,
    "loop": loop,
    "deflated": deflated,
    "repeated": repeated,
    "plot": plot,
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence(case, place, repri):
    arguments, sentence = CASES[case](place)
    before = sorted(place.rglob("*"))
    code, err = repri(*arguments)
    assert code in (1, 3), err
    assert sentence in err
    assert "Traceback" not in err
    after = [path for path in sorted(place.rglob("*")) if path not in before and "cache" not in path.parts]
    assert code == 3 or after == []  # no output folder is left


@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n",  # Pillow would start another program
        b"DDS " + (124).to_bytes(4, "little") + bytes(4) + (1 << 30).to_bytes(4, "little") * 2 + bytes(112),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
)
def test_only_usual_kinds_of_images_are_decoded(content, place, repri):
    (place / "query/d.png").write_bytes(content)
    code, err = repri(*segment(place))
    assert code == 3, err
    assert "d.png cannot be read as an image (its content is that of no known kind of image)" in err
    assert len(list((place / "out/masks").iterdir())) == 3  # the others are done


def test_odd_names_do_not_spoil_the_others(place, repri):
    good = (place / "query/a.png").read_bytes()
    for name in (b"caf\xe9.png", b"x.png.png", b"-n.png", b"=1.png", b"y" * 248 + b".png", b"a\nb.png"):
        with open(os.path.join(os.fsencode(place / "query"), name), "wb") as file:
            file.write(good)
    (place / "query/b.png.png").mkdir()
    (place / "query/b.png.png/z.png").write_bytes(good)
    (place / "query/b.jpg").mkdir()
    (place / "query/b.jpg/w.png").write_bytes(good)
    code, err = repri(*segment(place, "--export", "coco,label-studio"))
    assert code == 3, err
    assert err.count("not segmented: ") == 1  # b, whose thumbnail would be called like a folder
    assert "not segmented: b: a folder of other queries is called like its mask" in err
    assert len((place / "out/results.csv").read_text().splitlines()) >= 10


def test_results_of_something_else_are_not_taken(place, repri):
    assert repri(*segment(place))[0] == 0
    kept = {path: path.stat().st_mtime_ns for path in (place / "out/masks").iterdir()}
    code, err = repri(*segment(place, "--resume", "--refine", "fine"))
    assert code == 1
    assert "was made with refine='default', not 'fine'" in err
    Image.fromarray(np.full((50, 70, 3), 90, np.uint8)).save(place / "query/b.png")
    assert repri(*segment(place, "--resume"))[0] == 0
    with Image.open(place / "out/masks/b.png") as mask:
        assert mask.size == (70, 50)
    changed = [path.stem for path, time in kept.items() if path.stat().st_mtime_ns != time]
    assert changed == ["b"]


def test_a_disk_that_is_full_at_every_write(place, repri, monkeypatch):
    """Whichever write fails: one sentence, whole files, nothing left, and the run can go on."""
    rename, left = os.replace, [0]

    def replace(source, target):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    for number in (1, 2, 3, 8, 9):
        shutil.rmtree(place / "out", ignore_errors=True)
        left[0] = number
        code, err = repri(*segment(place))
        assert code == 1, (number, err)
        assert "No space left on device; make room and run it again" in err
        assert not list(place.rglob(".repri-*"))
        left[0] = 0
        more = ("--resume",) if any((place / "out").glob("masks/*")) else ()
        assert repri(*segment(place, *more))[0] == 0
        assert len(list((place / "out/masks").iterdir())) == 3


def test_a_home_that_cannot_be_written(place, repri, monkeypatch):
    (place / "home").write_text("")  # not even root can make a folder in a file
    monkeypatch.delenv("REPRI_CACHE")
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert repri(*segment(place))[0] == 0


def test_a_clock_that_runs_backwards(place, repri):
    assert repri(*segment(place))[0] == 0
    for path in [*(place / "query").iterdir(), *(place / "out").rglob("*.png")]:
        os.utime(path, (5e9, 5e9))  # in the year 2128
    before = {path: path.read_bytes() for path in (place / "out/masks").iterdir()}
    assert repri(*segment(place, "--resume"))[0] == 0
    assert {path: path.read_bytes() for path in (place / "out/masks").iterdir()} == before
