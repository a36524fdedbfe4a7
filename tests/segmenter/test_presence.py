"""Whether an image shows a class at all."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri import Segmenter, load_extractor, open_dataset
from repri.data.datasets.examples import EXAMPLES
from repri.data.datasets.index import class_index, class_lists
from repri.segmenter.presence import class_directions, presence_of, similarity, whitened


def test_directions_are_means_of_labelled_cells():
    white = [F.normalize(torch.randn(8, 4, 5), dim=0), F.normalize(torch.randn(8, 5, 4), dim=0)]
    labels = [torch.randint(0, 3, (4, 5)), torch.randint(0, 3, (5, 4))]
    labels[0][0] = 255
    found = class_directions(white, labels, 2)
    for n in (1, 2):
        total = sum(maps[:, label == n].sum(1) for maps, label in zip(white, labels, strict=True))
        torch.testing.assert_close(found[n - 1], F.normalize(total, dim=0))
    soft = [torch.rand(4, 5), torch.rand(5, 4)]
    total = sum((maps * label).sum((1, 2)) for maps, label in zip(white, soft, strict=True))
    torch.testing.assert_close(class_directions(white, soft, 1)[0], F.normalize(total, dim=0))


def test_similarity_is_the_mean_of_the_most_similar_cells():
    white, direction = F.normalize(torch.randn(8, 20, 20), dim=0), F.normalize(torch.randn(1, 8), dim=1)
    valid = torch.ones(20, 20, dtype=torch.bool)
    valid[10:] = False
    cosines = sorted((direction @ white[:, :10].flatten(1))[0].tolist(), reverse=True)
    assert similarity(white, valid, direction).item() == pytest.approx(np.mean(cosines[:4]), abs=1e-5)  # 2 % of 200


def test_presence_grows_with_similarity():
    values = presence_of(torch.tensor([-1.0, 0.324, 1.0]))
    assert values[1] == pytest.approx(0.5)
    assert values[0] < 0.01
    assert values[2] > 0.98


def test_an_extractor_without_a_whitening_borrows_that_of_the_embedded_model(pair):
    filters, image = load_extractor("filters"), pair[0].image
    view = filters.view((256, 256), size=64)
    features = filters.extract(view.pixels(image)[None])[0]
    white = whitened(filters, features, view, image)
    assert tuple(white.shape[1:]) == view.grid.cells
    torch.testing.assert_close(white.norm(dim=0), torch.ones(view.grid.cells))
    filters.whitening = lambda features: features[:3]
    assert torch.equal(whitened(filters, features, view, image), features[:3])


def test_a_class_that_is_not_there_is_not_marked():
    """Of a person and stained tissue, only the person is in the photograph, and only it gets pixels."""
    (support,), (query, *_), (tissue,) = (
        EXAMPLES["people"].support(),
        EXAMPLES["people"].queries(),
        EXAMPLES["tissue"].support(),
    )
    examples = {"person": (support.image, support.mask), "tissue": (tissue.image, tissue.mask)}
    fitted = Segmenter(size=257, auto=False).fit(examples)
    result = fitted.segment(query.image)
    assert result.presences["person"] > 0.5 > result.presences["tissue"]
    assert (result.mask == 1).any()
    assert not (result.mask == 2).any()
    told = fitted.segment(query.image, proportion={"person": 0.3, "tissue": 0.1})  # a user who knows is believed
    assert (told.mask == 2).any()


def test_presence_on_photographs_with_and_without_cats(test_data):
    """Five annotated cats: images with a cat score higher than images without one."""
    data = open_dataset("pascal", str(test_data / "data" / "voc5i"))
    index = class_index(data)
    cat = next(id for id, name in data.classes.items() if name == "cat")
    cats = class_lists(data, index)[cat]
    others = [s.id for s, count in zip(data.samples, index.of(cat), strict=True) if count == 0][::60][:15]
    shots = [data.pair(id) for id in cats[:5]]
    fitted = Segmenter(refine="none", size=321, auto=False).fit(
        [image for image, _ in shots], [np.where(mask == 255, 255, mask == cat) for _, mask in shots]
    )
    with_cats, without = (
        np.array([result.presence for result in fitted.segment_many([data[id].image for id in ids])])
        for ids in (cats[5:20], others)
    )
    assert (with_cats[:, None] > without).mean() > 0.8
    assert (with_cats > 0.5).mean() > 0.6
    assert (without < 0.5).mean() > 0.6
