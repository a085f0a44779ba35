"""A small InceptionNet: blocks of parallel branches, their outputs side by side (Szegedy et al., CVPR 2015)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.models.classifiers.backbone import Backbone, Norm, refuse_small


class Convolution(nn.Module):
    """A convolution with batch norm and ReLU."""

    def __init__(self, before: int, channels: int, size: int) -> None:
        super().__init__()
        self.weight_layer = nn.Conv2d(before, channels, size, padding=size // 2, bias=False)
        self.norm = Norm(channels)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(self.norm(self.weight_layer(inputs)), inplace=True)


class InceptionBlock(nn.Module):
    """1×1, 3×3 and 5×5 convolutions and pooling, side by side; 1×1 ones narrow the input of the wide ones."""

    def __init__(self, before: int, one: int, three: int, five: int, pool: int) -> None:
        super().__init__()
        self.one = Convolution(before, one, 1)
        self.three = nn.Sequential(Convolution(before, three // 2, 1), Convolution(three // 2, three, 3))
        self.five = nn.Sequential(Convolution(before, five // 2, 1), Convolution(five // 2, five, 5))
        self.pool = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), Convolution(before, pool, 1))
        self.channels = one + three + five + pool

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([branch(inputs) for branch in (self.one, self.three, self.five, self.pool)], 1)


class Inception(Backbone):
    """A stem, four blocks with a pooling in their middle, and the mean over the image."""

    takes_tables = False

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        refuse_small(shape)
        blocks = [InceptionBlock(32, 16, 32, 16, 16)]
        for sizes in ((24, 48, 16, 16), (32, 64, 24, 24), (48, 96, 32, 32)):
            blocks.append(InceptionBlock(blocks[-1].channels, *sizes))
        super().__init__(blocks[-1].channels, classes)
        self.stem = Convolution(shape[0], 32, 3)
        self.early, self.late = nn.Sequential(*blocks[:2]), nn.Sequential(*blocks[2:])

    def features(self, inputs: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(inputs), 2)
        x = F.max_pool2d(self.early(x), 2)
        return self.late(x).mean((2, 3))
