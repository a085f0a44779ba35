"""What a member of a council of classifiers learns from: its rows, and the probabilities it is to give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.batches.labels import LabelData
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation


@dataclass(frozen=True, eq=False)
class Lesson:
    """In place of the labels as they are, with a part held out."""

    rows: np.ndarray
    """The examples to learn from."""
    targets: np.ndarray | None
    """(examples, classes), of all examples; None for the labels as they are given."""
    scaling: Scaling
    """That of the council, so that its members can answer together."""
    mixup: float = 0.0
    strong: bool = False
    """Whether images are augmented strongly, where they are augmented at all."""
    begins: Mapping[str, Tensor] = field(default_factory=dict)
    """What the member had learnt in the round before, with which it begins; empty for a fresh network."""

    def given_to(self, data: LabelData) -> LabelData:
        """The examples as this lesson teaches them."""
        targets = None if self.targets is None else torch.from_numpy(self.targets).to(data.device)
        return replace(data, targets=targets, mixup=self.mixup, augmentation=strongly(data, self.strong))

    def identity(self) -> list[Any]:
        """Words and arrays by which a checkpoint knows it."""
        arrays = [self.rows, *([] if self.targets is None else [self.targets])]
        arrays += [tensor.detach().float().cpu().numpy() for tensor in self.begins.values()]
        return [(one, one) for one in (*arrays, f"{self.mixup} {self.strong}")]


def strongly(data: LabelData, strong: bool) -> Augmentation | None:
    """Its augmentation, with changed colours and cut-outs where it is strong."""
    return None if data.augmentation is None else replace(data.augmentation, strong=strong)
