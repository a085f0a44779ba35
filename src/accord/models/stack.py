"""Several networks of one architecture as one: their parameters share tensors with a leading run dimension.

Every member stays a whole network of its own, whose parameters are views into the stack: it scores, is saved and is
restored as if it stood alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class Speakers(NamedTuple):
    """Who answers where members are alike: one of them is asked for the others too."""

    asked: Tensor
    """Of each member that is left, the first place it answers for."""
    by: Tensor
    """For each place, the member that answers."""


class Stack(nn.Module):
    """R networks of one architecture. A kind of stack adds `logits`, or `outputs` for classifiers.

    What the members average along the way (their buffers) is shared in the same way where a kind asks for it. Where
    members are alike and learn no more, one of them stands for all (`stand_for`).
    """

    averages = False
    """Whether the members' buffers are stacked too."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.names = [name for name, _ in members[0].named_parameters()]
        self.buffer_names = [name for name, _ in members[0].named_buffers()] if self.averages else []
        self._all = self._members = list(members)  # no submodules: their parameters are the stack's own
        self._by: list[int] | None = None
        self.speakers: Speakers | None = None
        """None where every place has a member of its own."""
        self._made: dict[Hashable, Any] = {}
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
        """Every change of mode or members forgets what was made of them."""
        self._made.clear()
        for member in self._members:
            member.train(mode)
        return super().train(mode)

    def made_once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What is made of members that do not learn, until they change."""
        if self.training:
            return make()
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def stand_for(self, groups: Sequence[Sequence[int]]) -> None:
        """Of members that are alike, by place, the first stays and answers for all of its group."""
        self.keep([places[0] for places in groups])
        by = {place: member for member, places in enumerate(groups) for place in places}
        self._answer([by[place] for place in sorted(by)])

    def _answer(self, by: list[int]) -> None:
        device = next(self.parameters()).device
        asked = [by.index(member) for member in range(len(self))]
        each = (torch.tensor(one, dtype=torch.int64, device=device) for one in (asked, by))
        self._by, self.speakers = by, Speakers(*each)

    def keep(self, which: Sequence[int]) -> list[nn.Module]:
        """Go on with the runs at these places; the other members go their own way, with parameters of their own."""
        if self._by is None:
            return self._keep(which)
        by = [self._by[place] for place in which]
        speaking = sorted(set(by))
        gone = self._keep(speaking)
        self._answer([speaking.index(member) for member in by])
        return gone

    def _keep(self, which: Sequence[int]) -> list[nn.Module]:
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
        self._members, self._by, self.speakers = self._all, None, None
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
