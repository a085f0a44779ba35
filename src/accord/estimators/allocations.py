"""A limit on what is built: networks that a run folder asks for, and that its weights do not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

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


class _Limited(TorchDispatchMode):
    """Adds up the tensors that are made, and refuses the one that is too much before it is made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1] if "." in str(func) else ""
        if name.removeprefix("new_") in MAKERS:
            self.left -= _bytes_of(name, args, kwargs or {})
            if self.left < 0:
                raise DataError("its settings ask for networks that are larger than its weights")
        return func(*args, **(kwargs or {}))


def _bytes_of(name: str, args: Any, kwargs: Any) -> int:
    sizes = [one for one in args if isinstance(one, list | tuple)]
    if sizes:
        count = math.prod(int(n) for n in sizes[0])
    else:
        count = math.prod(int(n) for n in args if isinstance(n, int | float)) if name == "eye" else 0
        count = count or max((int(n) for n in args if isinstance(n, int | float)), default=0)
        count = count**2 if name == "eye" and len(args) == 1 else count
    kind = kwargs.get("dtype")
    return count * (4 if kind is None else kind.itemsize)


@contextmanager
def no_larger_than(stored: int) -> Iterator[None]:
    """Tensors that are made in the block have little more bytes than a file that holds them."""
    with _Limited(2 * stored + FURTHER):
        yield
