"""Events of a project, which every page that shows it follows (server-sent events)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from .limits import Limits, Refused

__all__ = ["Events"]

WAITING = 500
"""Events that may wait for a slow page; after that it must load everything again."""
BEAT = 15.0
"""Seconds after which a silent connection says that it is alive."""


class Events:
    """Passes events from the worker's thread to the pages.

    Args:
        limits: The number of pages.
    """

    def __init__(self, limits: Limits | None = None):
        self._most = (limits or Limits()).listeners
        self._listeners: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._used: float | None = None

    @property
    def followed(self) -> bool:
        """Whether a page listens."""
        return bool(self._listeners)

    def use(self) -> None:
        """Somebody asks for something, so work for the project is not in vain."""
        if self._used is not None:
            self._used = time.monotonic()

    def abandoned(self, seconds: float) -> bool:
        """Whether there was a page, all have gone, and nobody has asked for anything since so many seconds."""
        return self._used is not None and not self._listeners and time.monotonic() - self._used > seconds

    def publish(self, kind: str, **content: Any) -> None:
        """Tell all pages; may be called from any thread."""
        text = f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n"
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, text)

    def subscribe(self) -> asyncio.Queue[str]:
        """A queue that gets every event from now on; too many pages are refused."""
        queue: asyncio.Queue[str] = asyncio.Queue(WAITING)
        with self._lock:
            if len(self._listeners) >= self._most:
                raise Refused(429, "Too many pages follow this project: close one of them.")
            self._listeners[queue] = asyncio.get_running_loop()
        return queue

    async def follow(self, queue: asyncio.Queue[str]) -> AsyncIterator[str]:
        """The events of a queue as text, until the page goes away."""
        try:
            yield "retry: 1000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), BEAT)
                except asyncio.TimeoutError:
                    yield ": alive\n\n"
        finally:
            with self._lock:
                self._listeners.pop(queue, None)
                self._used = time.monotonic()


def _put(queue: asyncio.Queue[str], text: str) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        text = "event: reload\ndata: {}\n\n"
    queue.put_nowait(text)
