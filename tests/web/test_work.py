"""The worker."""

import threading

import pytest

from repri.web.limits import Limits, Refused
from repri.web.work import Worker


class Steps:
    """A project that has some steps to do."""

    def __init__(self, count):
        self.left, self.done = count, threading.Event()

    def next_step(self):
        return self._step if self.left else None

    def _step(self):
        self.left -= 1
        if not self.left:
            self.done.set()
        if self.left == 1:
            raise RuntimeError("a bug")

    def settle(self):
        return None


def test_steps_are_done_even_after_a_bug(capsys):
    steps = Steps(3)
    worker = Worker(lambda: [steps])
    worker.start()
    assert steps.done.wait(10)
    steps.left, _ = 1, steps.done.clear()
    worker.wake()
    assert steps.done.wait(10)
    worker.stop()
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_questions_are_answered_or_refused():
    worker = Worker(list, Limits(waiting=2))
    answers = [worker.ask(lambda: 1), worker.ask(lambda: 1 / 0)]
    with pytest.raises(Refused, match="too much to do") as refused:
        worker.ask(lambda: 3)
    assert refused.value.status == 429
    worker.start()
    assert answers[0].result(10) == 1
    with pytest.raises(ZeroDivisionError):
        answers[1].result(10)
    worker.stop()


def test_a_question_that_nobody_waits_for_is_dropped():
    worker, asked = Worker(list), []
    first = worker.ask(lambda: asked.append(1))
    assert first.cancel()
    second = worker.ask(lambda: asked.append(2))
    worker.start()
    second.result(10)
    worker.stop()
    assert asked == [2]
