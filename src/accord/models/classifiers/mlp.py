"""A plain multi-layer perceptron of four layers, for tables and small images."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from torch import Tensor, nn

from accord.models.classifiers.backbone import Backbone
from accord.models.stack import DenseStack

WIDTH = 256


class MLP(Backbone):
    """Three hidden layers of ReLU units and a linear head."""

    stack_class = DenseStack
    takes_runs = True
    usual_rate = 0.05

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = WIDTH) -> None:
        super().__init__(width, classes)
        self.dimensions = len(shape)
        sizes = [prod(shape), width, width, width]
        layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        self.hidden = nn.Sequential(*layers)

    def features(self, inputs: Tensor) -> Tensor:
        return self.hidden(inputs.flatten(-self.dimensions))
