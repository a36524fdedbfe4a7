"""One worker for all projects: it answers questions first, then carries out the next step of the project in use."""

from __future__ import annotations

import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from .limits import Limits, Refused
from .session import Session

__all__ = ["Worker"]

QUIET = 5.0
"""Seconds after which the second thread looks for work if nobody wakes it."""


class Worker:
    """Two threads: one for everything that must be quick, and one that lets supports choose their settings.

    Args:
        sessions: Gives the projects in use, the one that was used last first.
        limits: How many questions may wait.
    """

    def __init__(self, sessions: Callable[[], Iterable[Session]], limits: Limits | None = None):
        self._sessions, self._most = sessions, (limits or Limits()).waiting
        self._questions: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._calls, self._stopped = 0, False
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._work, self._settle)]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the steps that are under way; a thread that computes while Python ends would abort the program."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def wake(self) -> None:
        """Say that there may be something to do."""
        with self._changed:
            self._calls += 1
            self._changed.notify_all()

    def ask(self, question: Callable[[], Any]) -> Future[Any]:
        """Let the worker compute something.

        Args:
            question: Is called in the worker's thread, unless the future is cancelled before.

        Returns:
            The answer to come. If too many questions wait, the request is refused.
        """
        future: Future[Any] = Future()
        with self._changed:
            if len(self._questions) >= self._most:
                raise Refused(429, "The server has too much to do at the moment: try again in a second.")
            self._questions.append((future, question))
            self._changed.notify_all()
        return future

    def _work(self) -> None:
        while not self._stopped:
            with self._changed:
                calls, asked = self._calls, self._questions.popleft() if self._questions else None
            if asked is not None:
                _answer(*asked)
            elif not self._one_step():
                with self._changed:
                    if not self._questions and calls == self._calls and not self._stopped:
                        self._changed.wait()

    def _one_step(self) -> bool:
        """Whether there was something to do."""
        for session in list(self._sessions()):
            step = session.next_step()
            if step is not None:
                _guarded(step)
                return True
        return False

    def _settle(self) -> None:
        with suppress(AttributeError, OSError):  # where the system can, this thread gives way to the other
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self._stopped:
            waits = [_guarded(session.settle) for session in list(self._sessions()) if not self._stopped]
            with self._changed:
                if not self._stopped:
                    self._changed.wait(min([QUIET, *(wait for wait in waits if wait)]))


def _answer(future: Future[Any], question: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(question())
    except BaseException as error:
        future.set_exception(error)


def _guarded(step: Callable[[], Any]) -> Any:
    """A bug in one step is printed and must not end the thread."""
    try:
        return step()
    except Exception:
        traceback.print_exc()
        return None
