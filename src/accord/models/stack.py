"""R networks of one architecture, for any R ≥ 1, trained as one.

A run alone is a stack of one: `Single` holds any torch module as it is. In a stack of several the parameters share
tensors with a leading run dimension, and every member stays a whole network of its own, whose parameters are views
into the stack: it scores, is saved and is restored as if it were alone. How several are computed at once depends
on the architecture: `DenseStack` lets `torch.func` do it for modules of dense layers; tables of vectors and graphs
have stacks of their own, next to their models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from accord.errors import SettingError

AT_ONCE = 1 << 24
"""Numbers of a large tensor that are looked at together."""

T = TypeVar("T")


class Shared(NamedTuple):
    """Which member answers for which run, where runs share members."""

    asked: Tensor
    """For each member that is left, the first run it answers for."""
    by: Tensor
    """For each run, the member that answers."""


class Stack(nn.Module):
    """R networks of one architecture. A kind of stack adds `logits` (recommenders) or `outputs` (classifiers)."""

    shared: Shared | None = None
    """None where every run has a member of its own."""

    @property
    def networks(self) -> list[nn.Module]:
        """All networks, those that have left the stack among them."""
        raise NotImplementedError

    def __len__(self) -> int:
        """How many members are in the stack."""
        raise NotImplementedError

    def tensors(self) -> list[Tensor]:
        """All that a run keeps of itself, (R, …) each; changes of these change the members."""
        raise NotImplementedError

    def keep(self, which: Sequence[int]) -> None:
        """Continue with the runs at these indices; the other members leave, with parameters of their own."""
        raise NotImplementedError

    def rejoin(self) -> None:
        """Take all networks back in, with the parameters they have by now."""
        raise NotImplementedError

    def share(self, groups: Sequence[Sequence[int]]) -> None:
        """Of members that are alike, by index, the first stays and answers for its whole group."""
        raise NotImplementedError

    def dissolve(self) -> None:
        """Let every member leave."""
        self.keep([])

    def finite(self) -> Tensor:
        """For each member, whether all its parameters are finite, (R,); of one without any, its buffers."""
        own = list(self.parameters()) or self.tensors()
        each = [all_finite(p.reshape(len(self), -1)) for p in own]
        if not each:
            device = next((one.device for one in self.buffers()), None)
            return torch.ones(len(self), dtype=torch.bool, device=device)
        return torch.stack(each).all(0)


def all_finite(values: Tensor) -> Tensor:
    """For each row, whether all its numbers are finite: some at a time, since the answer is an array as large."""
    return torch.stack([torch.isfinite(some).all(1) for some in values.split(AT_ONCE, 1)]).all(0)


class Single(Stack):
    """A stack of one: any module, as it is."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    @property
    def networks(self) -> list[nn.Module]:
        return [self.module]

    def __len__(self) -> int:
        return 1

    def tensors(self) -> list[Tensor]:
        return [tensor[None] for tensor in self.module.state_dict().values()]

    def keep(self, which: Sequence[int]) -> None:
        """Nothing to do: it has one run."""

    def rejoin(self) -> None:
        """Nothing to do: its run never leaves."""

    def share(self, groups: Sequence[Sequence[int]]) -> None:
        """Nothing to do: it has one run."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.module.logits(users[0], items[:, 0])[:, None]  # pyright: ignore[reportCallIssue]

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        return self.module.scores(users)[None]  # pyright: ignore[reportCallIssue]

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features, logits = self.module.outputs(inputs[0])  # pyright: ignore[reportCallIssue]
        return features[None], logits[None]

    def forward(self, *inputs: Tensor) -> Tensor:
        """A classifier's logits, or what another module gives for inputs of which the first is (1, …)."""
        if hasattr(self.module, "outputs"):
            return self.outputs(*inputs)[1]
        return self.module(inputs[0][0], *inputs[1:])[None]

    def call(self, method: str, *inputs: Any) -> Tensor:
        """Another method of the module; tensors of the run have a leading 1."""
        own = [one[0] if isinstance(one, Tensor) else one for one in inputs]
        return getattr(self.module, method)(*own)[None]


class JoinedStack(Stack):
    """Several networks whose parameters are one tensor (R, …) for each name."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.names = [name for name, _ in members[0].named_parameters()]
        self._all = self._members = list(members)  # no submodules: their parameters are the stack's own
        self._by: list[int] | None = None
        self._cached: dict[Hashable, Any] = {}
        for name in self.names:
            self.register_parameter(_flat(name), nn.Parameter(self._joined(name)))
        self._hand_out()

    def _joined(self, name: str) -> Tensor:
        return torch.stack([_tensor(member, name) for member in self._members])

    def _hand_out(self) -> None:
        for name in self.names:
            joined = self.of(name)
            for r, member in enumerate(self._members):
                _set(member, name, joined.data[r])

    def __len__(self) -> int:
        return len(self._members)

    @property
    def networks(self) -> list[nn.Module]:
        return self._all

    def of(self, name: str) -> Tensor:
        """A parameter of all members: (R, …)."""
        return getattr(self, _flat(name))

    def tensors(self) -> list[Tensor]:
        return [self.of(name).data for name in self.names]

    def train(self, mode: bool = True) -> JoinedStack:
        """Every change of mode or members forgets what was computed of them."""
        self._cached.clear()
        for member in self._members:
            member.train(mode)
        return super().train(mode)

    def cached(self, name: Hashable, make: Callable[[], T]) -> T:
        """What is computed of members that do not learn, until they change."""
        if self.training:
            return make()
        if name not in self._cached:
            self._cached[name] = make()
        return self._cached[name]

    def share(self, groups: Sequence[Sequence[int]]) -> None:
        self.keep([places[0] for places in groups])
        by = {place: member for member, places in enumerate(groups) for place in places}
        self._answer([by[place] for place in sorted(by)])

    def _answer(self, by: list[int]) -> None:
        device = next(self.parameters()).device
        asked = [by.index(member) for member in range(len(self))]
        each = (torch.tensor(one, dtype=torch.int64, device=device) for one in (asked, by))
        self._by, self.shared = by, Shared(*each)

    def keep(self, which: Sequence[int]) -> None:
        if self._by is None:
            self._keep(which)
            return
        by = [self._by[place] for place in which]
        answering = sorted(set(by))
        self._keep(answering)
        self._answer([answering.index(member) for member in by])

    def _keep(self, which: Sequence[int]) -> None:
        for member in (member for r, member in enumerate(self._members) if r not in which):
            for name in self.names:
                _set(member, name, _tensor(member, name).clone())
        rows = torch.tensor(list(which), dtype=torch.int64, device=next(self.parameters()).device)
        for name in self.names:
            joined = self.of(name)
            joined.data = joined.data.index_select(0, rows)
            joined.grad = None
        self._members = [self._members[r] for r in which]
        self._hand_out()
        self.train(self.training)

    def rejoin(self) -> None:
        self._members, self._by, self.shared = self._all, None, None
        for name in self.names:
            self.of(name).data = self._joined(name)
        self._hand_out()
        self.train(self.training)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits (n, R, B) of users (R, B) and items (n, R, B)."""
        raise NotImplementedError

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        """Scores (len(which), B, number of items) that these members give the same users (B,)."""
        return torch.stack([self._members[r].scores(users) for r in which])  # pyright: ignore[reportCallIssue]


class _Method(nn.Module):
    """Lets `functional_call` reach any method of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, method: str, *inputs: Any) -> Any:
        return getattr(self.module, method)(*inputs)


class _Layers(nn.Module):
    """The same dense layer of R networks, on inputs (R, B, …)."""

    def __init__(self, of: Callable[[str], Tensor], name: str) -> None:
        super().__init__()
        self._of, self._name = of, name  # asked each time: other tensors may stand in for the parameters

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias = (self._of(f"{self._name}.{part}") for part in ("weight", "bias"))
        return torch.baddbmm(bias[:, None], inputs, weight.mT)


class DenseStack(JoinedStack):
    """Modules of dense layers without buffers: `torch.func` computes all members at once.

    On a CPU its batching costs a layer of a small network about as much as the product itself. A class whose
    ``outputs`` also takes inputs (R, B, …), because all it does to them is done to their last dimensions, may say
    ``takes_runs = True``: each `nn.Linear` of it then computes all members.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__(members)
        self._one: list[Any] = [
            _Method(copy.deepcopy(members[0]))
        ]  # in a list: its parameters are no parameters of the stack
        if getattr(members[0], "takes_runs", False):
            self._one.append(self._whole(copy.deepcopy(members[0])))

    def _whole(self, module: nn.Module) -> nn.Module:
        """The module with layers that take the stack's parameters."""
        layers = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
        for name in layers:
            path, _, leaf = name.rpartition(".")
            module.get_submodule(path).register_module(leaf, _Layers(self.of, name))
        return module

    def call(self, method: str, *inputs: Any) -> Any:
        """A method of every member; tensors (R, …) are cut along the runs, others are the same for all."""
        runs = len(self)
        own = {f"module.{name}": self.of(name) for name in self.names}
        cut = tuple(0 if isinstance(one, Tensor) and one.dim() and len(one) == runs else None for one in inputs)

        def one(parameters: dict[str, Tensor], *inputs: Any) -> Any:
            return torch.func.functional_call(self._one[0], parameters, (method, *inputs))

        return torch.func.vmap(one, in_dims=(0, *cut))(own, *inputs)

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features (R, B, width) and logits (R, B, classes) of inputs (R, B, …)."""
        if len(self._one) > 1:
            return self._one[1].outputs(inputs)  # pyright: ignore[reportCallIssue]
        return self.call("outputs", inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.outputs(*inputs)[1] if len(self._one) > 1 else self.call("forward", *inputs)


def stack(members: Sequence[nn.Module]) -> Stack:
    """The stack of some networks; several need an architecture that says how it is stacked."""
    if len(members) == 1:
        return Single(members[0])
    kind = stack_kind(type(members[0]))
    if kind is None:
        raise SettingError(f"A {type(members[0]).__name__} cannot be trained in a stack.")
    return kind(members)


def stack_kind(model: Any) -> type[JoinedStack] | None:
    """How several networks of a class are stacked: its attribute ``stack_class``; None where they are not."""
    return getattr(model, "stack_class", None)


def as_stack(network: nn.Module) -> Stack:
    """A network alone as a stack of one."""
    return network if isinstance(network, Stack) else Single(network)


def _tensor(member: nn.Module, name: str) -> Tensor:
    path, _, leaf = name.rpartition(".")
    return getattr(member.get_submodule(path), leaf).data


def _set(member: nn.Module, name: str, value: Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    getattr(member.get_submodule(path), leaf).data = value


def _flat(name: str) -> str:
    return name.replace(".", "_")
