"""ResNet-9 for small images: wide, shallow and quick to train (an entry of DAWNBench, Coleman et al., 2017)."""

from __future__ import annotations

from torch import Tensor, nn

from accord.models.classifiers.backbone import Backbone, Norm

SCALE = 0.125
"""Of the features: logits that begin small let a large learning rate begin at once."""


class Layer(nn.Sequential):
    """A 3×3 convolution, batch norm and ReLU. A pooling, to half as many pixels each way, comes before the norm: so
    norm and ReLU have a quarter of the work."""

    def __init__(self, before: int, channels: int, pool: bool = False) -> None:
        convolution = nn.Conv2d(before, channels, 3, padding=1, bias=False)
        pooling = [nn.MaxPool2d(2, ceil_mode=True)] if pool else []
        super().__init__(convolution, *pooling, Norm(channels), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Two layers and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(Layer(channels, channels), Layer(channels, channels))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.layers(inputs)


class ResNet9(Backbone):
    """Eight convolutions of 64 to 512 channels, two shortcuts, and the largest value of each channel."""

    takes_tables = False

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(512, classes)
        self.layers = nn.Sequential(
            Layer(shape[0], 64),
            Layer(64, 128, pool=True),
            Residual(128),
            Layer(128, 256, pool=True),
            Layer(256, 512, pool=True),
            Residual(512),
        )

    def features(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs).amax((2, 3)) * SCALE
