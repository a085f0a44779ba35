"""Councils of recommenders that are stopped and go on, and that are saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from council_models import Own

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import InterruptedRunError
from accord.estimators.council.members import shelf_of
from accord.training import Checkpoint

SMALL: dict[str, Any] = {
    "method": "council", "model": "gmf", "members": ("gmf", "mf", "ease"), "member_seeds": 2, "folds": 2,
    "epochs": 3, "batch_size": 512, "dims": 8,
}  # fmt: skip


def council(**changed: Any) -> Recommender:
    return Recommender(**{**SMALL, **changed})


def weights(rec: Recommender) -> dict[str, bytes]:
    return {
        f"{role}/{name}": tensor.contiguous().numpy().tobytes()
        for role, network in rec.networks_.items()
        for name, tensor in network.state_dict().items()
    }


def assert_same(one: Recommender, other: Recommender) -> None:
    """The same weights to the last bit, and the same word on every click."""
    assert weights(one) == weights(other)
    assert one.find_label_issues().equals(other.find_label_issues())
    assert one.threshold_ == other.threshold_
    notes = [dict(rec.notes_["council"]) for rec in (one, other)]
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in note.pop("members")] for note in notes]
    assert rows[0] == rows[1]
    assert notes[0] == notes[1]


class KilledError(Exception):
    """As if the machine went away."""


def kill(phase: str, epoch: int) -> Callable[[Any], None]:
    def told(now: Any) -> None:
        if now.phase.startswith(phase) and now.epoch == epoch:
            raise KilledError

    return told


DEFAULTS = ("lightgcn", "cdae", "gmf", "ials", "ease", "rp3beta")
UNNAMED = [lambda u, i: Own(u, i), lambda u, i: Own(u, i, factor=0.3), lambda u, i: Own(u, i, 6)]


@pytest.mark.parametrize(
    ("changed", "at"),
    [
        ({}, ("member 1 ", 2)),
        ({}, ("member 9 ", 1)),
        ({}, ("student", 2)),
        ({"serve": "council"}, ("council", 1)),
        ({"members": DEFAULTS, "member_seeds": 1}, ("student", 1)),
        ({"members": UNNAMED, "member_seeds": 1}, ("student", 1)),
        ({"members": UNNAMED, "member_seeds": 1}, ("member 5 ", 2)),
    ],
)
@pytest.mark.parametrize("seconds", [0, 10**6])
def test_a_council_that_was_killed_ends_as_if_it_was_not(
    made: Simulation, tmp_path: Path, changed: dict[str, Any], at: tuple[str, int], seconds: float
) -> None:
    """With the state of every epoch on disk, and with ready members alone."""
    whole = council(**changed).fit(made.log())
    path = tmp_path / "state"
    rec = council(**changed)
    with pytest.raises(KilledError):
        rec.fit(made.log(), callback=kill(*at), checkpoint=Checkpoint(path, seconds=seconds))
    assert not hasattr(rec, "networks_")
    phases: list[str] = []
    again = rec.fit(made.log(), callback=lambda now: phases.append(now.phase), checkpoint=path)
    assert_same(again, whole)
    if not at[0].startswith("member"):
        assert not any(name.startswith("member") for name in phases)  # all were ready
    assert not path.exists()
    assert not shelf_of(path).exists()


def test_a_council_that_was_asked_to_stop_goes_on_where_it_was(made: Simulation, tmp_path: Path) -> None:
    whole = council(epochs=6).fit(made.log())
    path = tmp_path / "state"
    checkpoint = Checkpoint(path, seconds=0)

    def stop(now: Any) -> None:
        if now.phase.startswith("member 5 "):
            checkpoint.stop = True

    with pytest.raises(InterruptedRunError):
        council(epochs=6).fit(made.log(), callback=stop, checkpoint=checkpoint)
    assert list(shelf_of(path).iterdir())
    later: list[str] = []
    again = council(epochs=6).fit(made.log(), callback=lambda now: later.append(now.phase), checkpoint=path)
    assert not any(name.startswith(("member 1 ", "member 2 ")) for name in later)
    assert_same(again, whole)


def test_members_of_other_settings_are_not_taken_from_the_shelf(made: Simulation, tmp_path: Path) -> None:
    path = tmp_path / "state"
    with pytest.raises(KilledError):
        council().fit(made.log(), callback=kill("student", 1), checkpoint=Checkpoint(path, seconds=10**6))
    again = council(seed=1).fit(made.log(), checkpoint=path)
    assert_same(again, council(seed=1).fit(made.log()))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"given": 0.2, "folds": 0},
        {"serve": "council"},
        {"serve": "council", "members": DEFAULTS, "member_seeds": 1},
        {"serve": "council", "caution": 0, "kappa": 0.4, "folds": 0},
        {"serve": "council", "members": [Recommender(model="gmf", method="deca", dims=6), "ease"], "folds": 0},
    ],
)
def test_a_saved_council_answers_as_before(made: Simulation, tmp_path: Path, changed: dict[str, Any]) -> None:
    rec = council(**changed).fit(made.log())
    rec.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert_same(again, rec)
    assert list(again.networks_) == list(rec.networks_)
    users = rec.user_ids_.take(np.arange(len(rec.user_ids_)))
    for options in ({"k": 20}, {"k": 300, "exclude_seen": False}):
        assert again.recommend(users, **options).equals(rec.recommend(users, **options))
    items = rec.item_ids_.take(np.arange(len(rec.user_ids_)) % len(rec.item_ids_))
    assert (again.predict(users, items) == rec.predict(users, items)).all()


def test_what_serves_is_the_student_or_all_that_see_every_click(made: Simulation) -> None:
    assert list(council().fit(made.log()).networks_) == ["target"]
    serving = council(serve="council").fit(made.log())
    assert list(serving.networks_) == [*(f"member {k + 1}" for k in range(5)), "head"]  # two gmf, two mf, one ease
    head: Any = serving.networks_["head"]
    assert float(head.weight.sum()) == pytest.approx(1)
    value = serving.validation_["council"]["ndcg@20"]
    assert value > serving.notes_["lowest"]["item popularity"] * 0.5
