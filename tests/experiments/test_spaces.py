"""What is searched for each method, and in which order settings are tried."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accord.errors import SettingError
from accord.experiments.spaces import (
    FIRST_ROUND,
    SECOND_ROUND,
    narrowed,
    plan,
    second_round,
    size,
)
from accord.methods import METHODS
from accord.reproduction.studies import IMAGES
from accord.tasks.clicks import ClickTask
from accord.tasks.labels import LabelTask

CLICKS = ClickTask(pa.table({"user": [1], "item": [1]}))
LABELS = LabelTask(np.zeros((2, 1)), np.arange(2))
RATE = {"learning_rate": (0.001, 0.003, 0.01)}
COMMON = RATE | {"l2": (0.01, 0.1, 1, 10, 100, 1000)}
GRID = {"c0": (1, 10, 100, 1000), "c1": (1, 10, 100, 1000), "alpha": (0, 0.5, 1)}
"""The paper's grid of DeCA and DeCA(p)."""


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("normal", {}),
        ("wbpr", {}),
        ("ensemble", {}),
        ("t-ce", {"drop_rate": (0.05, 0.1, 0.2), "ramp_epochs": (5, 10, 20)}),
        ("r-ce", {"beta": (0.05, 0.1, 0.25, 0.5)}),
        ("deca", GRID),
        ("deca-p", GRID),
    ],
)
def test_every_method_of_clicks_is_searched_in_the_same_common_settings(method: str, own: dict[str, Any]) -> None:
    assert CLICKS.space(method) == COMMON | own
    assert size(CLICKS.space(method)) == 18 * math.prod(map(len, own.values()))


def test_where_nothing_is_trained_nothing_is_searched() -> None:
    assert CLICKS.space("popularity") == {}


def test_methods_of_labels() -> None:
    rate = {"learning_rate": (0.1, 0.05, 0.02, 0.01)}
    two = {"c1": (1, 10, 50, 100), "c2": (1, 10, 50, 100)}
    assert LABELS.space("normal") == LABELS.space("mw-net") == rate
    assert LABELS.space("deca") == LABELS.space("deca-p") == rate | two
    assert LABELS.space("itlm") == rate | {"keep_share": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)}


def test_four_settings_of_every_method_of_large_image_sets() -> None:
    assert {method: size(space) for method, space in IMAGES.items()} == dict.fromkeys(
        ("normal", "mw-net", "deca-p", "itlm"), 4
    )
    common = {"learning_rate": (0.1, 0.01), "weight_decay": (0.0005, 0.001)}
    assert [IMAGES[method] for method in ("normal", "mw-net", "deca-p")] == [common] * 3
    assert IMAGES["itlm"] == {"keep_share": (0.6, 0.8), "weight_decay": (0.0005, 0.001)}


def test_two_rounds_try_no_value_twice() -> None:
    assert FIRST_ROUND == RATE | {"l2": (0, 0.01, 0.1, 1)}
    assert SECOND_ROUND == {"learning_rate": (5e-4, 2e-3, 5e-3, 2e-2), "l2": (1e-3, 3e-3, 0.03, 0.3, 3, 10)}
    assert not any(set(FIRST_ROUND[name]) & set(SECOND_ROUND[name]) for name in FIRST_ROUND)
    assert {name: METHODS.find(name).begins_as for name in METHODS if METHODS.find(name).begins_as} == {
        "deca-p": "normal"
    }


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        (1, ["a"]),
        (3, ["a"]),  # its own settings are as many as there are trials left
        (4, ["a", "b"]),
        (9, ["a", "b"]),
    ],
)
def test_a_second_round_takes_common_settings_besides_where_its_own_are_fewer(
    trials: int, expected: list[str]
) -> None:
    assert list(second_round({"a": (1, 2, 3)}, {"b": (1, 2)}, trials)) == expected
    assert second_round({}, {"b": (1, 2)}, trials) == ({} if trials == 1 else {"b": (1, 2)})


def test_narrowed() -> None:
    space = {"a": (1, 2), "b": (3,)}
    assert narrowed(space, {"a": [5], "c": [6, 7]}) == {"a": (5,), "b": (3,), "c": (6, 7)}
    assert narrowed(space, {}) == space == {"a": (1, 2), "b": (3,)}
    with pytest.raises(
        SettingError, match=r"No values to search for 'c'; write for example space=\{'c': \(1, 10\)\}"
    ):
        narrowed(space, {"a": [1], "c": []})


@pytest.mark.parametrize(("space", "count"), [({}, 1), ({"a": (1,)}, 1), ({"a": (1, 2), "b": (1, 2, 3)}, 6)])
def test_size(space: dict[str, Any], count: int) -> None:
    assert size(space) == count
    assert type(size(space)) is int
    assert len(plan(space, "grid", count, 0)) == len(plan(space, "random", count, 0)) == count


# -- plans ------------------------------------------------------------------------------------------------

SPACE = {"a": (1, 2, 3), "b": ("x", "y")}
WHOLE = [{"a": a, "b": b} for a in (1, 2, 3) for b in ("x", "y")]


def test_a_grid_is_tried_in_order_and_whole() -> None:
    assert plan(SPACE, "grid", 6, 0) == plan(SPACE, "grid", 100, 9) == WHOLE
    with pytest.raises(SettingError, match="The grid has 6 settings, more than 5 trials"):
        plan(SPACE, "grid", 5, 0)


def test_a_random_search_tries_the_same_settings_as_ever() -> None:
    """So that a published search can be made again: none twice, a longer one goes on with a shorter."""
    drawn = plan(SPACE, "random", 6, seed=0)
    assert [WHOLE.index(settings) for settings in drawn] == [3, 2, 5, 0, 4, 1]
    assert sorted(map(str, drawn)) == sorted(map(str, WHOLE))
    for trials in range(7):
        assert plan(SPACE, "random", trials, seed=0) == drawn[:trials]
    assert plan(SPACE, "random", 99, seed=0) == drawn
    assert plan(SPACE, "random", 6, seed=1) != drawn


def test_nothing_to_search_is_one_trial() -> None:
    assert plan({}, "random", 5, 0) == plan({}, "grid", 5, 0) == [{}]


def test_a_search_may_have_a_million_settings() -> None:
    assert len(plan({"a": range(1000), "b": range(1000)}, "random", 3, 0)) == 3  # pyright: ignore
    with pytest.raises(SettingError, match="The search has 1001000 settings"):
        plan({"a": range(1000), "b": range(1001)}, "random", 3, 0)  # pyright: ignore
