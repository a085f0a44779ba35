"""Adam over whole tensors, and by rows for large tables: torch's fused kernel, or our own where runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam as plain_adam

from accord.kernels import kernels_work
from accord.kernels.adam import adam_step, scales_of
from accord.kernels.segment_sum import BY_ROWS
from accord.optim.base import _MANY, Optimiser, along_runs
from accord.optim.rows import ROWS, RowAdam

BETAS, EPSILON = (0.9, 0.999), 1e-8


class Adam(Optimiser):
    """One fused call for all parameters.

    Where rates differ, a run whose rate is not the highest takes its share of the step: Adam's step is proportional
    to the rate. On a GPU our own kernel does all of it in one pass. Tables that are chosen for it are updated by
    the rows a batch touched, where there is one run.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        decayed: Sequence[nn.Parameter],
        rates: Sequence[float],
        decays: Sequence[float],
        capturing: bool = False,
        by_rows: Sequence[nn.Parameter] = (),
        in_files: bool = False,
    ) -> None:
        chosen = set(map(id, by_rows))
        for parameter in parameters:
            setattr(parameter, BY_ROWS, id(parameter) in chosen)
        dense = [p for p in parameters if id(p) not in chosen]
        super().__init__(dense or list(parameters), decayed, rates, decays, capturing)
        self._all = list(parameters)
        self.parameters = dense
        own = set(map(id, decayed))
        tables = [(table, decays[0] if id(table) in own else 0.0) for table in by_rows]
        self.rows = RowAdam(tables, rates[0], in_files) if tables else None
        self.first = [torch.zeros_like(p) for p in dense]
        self.second = [torch.zeros_like(p) for p in dense]
        self.steps = torch.zeros(len(dense), device=self.rates.device)
        """How many steps each parameter has made."""
        self._counts = list(self.steps)
        self._one_pass = len(self.rates) > 1 and all(
            kernels_work(p.device) and p.is_contiguous() and p.dtype == torch.float32 for p in dense
        )
        self._betas = torch.tensor(BETAS, dtype=torch.float64, device=self.rates.device)
        self._moved: dict[tuple[int, ...], Tensor] = {}
        self._highest = max(rates)
        self._lead = torch.full((1,), self._highest, device=self.rates.device)

    def clear(self) -> None:
        for parameter in self._all:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        moving = self.moving()
        if self._one_pass:
            self._step_in_one_pass(moving)
        elif self.rate is not None and self.decay is not None:
            rate = self.step_rate()
            self._fused([k for k in moving if self.is_decayed[k]], rate, self.decay)
            self._fused([k for k in moving if not self.is_decayed[k]], rate, 0.0)
        else:
            self._step_apart(moving)
        if self.rows is not None:
            self.rows.learning_rate = (self.rate or 0.0) * self.share
            self.rows.step()

    def _fused(self, moving: Sequence[int], rate: float | Tensor, decay: float) -> None:
        if not moving:
            return
        lists = [[each[k] for k in moving] for each in (self.parameters, self.first, self.second, self._counts)]
        parameters, first, second, counts = lists
        _MANY._foreach_add_(counts, 1)
        if isinstance(rate, Tensor):
            rate = rate[0]
        _MANY._fused_adam_(
            parameters, [p.grad for p in parameters], first, second, [], counts, lr=rate, beta1=BETAS[0],
            beta2=BETAS[1], weight_decay=decay, eps=EPSILON, amsgrad=False, maximize=False,
        )  # fmt: skip

    def _step_apart(self, moving: Sequence[int]) -> None:
        """Runs differ in rate or L2 factor: each takes its share of the step by the highest rate."""
        self.add_decay(moving)
        if self.rate is not None:
            self._fused(moving, self.step_rate(), 0.0)
            return
        before = [self.parameters[k].clone() for k in moving]
        self._fused(moving, self._lead if self.capturing else self._highest * self.share, 0.0)
        for k, old in zip(moving, before, strict=True):
            parameter = self.parameters[k]
            share = along_runs(self.rates / self._highest, parameter)
            torch.lerp(old, parameter, share, out=parameter)

    def set_share(self, share: float) -> None:
        super().set_share(share)
        self._lead.fill_(self._highest * share)

    def _step_in_one_pass(self, moving: Sequence[int]) -> None:
        key = tuple(moving)
        if key not in self._moved:  # in a plain step, which comes before any that is captured
            self._moved[key] = torch.zeros_like(self.steps)
            self._moved[key][list(moving)] = 1.0
        self.steps.add_(self._moved[key])
        scales = scales_of(self.steps.double(), self._betas)
        for k in moving:
            parameter: Any = self.parameters[k]
            decays = self.decays if self.is_decayed[k] and self.decay != 0.0 else None
            moments = self.first[k], self.second[k]
            adam_step(parameter.data, parameter.grad, moments, self.now, decays, scales, k, BETAS, EPSILON)

    def state_dict(self) -> dict[str, Tensor]:
        pairs = zip(self.first, self.second, strict=True)
        own = {f"{k} {n}": t for k, pair in enumerate(pairs) for n, t in zip(("mean", "square"), pair, strict=True)}
        by_rows = {} if self.rows is None else self.rows.state_dict()
        return {**own, "steps": self.steps, **{f"{ROWS}{name}": tensor for name, tensor in by_rows.items()}}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        super().load_state_dict(state)
        if self.rows is not None:
            self.rows.own_steps = [int(count) for count in state[f"{ROWS}steps"]]

    def keep(self, rows: Tensor) -> None:
        if len(self.rates) == 1:  # of a run alone, tensors have no dimension of runs
            return
        super().keep(rows)
        self.first = [moment.index_select(0, rows) for moment in self.first]
        self.second = [moment.index_select(0, rows) for moment in self.second]

    def release(self) -> None:
        super().release()
        self.first, self.second = [], []
        if self.rows is not None:
            self.rows.clear()


class MetaAdam:
    """Torch's plain Adam for a network apart from the training, such as MW-Net's weight network."""

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float, decay: float) -> None:
        self.parameters, self.rate, self.decay = list(parameters), rate, decay
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [torch.zeros((), device=p.device if p.is_cuda else "cpu") for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters by their gradients, and clear these."""
        grads: Any = [p.grad for p in self.parameters]
        plain_adam(
            list(self.parameters), grads, self.first, self.second, [], self.steps,
            capturable=self.parameters[0].is_cuda, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.rate,
            weight_decay=self.decay, eps=EPSILON, maximize=False,
        )  # fmt: skip
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Tensor]:
        lists = {"mean": self.first, "square": self.second, "step": self.steps}
        return {f"{k} {name}": t for name, tensors in lists.items() for k, t in enumerate(tensors)}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        own = self.state_dict()
        if set(own) != set(state) or any(tensor.shape != state[name].shape for name, tensor in own.items()):
            raise ValueError("the moments of the weight network")
        for name, tensor in own.items():
            tensor.copy_(state[name])

    def keep(self, rows: Tensor) -> None:
        """Continue with these runs alone."""
        self.first = [moment.index_select(0, rows) for moment in self.first]
        self.second = [moment.index_select(0, rows) for moment in self.second]
