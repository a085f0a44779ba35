"""The mean and the deviation by which examples are scaled before networks see them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SCALING_BLOCK = 1 << 20
SAME = 1e-7
"""Numbers that differ by less than this share of themselves are the same in float32."""


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each channel or column, of the training examples."""

    mean: Tensor
    std: Tensor

    @staticmethod
    def of(values: Tensor) -> Scaling:
        """Over all but the last dimension; a column that never changes is only centred."""
        blocks = values.reshape(-1, values.shape[-1]).split(SCALING_BLOCK)  # in double, but never all at once
        count = sum(len(block) for block in blocks)
        mean = torch.stack([block.double().sum(0) for block in blocks]).sum(0) / count
        square = torch.stack([(block.double() - mean).square().sum(0) for block in blocks]).sum(0) / count
        std = square.sqrt()
        # A column that varies by less than its numbers' precision counts as constant.
        changes = (std > SAME * mean.abs()) & (std > torch.finfo(torch.float32).tiny)
        return Scaling(mean.float(), torch.where(changes, std, torch.ones_like(std)).float())

    @staticmethod
    def none(width: int) -> Scaling:
        """Examples as they are."""
        return Scaling(torch.zeros(width), torch.ones(width))

    def to(self, device: torch.device) -> Scaling:
        return Scaling(self.mean.to(device), self.std.to(device))
