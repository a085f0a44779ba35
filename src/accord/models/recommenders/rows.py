"""Rows of clicks, one of each user, end to end."""

from __future__ import annotations

import torch
from torch import Tensor


def clicks_of(users: Tensor, starts: Tensor, clicked: Tensor) -> tuple[Tensor, Tensor]:
    """The clicks of some users (B,): the position of each in ``users``, and its item."""
    first = starts[users]
    sizes = starts[users + 1] - first
    position = torch.arange(len(users), device=users.device).repeat_interleave(sizes)
    shift = first - (sizes.cumsum(0) - sizes)
    return position, clicked[shift[position] + torch.arange(len(position), device=users.device)].long()
