"""SGD with momentum; each run's gradient is clipped to a longest length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from accord.optim.base import _MANY, Optimiser, along_runs

MOMENTUM = 0.9
SMALL = 1e-6
"""Added to a gradient's length before it is clipped, as torch does."""


class SGD(Optimiser):
    """Clips each run's gradient, over all its networks, to length ``clip``; then L2 term, momentum and step."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        decayed: Sequence[nn.Parameter],
        rates: Sequence[float],
        decays: Sequence[float],
        capturing: bool = False,
        clip: float | None = None,
    ) -> None:
        super().__init__(parameters, decayed, rates, decays, capturing)
        self.clip = clip
        self.moments = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        moving = self.moving()
        if not moving:
            return
        if self.clip is not None:
            self._cut(moving, self.clip)
        if self.rate is not None and self.decay is not None:
            self._fused([k for k in moving if self.is_decayed[k]], self.decay)
            self._fused([k for k in moving if not self.is_decayed[k]], 0.0)
            return
        self.add_decay(moving)
        parameters, moments = [self.parameters[k] for k in moving], [self.moments[k] for k in moving]
        _MANY._foreach_mul_(moments, MOMENTUM)
        _MANY._foreach_add_(moments, [p.grad for p in parameters])
        for parameter, moment in zip(parameters, moments, strict=True):
            parameter.addcmul_(moment, along_runs(self.now, parameter), value=-1)

    def _cut(self, moving: Sequence[int], clip: float) -> None:
        parameters = [self.parameters[k] for k in moving]
        if len(self.rates) == 1:
            clip_grad_norm_(parameters, clip, foreach=True)
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        lengths = torch.cat([grad.flatten(1) for grad in grads], 1).norm(dim=1)
        share = (clip / (lengths + SMALL)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(along_runs(share, grad))

    def _fused(self, moving: Sequence[int], decay: float) -> None:
        if not moving:
            return
        parameters, moments = [self.parameters[k] for k in moving], [self.moments[k] for k in moving]
        rate = self.step_rate()
        _MANY._fused_sgd_(
            parameters, [p.grad for p in parameters], moments, weight_decay=decay, momentum=MOMENTUM,
            lr=rate[0] if isinstance(rate, Tensor) else rate, dampening=0.0, nesterov=False, maximize=False,
            is_first_step=False,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        return {str(k): moment for k, moment in enumerate(self.moments)}

    def keep(self, rows: Tensor) -> None:
        if len(self.rates) == 1:  # of a run alone, tensors have no dimension of runs
            return
        super().keep(rows)
        self.moments = [moment.index_select(0, rows) for moment in self.moments]

    def release(self) -> None:
        super().release()
        self.moments = []
