"""A convolutional network of two layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.models.classifiers.backbone import Backbone, Norm, refuse_small


class ConvNet(Backbone):
    """Two convolutions, each with batch norm, ReLU and pooling, and a hidden layer on what they see."""

    takes_tables = False
    usual_rate = 0.05

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 128) -> None:
        super().__init__(width, classes)
        channels = shape[0]
        refuse_small(shape)
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1, bias=False),
            Norm(32),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1, bias=False),
            Norm(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        seen = 64 * (shape[1] // 4) * (shape[2] // 4)
        self.hidden = nn.Sequential(nn.Linear(seen, width), nn.ReLU())

    def features(self, inputs: Tensor) -> Tensor:
        return self.hidden(torch.flatten(self.convolutions(inputs), 1))
