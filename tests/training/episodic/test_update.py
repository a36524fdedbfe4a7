"""One update from a few episodes, in one process and in two."""

import threading

import torch

from repri.runtime.distributed import World
from repri.training.episodic.episodes import EpisodeBatch
from repri.training.episodic.update import EpisodeLearner


def test_a_batch_is_the_mean_of_its_episodes(make):
    plan = make()
    (batch,) = plan.batches([[0, 1, 2, 3]], 0)
    learner = plan.updater(World(), "cpu")
    learner.set_rate(0.0)
    loss, stop = learner.update(batch, 0)
    assert not stop
    together = [p.grad.clone() for p in plan.module.parameters()]
    losses = []
    plan.module.zero_grad()
    for episode in batch.episodes:
        each = plan.method.loss(episode.shots, episode.query)
        each.backward()
        losses.append(float(each.detach()))
    assert abs(loss - sum(losses) / 4) < 1e-5
    for whole, p in zip(together, plan.module.parameters(), strict=True):
        torch.testing.assert_close(whole, p.grad / 4)


def test_two_processes_change_the_network_as_one_does(make, monkeypatch):
    """Two threads stand for the processes: what they reduce is added up where both wait for it."""
    plans, (batch,) = [make() for _ in range(3)], make().batches([[0, 1, 2, 3]], 0)
    alone = plans[2].updater(World(), "cpu")
    alone.set_rate(0.1)
    loss, _ = alone.update(batch, 0)

    barrier, given, results = threading.Barrier(2, timeout=60), {}, {}

    def all_reduce(tensor):
        given[threading.current_thread().name] = tensor.clone()
        barrier.wait()
        tensor.copy_(given["0"] + given["1"])
        barrier.wait()

    def run(rank):
        learner = EpisodeLearner(plans[rank].method, plans[rank].settings, World(rank, 2))
        learner.set_rate(0.1)
        results[rank] = learner.update(EpisodeBatch(batch.episodes[rank::2]), 0, stopping=rank == 1)

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    threads = [threading.Thread(target=run, args=(rank,), name=str(rank)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert abs(results[0][0] - loss) < 1e-5
    assert results[0][1]  # one was asked to stop, and both know
    for expected, first, second in zip(*(plans[i].module.parameters() for i in (2, 0, 1)), strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_no_number_changes_nothing(make):
    plan = make()
    (batch,) = plan.batches([[0]], 0)
    (episode,) = batch.episodes
    broken = episode._replace(query=episode.query._replace(features=episode.query.features * float("nan")))
    before = [p.clone() for p in plan.module.parameters()]
    loss, _ = plan.updater(World(), "cpu").update(EpisodeBatch([broken]), 0)
    assert loss != loss
    assert all(torch.equal(a, b) for a, b in zip(before, plan.module.parameters(), strict=True))
