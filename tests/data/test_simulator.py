"""The simulator's truth is the truth, and its noise is what its settings say."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from accord.data.simulator import (
    CONFORMITY,
    GENUINE,
    KINDS,
    MISCLICK,
    PROMOTION,
    Simulation,
    SimulatorSettings,
    simulate,
)
from accord.errors import DataError


@pytest.fixture(scope="module")
def made() -> Simulation:
    return simulate(SimulatorSettings(users=400, items=400, interactions=10_000, seed=5))


def test_every_click_has_its_truth(made: Simulation) -> None:
    assert (made.preferences.likes(made.users, made.items) == (made.kinds == GENUINE)).all()
    assert made.preferences.likes(made.test_users, made.test_items).all()


def test_pairs_are_distinct_and_test_pairs_unclicked(made: Simulation) -> None:
    clicked = set(zip(made.users.tolist(), made.items.tolist(), strict=True))
    tested = set(zip(made.test_users.tolist(), made.test_items.tolist(), strict=True))
    assert len(clicked) == len(made.users) == 10_000
    assert len(tested) == len(made.test_users)
    assert not clicked & tested


def test_noise_has_the_shares_asked_for(made: Simulation) -> None:
    assert made.noise_share == pytest.approx(0.3, abs=0.03)
    shares = np.bincount(made.kinds, minlength=4)[1:] / (made.kinds != GENUINE).sum()
    assert shares == pytest.approx([0.3, 0.4, 0.3], abs=0.03)
    assert SimulatorSettings().misclick <= 1 / 3


def test_each_kind_has_its_mark(made: Simulation) -> None:
    """Conformity falls on the popular, misclicks on anything."""
    popularity = np.bincount(made.items[made.kinds == GENUINE], minlength=400)
    mean = {kind: popularity[made.items[made.kinds == kind]].mean() for kind in range(4)}
    assert mean[CONFORMITY] > mean[PROMOTION]
    assert mean[CONFORMITY] > 1.3 * mean[MISCLICK]


def test_likes_come_at_the_rate_asked_for(made: Simulation) -> None:
    users, items = (grid.ravel() for grid in np.meshgrid(np.arange(400), np.arange(400)))
    assert made.preferences.likes(users, items).mean() == pytest.approx(0.15, abs=0.03)


def test_same_seed_same_log(made: Simulation) -> None:
    again = simulate(made.settings)
    assert again.clicks().equals(made.clicks())
    assert not simulate(made.settings.model_copy(update={"seed": 6})).log().equals(made.log())


def test_tables_have_the_promised_columns(made: Simulation) -> None:
    assert made.log().column_names == ["user", "item", "ts"]
    assert made.clicks().column_names == ["user", "item", "ts", "is_noise", "kind"]
    assert made.truth().column_names == ["user", "item"]
    assert set(made.clicks()["kind"].to_pylist()) == set(KINDS)


def test_impossible_worlds_are_refused() -> None:
    with pytest.raises(DataError, match="too many"):
        simulate(SimulatorSettings(users=10, items=20, interactions=5000))
    with pytest.raises(ValidationError, match="add up to 1"):
        SimulatorSettings(misclick=0.9)
