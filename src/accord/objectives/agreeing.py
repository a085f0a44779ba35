"""The weight between the two directions of agreement; one formula for both tasks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def weighted_kl(kl: Callable[[Tensor, Tensor], Tensor], p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor:
    """α·KL(P‖Q) + (1−α)·KL(Q‖P); a side whose weight is zero is not computed.

    In a stack of runs α is a tensor, one for each.
    """
    if not isinstance(alpha, Tensor) and alpha == 1:
        return kl(p, q)
    if not isinstance(alpha, Tensor) and alpha == 0:
        return kl(q, p)
    return alpha * kl(p, q) + (1 - alpha) * kl(q, p)
