"""ResNet-32 for small images (He et al., Deep Residual Learning for Image Recognition, CVPR 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from accord.kernels import conv3x3
from accord.models.classifiers.backbone import Backbone, Norm


def convolve(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """A 3×3 convolution: by our own kernels where they are faster, which is on a GPU in bfloat16."""
    if conv3x3.supports(inputs, layer.weight, layer.stride[0]):
        return conv3x3.conv3x3(inputs, layer.weight)
    return layer(inputs)


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut without parameters."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.first_norm = Norm(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = Norm(channels)
        self.stride, self.added = stride, channels - before

    def forward(self, inputs: Tensor) -> Tensor:
        x = F.relu(self.first_norm(convolve(self.first, inputs)), inplace=True)
        x = self.second_norm(convolve(self.second, x))
        if self.stride != 1 or self.added:  # every second pixel, and channels of zeros
            inputs = F.pad(inputs[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return F.relu(x + inputs, inplace=True)


class ResNet32(Backbone):
    """3 × 5 basic blocks of 16, 32 and 64 channels."""

    takes_tables = False

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(64, classes)
        self.stem = nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False)
        self.stem_norm = Norm(16)
        blocks, before = [], 16
        for channels, stride in ((16, 1), (32, 2), (64, 2)):
            for k in range(5):
                blocks.append(Block(before, channels, stride if k == 0 else 1))
                before = channels
        self.blocks = nn.Sequential(*blocks)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def features(self, inputs: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(inputs)), inplace=True)
        return self.blocks(x).mean((2, 3))
