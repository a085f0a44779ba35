"""Several recommenders that answer as one: weighted log-odds, less a price for their disagreement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

HEAD = "council-head"
"""What a run folder calls the architecture of the head."""


class CouncilHead(nn.Module):
    """How members answer together: each one's scale and offset, its weight, and κ.

    Members' scores are brought to one scale, log-odds of a held-out click. The council's log-odds are their
    weighted mean less κ times their weighted standard deviation.
    """

    scale: Tensor
    offset: Tensor
    weight: Tensor
    kappa: Tensor

    def __init__(self, members: int = 0) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(members))
        self.register_buffer("offset", torch.zeros(members))
        self.register_buffer("weight", torch.full((members,), 1 / max(1, members)))
        self.register_buffer("kappa", torch.zeros(()))

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        sizes = [state_dict.get(f"{prefix}{name}", torch.empty(0)).shape for name in ("scale", "offset", "weight")]
        if len(sizes[0]) == 1 and len(set(sizes)) == 1:  # as many members as the run has
            for name in ("scale", "offset", "weight"):
                setattr(self, name, torch.empty(sizes[0], device=self.kappa.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def joined(self, each: Sequence[Tensor]) -> Tensor:
        """The council's log-odds of the members' scores, all of one shape."""
        mean = square = torch.zeros(())
        for k, one in enumerate(each):
            if not float(self.weight[k]):
                continue
            logits = one * self.scale[k] + self.offset[k]
            mean = mean + self.weight[k] * logits
            square = square + self.weight[k] * logits**2
        if not float(self.kappa):
            return mean
        return mean - self.kappa * (square - mean**2).clamp(min=0).sqrt()


class Together(nn.Module):
    """Members and their head as one recommender. Nothing in it learns: it is measured once."""

    def __init__(self, members: Sequence[nn.Module], head: CouncilHead) -> None:
        super().__init__()
        self.members, self.head = nn.ModuleList(members), head

    def solve(self, sweep: int) -> Iterator[float]:
        """Its members have learnt already."""
        yield 1.0

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.head.joined([member.logits(users, items) for member in self.members])  # pyright: ignore

    def scores(self, users: Tensor) -> Tensor:
        return self.head.joined([member.scores(users) for member in self.members])  # pyright: ignore


class Taught(nn.Module):
    """What a student learns from: the teacher's log-odds, computed once where all pairs fit into memory."""

    LARGEST = 1 << 28
    """Users × items of a table: 1 GiB."""
    BLOCK = 1 << 22
    """Scores computed at a time."""

    table: Tensor | None

    def __init__(self, teacher: nn.Module, n_users: int, n_items: int, device: torch.device) -> None:
        super().__init__()
        self.teacher, self.table = teacher, None
        if n_users * n_items > self.LARGEST:
            return
        self.table = torch.empty(n_users, n_items, device=device)
        with torch.no_grad():
            for users in torch.arange(n_users, device=device).split(max(1, self.BLOCK // n_items)):
                self.table[users] = teacher.scores(users)  # pyright: ignore[reportCallIssue]

    @torch.no_grad()
    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        if self.table is None:
            return self.teacher.logits(users, items)  # pyright: ignore[reportCallIssue]
        return self.table.view(-1)[users * self.table.shape[1] + items]
