"""The door for text, JSON and YAML."""

import os
import time

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.reading import DEPTH, parse_json, parse_yaml, read_json, read_text, short, validated

LAUGHS = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))])
MERGES = "\n".join(
    ["a0: &a0 {x0: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.json is not JSON"),
        ("", "x.json is empty"),
        ("[" * 100_000, "x.json nests more than 64 levels"),
        ("[" * (DEPTH + 2) + "]" * (DEPTH + 2), "x.json nests more than 64 levels"),
        ('{"a":' * 100 + "1" + "}" * 100, "x.json nests more than 64 levels"),
        ("1" * 5000, "x.json is not JSON"),
        (b"\xff\xfe{}", "x.json is not JSON .it is not text in UTF-8"),
    ],
)
def test_json_that_is_refused(text, message):
    with pytest.raises(RepriError, match=message):
        parse_json(text, "x.json")


def test_json_of_a_usual_depth_passes():
    assert parse_json("[" * DEPTH + "]" * DEPTH, "x") is not None
    assert parse_json(b'\xef\xbb\xbf{"a": [1, "[[["]}', "x") == {"a": [1, "[[["]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "x.yaml holds more than 100,000 values, counting those of its aliases"),
        (MERGES, "x.yaml holds more than 100,000 values, counting those of its aliases"),
        ("a: &a [*a]", "contains itself by the alias 'a'"),
        ("a: &a {b: {c: *a}}", "contains itself by the alias 'a'"),
        ("[" * 5000, "x.yaml nests more than 64 levels"),
        ("? " * 5000, "x.yaml nests more than 64 levels"),
        ("a: 2020-13-01", "month must be in 1..12"),
        ("a: " + "9" * 5000, "x.yaml is not YAML that can be used"),
        ("a: [", "x.yaml is not YAML: while parsing"),
        ("a: !!python/object/apply:os.system [ls]", "x.yaml is not YAML: could not determine a constructor"),
        ("? {a: 1}\n: 2", "x.yaml is not YAML: while constructing a mapping"),
        ("a" * 300_000, "x.yaml has 300 KB, the limit is 200: set REPRI_MAX_YAML_KB to raise it"),
    ],
    ids=range(12),
)
def test_yaml_that_is_refused_quickly(text, message):
    start = time.process_time()
    with pytest.raises(RepriError, match=message):
        parse_yaml(text, "x.yaml")
    assert time.process_time() - start < 2


def test_aliases_may_be_used():
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: {<<: {d: 1}}", "x") == {"a": [1, 2], "b": [1, 2], "c": {"d": 1}}


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in (
        (tmp_path / "pipe", "pipe is not a regular file but a pipe, a socket or a device"),
        (tmp_path, "is a folder, not a file"),
        (tmp_path / "loop", "cannot read .*loop: Too many levels of symbolic links"),
        (tmp_path / "missing", "cannot read .*missing: No such file or directory"),
    ):
        for read in (read_text, read_json):
            with pytest.raises(RepriError, match=message):
                read(path)


def test_text_must_be_in_utf8_and_small(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfh\xc3\xa9")
    assert read_text(path) == "hé"
    path.write_bytes(b"\xff")
    with pytest.raises(RepriError, match=r"x.txt is not a text file in UTF-8: save it as one"):
        read_text(path)
    monkeypatch.setenv("REPRI_MAX_TEXT_MB", "0.000001")
    path.write_bytes(b"abc")
    with pytest.raises(RepriError, match="set REPRI_MAX_TEXT_MB to raise it"):
        read_text(path)


def test_values_are_checked_and_shown_briefly():
    assert validated(dict[str, tuple[int, ...]], {"a": [1, 2]}, "x") == {"a": (1, 2)}
    with pytest.raises(RepriError, match=r"^x: a.1 should be a valid number, got \[\]$"):
        validated(dict[str, list[float]], {"a": [1, []]}, "x")
    with pytest.raises(RepriError, match=r"^x: the content should be a finite number, got inf$"):
        validated(float, float("inf"), "x")
    nested: list = []
    for _ in range(20):
        nested = [nested] * 9
    assert len(short(nested)) < 310
    assert len(short("x" * 10_000)) <= 100
