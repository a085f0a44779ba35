"""Random crops and flips of many images at once, on the device they live on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draws:
    """The random choices for some images: offsets of the crop and whether to flip."""

    down: Tensor
    right: Tensor
    flip: Tensor

    def part(self, start: int, end: int) -> Draws:
        return Draws(self.down[start:end], self.right[start:end], self.flip[start:end])

    @staticmethod
    def joined(each: Sequence[Draws], lay: Callable[[Tensor], Tensor]) -> Draws:
        """The draws of R runs, (R, examples) each, laid out by ``lay``."""
        names = ("down", "right", "flip")
        return Draws(*(lay(torch.stack([getattr(one, name) for one in each])) for name in names))


@dataclass(frozen=True)
class Augmentation:
    """A crop of the image's own size out of the image with ``pad`` black pixels around it, and a mirror image."""

    pad: int = 4
    flip: bool = True

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        device = generator.device
        offsets = torch.randint(-self.pad, self.pad + 1, (2, count), generator=generator, device=device)
        flip = torch.rand(count, generator=generator, device=device) < (0.5 if self.flip else 0.0)
        return Draws(offsets[0], offsets[1], flip)

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
