"""The command as a person meets it: help at once, one sentence for a mistake, a traceback for a bug."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from repri import RepriError, __version__
from repri.methods import METHODS, Method, register_method

EVERY_HELP = """
import sys
from typer.testing import CliRunner
from repri.cli import app

def helps(group, *names):
    done = CliRunner().invoke(app, [*names, "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output
    assert max(map(len, done.output.splitlines())) <= 80, names
    for command in group.registered_commands:
        helps_one(*names, command.name or command.callback.__name__.replace("_", "-"))
    for part in group.registered_groups:
        helps(part.typer_instance, *names, part.name)

def helps_one(*names):
    done = CliRunner().invoke(app, [*names, "--help"])
    assert done.exit_code == 0, (names, done.output)
    print(*names)

helps(app)
print([name for name in ("torch", "matplotlib", "transformers", "numpy") if name in sys.modules])
"""


def test_help_answers_at_once():
    """In CPU seconds, which do not depend on what else the machine does."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "repri", "--help"], capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.returncode == 0
    assert {"demo", "evaluate", "segment", "train", "compare", "data"} <= set(done.stdout.split())
    assert min(times) < 0.5, times
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_help_of_every_command_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", EVERY_HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *commands, heavy = done.stdout.splitlines()
    assert {"evaluate", "segment", "train", "compare", "data verify", "weights get"} <= set(commands)
    assert heavy == "[]"


@pytest.mark.parametrize("chosen", [None, "ACTIVE"])
def test_threads_wait_without_work_unless_a_person_says_otherwise(repri, monkeypatch, chosen):
    monkeypatch.setenv("OMP_WAIT_POLICY", chosen or "")
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    repri("--version")
    assert os.environ["OMP_WAIT_POLICY"] == (chosen or "PASSIVE")


def test_version(repri):
    assert repri("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("dmo",), "Did you mean 'demo'", 2),
        (("demo", "--output", "x.jpg"), "repri: --output must be a file name that ends in .png, got 'x.jpg'.\n", 1),
        (("demo", "--output", "/proc/nowhere/x.png"), "repri: Cannot write /proc/nowhere/x.png: No such file", 1),
    ],
)
def test_a_mistake_is_one_sentence(repri, arguments, message, code):
    done = repri(*arguments)
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_error_of_the_system_is_one_sentence(repri, monkeypatch, tmp_path):
    def fails(*_):
        (tmp_path / "none.txt").read_text()

    monkeypatch.setattr("repri.evaluation.results.compare", fails)
    done = repri("compare", tmp_path / "x.json")
    assert done == (1, "", f"repri: {tmp_path}/none.txt: No such file or directory\n")


def test_a_bug_keeps_its_traceback_and_asks_for_a_report(repri, short, monkeypatch):
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS._objects))

    @register_method("broken")
    class Broken(Method):
        name = "broken"

        def predict(self, episode):
            raise RuntimeError("the tensor is on the wrong side of the moon")

    done = repri("evaluate", *short, "--method", "broken")
    assert done.code == 70
    assert "Traceback (most recent call last):" in done.err
    assert f'File "{Path(__file__)}"' in done.err
    assert "RuntimeError: the tensor is on the wrong side of the moon" in done.err
    assert done.err.endswith("repri: This is a bug in repri. Please report it with the lines above.\n")


def test_a_mistake_shows_its_traceback_to_those_who_debug(monkeypatch):
    from repri.cli import main

    monkeypatch.setenv("REPRI_DEBUG", "1")
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr("sys.argv", ["repri", "demo", "--output", "x.jpg"])
    with pytest.raises(RepriError, match=r"--output must be a file name that ends in \.png, got 'x\.jpg'"):
        main()


def test_progress_is_told_in_a_log_file(monkeypatch, capsys):
    """Where there is no terminal: a line now and then, and one at the end if there are figures."""
    from repri.cli import common

    with common.Bars() as bars:
        bars.show("training", 1, 10, "loss 2.0")
        bars.show("training", 10, 10, "loss [1.0]")
        monkeypatch.setattr(common, "SILENCE", 0.0)
        bars.show("features", 3, 0)
    assert capsys.readouterr().err.splitlines() == ["training: 10 of 10 loss [1.0]", "features: 3 of ?"]


def test_home_is_expanded_where_shells_leave_it(repri, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"{tmp_path}/none.json" in repri("compare", "~/none.json").err
    assert f"got '{tmp_path}/x.jpg'" in repri("demo", "--output=~/x.jpg").err
