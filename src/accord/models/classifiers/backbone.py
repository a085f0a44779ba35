"""What every classifier network offers: features of the last hidden layer, and logits made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALLEST = 4
"""Pixels that two poolings need, each way."""
FeatureReader = Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]
"""Gives the features and the logits of a module for inputs."""


@runtime_checkable
class FeatureModel(Protocol):
    """A network whose penultimate features can be read."""

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(features, logits), from one pass."""
        ...


class Backbone(nn.Module):
    """A network made of `features` and a linear head."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.width = width
        self.head = nn.Linear(width, classes)

    def features(self, inputs: Tensor) -> Tensor:
        """The penultimate features, one row for each example."""
        raise NotImplementedError

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(inputs)
        return features, self.head(features)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs(inputs)[1]


class Wrapped(nn.Module):
    """Any module as a `FeatureModel`: features are the output of a named layer, or what a callable gives.

    With ``before`` they are the input of the layer.
    """

    def __init__(self, module: nn.Module, layer: str | FeatureReader, before: bool = False) -> None:
        super().__init__()
        self.module = module
        self._read = layer if callable(layer) else None
        self._kept: Tensor | None = None
        if not callable(layer):
            found = dict(module.named_modules()).get(layer)
            if found is None:
                raise KeyError(layer)
            if before:
                found.register_forward_pre_hook(self._keep_input)
            else:
                found.register_forward_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: object, output: Tensor) -> None:
        self._kept = output

    def _keep_input(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._kept = inputs[0]

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        if self._read is not None:
            return self._read(self.module, inputs)
        logits = self.module(inputs)
        if self._kept is None:
            raise RuntimeError("the named layer is not part of the forward pass")
        features, self._kept = torch.flatten(self._kept, 1), None
        return features, logits

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs(inputs)[1]


def refuse_small(shape: tuple[int, ...]) -> None:
    """Images (channels, height, width) that cannot be pooled twice are refused."""
    if min(shape[1:]) < SMALLEST:
        raise ValueError(f"images of {shape[1]}×{shape[2]} pixels are too small for two poolings")


class Norm(nn.BatchNorm2d):
    """Batch norm without its count of batches, which costs a kernel a layer and is used by no average here."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.num_batches_tracked = None

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.numel() == input.shape[1]:  # one value of each channel has no variance
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        # Weights from a plain file carry no version; without one, torch would put the count back.
        super()._load_from_state_dict(state_dict, prefix, {"version": 2}, *rest)
