"""``repri serve`` is killed while somebody draws: every stroke that was answered must be there afterwards.

One stroke may be there without an answer: the one that was on its way when the server was killed.
"""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["check_serve"]

IMAGES, SIDE = 4, 64
WAIT = 120.0
"""Seconds until a server must listen, and until it must answer."""
Start = Callable[[list[str], Path], int]
"""Arguments and cache → process id of the command."""
GONE = (OSError, http.client.HTTPException, ValueError)
"""What a client sees when the server is killed."""


def check_serve(folder: Path, kills: int, seed: int, start: Start) -> str:
    """Kill a server some times while strokes are drawn.

    Args:
        folder: Folder for its files.
        kills: Number of kills.
        seed: Seed of the moments and of the strokes.
        start: Runs a command in a process of its own.

    Returns:
        What is wrong, or an empty text.
    """
    images, cache, stream = folder / "images", folder / "cache", random.Random(seed)
    images.mkdir(parents=True)
    cache.mkdir()
    for n in range(IMAGES):
        noise = np.random.default_rng(n).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
        Image.fromarray(noise).save(images / f"{n}.png")
    kept: dict[str, list[Any]] = {}
    for _ in range(kills):
        server = _Server(start, images, cache)
        timer = threading.Timer(stream.random() * 1.5, os.kill, (server.process, signal.SIGKILL))
        timer.start()
        problem = ""
        with suppress(*GONE):
            problem = _draw(server, kept, stream)
        timer.join()
        os.waitpid(server.process, 0)
        if problem:
            return problem
    return _end(_Server(start, images, cache), kept, images)


class _Server:
    """A server that listens."""

    def __init__(self, start: Start, images: Path, cache: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = ["--port", str(self.port), "--extractor", "filters"]
        self.process = start(["serve", str(images), *options], cache)
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            headers = {} if body is None else {"content-type": "application/json"}
            connection.request(method, f"/api/projects/folder{path}", body and json.dumps(body), headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        finally:
            connection.close()
        assert answer.status == 200, content
        return content


def _draw(server: _Server, kept: dict[str, list[Any]], stream: random.Random) -> str:
    """Draw strokes until the server is gone; returns what is wrong with what it kept of earlier ones."""
    ids = [image["id"] for image in server.ask("GET", "")["images"]]
    while True:
        id = stream.choice(ids)
        there = server.ask("GET", f"/images/{id}/annotation")
        if problem := _lost(id, there["marks"], kept):
            return problem
        points = [[stream.randrange(SIDE), stream.randrange(SIDE)] for _ in range(2)]
        there["marks"].append({"kind": "brush", "label": stream.randrange(2), "points": points, "width": 3.0})
        kept[id] = server.ask("PUT", f"/images/{id}/annotation", there)["marks"]


def _lost(id: str, marks: list[Any], kept: dict[str, list[Any]]) -> str:
    """Whether strokes that were answered are missing; at most one more may be there."""
    known = kept.get(id, [])
    if marks[: len(known)] != known or len(marks) > len(known) + 1:
        return f"serve kept {len(marks)} strokes of an image, and {len(known)} were answered"
    kept[id] = list(marks)
    return ""


def _end(server: _Server, kept: dict[str, list[Any]], images: Path) -> str:
    """End the server as a person does, and look at what it leaves."""
    problems = [_lost(id, server.ask("GET", f"/images/{id}/annotation")["marks"], kept) for id in list(kept)]
    os.kill(server.process, signal.SIGTERM)
    os.waitpid(server.process, 0)
    left = [str(path) for path in images.rglob(".repri-*")]
    problems += [f"serve leaves {', '.join(left)}"] if left else []
    problems += [] if kept else ["serve was never quick enough to take a stroke"]
    return next((problem for problem in problems if problem), "")
