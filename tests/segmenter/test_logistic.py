"""Logistic regression as the classifier of the expert on objects."""

import numpy as np
import pytest
import torch

from repri import Segmenter
from repri.segmenter.inputs import Known
from repri.segmenter.logistic import LogisticClassifier, make_classifier, steps_of
from tests.make import build_quick

FREE = Known(None, None)


def scene(seed):
    """Three coloured squares on noise, as an image and the mask of its three classes."""
    rng = np.random.default_rng(seed)
    image = rng.integers(90, 130, (96, 128, 3)).astype(np.uint8)
    mask = np.zeros((96, 128), np.uint8)
    for n, colour in enumerate([(220, 40, 40), (40, 220, 40), (40, 40, 220)], 1):
        top, left = rng.integers(0, 64), 4 + 42 * (n - 1)
        image[top : top + 30, left : left + 30] = colour
        mask[top : top + 30, left : left + 30] = n
    return image, mask


@pytest.fixture(scope="module")
def fitted():
    images, masks = zip(*(scene(seed) for seed in range(2)), strict=True)
    return Segmenter(build_quick(), auto=False, refine="none").fit_maps(images, masks, ("red", "green", "blue"))


def logistic(fitted):
    old = fitted.classifier
    made = make_classifier(True, old.shots, old.classes, old.method, old.extractor, old.joint)
    assert isinstance(made, LogisticClassifier)
    return made


def test_it_tells_several_classes_apart(fitted):
    image, mask = scene(9)
    seen = fitted.look.see(image)
    answer = logistic(fitted).answer([seen], FREE)[0]
    full = seen.restore(answer.probability)
    claims = torch.cat([1 - full.sum(0, keepdim=True), full]).argmax(0).numpy()
    for n in (1, 2, 3):
        assert ((claims == n) & (mask == n)).sum() / ((claims == n) | (mask == n)).sum() > 0.5
    assert answer.proportion.shape == answer.presence.shape == (3,)
    assert torch.allclose(answer.proportion, torch.full((3,), 900 / (96 * 128)), atol=0.05)


def test_it_does_not_depend_on_the_number_of_threads(fitted):
    before, weights = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            weights.append(logistic(fitted).start.linear.weight)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*weights)


def test_a_known_proportion_is_kept():
    image, mask = scene(0)
    one = Segmenter(build_quick(), auto=False).fit(image, mask == 1)
    seen = one.look.see(image)
    free, more, bounded = (
        logistic(one).answer([seen], known)[0] for known in (FREE, Known((0.3,), None), Known(None, (0.2, 0.4)))
    )
    assert free.proportion.item() < 0.15
    assert more.probability[:, seen.valid].mean() > free.probability[:, seen.valid].mean() + 0.02
    assert bounded.proportion.item() == pytest.approx(0.2)


def test_the_terms_are_those_of_the_method():
    config = steps_of(Segmenter(build_quick(), method="ce").inference)
    assert (config.lambda_h, config.lambda_kl) == (0.0, 0.0)


def test_a_saved_segmenter_gives_the_same_masks(tmp_path):
    images, masks = zip(*(scene(seed) for seed in range(4)), strict=True)
    fitted = Segmenter("filters").fit_maps(images, masks, ("red", "green", "blue"))
    assert fitted.choice.logistic == isinstance(fitted.classifier, LogisticClassifier)
    fitted.save(tmp_path / "a.safetensors")
    image = scene(8)[0]
    assert np.array_equal(Segmenter.load(tmp_path / "a.safetensors").segment(image).mask, fitted.segment(image).mask)
