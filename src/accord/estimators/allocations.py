"""A limit on what is built: networks that a run folder asks for, and that its weights do not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from accord.errors import DataError

MAKERS = (
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "empty_strided",
    "eye",
    "arange",
    "randperm",
)
"""Functions of torch that make a tensor out of its size."""
FURTHER = 1 << 26
"""Bytes beyond twice those of the file: what is made on the way, such as a look at one example."""
OBJECT = 1 << 12
"""Bytes of a tensor besides its numbers, with its share of the module around it."""


class _Limited(TorchFunctionMode):
    """Adds up the tensors that are made, and refuses the one that is too much before it is made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, more = getattr(func, "__name__", ""), kwargs or {}
        if name.removeprefix("new_") in MAKERS:
            self.left -= OBJECT + _bytes_of(name, args, more)
            if self.left < 0:
                raise DataError("its settings ask for networks that are larger than its weights")
        return func(*args, **more)


def _bytes_of(name: str, args: Any, kwargs: Any) -> int:
    given = [one for one in (*args, kwargs.get("size")) if isinstance(one, int | float | list | tuple)]
    sizes = [one for one in given if isinstance(one, list | tuple)]
    numbers = [int(one) for one in given if isinstance(one, int | float) and math.isfinite(one)]
    if sizes:
        count = math.prod(int(one) for one in sizes[0])
    elif name in ("arange", "randperm"):
        count = max((abs(one) for one in numbers), default=0)
    else:
        count = math.prod(numbers) * (numbers[0] if name == "eye" and len(numbers) == 1 else 1)
    kind = kwargs.get("dtype")
    return count * (kind.itemsize if isinstance(kind, torch.dtype) else 4)


@contextmanager
def no_larger_than(stored: int) -> Iterator[None]:
    """Tensors that are made in the block have little more bytes than a file that holds them."""
    with _Limited(2 * stored + FURTHER):
        yield
