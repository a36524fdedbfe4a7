"""The command as a person meets it: in a process of its own."""

import os
import subprocess
import sys
import time
import warnings

import pytest

from repri.cli import main


def repri(*arguments, **environment):
    command = [sys.executable, "-m", "repri", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def test_help_answers_at_once():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = repri("--help")
        times.append(time.perf_counter() - start)
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert min(times) < 0.5, times
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_help_does_not_import_torch():
    code = "import sys, repri.cli; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_version_and_info():
    import repri as package

    assert repri("--version").stdout.strip() == package.__version__
    done = repri("info")
    assert done.returncode == 0
    assert package.__version__ in done.stdout
    assert "kernel" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("dmo",), "Did you mean 'demo'", 2),
        (("demo", "--output", "picture.jpg"), "must be a file name ending in .png, got 'picture.jpg'", 1),
        (("demo", "--output", "/proc/nowhere/x.png"), "cannot write /proc/nowhere/x.png", 1),
    ],
)
def test_mistakes_get_one_sentence(arguments, message, code):
    done = repri(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_progress_is_told_in_a_log_file(monkeypatch, capsys):
    """Where there is no terminal: a line now and then, and one at the end if there are figures."""
    from repri.cli import common

    with common.Bars() as bars:
        bars.show("training", 1, 10, "loss 2.0")
        bars.show("training", 10, 10, "loss [1.0]")
        monkeypatch.setattr(common, "SILENCE", 0.0)
        bars.show("features", 3, 0)
    assert capsys.readouterr().err.splitlines() == ["training: 10 of 10 loss [1.0]", "features: 3 of ?"]


def test_home_is_found_where_shells_leave_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which main replaces
    monkeypatch.setattr("sys.argv", ["repri", "weights", "check", "~/none.safetensors"])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path}/none.safetensors" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["repri", "demo", "--output=~/x.jpg"])
    with pytest.raises(SystemExit):
        main()
    assert f"got '{tmp_path}/x.jpg'" in capsys.readouterr().err
