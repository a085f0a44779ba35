"""The binary DeCA objectives, per example, from logits in log space, with hand-written gradients.

Every function takes logits and returns one number per example; sums and means are the caller's.
Autograd through these few-thousand-element maps costs more than the maps themselves, so each is one
autograd node whose gradient is written out. `binary_reference` holds the same maths in plain words.

Symbols: ``f`` target logits, ``h`` the logits of the noise model of the current sub-task, ``labels`` the
observed, maybe wrong labels as 0. or 1. (anything that broadcasts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from accord.objectives.agreeing import weighted_kl

SubTask = Literal["dp", "dn"]


def cross_entropy(f: Tensor, labels: Tensor) -> Tensor:
    """−log P(ỹ) of a Bernoulli with logit ``f``."""
    return F.softplus((1 - 2 * labels) * f)


class _Denoising(torch.autograd.Function):
    """DP and DN are one formula: with w = P(y is the class the noise model explains),

    loss = −log P(ỹ | that class) · w + C · [ỹ is the class held clean] · (1 − w)
    """

    @staticmethod
    def forward(ctx: Any, f: Tensor, h: Tensor, labels: Tensor, constant: float, sub_task: SubTask) -> Tensor:
        sign = 1 - 2 * labels
        flipped = sign * h
        # DP explains y = 0 (w = 1 − f) and pays C1 on unclicked examples; DN explains y = 1 (w = f) and
        # pays C0 on clicked ones.
        turn = -1.0 if sub_task == "dp" else 1.0
        price = constant * (1 - labels if sub_task == "dp" else labels)
        weight = torch.sigmoid(turn * f)
        excess = F.softplus(flipped) - price
        ctx.save_for_backward(weight, excess, flipped, sign)
        ctx.turn = turn
        return torch.addcmul(price, weight, excess)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        weight, excess, flipped, sign = ctx.saved_tensors
        weighted = grad * weight
        to_f = weighted * (1 - weight) * excess * ctx.turn if ctx.needs_input_grad[0] else None
        to_h = weighted * sign * torch.sigmoid(flipped) if ctx.needs_input_grad[1] else None
        return to_f, to_h, None, None, None


def denoising(f: Tensor, h: Tensor, labels: Tensor, *, constant: float | Tensor, sub_task: SubTask) -> Tensor:
    """The DP or DN term of each example (the table of the method's binary objective).

    ``dp`` cleans the positives: ``h`` is the logit of P(ỹ=1 | y=0), ``constant`` is C1, paid by f on ỹ=0.
    ``dn`` cleans the negatives: ``h`` is the logit of P(ỹ=1 | y=1), ``constant`` is C0, paid by 1−f on ỹ=1.
    """
    return _Denoising.apply(f, h, labels, constant, sub_task)  # pyright: ignore[reportReturnType]


def joint_denoising(f: Tensor, h_dp: Tensor, h_dn: Tensor, labels: Tensor) -> Tensor:
    """Both noise models at once, no constants: −E_{y∼f}[log P(ỹ | y)]. The paper reports that it fails."""
    return denoising(f, h_dp, labels, constant=0.0, sub_task="dp") + denoising(
        f, h_dn, labels, constant=0.0, sub_task="dn"
    )


def stage_two(f: Tensor, h: Tensor, other: Tensor, labels: Tensor, *, sub_task: SubTask, full: bool) -> Tensor:
    """The second stage at the step of a sub-task, Eq. (training_objective_2) with two classes.

    The constants go, and the noise model of the other class enters without a gradient.

    ``h`` is the logit of the noise model of this sub-task's class, through which it learns, and ``other`` that of
    the other class. As printed, the sum leaves the other class out where it is the observed label;
    ``full`` keeps it.
    """
    turn: SubTask = "dn" if sub_task == "dp" else "dp"
    rest = denoising(f, other.detach(), labels, constant=0.0, sub_task=turn)
    if not full:
        rest = rest * (1 - labels if sub_task == "dp" else labels)
    return denoising(f, h, labels, constant=0.0, sub_task=sub_task) + rest


class _KL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor) -> Tensor:
        prob = torch.sigmoid(p)
        ctx.save_for_backward(p, q, prob)
        # Two differences, each weighted by its own probability, so that nothing large cancels.
        positive = F.logsigmoid(p) - F.logsigmoid(q)
        negative = F.logsigmoid(-p) - F.logsigmoid(-q)
        return torch.lerp(negative, positive, prob)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        p, q, prob = ctx.saved_tensors
        to_p = grad * prob * (1 - prob) * (p - q) if ctx.needs_input_grad[0] else None
        to_q = grad * (torch.sigmoid(q) - prob) if ctx.needs_input_grad[1] else None
        return to_p, to_q


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(P‖Q) of two Bernoulli distributions given by their logits."""
    return _KL.apply(p, q)  # pyright: ignore[reportReturnType]


def agreement(p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor:
    """α·KL(P‖Q) + (1−α)·KL(Q‖P), both from logits; a side whose weight is zero is not computed.

    DeCA: P = g and Q = f. DeCA(p): P = f and Q = f′.
    """
    return weighted_kl(kl_divergence, p, q, alpha)


def real_positive_probability(f: Tensor, h_dp: Tensor, h_dn: Tensor) -> Tensor:
    """P(y=1 | ỹ=1) = h′f / (h′f + h(1−f)), where h_dp is the logit of h and h_dn of h′."""
    return torch.sigmoid(f + F.logsigmoid(h_dn) - F.logsigmoid(h_dp))


def label_quality(f: Tensor, labels: Tensor) -> Tensor:
    """P_f(ỹ): how much the target believes each given label."""
    return torch.sigmoid(torch.where(labels > 0.5, f, -f))


def bpr(f: Tensor) -> Tensor:
    """BPR (Rendle et al., 2009): −log σ(click − non-click), of logits (1 + N, …), mean over the N non-clicks of
    each click: (1, …)."""
    return F.softplus(f[1:] - f[:1]).mean(0, keepdim=True)


def sampled_softmax(f: Tensor) -> Tensor:
    """−log of the click's share in the softmax of its own logit and those of its N non-clicks: (1, …)."""
    return torch.logsumexp(f, 0, keepdim=True) - f[:1]


RANKING: dict[str, Callable[[Tensor], Tensor]] = {"bpr": bpr, "softmax": sampled_softmax}
"""Losses of a click beside its non-clicks, by name; the logits of a click stand first."""


def average(members: list[Tensor]) -> Tensor:
    """Several models as one: the mean of their scores."""
    return torch.stack(members).mean(0)


def kept_positives(count: int | Tensor, drop_rate: float | Tensor, per_click: int = 1) -> int | Tensor:
    """How many of ``count`` positives a truncated loss keeps, and at least one.

    As many are dropped as the rate is of the whole batch, with its ``per_click`` negatives for each positive
    (rounded). So the authors of T-CE count: with one negative, twice that share of the positives goes.
    """
    examples = 1 + per_click
    if isinstance(drop_rate, Tensor) or isinstance(count, Tensor):
        kept = count - (torch.as_tensor(drop_rate, dtype=torch.float64) * (examples * count)).round()
        return kept.clamp(min=1)
    return max(1, count - round(drop_rate * (examples * count)))


def truncated_cross_entropy(f: Tensor, labels: Tensor, keep: int | Tensor, inside: Tensor | None = None) -> Tensor:
    """T-CE of a batch whose first row is its positives: their ``keep`` smallest losses, and all negatives.

    Mean over the kept positives plus mean over the negatives; for a stack of runs, (1 + N, R, B), one of each run,
    and ``keep`` may be (R, 1). What is not ``inside`` (R, B) only pads.
    """
    losses = cross_entropy(f, labels)
    negatives = losses[1:].mean(0)
    if not isinstance(keep, Tensor):
        kept = losses[0].topk(keep, largest=False, sorted=False).values.mean(-1)
        return kept + negatives.mean(-1)
    positives = losses[0] if inside is None else losses[0].masked_fill(~inside, torch.inf)
    ordered = positives.sort(dim=-1).values
    smallest = torch.arange(ordered.shape[-1], device=f.device) < keep
    kept = torch.where(smallest, ordered, 0.0).sum(-1) / keep.squeeze(-1).to(f.dtype)
    if inside is None:
        return kept + negatives.mean(-1)
    return kept + torch.where(inside, negatives, 0.0).sum(-1) / inside.sum(-1)


def truncated_share(losses: Tensor, keep: int, count: int, from_all: Callable[[Tensor], Tensor]) -> Tensor:
    """One rank's share of T-CE, (R,), of the losses (1 + N, R, b) of its part of a batch of ``count`` clicks.

    ``from_all`` puts numbers of its clicks beside those of the other ranks' parts. Of clicks with the same loss as
    the last one that is kept, each counts alike.
    """
    own = losses[0]
    everyone = from_all(own.detach())
    limit = everyone.kthvalue(keep, dim=-1, keepdim=True).values
    below = (everyone < limit).sum(-1, keepdim=True)
    tied = (everyone == limit).sum(-1, keepdim=True)
    weight = torch.where(own == limit, (keep - below) / tied, (own < limit).to(own.dtype)).to(own.dtype)
    return (own * weight).sum(-1) / keep + losses[1:].mean(0).sum(-1) / count


def reweighted_cross_entropy(f: Tensor, labels: Tensor, beta: float | Tensor) -> Tensor:
    """R-CE: cross-entropy weighted by P(ỹ)^β; the weight gets no gradient."""
    losses = cross_entropy(f, labels)
    return losses * torch.exp(-beta * losses.detach())
