"""Searches in rounds, and plans of a search; what is searched for a method is said by the method."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accord.errors import SettingError
from accord.methods import Space

FIRST_ROUND: Space = {"learning_rate": (1e-3, 3e-3, 1e-2), "l2": (0.0, 0.01, 0.1, 1.0)}
SECOND_ROUND: Space = {"learning_rate": (5e-4, 2e-3, 5e-3, 2e-2), "l2": (1e-3, 3e-3, 0.03, 0.3, 3.0, 10.0)}
"""Common settings of a search in two rounds: first these, with a method's own settings as they are by default; then
its own settings at the best of these, or, where it has few, with further values of these. For a method that begins
with the training of another, the first round is of that one."""


def second_round(own: Space, common: Space, trials: int) -> Space:
    """What is searched after the common settings: a method's own, and further common ones while trials are left.

    >>> second_round({"c1": (1.0, 10.0)}, {"l2": (0.1,)}, 2)
    {'c1': (1.0, 10.0)}
    """
    return own if size(own) >= trials else own | common


def narrowed(space: Space, words: Mapping[str, Sequence[Any]]) -> Space:
    """A space with some settings' values replaced, and others added."""
    for name, values in words.items():
        if not values:
            raise SettingError(f"No values to search for '{name}'; write for example space={{'{name}': (1, 10)}}.")
    return space | {name: tuple(values) for name, values in words.items()}


def size(space: Space) -> int:
    return int(np.prod([len(values) for values in space.values()], dtype=np.int64)) if space else 1


MOST_SETTINGS = 1_000_000


def plan(space: Space, sampler: str, trials: int, seed: int) -> list[dict[str, Any]]:
    """The settings of a grid in order, or in random order; at most ``trials``, none twice.

    >>> plan({"a": (1, 2), "b": (3,)}, "grid", 9, seed=0)
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    whole, names = size(space), list(space)
    if whole > MOST_SETTINGS:
        raise SettingError(
            f"The search has {whole} settings; search fewer values, for example space={{'c1': (1, 10)}}."
        )
    if sampler == "random":
        order = np.random.default_rng([seed, 0x5EA]).permutation(whole)[:trials]
    else:
        if trials < whole:
            raise SettingError(
                f"The grid has {whole} settings, more than {trials} trials; allow more, search fewer values, "
                "or search at random."
            )
        order = np.arange(whole)
    choices = list(itertools.product(*space.values()))
    return [dict(zip(names, choices[k], strict=True)) for k in order]
