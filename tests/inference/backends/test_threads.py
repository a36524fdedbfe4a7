"""The rule of ``threads.c``: fewer threads after a region that waited, more again after a pause."""

import ctypes
import shutil

import pytest

from repri.inference import native_status
from repri.inference.backends.build import load_library

pytestmark = pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")


class Region(ctypes.Structure):
    """``region`` of threads.h."""

    _fields_ = [("threads", ctypes.c_int32), ("start", ctypes.c_double)]


class Rule:
    """The rule with a clock of its own, so that a busy machine changes nothing."""

    def __init__(self, path):
        self.library, self.now = ctypes.CDLL(str(path)), 100.0
        self.library.region_begin_at.argtypes = (ctypes.c_int32, ctypes.c_int64, ctypes.c_double)
        self.library.region_begin_at.restype = Region
        self.library.region_end_at.argtypes = (ctypes.POINTER(Region), ctypes.c_double, ctypes.c_double)
        self.library.region_end_at.restype = None

    def run(self, threads, seconds, parallel, units=100):
        """Number of threads of a region that lasts so many seconds, in which ``parallel`` threads work on average."""
        region = self.library.region_begin_at(threads, units, self.now)
        self.now += seconds
        self.library.region_end_at(ctypes.byref(region), seconds * parallel, self.now)
        return region.threads

    def sleep(self, seconds):
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def rule(tmp_path):
    """A copy of the library: the rule's state belongs to one loaded file, and others have used the original."""
    return Rule(shutil.copy(load_library()[0]._name, tmp_path / "copy.so"))


def test_all_threads_stay_while_they_work(rule):
    assert [rule.run(4, 0.5, parallel=3.5) for _ in range(5)] == [4] * 5
    assert rule.run(2, 0.5, parallel=1.2) == 2
    assert rule.run(2, 0.5, parallel=1.2) == 2


def test_waiting_halves_the_threads_down_to_one(rule):
    assert [rule.run(4, 0.5, parallel=0.2) for _ in range(4)] == [4, 2, 1, 1]
    assert rule.run(1, 0.5, parallel=0.2) == 1


def test_more_threads_are_tried_after_a_pause(rule):
    assert rule.run(2, 0.05, parallel=0.2) == 2  # lost 40 ms
    assert rule.run(2, 0.001, parallel=1) == 1
    rule.sleep(0.06)
    assert rule.run(2, 0.05, parallel=0.2) == 2  # lost again: the pause doubles
    rule.sleep(0.06)
    assert rule.run(2, 0.001, parallel=1) == 1
    rule.sleep(0.04)
    assert rule.run(2, 0.05, parallel=1.8) == 2  # this time all is well
    assert rule.run(2, 0.05, parallel=1.8) == 2
    assert rule.run(2, 0.05, parallel=0.2) == 2
    rule.sleep(0.06)  # the pause is short again
    assert rule.run(2, 0.001, parallel=1.8) == 2


def test_a_pause_lasts_a_second_at_most(rule):
    assert rule.run(2, 1000.0, parallel=0.1) == 2
    assert rule.run(2, 0.001, parallel=1) == 1
    rule.sleep(1.01)
    assert rule.run(2, 0.001, parallel=2) == 2


def test_there_are_no_more_threads_than_parts_of_the_work(rule):
    assert rule.run(8, 0.1, parallel=3, units=3) == 3
    assert rule.run(8, 0.1, parallel=1, units=1) == 1
    assert rule.run(8, 0.1, parallel=8) == 8
