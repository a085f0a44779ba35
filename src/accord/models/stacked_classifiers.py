"""Stacks of classifiers and their noise models: `outputs` of inputs (R, B, …), with no loop over runs."""

from __future__ import annotations

import torch
from torch import Tensor

from accord.models.stack import Stack


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer of every member: inputs (R, B, a), weight (R, b, a), bias (R, b)."""
    return torch.baddbmm(bias[:, None], inputs, weight.transpose(1, 2))


class ClassifierStack(Stack):
    """Classifiers; inputs (R, B, …)."""

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features (R, B, width) and logits (R, B, classes)."""
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs(inputs)[1]


class MLPStack(ClassifierStack):
    """MLP classifiers."""

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = inputs.flatten(2)
        for name in self.names:
            layer = name.removesuffix(".weight")
            if layer.startswith("hidden.") and layer != name:
                hidden = _linear(hidden, self.of(name), self.of(f"{layer}.bias")).relu()
        return hidden, _linear(hidden, self.of("head.weight"), self.of("head.bias"))


class NoiseStack(Stack):
    """The noise models hφ of classifiers."""

    def _of_features(self, features: Tensor) -> Tensor:
        return _linear(features, self.of("first.weight")[..., : features.shape[2]], self.of("first.bias"))

    def _of_classes(self, width: int) -> Tensor:
        """What each class adds to the hidden layer: (R, classes, width)."""
        return self.of("first.weight")[..., width:].transpose(1, 2)

    def forward(self, features: Tensor, k: Tensor) -> Tensor:
        """log hφ(x, k), (R, B, classes)."""
        added = self._of_classes(features.shape[2]).index_select(1, k.view(1))
        hidden = torch.relu(self._of_features(features) + added)
        return torch.log_softmax(_linear(hidden, self.of("second.weight"), self.of("second.bias")), 2)

    @torch.no_grad()
    def costs(self, features: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
        """−log hφ(x, c)[ỹ] for every class c, (R, B, classes); no gradient."""
        if classes is not None:
            raise NotImplementedError("a stack sums over all classes")
        runs, batch, width = features.shape
        hidden = self._of_features(features)[:, :, None] + self._of_classes(width)[:, None]
        rows = _linear(hidden.relu_().flatten(1, 2), self.of("second.weight"), self.of("second.bias"))
        rows = rows.view(runs, batch, hidden.shape[2], -1)
        given = labels[..., None, None].expand(*rows.shape[:3], 1)
        return torch.logsumexp(rows, 3) - rows.gather(3, given).squeeze(3)


class WeightStack(Stack):
    """The weight networks of MW-Net."""

    def forward(self, losses: Tensor) -> Tensor:
        """The weights (R, B) of examples by their losses."""
        hidden = _linear(losses[..., None], self.of("layers.0.weight"), self.of("layers.0.bias")).relu()
        return torch.sigmoid(_linear(hidden, self.of("layers.2.weight"), self.of("layers.2.bias"))).squeeze(2)
