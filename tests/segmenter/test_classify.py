"""From cells to probabilities: one class, or several that compete."""

import numpy as np
import pytest
import torch

from repri import Segmenter
from repri.segmenter.classify import Answer
from repri.segmenter.inputs import Known, known_proportion

FREE = Known(None, None)


@pytest.mark.parametrize("joint", [True, False])
def test_an_absent_class_leaves_its_pixels_to_the_others(extractor, joint):
    halves = np.repeat(np.array([[1, 2]], np.uint8), 48, 0).repeat(32, 1)
    image = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    fitted = Segmenter(extractor, joint=joint, auto=False).fit_maps([image], [halves], ("cat", "dog"))
    told = known_proportion({"cat": 0.2, "dog": 0.2}, fitted.classes)
    claims = torch.tensor([0.4, 0.55])[:, None, None] if joint else torch.tensor([0.9, 0.95])[:, None, None]
    answer = Answer(claims, torch.tensor([0.2, 0.3]), torch.tensor([0.9, 0.2]))
    free = fitted.classifier.one_map(answer, FREE)
    assert free.probability[0].item() == pytest.approx(0.4 / 0.45 if joint else 0.9)
    assert free.probability[1].item() == free.proportion[1].item() == 0
    known = fitted.classifier.one_map(answer, told)
    assert (known.probability > 0).all()
    assert (known.probability.sum(0) <= 1 + 1e-6).all()
    assert torch.equal(known.proportion, answer.proportion)


def test_the_likeliest_class_always_stays(extractor):
    halves = np.repeat(np.array([[1, 2]], np.uint8), 48, 0).repeat(32, 1)
    image = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    fitted = Segmenter(extractor, auto=False).fit_maps([image], [halves], ("cat", "dog"))
    answer = Answer(torch.tensor([0.4, 0.5])[:, None, None], torch.tensor([0.2, 0.3]), torch.tensor([0.1, 0.2]))
    kept = fitted.classifier.one_map(answer, FREE)
    assert kept.probability[0] == 0
    assert kept.probability[1] > 0


def test_a_single_class_is_left_as_it_is(fitted):
    answer = Answer(torch.rand(1, 4, 4), torch.tensor([0.2]), torch.tensor([0.1]))
    assert fitted.classifier.one_map(answer, FREE) is answer


def test_queries_of_a_batch_have_the_sizes_of_their_own_cells(pair, fitted):
    queries = [fitted.look.see(image) for image in (pair[1].image, pair[1].image[:150])]
    for seen, answer in zip(queries, fitted.classifier.answer(queries, FREE), strict=True):
        assert answer.probability.shape == (1, *seen.valid.shape)
        assert answer.proportion.shape == answer.presence.shape == (1,)


def test_each_class_against_the_rest_has_a_support_of_its_own(extractor, two_classes):
    images, masks, _, _ = two_classes
    maps = [masks[0], 2 * masks[1]]
    classifier = Segmenter(extractor, joint=False, auto=False).fit_maps(images, maps, ("a", "b")).classifier
    first, second = classifier.supports
    assert set(first.labels[0].unique().tolist()) == {0, 1}
    assert set(first.labels[1].unique().tolist()) == {0}
    assert set(second.labels[1].unique().tolist()) == {0, 1}
    assert classifier.directions.shape == (2, extractor.whitening.basis.shape[1])
