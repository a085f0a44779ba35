"""What is searched for each method: the paper's grids, and the same common settings for all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accord.errors import SettingError

Space = dict[str, tuple[Any, ...]]
"""The values of each setting to choose from."""

CONSTANTS = (1.0, 10.0, 100.0, 1000.0)
DENOISING: Space = {"c0": CONSTANTS, "c1": CONSTANTS, "alpha": (0.0, 0.5, 1.0)}
CLICKS_COMMON: Space = {
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "l2": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
}
FIRST_ROUND: Space = {"learning_rate": (1e-3, 3e-3, 1e-2), "l2": (0.0, 0.01, 0.1, 1.0)}
SECOND_ROUND: Space = {"learning_rate": (5e-4, 2e-3, 5e-3, 2e-2), "l2": (1e-3, 3e-3, 0.03, 0.3, 3.0, 10.0)}
"""Common settings of a search in two rounds: first these, with a method's own settings as they are by default; then
its own settings at the best of these, or, where it has few, with further values of these."""
BEGINS_AS = {"deca-p": "normal"}
"""Methods that begin with the training of another: by that the common settings are searched, in the first round."""
CLICKS: dict[str, Space] = {
    "deca": DENOISING,
    "deca-p": DENOISING,
    "t-ce": {"drop_rate": (0.05, 0.1, 0.2)},
    "r-ce": {"beta": (0.05, 0.1, 0.25, 0.5)},
}
LABELS_COMMON: Space = {"learning_rate": (0.1, 0.05, 0.02, 0.01)}
IMAGE_CONSTANTS = (1.0, 10.0, 50.0, 100.0)
TWO_STAGE: Space = {"c1": IMAGE_CONSTANTS, "c2": IMAGE_CONSTANTS}
IMAGE_COMMON: Space = {"learning_rate": (0.1, 0.01), "weight_decay": (5e-4, 1e-3)}
IMAGES: dict[str, Space] = {
    "normal": IMAGE_COMMON,
    "mw-net": IMAGE_COMMON,
    "deca-p": IMAGE_COMMON,
    "itlm": {"keep_share": (0.6, 0.8), "weight_decay": (5e-4, 1e-3)},
}
"""Four settings of every method for the large image sets; C1 = C2 = 1, the paper's best."""
LABELS: dict[str, Space] = {
    "deca": TWO_STAGE,
    "deca-p": TWO_STAGE,
    "itlm": {"keep_share": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)},
}


def clicks_space(method: str) -> Space:
    """Nothing is searched where nothing is trained."""
    return {} if method == "popularity" else CLICKS_COMMON | CLICKS.get(method, {})


def second_round(own: Space, common: Space, trials: int) -> Space:
    """What is searched after the common settings: a method's own, and further common ones while trials are left.

    >>> second_round({"c1": (1.0, 10.0)}, {"l2": (0.1,)}, 2)
    {'c1': (1.0, 10.0)}
    """
    return own if size(own) >= trials else own | common


def labels_space(method: str) -> Space:
    return LABELS_COMMON | LABELS.get(method, {})


def narrowed(space: Space, words: Mapping[str, Sequence[Any]]) -> Space:
    """A space with some settings' values replaced, and others added."""
    for name, values in words.items():
        if not values:
            raise SettingError(f"No values to search for '{name}'; write for example --space {name}=1,10.")
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
        raise SettingError(f"The search has {whole} settings; narrow it with --space.")
    if sampler == "random":
        order = np.random.default_rng([seed, 0x5EA]).permutation(whole)[:trials]
    else:
        if trials < whole:
            raise SettingError(
                f"The grid has {whole} settings, more than {trials} trials; raise --trials, narrow --space, "
                "or search at random."
            )
        order = np.arange(whole)
    choices = list(itertools.product(*space.values()))
    return [dict(zip(names, choices[k], strict=True)) for k in order]
