"""Going on from an earlier recommender: what is taken over, what is drawn, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import DataWarning, SettingError

FAST: dict[str, Any] = {"epochs": 1, "batch_size": 512, "dims": 4, "method": "normal", "learning_rate": 1e-12}
"""A rate at which nothing is learned, so that the weights are those that it began with."""


def shuffled(made: Simulation) -> pa.Table:
    """The log with its rows in another order, so that ids have other row numbers, and with two new users."""
    log = made.log().select(["user", "item"])
    order = np.random.default_rng(0).permutation(len(log))
    new = pa.table({"user": ["new"] * 3 + ["newer"] * 3, "item": ["i1", "i2", "strange"] * 2})
    return pa.concat_tables([new, log.take(pa.array(order))])


@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_known_rows_are_taken_over_by_id(made: Simulation, model: str) -> None:
    before = Recommender(model=model, seed=1, **FAST | {"learning_rate": 0.01}).fit(made.log())
    again = Recommender(model=model, seed=2, **FAST).fit(shuffled(made), warm_start=before)
    fresh = Recommender(model=model, seed=2, **FAST).fit(shuffled(made))
    old, new, drawn = (rec.networks_["target"].state_dict() for rec in (before, again, fresh))
    found = [getattr(before, ids).find(getattr(again, ids).values) for ids in ("user_ids_", "item_ids_")]
    users, items = map(torch.from_numpy, found)
    assert (users < 0).sum() == 2
    assert (items < 0).sum() == 1
    for name, value in new.items():
        rows = users if "user" in name else items if "item" in name else None
        if rows is None:
            torch.testing.assert_close(value, old[name], atol=1e-6, rtol=0)
            continue
        known = rows >= 0
        torch.testing.assert_close(value[known], old[name][rows[known]], atol=1e-6, rtol=0)
        torch.testing.assert_close(value[~known], drawn[name][~known], atol=1e-6, rtol=0)
    counts = {"users": 300, "new_users": 2, "items": len(before.item_ids_), "new_items": 1}
    assert again.notes_["warm_start"] == counts


@pytest.mark.parametrize("method", ["deca", "deca-p", "ensemble"])
def test_every_role_is_taken_over(made: Simulation, method: str) -> None:
    before = Recommender(seed=1, **FAST | {"learning_rate": 0.01, "method": method}).fit(made.log())
    again = Recommender(seed=2, **FAST | {"method": method}).fit(made.log(), warm_start=before)
    for role, network in again.networks_.items():
        for name, value in network.state_dict().items():
            own = before.networks_[role].state_dict()[name]
            torch.testing.assert_close(value, own, atol=1e-6, rtol=0)


def test_sweeps_go_on_from_the_vectors(made: Simulation) -> None:
    """iALS begins with the items, so one more sweep is what a longer training would have made."""
    options: dict[str, Any] = {"model": "ials", "dims": 8, "seed": 1, "patience": 0}
    first = Recommender(**options, epochs=3).fit(made.log())
    second = Recommender(**options, epochs=1).fit(made.log(), warm_start=first)
    target, other = first.networks_["target"], second.networks_["target"]
    assert any((a != b).any() for a, b in zip(target.buffers(), other.buffers(), strict=True))
    assert second.history_[0]["loss"] < Recommender(**options, epochs=1).fit(made.log()).history_[0]["loss"]


def test_what_was_trained_on_is_never_held_out(made: Simulation) -> None:
    """What was held out stays so, and a share of the new clicks joins it."""
    log = made.log().select(["user", "item"])
    before = Recommender(seed=1, **FAST).fit(log.slice(0, 4000))
    again = Recommender(seed=2, **FAST).fit(log, warm_start=before)

    def pairs(rec: Recommender, part: int) -> set[tuple[str, str]]:
        table = rec.clicks_.subset(rec.part_ == part).to_table()
        return set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))

    assert not pairs(again, 1) & pairs(before, 0)
    assert pairs(before, 1) <= pairs(again, 1)
    new = len(again.clicks_) - len(before.clicks_)
    assert 0 < len(pairs(again, 1)) - len(pairs(before, 1)) <= 0.2 * new


def test_new_clicks_of_one_day_join_a_split_by_the_time_of_all(made: Simulation) -> None:
    """None of them is the latest, so that a share of them is drawn; older clicks are left before them."""
    log = made.log()
    before = Recommender(split="global-time", **FAST).fit(log)
    new: dict[str, Any] = {"user": ["u0", "u1", "u2"] * 10, "item": [f"new{k // 3}" for k in range(30)]}
    new |= {"ts": [max(log["ts"].to_pylist()) + 1] * 30}
    both = pa.concat_tables([log, pa.table(new).cast(log.schema)])
    again = Recommender(split="global-time", **FAST).fit(both, warm_start=before)
    assert again.notes_["valid"] == before.notes_["valid"] + 3


@pytest.mark.parametrize("model", ["ease", "itemknn"])
def test_closed_forms_are_solved_anew_and_say_so(made: Simulation, model: str) -> None:
    before = Recommender(model=model).fit(made.log().slice(0, 4000))
    with pytest.warns(DataWarning, match=f"'{model}' is solved anew: its closed form takes nothing over"):
        again = Recommender(model=model).fit(made.log(), warm_start=before, valid=made.truth())
    fresh = Recommender(model=model).fit(made.log(), valid=made.truth())
    for name, value in again.networks_["target"].state_dict().items():
        assert torch.equal(value, fresh.networks_["target"].state_dict()[name])


def test_a_saved_run_is_gone_on_with(made: Simulation, tmp_path: Path) -> None:
    before = Recommender(seed=1, **FAST).fit(made.log())
    before.save(tmp_path / "run")
    one = Recommender(seed=2, **FAST).fit(made.log(), warm_start=tmp_path / "run")
    other = Recommender(seed=2, **FAST).fit(made.log(), warm_start=before)
    for name, value in one.networks_["target"].state_dict().items():
        assert torch.equal(value, other.networks_["target"].state_dict()[name])
    one.save(tmp_path / "further")
    assert Recommender.load(tmp_path / "further").notes_["warm_start"]["users"] == 300


def test_users_that_are_missing_are_counted(made: Simulation) -> None:
    before = Recommender(seed=1, **FAST).fit(made.log())
    few = {"user": ["u1", "u1", "u2", "u2", "u3"], "item": ["i1", "i2", "i1", "i3", "i4"]}
    with pytest.warns(DataWarning, match="297 of the 300 users of the earlier recommender are not in this log"):
        Recommender(seed=2, **FAST).fit(few, warm_start=before)


def test_what_cannot_be_gone_on_with(made: Simulation, tmp_path: Path) -> None:
    before = Recommender(seed=1, **FAST).fit(made.log())
    with pytest.raises(SettingError, match="holds the model 'gmf', and this is 'mf'"):
        Recommender(model="mf", **FAST).fit(made.log(), warm_start=before)
    with pytest.raises(SettingError, match="such as dims"):
        Recommender(**FAST | {"dims": 8}).fit(made.log(), warm_start=before)
    with pytest.raises(SettingError, match="warm_start is a bool"):
        Recommender(**FAST).fit(made.log(), warm_start=True)


def test_a_checkpoint_knows_where_it_began(made: Simulation, tmp_path: Path) -> None:
    """A training that began elsewhere does not resume it."""
    from accord.errors import DataError

    one, other = (Recommender(seed=k, **FAST | {"learning_rate": 0.01}).fit(made.log()) for k in (1, 2))
    place = tmp_path / "half"

    def stop(now: Any) -> None:
        if now.epoch > 1:
            raise KeyboardInterrupt

    options = FAST | {"epochs": 3, "learning_rate": 0.01}
    from accord.training import Checkpoint

    with pytest.raises(KeyboardInterrupt):
        Recommender(**options).fit(made.log(), warm_start=one, callback=stop, checkpoint=Checkpoint(place, 0))
    assert place.exists()
    with pytest.raises(DataError):
        Recommender(**options).fit(made.log(), warm_start=other, checkpoint=place)
