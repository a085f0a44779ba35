"""The multi-class objectives, from logits in log space; `multiclass_reference` is the plain form of each.

``f`` holds the target's logits, one row for each example; the classes are its last dimension, and in a stack the
runs its first. The noise model hφ enters as costs: −log hφ(x, c)[ỹ], the price of explaining the observed label ỹ
by the true class c.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from accord.objectives.agreeing import weighted_kl


def cross_entropy(f: Tensor, labels: Tensor) -> Tensor:
    """−log P(ỹ) for each example; of labels that are probabilities (…, C), its mean over them."""
    if labels.is_floating_point():
        return F.cross_entropy(f.flatten(0, -2), labels.flatten(0, -2), reduction="none").view(f.shape[:-1])
    return F.cross_entropy(f.flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)


def label_quality(f: Tensor, labels: Tensor) -> Tensor:
    """P_f(ỹ): how much the target believes each given label."""
    return torch.softmax(f, -1).gather(-1, labels[..., None]).squeeze(-1)


def average(members: list[Tensor]) -> Tensor:
    """Logits of the mean of several models' probabilities."""
    logs = torch.stack([F.log_softmax(f, -1) for f in members])
    return torch.logsumexp(logs, 0)


class _KL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor) -> Tensor:
        log_p, log_q = F.log_softmax(p, -1), F.log_softmax(q, -1)
        prob, difference = log_p.exp(), log_p - log_q
        kl = (prob * difference).sum(-1)
        ctx.save_for_backward(prob, difference, kl, log_q)
        return kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        prob, difference, kl, log_q = ctx.saved_tensors
        to_p = grad[..., None] * prob * (difference - kl[..., None]) if ctx.needs_input_grad[0] else None
        to_q = grad[..., None] * (log_q.exp() - prob) if ctx.needs_input_grad[1] else None
        return to_p, to_q


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(P‖Q) of two categorical distributions given by their logits."""
    return _KL.apply(p, q)  # pyright: ignore[reportReturnType]


def agreement(p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor:
    """α·KL(P‖Q) + (1−α)·KL(Q‖P); the paper's multi-class form has α = 1, with P = f and Q = f′."""
    return weighted_kl(kl_divergence, p, q, alpha)


def stage_one(f: Tensor, cost: Tensor, labels: Tensor, k: Tensor, c1: float | Tensor, c2: float | Tensor) -> Tensor:
    """The first stage at the step of class k, Eq. (training_objective_1): only hφ(x, k) is free.

    ``cost`` is −log hφ(x, k)[ỹ]; ``c1`` is paid where ỹ = k and y is not, ``c2`` where ỹ ≠ k and y is neither.
    """
    p = torch.softmax(f, -1)
    p_k = p.index_select(-1, k.view(1)).squeeze(-1)
    p_given = p.gather(-1, labels[..., None]).squeeze(-1)
    is_k = labels == k
    others = torch.where(is_k, c1 * (1 - p_k), c2 * (1 - p_k - p_given))
    return others + cost * p_k


def stage_two(
    f: Tensor, cost: Tensor, costs: Tensor, labels: Tensor, k: Tensor, chosen: Chosen | None = None, *, full: bool
) -> Tensor:
    """The second stage at the step of class k, Eq. (training_objective_2): Σ_c −log hφ(x, c)[ỹ] · p_c.

    ``cost`` is that of class k, through which hφ learns; ``costs`` holds every class's, or the ``chosen`` ones',
    and gets no gradient. As printed, the sum leaves out c = ỹ where ỹ ≠ k; ``full`` keeps it.
    """
    p = torch.softmax(f, -1)
    p_k = p.index_select(-1, k.view(1)).squeeze(-1)
    if chosen is None:
        classes = torch.arange(f.shape[-1], device=f.device)[None]
        counted = classes != k
    else:
        p = p.gather(-1, chosen.classes)
        classes = chosen.classes
        counted = chosen.weights * (classes != k)
    if not full:
        counted = counted * (classes != labels[..., None])
    return (p * costs.detach() * counted).sum(-1) + cost * p_k


class Chosen(NamedTuple):
    """Some classes of each example, (examples, classes), and the weight of each of them in the sum."""

    classes: Tensor
    weights: Tensor


def choose_classes(f: Tensor, step: int | Tensor, likely: int, in_turn: int) -> Chosen:
    """The ``likely`` most probable classes of each example, and ``in_turn`` others that represent the rest.

    The others are evenly spaced over all classes and change with every step. Each class is chosen equally often
    and then counts n/in_turn times. So over a round of steps a sum over the chosen classes is the sum over all.
    """
    n = f.shape[-1]
    top = f.detach().topk(likely, -1, sorted=False).indices
    spacing = torch.arange(in_turn, device=f.device) * n // in_turn
    stride = TURN if n % TURN else TURN + 8  # prime both, and so without a factor in common with n
    turn = ((spacing + step * stride + step // n) % n).expand(*f.shape[:-1], -1)
    in_top = (turn[..., :, None] == top[..., None, :]).any(-1)
    weights = torch.cat([torch.ones_like(top, dtype=f.dtype), (n / in_turn) * (~in_top).to(f.dtype)], -1)
    return Chosen(torch.cat([top, turn], -1), weights)


TURN = 7919
"""A prime, so that the classes taken in turn have no pattern in common with the class of the step."""


def given_label_posterior(f: Tensor, costs: Tensor, labels: Tensor) -> Tensor:
    """P(y = ỹ | ỹ) = p_ỹ·hφ(x, ỹ)[ỹ] / Σ_c p_c·hφ(x, c)[ỹ], from the costs of every class."""
    return label_quality(F.log_softmax(f, -1) - costs, labels)
