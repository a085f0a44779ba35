"""Weights of clicks against the plain definition, and what is said to be right or wrong for sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord import Recommender
from accord.batches.clicks import ClickBatch, ClickFeed
from accord.data import load_clicks
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation, SimulatorSettings, simulate
from accord.errors import DataError, SettingError
from accord.estimators import fit_together
from accord.estimators.log_split import SEEN, TRAIN
from accord.objectives.binary import cross_entropy

QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 256, "dims": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def made() -> Simulation:
    return simulate(SimulatorSettings(users=150, items=250, interactions=2000, seed=2))


def weighted(made: Simulation, values: Any) -> pa.Table:
    log = made.log()
    return log.append_column("seconds", pa.array(values))


def test_the_loss_of_a_click_is_multiplied_by_its_weight() -> None:
    """Against a loop over the clicks."""
    logits = torch.randn(2, 1, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = torch.tensor([[0.0, 0.5, 1.0, 1.5, 2.0]])
    labels = torch.tensor([1.0, 0.0]).view(2, 1, 1)
    batch = ClickBatch(torch.zeros(1, 5), torch.zeros(2, 1, 5), labels, weights=weights)
    plain = 0.0
    for k in range(5):
        clicked, other = logits[0, 0, k].item(), logits[1, 0, k].item()
        plain += weights[0, k].item() * np.log1p(np.exp(-clicked)) / 5 + np.log1p(np.exp(other)) / 5
    assert batch.mean(cross_entropy(logits, labels)).item() == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_every_click_of_an_epoch_carries_its_own_weight(made: Simulation, model: str) -> None:
    clicks = load_clicks(made.log())
    given = np.arange(1, len(clicks) + 1, dtype=float)
    sizes = len(clicks.user_ids), len(clicks.item_ids)
    data = Interactions.from_pairs(clicks.users, clicks.items, *sizes, weights=given)
    wanted = {(u, i): w / given.mean() for u, i, w in zip(clicks.users, clicks.items, given, strict=True)}
    for runs in (1, 2):
        feed = ClickFeed([data] * runs, 100, model == "cdae", False)
        found = 0
        for batch in feed.epoch([torch.Generator().manual_seed(k) for k in range(runs)]):
            inside = torch.ones_like(batch.users, dtype=torch.bool) if batch.inside is None else batch.inside
            triples = (batch.users[inside], batch.items[0][inside], batch.weights[inside])  # pyright: ignore
            for u, i, w in zip(*(one.tolist() for one in triples), strict=True):
                assert w == pytest.approx(wanted[u, i], rel=1e-6)
                found += 1
        assert found == runs * len(clicks)


@pytest.mark.parametrize("method", ["normal", "deca-p"])
@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_equal_weights_change_no_bit_and_others_do(made: Simulation, model: str, method: str) -> None:
    """However often pairs repeat, and in whatever unit."""
    count = made.log().num_rows
    plain = Recommender(model=model, method=method, **QUICK).fit(made.log())
    equal = Recommender(model=model, method=method, **QUICK).fit(weighted(made, [3.0] * count), weight="seconds")
    other = Recommender(model=model, method=method, **QUICK).fit(
        weighted(made, np.random.default_rng(0).exponential(size=count)), weight="seconds"
    )
    assert np.array_equal(plain.quality_, equal.quality_)
    assert not np.allclose(plain.quality_, other.quality_)


def test_clicks_of_weight_zero_are_not_learnt(made: Simulation) -> None:
    log = made.log().to_pandas()
    silent = (log.item == log.item.value_counts().index[0]).to_numpy()
    settings = {**QUICK, "epochs": 15, "learning_rate": 0.05}
    rec, plain = (Recommender(method="normal", seed=1, **settings) for _ in range(2))
    rec.fit(weighted(made, np.where(silent, 0.0, 1.0)), weight="seconds", time="")
    plain.fit(made.log(), time="")
    own = rec.clicks_.item_ids.find([log.item[silent].iloc[0]])[0] == rec.clicks_.items
    assert rec.quality_[own].mean() < 0.7 * plain.quality_[own].mean()


def test_stacked_runs_learn_with_weights_as_alone(made: Simulation) -> None:
    log = weighted(made, np.random.default_rng(0).exponential(size=made.log().num_rows))
    alone = Recommender(method="normal", seed=1, **QUICK).fit(log, weight="seconds")
    both = [Recommender(method="normal", seed=seed, **QUICK) for seed in (1, 2)]
    fit_together(both, {"log": log, "weight": "seconds"})
    np.testing.assert_allclose(both[0].quality_, alone.quality_, atol=1e-5)


def test_repeated_pairs_have_the_mean_of_their_weights() -> None:
    log = {"user": ["a", "b", "a", "a"], "item": ["x", "y", "x", "y"], "w": [1, 2, 4, 0]}
    clicks = load_clicks(log, weight="w")
    found = dict(zip(zip(clicks.users.tolist(), clicks.items.tolist(), strict=True), clicks.weights, strict=True))  # pyright: ignore
    assert found == {(0, 0): 2.5, (1, 1): 2.0, (0, 1): 0.0}


@pytest.mark.parametrize("bad", [[1, -1], [1, float("nan")], [1, float("inf")], ["1", "many"], [0, 0]])
def test_what_is_no_weight_is_refused(bad: list[Any]) -> None:
    with pytest.raises(DataError, match="weight"):
        load_clicks({"user": ["a", "b"], "item": ["x", "y"], "w": bad}, weight="w")


@pytest.mark.parametrize("settings", [{"method": "t-ce"}, {"model": "ease"}, {"method": "popularity"}])
def test_methods_that_know_no_weights_say_so(made: Simulation, settings: dict[str, Any]) -> None:
    log = weighted(made, [1.0] * made.log().num_rows)
    with pytest.raises(SettingError, match="Weights of clicks are for methods"):
        Recommender(**settings).fit(log, weight="seconds")


def marked(made: Simulation) -> pa.Table:
    """A log in which some clicks are known: the first hundred rows wrong, the next hundred right."""
    marks = np.array(["wrong"] * 100 + ["right"] * 100 + [""] * (made.log().num_rows - 200))
    return made.log().append_column("trusted", pa.array(marks))


@pytest.mark.parametrize("form", ["column", "table", "file"])
def test_trusted_clicks(made: Simulation, form: str, tmp_path: Path) -> None:
    log = marked(made)
    trusted: Any = "trusted"
    if form != "column":
        trusted = log.slice(0, 200).select(["user", "item", "trusted"])
        log = made.log()
    if form == "file":
        import pyarrow.parquet

        pyarrow.parquet.write_table(trusted, tmp_path / "known.parquet")
        trusted = str(tmp_path / "known.parquet")
    rec = Recommender(method="normal", **QUICK).fit(log, trusted=trusted)
    pairs = list(zip(*(log.slice(0, 200)[n].to_pylist() for n in ("user", "item")), strict=True))
    wrong, right = set(pairs[:100]), set(pairs[100:200])
    named = list(zip(*(rec.clicks_.to_table()[n].to_pylist() for n in ("user", "item")), strict=True))
    assert {rec.part_[k] for k, pair in enumerate(named) if pair in wrong} == {SEEN}
    rec.save(tmp_path / "run")
    for one in (rec, Recommender.load(tmp_path / "run")):
        for share in (None, 0.0, 0.5, 1.0):
            issues = one.find_label_issues(share).to_pandas()
            flags = {(r.user, r.item): r.is_label_issue for r in issues.itertuples()}
            assert len(flags) == log.num_rows
            assert all(flags[pair] for pair in wrong)
            assert not any(flags[pair] for pair in right)
    assert not wrong & set(zip(*(rec.cleaned_log()[n].to_pylist() for n in ("user", "item")), strict=True))
    assert rec.notes_["trusted"] == {"right": 100, "wrong": 100}


def test_wrong_clicks_teach_as_if_they_were_not_there(made: Simulation) -> None:
    """Neither trained on nor validated by; only their ids are known."""
    log = marked(made)
    rec = Recommender(method="normal", **QUICK).fit(log, trusted="trusted")
    learnt = rec.clicks_.subset(rec.part_ == TRAIN).to_table()
    wrong = set(zip(*(log.slice(0, 100)[n].to_pylist() for n in ("user", "item")), strict=True))
    held = rec.clicks_.subset(rec.part_ != SEEN).to_table()
    for table in (learnt, held):
        assert not wrong & set(zip(*(table[n].to_pylist() for n in ("user", "item")), strict=True))


def test_contradictions_and_odd_words_are_refused() -> None:
    log = {"user": ["a", "a", "b"], "item": ["x", "x", "y"]}
    with pytest.raises(DataError, match="right in one row and as wrong in another"):
        load_clicks({**log, "known": [True, False, None]}, trusted="known")
    with pytest.raises(DataError, match="holds 'perhaps'"):
        load_clicks({**log, "known": ["yes", "perhaps", ""]}, trusted="known")
    with pytest.raises(DataError, match="No column 'knwon' .* did you mean 'known'"):
        load_clicks({**log, "known": [True, True, None]}, trusted="knwon")
    with pytest.raises(DataError, match="Every training click is marked as wrong"):
        Recommender(method="normal", **QUICK).fit({**log, "known": [False] * 3}, trusted="known")
