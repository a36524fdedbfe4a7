"""The rule of ``threads.c``: fewer threads after a region that waited, more again after a pause."""

import ctypes
import shutil
import time

import pytest

from repri.inference import native_status
from repri.inference.backends.build import load_library

pytestmark = pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")


class Region(ctypes.Structure):
    """``region`` of threads.h."""

    _fields_ = [("threads", ctypes.c_int32), ("start", ctypes.c_double)]


@pytest.fixture
def rule(tmp_path):
    """A copy of the library: the rule's state belongs to one loaded file, and others have used the original."""
    path = shutil.copy(load_library()[0]._name, tmp_path / "copy.so")
    library = ctypes.CDLL(str(path))
    library.region_begin.argtypes = (ctypes.c_int32, ctypes.c_int64)
    library.region_begin.restype = Region
    library.region_end.argtypes = (ctypes.POINTER(Region), ctypes.c_double)
    library.region_end.restype = None
    return library


def run(rule, threads, seconds, parallel, units=100):
    """Number of threads of a region that lasts so many seconds, in which ``parallel`` threads work on average."""
    region = rule.region_begin(threads, units)
    region.start -= seconds  # as if it had begun earlier
    rule.region_end(ctypes.byref(region), seconds * parallel)
    return region.threads


def test_all_threads_stay_while_they_work(rule):
    assert [run(rule, 4, 0.5, parallel=3.5) for _ in range(5)] == [4] * 5
    assert run(rule, 2, 0.5, parallel=1.2) == 2
    assert run(rule, 2, 0.5, parallel=1.2) == 2


def test_waiting_halves_the_threads_down_to_one(rule):
    assert [run(rule, 4, 5.0, parallel=0.2) for _ in range(4)] == [4, 2, 1, 1]
    assert run(rule, 1, 5.0, parallel=0.2) == 1


def test_more_threads_are_tried_after_a_pause(rule):
    assert run(rule, 2, 0.05, parallel=0.2) == 2  # lost 40 ms
    assert run(rule, 2, 0.001, parallel=1) == 1
    time.sleep(0.06)
    assert run(rule, 2, 0.05, parallel=0.2) == 2  # lost again: the pause doubles
    time.sleep(0.06)
    assert run(rule, 2, 0.001, parallel=1) == 1
    time.sleep(0.04)
    assert run(rule, 2, 0.05, parallel=1.8) == 2  # this time all is well
    assert run(rule, 2, 0.05, parallel=1.8) == 2
    assert run(rule, 2, 0.05, parallel=0.2) == 2
    time.sleep(0.06)  # the pause is short again
    assert run(rule, 2, 0.001, parallel=1.8) == 2


def test_a_pause_lasts_a_second_at_most(rule):
    assert run(rule, 2, 1000.0, parallel=0.1) == 2
    assert run(rule, 2, 0.001, parallel=1) == 1
    time.sleep(1.01)
    assert run(rule, 2, 0.001, parallel=2) == 2


def test_there_are_no_more_threads_than_parts_of_the_work(rule):
    assert run(rule, 8, 0.1, parallel=3, units=3) == 3
    assert run(rule, 8, 0.1, parallel=1, units=1) == 1
    assert run(rule, 8, 0.1, parallel=8) == 8
