"""``make chaos``: commands are killed at random moments and run again until they are done.

    python -m tests.hostile.chaos [KILLS [SEED [COMMAND …]]]

The results must then be equal to those of a command that was left alone, and no temporary file may be left. A server
must keep every stroke that it has answered. Torch is
imported once, and each command runs in a fork of this process, so that a kill costs little.
"""

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import yaml
from PIL import Image

from repri.cli import main as repri
from tests.textures import make_textures
from tests.training.make import SMALL, draw_scenes, nested

from .chaos_serve import check_serve

__all__ = ["Job", "check", "jobs"]


class Job(NamedTuple):
    """A command that can be run again."""

    name: str
    arguments: Callable[[Path], list[str]]
    """Output folder → arguments of the first run."""
    again: tuple[str, ...]
    """Arguments that are added when it goes on."""
    result: Callable[[Path], object]
    """Output folder → what must be equal."""


def jobs(folder: Path) -> list[Job]:
    """The commands, with data that is made in a folder."""
    rng = np.random.default_rng(0)
    for place in ("support/images", "support/masks", "query"):
        (folder / place).mkdir(parents=True)
    for name in ("support/images/s", *(f"query/q{n}" for n in range(12))):
        image = rng.integers(0, 80, (90, 120, 3)).astype(np.uint8)
        top, left = rng.integers(5, 40, 2)
        image[top : top + 30, left : left + 40] = (200, 60, 40)
        Image.fromarray(image).save(folder / f"{name}.png")
        if name.startswith("support"):
            Image.fromarray((image[..., 0] == 200).astype(np.uint8) * 255).save(folder / "support/masks/s.png")
    textures, scenes = make_textures(folder / "textures"), draw_scenes(folder / "scenes")
    config = folder / "train.yaml"
    config.write_text(yaml.safe_dump(nested(SMALL | {"data.name": str(scenes), "run.save_minutes": 0.001})))
    look = ["--extractor", "filters", "--size", "64"]

    def segment(output: Path) -> list[str]:
        support = ["--support", str(folder / "support"), "--query", str(folder / "query")]
        return ["segment", *support, "--output", str(output), "--export", "coco,labelme", "--no-auto", *look]

    def evaluate(output: Path) -> list[str]:
        tasks = ["--tasks", "20", "--runs", "1", "--min-pixels", "200"]
        return ["evaluate", "--data", str(textures), *tasks, *look, "--output", str(output / "x.json")]

    def train(output: Path) -> list[str]:
        return ["train", "--config", str(config), "--output", str(output)]

    return [
        Job("segment", segment, ("--resume",), _files),
        Job("evaluate", evaluate, (), lambda output: json.loads((output / "x.json").read_text())["tasks"]),
        Job("train", train, ("--resume",), _trained),
    ]


def _files(output: Path) -> dict[str, str]:
    """Name → hash of every file; masks hold the times of the queries, which stay as they are."""
    files = sorted(path for path in output.rglob("*") if path.is_file())
    return {str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _trained(output: Path) -> dict[str, str]:
    state = torch.load(output / "last.pt", weights_only=True)["model"]
    return {name: hashlib.sha256(value.numpy().tobytes()).hexdigest() for name, value in state.items()}


def _start(arguments: list[str], cache: Path) -> int:
    """Run a command in a fork; returns its process id."""
    if process := os.fork():
        return process
    os.environ["REPRI_CACHE"] = str(cache)
    quiet = os.open(os.devnull, os.O_WRONLY)
    log = os.open(cache.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(quiet, 1)
    os.dup2(log, 2)
    sys.argv = ["repri", *arguments]
    code = 0
    try:
        repri()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


def _finish(arguments: list[str], cache: Path, seconds: float | None) -> int:
    """Run a command and kill it after some time; returns its exit code, −9 if it was killed."""
    process, start = _start(arguments, cache), time.monotonic()
    while seconds is not None and time.monotonic() - start < seconds:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    if seconds is not None:
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def check(job: Job, folder: Path, kills: int, seed: int) -> str:
    """Kill a command some times and compare what it leaves with an undisturbed run.

    Args:
        job: The command.
        folder: Folder for its files.
        kills: Number of kills.
        seed: Seed of the moments.

    Returns:
        What is wrong, or an empty text.
    """
    (folder / "calm").mkdir(parents=True)
    start = time.monotonic()
    if _finish(job.arguments(folder / "calm" / "out"), folder / "calm" / "cache", None) != 0:
        return f"{job.name} fails even undisturbed: {(folder / 'calm/log.txt').read_text()[-500:]}"
    length, stream = time.monotonic() - start, random.Random(seed)
    output, cache = folder / "wild" / "out", folder / "wild" / "cache"
    cache.mkdir(parents=True)
    done = rounds = 0
    while done < kills:
        begun = any(output.glob("masks/*")) or any(output.glob("*.pt")) or any(output.glob("config.yaml"))
        again = [*job.arguments(output), *(job.again if begun else ())]
        code = _finish(again, cache, stream.random() * length)
        done, rounds = done + (code == -9), rounds + 1
        if code not in (-9, 0):
            return f"{job.name} ended with {code}: {(cache.parent / 'log.txt').read_text()[-500:]}"
        if code == 0 and done < kills:  # it was quicker than the kill: begin anew
            os.rename(output, folder / f"done-{rounds}")
    begun = any(output.glob("masks/*")) or any(output.glob("*.pt")) or any(output.glob("config.yaml"))
    if _finish([*job.arguments(output), *(job.again if begun else ())], cache, None) != 0:
        return f"{job.name} cannot go on: {(cache.parent / 'log.txt').read_text()[-500:]}"
    if job.result(output) != job.result(folder / "calm" / "out"):
        return f"{job.name} gives another result after {kills} kills"
    left = [str(path) for path in (folder / "wild").rglob(".repri-*")]
    return f"{job.name} leaves {', '.join(left)}" if left else ""


def main(kills: int, seed: int, names: list[str]) -> int:
    """Kill each command, or the named ones, some times; returns the exit code."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        checks = {job.name: partial(check, job) for job in jobs(Path(place))} | {
            "serve": partial(check_serve, start=_start)
        }
        every = {name: run for name, run in checks.items() if not names or name in names}
        problems = []
        for number, (name, run) in enumerate(every.items()):
            mine = kills // len(every) + (number < kills % len(every))
            start = time.monotonic()
            problem = run(folder=Path(place) / name, kills=mine, seed=seed + number)
            took = time.monotonic() - start
            print(f"{name:10} {mine:3} kills, {took:4.0f} s: {problem or 'equal, nothing left'}", flush=True)
            problems += [problem] if problem else []
    return int(bool(problems))


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(numbers[0] if numbers else 60, numbers[1] if len(numbers) > 1 else 0, sys.argv[3:]))
