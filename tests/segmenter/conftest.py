"""What the tests of the segmenter share: generated scenes, and features that need no weights."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri import Segmenter
from repri.data.datasets.scenes import make_task
from repri.features.whitening import whitening_of
from repri.models import load_extractor


class Annotated(NamedTuple):
    """An image [H, W, 3] and its mask [H, W]."""

    image: np.ndarray
    mask: np.ndarray


@pytest.fixture(scope="session")
def pair():
    """A generated task that filters solve: the annotated image and the query, each with its mask."""
    task = make_task(0)
    shown = [(task.support[0], task.support_masks[0]), (task.query, task.query_mask)]
    return [Annotated((image.movedim(0, -1) * 255).round().byte().numpy(), mask.numpy()) for image, mask in shown]


@pytest.fixture(scope="session")
def extractor(pair):
    """Filters at half their size, with a whitening of their own, so that no other model is needed."""
    filters = load_extractor("filters")
    filters.rule = filters.rule._replace(size=128)
    cells = [filters.extract(filters.view((256, 256)).pixels(item.image)[None])[0].flatten(1).T for item in pair]
    filters.whitening = whitening_of(F.normalize(torch.cat(cells), dim=1))
    return filters


@pytest.fixture(scope="session")
def fitted(pair, extractor):
    return Segmenter(extractor, refine="none", auto=False).fit(pair[0].image, pair[0].mask)


@pytest.fixture(scope="session")
def two_classes():
    """Two textures, each annotated in an image of its own: images, masks, a query that shows both, its truth."""
    tasks = [make_task(seed) for seed in (0, 2)]
    images = [(task.support[0].movedim(0, -1) * 255).byte().numpy() for task in tasks]
    queries = [(task.query.movedim(0, -1) * 255).byte().numpy() for task in tasks]
    masks = [task.support_masks[0].numpy() for task in tasks]
    truth = np.concatenate([tasks[0].query_mask.numpy(), 2 * tasks[1].query_mask.numpy()], 1)
    return images, masks, np.concatenate(queries, 1), truth
