"""Random crops, flips, colours and cut-outs of many images at once, on the device they live on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

COLOURS = 0.4
"""Strong: contrast and saturation change by up to this factor, brightness by up to so many standard deviations."""


@dataclass(frozen=True)
class Draws:
    """The random choices for some images: offsets of the crop and whether to flip; and if they are strong, the
    centre of the cut-out, and how far brightness, contrast and saturation change, −1 to 1."""

    down: Tensor
    right: Tensor
    flip: Tensor
    row: Tensor | None = None
    column: Tensor | None = None
    brightness: Tensor | None = None
    contrast: Tensor | None = None
    saturation: Tensor | None = None

    def part(self, start: int, end: int) -> Draws:
        return Draws(*(None if one is None else one[start:end] for one in self._all()))  # pyright: ignore

    def _all(self) -> list[Tensor | None]:
        return [getattr(self, one.name) for one in fields(self)]

    @staticmethod
    def joined(each: Sequence[Draws], lay: Callable[[Tensor], Tensor]) -> Draws:
        """The draws of R runs, (R, examples) each, laid out by ``lay``."""
        columns = zip(*(one._all() for one in each), strict=True)
        return Draws(*(None if own[0] is None else lay(torch.stack(own)) for own in columns))  # pyright: ignore


@dataclass(frozen=True)
class Augmentation:
    """A crop of the image's own size out of the image with ``pad`` black pixels around it, and a mirror image.

    If it is ``strong``, colours change too, and a square of a third of the height is cut out.
    """

    pad: int = 4
    flip: bool = True
    strong: bool = False

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        device = generator.device
        offsets = torch.randint(-self.pad, self.pad + 1, (2, count), generator=generator, device=device)
        flip = torch.rand(count, generator=generator, device=device) < (0.5 if self.flip else 0.0)
        if not self.strong:
            return Draws(offsets[0], offsets[1], flip)
        row, column, *colours = torch.rand(5, count, generator=generator, device=device)
        return Draws(offsets[0], offsets[1], flip, row, column, *(2 * one - 1 for one in colours))

    def disturb(self, images: Tensor, draws: Draws) -> Tensor:
        """Scaled images (…, height, width, channels) with other colours and a cut-out, where these were drawn."""
        if draws.row is None or draws.column is None:
            return images

        def each(one: Tensor | None) -> Tensor:
            return torch.as_tensor(one)[..., None, None, None]

        height, width, channels = images.shape[-3:]
        if channels > 1:
            grey = images.mean(-1, keepdim=True)
            images = grey + (images - grey) * (1 + COLOURS * each(draws.saturation))
        images = images * (1 + COLOURS * each(draws.contrast)) + COLOURS * each(draws.brightness)
        half = height / 6
        down = torch.arange(height, device=images.device)[:, None, None] + 0.5
        across = torch.arange(width, device=images.device)[:, None] + 0.5
        away = ((down - height * each(draws.row)).abs() > half) | (
            (across - width * each(draws.column)).abs() > half
        )
        return images * away.to(images.dtype)

    def take(self, images: Tensor, rows: Tensor, draws: Draws) -> Tensor:
        """Rows of ``images`` (N, height, width, channels), each cropped and flipped as it was drawn."""
        height, width = images.shape[1:3]
        draws = Draws(draws.down.flatten(), draws.right.flatten(), draws.flip.flatten())
        down = torch.arange(height, device=images.device) + draws.down[:, None]
        across = torch.arange(width, device=images.device).expand(len(rows), -1)
        across = torch.where(draws.flip[:, None], width - 1 - across, across) + draws.right[:, None]
        inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None, :]
        down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
        taken = images[rows[:, None, None], down[:, :, None], across[:, None, :]]
        return taken * inside[..., None].to(taken.dtype)
