"""The paper's §3.3 written down with autograd, float64, one task at a time. Shares no code with the solver."""

import torch
import torch.nn.functional as F


def downsample(mask, size):
    return F.interpolate(mask[:, None].double(), size=size, mode="nearest")[:, 0]


def reference_infer(
    support, masks, query, *, paper, valid=None, proportion=None, steps=50, t_pi=10, lr=0.025, tau=20.0
):
    """One task: support [K, C, h, w], masks [K, H, W], query [C, h, w] → dict of tensors.

    ``paper``: s = sigmoid(τ[cos − b]), w⁰ = Σ ỹ z / (K|Ψ|), Eq. 3 to the letter. Otherwise the
    bias in logit units, w⁰ the mean over foreground pixels, π and λ changed before step t_π − 1.
    Losses are per labelled or valid pixel.
    """
    shots = len(support)
    labels = downsample(masks, support.shape[-2:])
    valid = torch.ones(query.shape[-2:]).double() if valid is None else downsample(valid[None], query.shape[-2:])[0]
    labelled = labels != 255
    z_s = support / support.norm(dim=1, keepdim=True).clamp_min(1e-300)
    z_q = query / query.norm(dim=0, keepdim=True).clamp_min(1e-300)

    y = torch.where(labelled, labels, 0.0)
    w = torch.einsum("khw,kchw->c", y, z_s) / (labelled.sum() if paper else y.sum())
    mean_cosine = (F.cosine_similarity(z_q, w[:, None, None], dim=0) * valid).sum() / valid.sum()
    b = mean_cosine if paper else tau * mean_cosine

    def foreground(features, dim, w, b):
        cosine = F.cosine_similarity(
            features, w.reshape([-1 if d == dim else 1 for d in range(features.ndim)]), dim=dim
        )
        return torch.sigmoid(tau * (cosine - b) if paper else tau * cosine - b)

    def marginal(w, b):
        p = foreground(z_q, 0, w, b)
        fg = (p * valid).sum() / valid.sum()
        return torch.stack([1 - fg, fg])

    with torch.no_grad():
        initial = foreground(z_q, 0, w, b)
        pi = marginal(w, b)
    fixed = proportion is not None
    if fixed:
        pi = torch.tensor([1 - proportion, proportion], dtype=torch.float64)
    lambda_h = lambda_kl = 1 / shots
    losses = []
    for t in range(steps):
        if not paper and not fixed and t == t_pi - 1 and t > 0:
            pi, lambda_kl = marginal(w, b).detach(), lambda_kl + 1
        if paper and not fixed and t == t_pi:
            lambda_kl += 1
        w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
        p_s, p_q = foreground(z_s, 1, w, b), foreground(z_q, 0, w, b)
        ce = -(labelled * (y * p_s.log() + (1 - y) * (1 - p_s).log())).sum() / labelled.sum()
        entropy = -(valid * (p_q * p_q.log() + (1 - p_q) * (1 - p_q).log())).sum() / valid.sum()
        p_hat = marginal(w, b)
        kl = (p_hat * (p_hat / pi).log()).sum()
        loss = ce + lambda_h * entropy + lambda_kl * kl
        losses.append([x.item() for x in (ce, entropy, kl, loss)])
        loss.backward()
        before = p_hat.detach()
        w, b = w.detach() - lr * w.grad, b.detach() - lr * b.grad
        if paper and not fixed and t == t_pi:  # for t > t_π the target is p̂ of θ at t_π
            pi = before
    return {
        "prototype": w,
        "bias": b,
        "proportion": pi[1],
        "probability": foreground(z_q, 0, w, b),
        "initial_probability": initial,
        "losses": torch.tensor(losses, dtype=torch.float64).reshape(-1, 4),
    }
