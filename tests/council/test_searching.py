"""Settings of members that are found by noisy validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accord import Recommender
from accord.data.simulator import Simulation
from accord.estimators.base import Cache
from accord.estimators.council.clicks import searching
from accord.estimators.council.clicks.membership import members_of
from accord.estimators.council.clicks.searching import Found, searched
from accord.estimators.council.members import Member
from accord.estimators.recommender_data import split_of

SMALL: dict[str, Any] = {"method": "council", "folds": 0, "epochs": 1, "dims": 4, "batch_size": 1024}
ALPHAS, BETAS = {0.0, 0.25, 0.5, 0.8, 1.1}, {0.0, 0.2, 0.4, 0.6}


def members(rec: Recommender, made: Simulation, found: Found | None = None, folds: Any = ()) -> list[Member]:
    source = {"log": made.log()}
    return members_of(rec, split_of(rec, source, Cache()), source, folds, found)


def search(
    rec: Recommender, made: Simulation, monkeypatch: pytest.MonkeyPatch, value: Callable[[Any], float]
) -> tuple[Found, list[list[Any]]]:
    """What is found where validation is a function of the settings, and what was tried."""
    monkeypatch.setattr(searching, "_validation", lambda trial: value(trial.settings))
    names = [name for name in rec.settings.members if name not in rec.objects()]
    asking, tried, answer = searched(members(rec, made), names, None), [], None
    while True:
        try:
            asked = asking.send(answer)  # pyright: ignore[reportArgumentType]
        except StopIteration as end:
            return end.value, tried
        tried.append([trial.estimator.settings for trial in asked.members])
        answer = list(asked.members)


def test_one_setting_is_searched_after_the_other(made: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    rec = Recommender(members=("ease", "rp3beta"), **SMALL)
    found, tried = search(rec, made, monkeypatch, lambda s: -abs(s.rp3_alpha - 0.8) - abs(s.rp3_beta - 0.15))
    assert found == {"rp3beta": {"rp3_alpha": 0.8, "rp3_beta": 0.2}}
    assert [{s.rp3_alpha for s in each} for each in tried] == [ALPHAS, {0.8}]
    assert [{s.rp3_beta for s in each} for each in tried] == [{0.4}, BETAS]
    assert {s.model for each in tried for s in each} == {"rp3beta"}


def test_the_default_values_stay_where_nothing_is_better(made: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    rec = Recommender(members=("rp3beta",), **SMALL)
    found, _ = search(rec, made, monkeypatch, lambda settings: 0.1)
    assert found == {"rp3beta": {"rp3_alpha": 0.5}}
    found, _ = search(rec, made, monkeypatch, lambda settings: float("-inf"))  # nothing is held out
    assert found == {}


def test_a_member_with_settings_of_its_own_is_not_searched(
    made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Recommender(model="rp3beta", method="normal", rp3_alpha=1.1)
    found, tried = search(Recommender(members=[own, "ease"], **SMALL), made, monkeypatch, lambda settings: 0.1)
    assert (found, tried) == ({}, [])


def test_every_member_of_the_kind_has_what_was_found(made: Simulation) -> None:
    rec = Recommender(members=("rp3beta", "ease"), **{**SMALL, "folds": 2})
    split = split_of(rec, {"log": made.log()}, Cache())
    rows = (split.part == 0).nonzero()[0]
    for member in members(rec, made, {"rp3beta": {"rp3_beta": 0.6}}, [rows[:9], rows[9:18]]):
        changed = member.estimator.changed_settings()
        assert changed.get("rp3_beta") == (0.6 if member.kind == "rp3beta" else None)


def test_a_council_takes_what_noisy_validation_prefers(made: Simulation) -> None:
    phases: list[str] = []
    rec = Recommender(members=("rp3beta", "ease"), serve="council", **SMALL)
    rec.fit(made.log(), callback=lambda now: phases.append(now.phase))
    trials = dict.fromkeys(phase for phase in phases if phase.startswith("trial"))
    assert list(trials) == [f"trial {k + 1} of 9: rp3beta" for k in range(9)]
    grid = [
        Recommender(model="rp3beta", method="normal", rp3_alpha=alpha).fit(made.log()) for alpha in sorted(ALPHAS)
    ]
    at_least = max(list(one.validation_.values())[-1][one.metric] for one in grid)
    (row,) = [row for row in rec.notes_["council"]["members"] if row["model"] == "rp3beta"]
    assert row[rec.metric] >= at_least
