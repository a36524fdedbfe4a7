"""Episodes follow from the seed, hold no novel class, and show it to nothing that learns."""

import numpy as np
import torch

from repri.features.labels import cell_weights


def test_the_same_seed_draws_the_same_episodes(make):
    plan, again, other = make(), make({"data.root": None}), make({"seed": 1})
    assert plan.episodes.tasks == again.episodes.tasks
    assert plan.episodes.tasks.hash == again.episodes.tasks.hash != other.episodes.tasks.hash
    longer = make({"optimiser.epochs": 3})
    assert longer.episodes.tasks.runs[:2] == plan.episodes.tasks.runs  # a longer run begins alike
    one, two = (p.episodes.load(3, 1) for p in (plan, again))
    assert torch.equal(one.query.features, two.query.features)
    assert torch.equal(one.query.mask, two.query.mask)


def test_no_episode_is_of_a_novel_class(make):
    plan = make({"data.fold": 1})
    novel = plan.held_out.novel(1)
    assert not {plan.held_out.classes[id] for id in novel} & set(plan.classes)
    for part in (plan.episodes, plan.validation):
        tasks = [task for run in part.tasks.runs for task in run]
        assert not {task.class_id for task in tasks} & set(novel)
        assert all(task.query not in task.support for task in tasks)


def test_images_and_masks_are_flipped_alike(make):
    plan = make()
    flipped = 0
    for place in range(8):
        episode = plan.episodes.load(place, 0)
        for id, shot in zip((*episode.task.support, episode.task.query), (*episode.shots, episode.query), strict=True):
            stored = plan.episodes.store.get(plan.episodes.dataset[id].image)
            as_it_is = torch.equal(shot.features, stored)
            mask = plan.episodes.dataset.mask(id)
            view = plan.episodes.store.view(mask.shape)
            binary = view.mask(np.where(mask == 255, 255, mask == episode.task.class_id).astype(np.uint8))
            assert torch.equal(shot.mask, binary if as_it_is else binary.flip(-1))
            assert as_it_is or torch.equal(shot.features, stored.flip(-1))
            flipped += not as_it_is
    assert 3 <= flipped <= 13


def unweighted(shot, how):
    """bool [h, w]: cells that no prototype looks at."""
    return cell_weights(shot.mask, shot.grid, how).sum(0) == 0


def test_novel_pixels_reach_neither_loss_nor_prototypes(make):
    """Whatever the features at novel cells of a support are, the loss is the same; as background they change it."""
    changes = {"method.settings": {"width": 16, "align": 0.0}}  # alignment segments the support
    plans = [make(changes | {"episodes.novel": rule}) for rule in ("ignore", "background")]
    assert plans[0].episodes.tasks.hash == plans[1].episodes.tasks.hash
    noise, tested = torch.Generator().manual_seed(0), 0
    for place in range(8):
        ignored, background = (plan.episodes.load(place) for plan in plans)
        hidden, kept = (unweighted(e.shots[0], plans[0].method.weighting) for e in (ignored, background))
        if hidden.sum() - kept.sum() < 3:
            continue
        tested += 1
        shot = ignored.shots[0]
        other = torch.where(hidden, torch.randn(shot.features.shape, generator=noise).to(shot.features), shot.features)
        pairs = []
        for plan, episode in zip(plans, (ignored, background), strict=True):
            shots = [episode.shots[0]._replace(features=features) for features in (shot.features, other)]
            pairs.append([plan.method.loss([s], ignored.query).detach() for s in shots])
        assert pairs[0][0] == pairs[0][1]
        assert pairs[1][0] != pairs[1][1]
    assert tested


def test_novel_pixels_of_a_query_have_no_loss(make):
    plan = make({"episodes.number": 16})
    classes = set()
    for place in range(16):
        episode = plan.episodes.load(place)
        classes |= set(episode.query.classes.unique().tolist())
        novel = episode.query.classes == 255
        assert (episode.query.mask[novel] == 255).all()
        assert ((episode.query.mask == 1) <= (episode.query.classes != 0)).all()
    assert classes == {0, 1, 2, 3, 4, 5, 6, 255}
