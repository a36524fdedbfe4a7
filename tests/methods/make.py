"""Easy episodes: an object of one direction on a ground of another."""

import torch

from repri.features import Grid
from repri.methods import Episode, Shot, Support

__all__ = ["check_gradient", "copies", "episode_of", "make_episode", "make_shots", "overfit"]


def make_episode(shots=2, ragged=False, told=True):
    """An episode of 16 channels, and the truth [h, w] about its query; ``told``: it holds the true proportion."""
    g = torch.Generator().manual_seed(0)
    sizes = [(6, 8), (8, 6) if ragged else (6, 8), (7, 7) if ragged else (6, 8)][: shots + 1]
    directions = torch.randn(2, 16, generator=g)
    features, labels = [], []
    for h, w in sizes:
        mask = torch.zeros(h, w, dtype=torch.uint8)
        mask[1:4, 2:5] = 1
        features.append(directions[mask.long()].movedim(-1, 0) + 0.3 * torch.randn(16, h, w, generator=g))
        labels.append(mask)
    proportion = float(labels[-1].float().mean()) if told else None
    return Episode(Support(features[:-1], labels[:-1]), features[-1], None, proportion), labels[-1]


def make_shots(count=2, cells=(3, 4), channels=5, seed=0, dtype=torch.float32):
    """Labelled images on small grids: an object of 11×13 pixels, and a column without labels."""
    g = torch.Generator().manual_seed(seed)
    grid = Grid.of(cells, (8 * cells[0], 8 * cells[1]), 8, on_pixels=False)
    shots = []
    for k in range(count):
        mask = torch.zeros(grid.pixels, dtype=torch.uint8)
        mask[2 + k : 13 + k, 5:18] = 1
        mask[:, -3:] = 255
        classes = torch.where(mask == 1, 3, mask)
        shots.append(Shot(torch.randn(channels, *cells, generator=g, dtype=dtype), mask, grid, classes))
    return shots


def episode_of(shots, query, widths=None):
    """The same as an episode."""
    labels = [shot.mask[4::8, 4::8] for shot in shots]
    support = Support([s.features for s in shots], labels, [s.mask for s in shots], [s.grid for s in shots])
    return Episode(support, query.features, widths=widths)


def copies(method, widths=None, tolerance=1e-4):
    """Whether five copies of a shot say the same as one, and the order of two shots does not matter."""
    first, second, query = make_shots(3, (5, 6))
    once, often = (method.predict(episode_of([first] * n, query, widths)).logits for n in (1, 5))
    there, back = (method.predict(episode_of(two, query, widths)).logits for two in ([first, second], [second, first]))
    return torch.allclose(once, often, atol=tolerance) and torch.allclose(there, back, atol=tolerance)


def check_gradient(method, names, widths=(5,), shots=2):
    """Compare some entries of the gradient of the loss with finite differences in float64."""
    network = method.start(widths).double().eval()
    *support, query = make_shots(shots + 1, channels=sum(widths), dtype=torch.float64)
    method.loss(support, query).backward()
    parameters = dict(network.named_parameters())
    for name in names:
        flat, grad = parameters[name].data.view(-1), parameters[name].grad.view(-1)
        index = int(grad.abs().argmax())
        values = []
        for step in (1e-6, -1e-6):
            old = flat[index].item()
            flat[index] = old + step
            values.append(method.loss(support, query).item())
            flat[index] = old
        slope = (values[0] - values[1]) / 2e-6
        assert abs(grad[index]) > 1e-6, name
        assert abs(slope - grad[index].item()) < 1e-5 + 1e-4 * abs(slope), name


def overfit(method, steps, rate=0.02, widths=(8,)):
    """IoU at the cells of a query after some steps on its episode. The object differs in one weak channel."""
    g = torch.Generator().manual_seed(3)
    shots = []
    for shot in make_shots(2, (6, 6), sum(widths)):
        mask = torch.zeros(48, 48, dtype=torch.uint8)
        mask[8:32, 16:40] = 1
        features = torch.randn(sum(widths), 6, 6, generator=g)
        features[0] = 0.6 * mask[::8, ::8] - 0.3 + 0.05 * features[0]
        shots.append(shot._replace(features=features, mask=mask, classes=3 * mask))
    *support, query = shots
    network = method.start(widths).train()
    moments = {p: [torch.zeros_like(p), torch.zeros_like(p)] for p in network.parameters()}
    for step in range(1, steps + 1):  # Adam, without the long import of torch.optim
        network.zero_grad()
        method.loss(support, query).backward()
        for p, (first, second) in moments.items():
            if p.grad is not None:
                first.mul_(0.9).add_(0.1 * p.grad)
                second.mul_(0.99).add_(0.01 * p.grad**2)
                p.data -= rate * (first / (1 - 0.9**step)) / ((second / (1 - 0.99**step)).sqrt() + 1e-8)
    inside = method.predict(episode_of(support, query, widths)).logits > 0
    truth = query.mask[4::8, 4::8] == 1
    return float((inside & truth).sum() / (inside | truth).sum())
