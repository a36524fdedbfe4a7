"""Several classes in one classifier, against the one-class solver and against autograd."""

import pytest
import torch
import torch.nn.functional as F

from repri.inference import InferenceConfig, infer, infer_joint
from repri.runtime.errors import RepriError

from .make import config_of


def made(classes=1, shots=2, queries=3, size=10, channels=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes + 1, channels, generator=g)

    def features(labels):
        noise = torch.randn(*labels.shape, channels, generator=g)
        return (centres[labels] + 1.3 * noise).movedim(-1, 1)

    labels = torch.zeros(shots * classes, size, size, dtype=torch.long)
    for i in range(len(labels)):
        labels[i, 2:7, 1:6] = i % classes + 1
    truth = torch.zeros(queries, size, size, dtype=torch.long)
    for n in range(1, classes + 1):
        truth[:, 3 * n - 3 : 3 * n, 4:9] = n
    return features(labels), labels, features(truth), truth


@pytest.mark.parametrize("preset", ["clean", "trained", "discriminant", "ce", "ce_h"])
def test_one_class_is_the_usual_problem(preset):
    support, labels, query, _ = made()
    config = config_of(preset)
    masks = labels.to(torch.uint8)[None].expand(3, -1, -1, -1)
    rows, known = support[None].expand(3, -1, -1, -1, -1), query[0, :, 0, 0]
    usual = infer(rows, masks, query, config, background=known, backend="torch")
    joint = infer_joint(support, labels, query, 1, config, background=known)
    torch.testing.assert_close(joint.probability[:, 1], usual.probability, rtol=0, atol=1e-5)
    torch.testing.assert_close(joint.proportion[:, 1], usual.proportion, rtol=0, atol=1e-5)


def test_known_proportions_and_padding():
    support, labels, query, _ = made()
    valid = torch.ones(3, 10, 10, dtype=torch.bool)
    valid[:, 8:] = False
    told = torch.tensor([0.1, 0.2, 0.4])
    config = config_of("oracle")
    masks = labels.to(torch.uint8)[None].expand(3, -1, -1, -1)
    rows = support[None].expand(3, -1, -1, -1, -1)
    usual = infer(rows, masks, query, config, valid, told, backend="torch")
    joint = infer_joint(support, labels, query, 1, config, valid, told[:, None])
    torch.testing.assert_close(joint.probability[:, 1], usual.probability, rtol=0, atol=1e-4)
    assert torch.equal(joint.proportion[:, 1], told)


def test_steps_are_gradient_descent():
    """The objective written down once more, differentiated by autograd."""
    support, labels, query, _ = made(classes=3, queries=2)
    config = InferenceConfig.preset("clean").replace(steps=7, t_pi=None)
    found = infer_joint(support, labels, query, 3, config)
    z = F.normalize(support.movedim(1, -1).flatten(0, 2), dim=-1)
    y = F.one_hot(labels.flatten(), 4).float()
    q = F.normalize(query.flatten(2).mT, dim=-1)
    start = infer_joint(support, labels, query, 3, config.replace(steps=0))
    theta, b, pi = start.prototypes.clone(), torch.zeros(2, 3), start.proportion
    weight = config.transduction / 2  # two images show each class
    for _ in range(7):
        theta.requires_grad_()
        b.requires_grad_()

        def logits(rows, theta=theta, b=b):
            return 20 * rows @ F.normalize(theta, dim=-1).mT - torch.cat([torch.zeros(2, 1), b], 1)[:, None]

        ce = -(y * logits(z).log_softmax(-1)).sum(-1).mean(1)
        p = logits(q).softmax(-1)
        entropy = -(p * p.log()).sum(-1).mean(1)
        marginal = p.mean(1)
        kl = (marginal * (marginal / pi).log()).sum(1)
        loss = (ce + weight * entropy + weight * kl).sum()
        grads = torch.autograd.grad(loss, (theta, b))
        theta, b = (theta - config.lr * grads[0]).detach(), (b - config.lr * grads[1]).detach()
    torch.testing.assert_close(found.prototypes, theta, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.bias[:, 1:], b, rtol=1e-4, atol=1e-5)


def test_classes_are_told_apart():
    support, labels, query, truth = made(classes=3)
    found = infer_joint(support, labels, query, 3)
    torch.testing.assert_close(found.probability.sum(1), torch.ones(3, 10, 10))
    assert (found.probability.argmax(1) == truth).float().mean() > 0.9
    again = found.probabilities(query)
    torch.testing.assert_close(again, found.probability)


def test_a_class_too_small_for_the_grid_keeps_a_cell():
    support, labels, query, _ = made(classes=2)
    fine = labels.repeat_interleave(8, 1).repeat_interleave(8, 2)
    fine[fine == 2] = 0
    fine[1, 33:35, 33:35] = 2
    found = infer_joint(support, fine, query, 2)
    assert found.probability.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"classes": 2}, "Class 2 is nowhere in the support labels: mark it"),
        ({"proportion": [0.2, 0.3]}, "proportion must hold one number for each of 1 classes"),
        ({"proportion": [1.2]}, "must be above 0, and their sum below 1"),
        ({"cfg": InferenceConfig.preset("original")}, "need settings like those of 'clean'"),
        ({"labels": torch.full((2, 10, 10), 7)}, "The labels must be 0 … 1 or 255, got 7"),
        ({"query": torch.full((3, 24, 10, 10), float("nan"))}, "features hold NaN or Inf: check the feature extractor"),
        ({"query": torch.zeros(3, 7, 10, 10)}, "support has 24 channels and query 7"),
    ],
)
def test_mistakes(changes, sentence):
    support, labels, query, _ = made()
    given = {"support": support, "labels": labels, "query": query, "classes": 1} | changes
    with pytest.raises(RepriError, match=sentence):
        infer_joint(**given)
