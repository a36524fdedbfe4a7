"""How the images of a batch share the cores."""

import threading

import pytest
import torch

from repri.segmenter.threads import all_of, side_by_side

CPU = torch.device("cpu")


def run_in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_one_image_is_worked_on_in_place():
    with side_by_side(1, CPU) as (workers, prepare):
        assert workers == 0
        assert prepare is None


@pytest.mark.usefixtures("_two_threads")
def test_images_share_the_threads():
    with side_by_side(8, CPU) as (workers, prepare):
        assert workers == 2
        seen = []
        run_in_thread(lambda: (prepare(), seen.append(torch.get_num_threads())))
        assert seen == [1]
    with side_by_side(8, torch.device("cuda")) as (workers, _):
        assert workers == 2
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_torch_keeps_its_threads(pair, fitted):
    """Also if a call begins in a new thread while another one is under way, and ends before it."""
    first = fitted.segment_many([pair[1].image] * 4, batch=2)
    next(first)
    seen = []
    run_in_thread(lambda: seen.append(len(list(fitted.segment_many([pair[1].image] * 2, batch=2)))))
    assert seen == [2]
    assert len(list(first)) == 3
    run_in_thread(lambda: seen.append(torch.get_num_threads()))
    assert seen == [2, 2]


@pytest.mark.usefixtures("_two_threads")
def test_tasks_share_the_cores_but_not_within_a_task():
    def outer(n):
        inner = all_of([threading.current_thread] * 2, CPU)
        return n, threading.current_thread(), torch.get_num_threads(), inner

    results = all_of([lambda n=n: outer(n) for n in range(4)], CPU)
    assert [n for n, *_ in results] == [0, 1, 2, 3]
    for _, thread, threads, inner in results:
        assert thread is not threading.current_thread()
        assert threads == 1
        assert inner == [thread, thread]
    assert torch.get_num_threads() == 2
