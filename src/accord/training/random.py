"""Independent random streams from one seed: a stream's numbers depend on the seed and its own name alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *words: str) -> int:
    """A 63-bit seed for the stream that ``words`` name."""
    text = "/".join([str(seed), *words]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def stream(device: torch.device, seed: int, *words: str) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive(seed, *words))


class OwnRandomness:
    """Torch's global CPU stream as one run's own: what a layer such as dropout draws depends on no other run."""

    def __init__(self, seed: int, *words: str) -> None:
        self.state = torch.Generator().manual_seed(derive(seed, *words)).get_state()
        self.outer = self.state

    def __enter__(self) -> None:
        self.outer = torch.get_rng_state()
        torch.set_rng_state(self.state)

    def __exit__(self, *reason: object) -> None:
        self.state = torch.get_rng_state()
        torch.set_rng_state(self.outer)


@contextmanager
def seeded(seed: int, *words: str) -> Iterator[None]:
    """Torch's global CPU stream, seeded for a while and then put back: for building any module."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *words))
        yield
