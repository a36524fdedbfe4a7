"""The compiled kernel gives the same bits, however many threads work."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from repri.inference import InferenceConfig, infer, native_status
from repri.inference.backends.native import CHUNK_ROWS, NativePasses
from repri.inference.backends.passes import Classifier
from repri.inference.problem import build_problem
from repri.runtime.errors import RepriError
from tests.inference.make import make_tasks

pytestmark = pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")
SIZE = (31, 37)  # several chunks of rows, the last of them not full
assert SIZE[0] * SIZE[1] > 2 * CHUNK_ROWS
assert SIZE[0] * SIZE[1] % CHUNK_ROWS


@pytest.fixture
def threads():
    """Set torch's number of threads, which the kernel follows; it is restored afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def problems():
    """Tasks with supports of their own, of different sizes, and with one support that they share."""
    support, masks, query, _ = make_tasks(tasks=3, shots=2, channels=40, size=SIZE)
    yield "own", (support, masks, query)
    yield "ragged", ([support[0], support[1, :1], support[2]], [masks[0], masks[1, :1], masks[2]], query)
    yield "shared", (support[:1], masks[:1], query)


@pytest.mark.parametrize(("name", "tasks"), list(problems()), ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("background", ["none", "support"])
def test_results_do_not_depend_on_the_number_of_threads(threads, name, tasks, background):
    cfg = InferenceConfig.preset("clean").replace(background=background, steps=12)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(infer(*tasks, cfg, backend="native"))
    for other in results[1:]:
        assert torch.equal(results[0].prototype, other.prototype)
        assert torch.equal(results[0].bias, other.bias)
        assert torch.equal(results[0].proportion, other.proportion)


def trajectory(passes, counts):
    """w and b after one step for each number of threads."""
    theta = Classifier(passes.foreground_sum(), torch.zeros(passes.tasks), passes.background_sum())
    pi, weight = torch.tensor([[0.7, 0.3]] * passes.tasks), torch.full((passes.tasks,), 0.5)
    for count in counts:
        passes.plan.threads = count
        evaluation = passes.step(theta, pi, weight, weight, False, True)
    return [*theta, *(x.clone() for x in evaluation)]


def test_the_number_of_threads_may_change_between_steps():
    support, masks, query, _ = make_tasks(tasks=2, shots=2, channels=40, size=SIZE)
    passes = NativePasses(build_problem(support, masks, query, None, None), InferenceConfig.preset("clean"))
    expected = trajectory(passes, [1] * 12)
    for counts in ([2] * 12, [1, 2, 3, 2, 1, 3] * 2, [3, 1] * 6, [64] * 12):
        for a, b in zip(expected, trajectory(passes, counts), strict=True):
            assert torch.equal(a, b)


def test_several_callers_at_once_get_the_same_results(threads):
    support, masks, query, _ = make_tasks(tasks=2, shots=2, channels=40, size=SIZE)
    cfg = InferenceConfig.preset("clean").replace(steps=5)
    threads(2)
    expected = infer(support, masks, query, cfg, backend="native").prototype
    with ThreadPoolExecutor(3) as executor:
        runs = [executor.submit(infer, support, masks, query, cfg, backend="native") for _ in range(9)]
        assert all(torch.equal(run.result().prototype, expected) for run in runs)


def test_features_of_any_strides_are_packed_alike():
    support, masks, query, _ = make_tasks(shots=2, channels=40, size=SIZE)
    layouts = {
        "usual": lambda x: x,
        "channels last": lambda x: x.movedim(-3, -1).contiguous().movedim(-1, -3),
        "rows with gaps": lambda x: torch.nn.functional.pad(x, (0, 3))[..., : SIZE[1]],
        "half the bits": lambda x: x.half(),
    }
    support, query = support.half().float(), query.half().float()
    rows = []
    for layout in layouts.values():
        problem = build_problem(layout(support), masks, layout(query), None, None)
        rows.append(NativePasses(problem, InferenceConfig.preset("clean")).rows)
    assert all(torch.equal(rows[0], other) for other in rows[1:])


def test_a_missing_kernel_is_named_with_the_remedy(monkeypatch):
    support, masks, query, _ = make_tasks()
    monkeypatch.setattr("repri.inference.backends.native.load_library", lambda: (None, "no C compiler found"))
    with pytest.raises(RepriError, match=r"not available here \(no C compiler found\): use backend='torch'"):
        infer(support, masks, query, backend="native")
