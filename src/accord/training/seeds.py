"""Independent random streams from one seed: a stream's numbers depend on its own words alone."""

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


@contextmanager
def seeded(seed: int, *words: str) -> Iterator[None]:
    """Torch's global CPU stream, seeded for a while and then put back: for building any module."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *words))
        yield
