"""Several networks of one architecture as one: their parameters share tensors with a leading run dimension.

Every member stays a whole network of its own, whose parameters are views into the stack: it scores, is saved and is
restored as if it stood alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Stack(nn.Module):
    """R networks of one architecture. A kind of stack adds `logits`, or `outputs` for classifiers.

    What the members average along the way (their buffers) is shared in the same way where a kind asks for it.
    """

    averages = False
    """Whether the members' buffers are stacked too."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.names = [name for name, _ in members[0].named_parameters()]
        self.buffer_names = [name for name, _ in members[0].named_buffers()] if self.averages else []
        self._all = self._members = list(members)  # no submodules: their parameters are the stack's own
        for name in self.names:
            self.register_parameter(_flat(name), nn.Parameter(self._joined(name)))
        for name in self.buffer_names:
            self.register_buffer(_flat(name), self._joined(name))
        self._share()

    def _joined(self, name: str) -> Tensor:
        """A parameter or a buffer of all members; of convolutions each member's part has its channels last."""
        each = [_tensor(member, name) for member in self._members]
        if each[0].dim() == 4:
            return torch.stack([one.movedim(1, -1) for one in each]).movedim(-1, 2)
        return torch.stack(each)

    def _share(self) -> None:
        for name in (*self.names, *self.buffer_names):
            joined = self.of(name)
            for r, member in enumerate(self._members):
                _set(member, name, joined.data[r])

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> list[nn.Module]:
        """The networks; their parameters are views into the stack."""
        return self._members

    @property
    def everyone(self) -> list[nn.Module]:
        """The networks, those that have left the stack among them."""
        return self._all

    def of(self, name: str) -> Tensor:
        """A parameter or a buffer of all members: (R, …)."""
        return getattr(self, _flat(name))

    def tensors(self) -> list[Tensor]:
        """All that a run keeps of itself, (R, …) each."""
        return [self.of(name).data for name in (*self.names, *self.buffer_names)]

    def train(self, mode: bool = True) -> Stack:
        for member in self._members:
            member.train(mode)
        return super().train(mode)

    def keep(self, which: Sequence[int]) -> list[nn.Module]:
        """Leave these members in the stack; the others go their own way, with parameters of their own."""
        gone = [member for r, member in enumerate(self._members) if r not in which]
        for member in gone:
            for name in (*self.names, *self.buffer_names):
                _set(member, name, _tensor(member, name).clone())
        rows = torch.tensor(list(which), dtype=torch.int64, device=next(self.parameters()).device)
        for name in (*self.names, *self.buffer_names):
            joined = self.of(name)
            joined.data = rows_of(joined.data, rows)
            joined.grad = None
        self._members = [self._members[r] for r in which]
        self._share()
        self.train(self.training)
        return gone

    def dissolve(self) -> None:
        """Every member goes its own way."""
        self.keep([])

    def rejoin(self) -> None:
        """All members back in the stack, with the parameters they have by now."""
        self._members = self._all
        for name in (*self.names, *self.buffer_names):
            self.of(name).data = self._joined(name)
        self._share()
        self.train(self.training)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits (n, R, B) of users (R, B) and items (n, R, B)."""
        raise NotImplementedError

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        """Scores (len(which), B, number of items) that these members give the same users (B,)."""
        return torch.stack([self._members[r].scores(users) for r in which])  # pyright: ignore[reportCallIssue]


def rows_of(joined: Tensor, rows: Tensor) -> Tensor:
    """Some runs' part, in the same order in memory."""
    if joined.dim() == 5:
        return joined.movedim(2, -1).index_select(0, rows).movedim(-1, 2)
    return joined.index_select(0, rows)


def _tensor(member: nn.Module, name: str) -> Tensor:
    place, _, leaf = name.rpartition(".")
    return getattr(member.get_submodule(place), leaf).data


def _set(member: nn.Module, name: str, value: Tensor) -> None:
    place, _, leaf = name.rpartition(".")
    getattr(member.get_submodule(place), leaf).data = value


def _flat(name: str) -> str:
    return name.replace(".", "_")
