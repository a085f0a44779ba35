"""What batches of clicks share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class ClickBatch:
    """Users and, for each, a clicked item and a sampled one; of one run, or of several as one."""

    users: Tensor
    items: Any
    inside: Any

    def __len__(self) -> int:
        return self.users.shape[-1]

    @property
    def count(self) -> int | Tensor:
        return len(self)

    def logits(self, network: Any) -> Tensor:
        return network.logits(self.users, self.items)

    @torch.no_grad()
    def frozen_logits(self, network: nn.Module) -> Tensor:
        return self.logits(network)


class StackedClickBatch(ClickBatch):
    """Clicks of several runs as one."""

    def of_runs(self, runs: Tensor) -> ClickBatch:
        """The batches of some runs."""
        raise NotImplementedError

    @torch.no_grad()
    def frozen_logits(self, network: Any) -> Tensor:
        """Runs for which one network answers have the same batches: it is asked once."""
        speakers = network.speakers
        if speakers is None:
            return self.logits(network)
        return self.of_runs(speakers.asked).logits(network).index_select(1, speakers.by)
