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
