"""The object users hold: ids in and out, lists, issues, saving, and honesty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from torch import nn

from accord import Recommender
from accord.data.clicks import match_pairs
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError, UnknownIdError
from accord.estimators import fit_together
from accord.estimators.log_split import TRAIN
from accord.estimators.recommender_data import interactions_of
from accord.estimators.recommender_judging import judge_clicks
from accord.estimators.recommender_serving import scorer_of
from accord.evaluation import RankingTask, mean_metrics

QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 512, "dims": 8}


def test_recommend_gives_ranked_unseen_items(fitted: Recommender, made: Simulation) -> None:
    table = fitted.recommend(["u1", "u2"], k=5)
    assert table.column_names == ["user", "rank", "item", "score"]
    assert table["user"].to_pylist() == ["u1"] * 5 + ["u2"] * 5
    assert table["rank"].to_pylist() == [1, 2, 3, 4, 5] * 2
    log = made.log().to_pandas()
    for user, rows in table.to_pandas().groupby("user"):
        assert rows.score.is_monotonic_decreasing
        assert not set(rows.item) & set(log[log.user == user].item)
    scores = fitted.predict(table["user"].to_pylist(), table["item"].to_pylist())
    np.testing.assert_allclose(scores, table["score"].to_numpy(), rtol=1e-4, atol=1e-5)


def test_recommend_brute_force(fitted: Recommender, made: Simulation) -> None:
    items = fitted.item_ids_.values.to_pylist()
    seen = set(made.log().to_pandas().query("user == 'u7'").item)
    scores = dict(zip(items, fitted.predict(["u7"] * len(items), items), strict=True))
    best = sorted((i for i in items if i not in seen), key=lambda i: -scores[i])[:10]
    assert fitted.recommend("u7", k=10)["item"].to_pylist() == best
    every = fitted.recommend("u7", k=10_000, exclude_seen=False)
    assert every.num_rows == len(items)


def test_recommend_within_a_subset(fitted: Recommender) -> None:
    subset = fitted.item_ids_.values.to_pylist()[5:9]
    table = fitted.recommend("u3", k=10, exclude_seen=False, items=subset)
    assert sorted(table["item"].to_pylist()) == sorted(subset)


def test_similar_items(fitted: Recommender) -> None:
    table = fitted.similar_items("i7", k=5)
    assert table.num_rows == 5
    assert "i7" not in table["similar_item"].to_pylist()
    assert (np.diff(table["score"].to_numpy()) <= 0).all()
    assert abs(table["score"].to_numpy()).max() <= 1 + 1e-6


def test_unknown_ids_are_named(fitted: Recommender) -> None:
    with pytest.raises(UnknownIdError, match="Unknown user: nobody"):
        fitted.recommend(["u1", "nobody"])
    with pytest.raises(UnknownIdError, match="Unknown item: i999"):
        fitted.predict(["u1"], ["i999"])
    with pytest.raises(DataError, match="do not pair up"):
        fitted.predict(["u1", "u2"], ["i1"])


def test_issues_are_every_click_worst_first(fitted: Recommender, made: Simulation) -> None:
    table = fitted.find_label_issues()
    assert table.column_names == ["user", "item", "label_quality", "is_label_issue", "row", "rows"]
    quality = table["label_quality"].to_numpy()
    assert (np.diff(quality) >= 0).all()
    assert ((quality >= 0) & (quality <= 1)).all()
    assert set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True)) == set(
        zip(made.log()["user"].to_pylist(), made.log()["item"].to_pylist(), strict=True)
    )
    flagged = table["is_label_issue"].to_numpy()
    assert (flagged == (quality < fitted.threshold_)).all()
    assert 0 < flagged.sum() < len(flagged)


def test_share_overrides_the_rule(fitted: Recommender) -> None:
    table = fitted.find_label_issues(share=0.25)
    assert table["is_label_issue"].to_numpy().sum() == round(0.25 * table.num_rows)
    with pytest.raises(SettingError, match="makes no sense"):
        fitted.find_label_issues(share=1.5)


def test_cleaned_log_is_the_log_without_the_flagged(fitted: Recommender, made: Simulation) -> None:
    clean = fitted.cleaned_log()
    assert clean.column_names == ["user", "item", "ts"]
    issues = fitted.find_label_issues().to_pandas()
    kept = issues[~issues.is_label_issue]
    assert set(zip(clean["user"].to_pylist(), clean["item"].to_pylist(), strict=True)) == set(
        zip(kept.user, kept.item, strict=True)
    )
    times = made.log().to_pandas().set_index(["user", "item"]).ts
    first = clean.slice(0, 1).to_pylist()[0]
    assert times[(first["user"], first["item"])] == first["ts"]


def test_saved_and_loaded_is_the_same(fitted: Recommender, made: Simulation, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.recommend(["u5", "u6"]).equals(fitted.recommend(["u5", "u6"]))
    assert loaded.find_label_issues().equals(fitted.find_label_issues())
    assert loaded.cleaned_log(log=made.log()).equals(fitted.cleaned_log())
    with pytest.raises(DataError, match="does not hold the log"):
        loaded.cleaned_log()
    assert loaded.settings.model_dump() == fitted.settings.model_dump()
    assert loaded.metrics_ == json.loads((tmp_path / "run" / "metrics.json").read_text())
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json",
        "weights.safetensors",
        "ids.parquet",
        "clicks.parquet",
        "history.jsonl",
        "metrics.json",
    }


def test_a_save_replaces_runs_and_nothing_else(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    fitted.save(tmp_path / "run")
    with pytest.raises(DataError, match="exists already"):
        fitted.save(tmp_path / "run", overwrite=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="left alone"):
        fitted.save(tmp_path / "home")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["home", "run"]


def test_a_failing_save_leaves_the_old_run(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")

    def fail(draft: Path) -> None:
        raise OSError("disk full")

    with pytest.raises(DataError, match="disk full"):
        fitted.save(tmp_path / "run", also=fail)
    assert Recommender.load(tmp_path / "run").recommend("u1").num_rows == 10
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors", "ids.parquet", "clicks.parquet"])
def test_damaged_runs_are_refused(fitted: Recommender, tmp_path: Path, name: str) -> None:
    fitted.save(tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(b"\x80\x04nonsense")
    with pytest.raises(DataError):
        Recommender.load(tmp_path / "run")


def test_same_seed_same_weights_other_seed_others(made: Simulation) -> None:
    def weights(seed: int) -> torch.Tensor:
        rec = Recommender(method="deca", seed=seed, split="random", **QUICK).fit(made.log())
        return torch.cat([p.flatten() for net in rec.networks_.values() for p in net.parameters()])

    assert torch.equal(weights(4), weights(4))
    assert not torch.equal(weights(4), weights(5))


def test_order_of_rows_decides_nothing_that_matters(made: Simulation) -> None:
    """A shuffled log gives every id other row numbers, but the same clicks, parts and users."""
    log = made.log()
    shuffled = log.take(np.random.default_rng(0).permutation(len(log)))
    parts = []
    for table in (log, shuffled):
        rec = Recommender(method="normal", **QUICK).fit(table)
        held = rec.clicks_.subset(rec.part_ == 1).to_table()
        parts.append(set(zip(held["user"].to_pylist(), held["ts"].to_pylist(), strict=True)))
    assert len(parts[0] ^ parts[1]) <= 0.02 * len(parts[0])  # equal times may fall either way


def test_validation_file_is_masked_but_not_audited(made: Simulation) -> None:
    log = made.log()
    train, valid = log.slice(0, 4500), log.slice(4500)
    rec = Recommender(method="normal", **QUICK).fit(train, valid=valid)
    assert rec.notes_["split"] == "a validation file"
    assert rec.find_label_issues().num_rows == 4500
    user = valid["user"][0].as_py()
    mine = {row["item"] for row in valid.to_pylist() if row["user"] == user}
    assert not mine & set(rec.recommend(user, k=1000)["item"].to_pylist())


class Bilinear(nn.Module):
    """A stranger's model: nothing of accord's in it."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(n_users, 6), nn.Embedding(n_items, 6)
        self.mix = nn.Linear(6, 6)

    def logits(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return (self.mix(self.user(users)) * self.item(items)).sum(-1)

    def scores(self, users: torch.Tensor) -> torch.Tensor:
        return self.mix(self.user(users)) @ self.item.weight.T


@pytest.mark.parametrize("method", ["normal", "deca", "deca-p"])
def test_any_module_takes_a_models_place(made: Simulation, tmp_path: Path, method: str) -> None:
    rec = Recommender(model=Bilinear, method=method, **QUICK).fit(made.log())
    assert rec.recommend("u1", k=3).num_rows == 3
    rec.save(tmp_path / "run")
    with pytest.raises(DataError, match="model of your own"):
        Recommender.load(tmp_path / "run")
    again = Recommender.load(tmp_path / "run", model=Bilinear)
    assert again.recommend("u1").equals(rec.recommend("u1"))
    with pytest.raises(AccordError, match="no item vectors"):
        rec.similar_items("i1")


def test_a_module_without_the_two_methods_is_refused(made: Simulation) -> None:
    with pytest.raises(SettingError, match="logits"):
        Recommender(model=lambda users, items: nn.Linear(2, 2), **QUICK).fit(made.log())


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="Unknown setting 'alfa': did you mean 'alpha'"):
        Recommender(alfa=0.5)
    with pytest.raises(SettingError, match="alpha.*less than or equal to 1"):
        Recommender(alpha=2)
    with pytest.raises(SettingError, match="Unknown model 'gfm'"):
        Recommender(model="gfm")
    with pytest.raises(SettingError, match="Unknown noise_model"):
        Recommender(noise_model="neumff")
    assert Recommender(c0="10").settings.c0 == 10.0


def test_every_input_form_trains(made: Simulation) -> None:
    frame = made.log().to_pandas()
    codes = [pd.factorize(frame[name])[0] for name in ("user", "item")]
    matrix = scipy.sparse.csr_matrix((np.ones(len(frame)), codes))
    rec = Recommender(method="normal", **QUICK).fit(matrix)
    assert rec.recommend(0, k=2)["user"].to_pylist() == [0, 0]


def test_tiny_logs() -> None:
    with pytest.raises(DataError, match="at least two of each"):
        Recommender().fit({"user": ["a", "a"], "item": ["x", "y"]})
    rec = Recommender(epochs=1).fit({"user": ["a", "b"], "item": ["x", "y"]})  # nothing to hold out
    assert rec.recommend("a")["item"].to_pylist() == ["y"]
    with pytest.raises(AccordError, match="clicked every item"):
        Recommender(epochs=1).fit({"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"]})


def test_not_fitted_is_said() -> None:
    with pytest.raises(AccordError, match="call fit first"):
        Recommender().recommend("a")


def test_evaluate_counts_what_it_leaves_out(fitted: Recommender, made: Simulation) -> None:
    truth = made.truth()
    extra = pa.table({"user": [f"u{k}" for k in range(300)], "item": ["never-seen"] * 300})
    plain = fitted.evaluate(truth, k=[5])
    more = fitted.evaluate(pa.concat_tables([truth, extra]), k=[5])
    assert more["unknown_items"] == 300
    assert more["recall@5"] == pytest.approx(plain["recall@5"] * 10 / 11, rel=1e-4)  # ten pairs became eleven


def test_strangers_are_ranked_for_by_popularity(fitted: Recommender, made: Simulation) -> None:
    training = fitted.clicks_.subset(fitted.part_ == 0)
    best = fitted.item_ids_.take(np.bincount(training.items).argsort()[::-1][:1]).to_pylist()
    both = pa.table({"user": ["stranger", "other stranger"], "item": best * 2})
    one = made.truth().slice(0, 1).select(["user", "item"])
    ranked = fitted.evaluate_users(pa.concat_tables([one, both]), k=[1])
    assert (ranked.metrics["recall@1"][~ranked.warm].tolist(), ranked.warm.sum()) == ([1.0, 1.0], 1)
    with pytest.raises(DataError, match="0 of 2 rows .* have user ids of the log"):
        fitted.evaluate(both, k=[1])
    mixed = fitted.evaluate(pa.concat_tables([made.truth(), both]), k=[1])
    assert mixed["warm recall@1"] == pytest.approx(fitted.evaluate(made.truth(), k=[1])["recall@1"])
    left_to_the_model = Recommender(method="normal", cold_users="model", **QUICK).fit(made.log())
    assert left_to_the_model.evaluate(pa.concat_tables([one, both]), k=[1])["users"] == 1


def test_validation_ranks_for_users_without_a_click_as_the_recommender_will(made: Simulation) -> None:
    """By popularity, whatever the model has made of them so far; alone and in a stack."""
    log, truth = made.log(), made.truth()
    new = pa.table({"user": [f"new{k}" for k in range(40)], "item": truth["item"].slice(0, 40)})
    valid = pa.concat_tables([truth.slice(0, 300).select(["user", "item"]), new])
    settings = {"method": "normal", **QUICK, "epochs": 3, "patience": 0}

    def fitted(**more: Any) -> Recommender:
        return Recommender(**settings | more).fit(log, valid=valid, known=new)

    rec = fitted()
    training = interactions_of(rec, rec.part_ == TRAIN)
    pairs = match_pairs(valid, rec.user_ids_, rec.item_ids_, rec.columns_)
    task = RankingTask.from_pairs(pairs.users, pairs.items, [training])
    served = mean_metrics(scorer_of(rec, training), task, [20])
    (kept,) = [
        one["valid"] for one in rec.history_ if one["epoch"] == rec.metrics_["validation"]["training"]["epoch"]
    ]
    assert kept["ndcg@20"] == pytest.approx(served["ndcg@20"], abs=1e-6)
    assert fitted(cold_users="model").history_[0]["valid"] != rec.history_[0]["valid"]
    pair = [Recommender(**settings), Recommender(**settings, seed=1)]
    fit_together(pair, {"log": log, "valid": valid, "known": new})
    assert pair[0].history_[-1]["valid"]["ndcg@20"] == pytest.approx(rec.history_[-1]["valid"]["ndcg@20"], abs=1e-4)
    with pytest.raises(DataError, match="No user of the validation clicks has a training click"):
        Recommender(**settings).fit(log, valid=new, known=new)


def test_known_ids_join_the_catalogue(made: Simulation) -> None:
    known = pa.table({"user": ["new-user"], "item": ["new-item"]})
    rec = Recommender(method="normal", **QUICK).fit(made.log(), known=known)
    assert rec.recommend("new-user", k=1000)["item"].to_pylist().count("new-item") == 1
    top = rec.recommend("new-user", k=3)["item"].to_pylist()
    training = rec.clicks_.subset(rec.part_ == 0)
    counts = dict(
        zip(
            rec.item_ids_.values.to_pylist(), np.bincount(training.items, minlength=len(rec.item_ids_)), strict=True
        )
    )
    assert sorted(counts.values(), reverse=True)[:3] == [counts[item] for item in top]


def test_evaluate_issues_needs_its_column(fitted: Recommender, made: Simulation) -> None:
    measured = fitted.evaluate_issues(made.clicks())
    assert (
        set(measured["by_kind"])
        == {"all", "misclick", "conformity", "promotion"}
        == set(measured["popularity_by_kind"])
    )
    assert measured["clicks"] == len(made.users)
    with pytest.raises(DataError, match="no column is_noise"):
        fitted.evaluate_issues(made.log())


def test_truth_changes_no_bit_of_the_weights(made: Simulation, tmp_path: Path) -> None:
    """Training sees user, item and time alone: other columns, such as the truth itself, change nothing."""
    plain = Recommender(method="deca-p", **QUICK).fit(made.log())
    marked = Recommender(method="deca-p", **QUICK).fit(made.clicks())
    for role, network in plain.networks_.items():
        for ours, theirs in zip(network.parameters(), marked.networks_[role].parameters(), strict=True):
            assert torch.equal(ours, theirs)
    assert plain.history_[-1]["valid"] == marked.history_[-1]["valid"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("model", ["gmf", "neumf", "lightgcn", "cdae"])
@pytest.mark.parametrize("cold", ["popularity", "model"])
def test_networks_on_a_gpu_rank_and_judge_as_on_the_cpu(model: str, cold: str, made: Simulation) -> None:
    rec = Recommender(model=model, method="deca-p", epochs=3, device="cpu", cold_users=cold).fit(made.log())
    here, quality = rec.evaluate_users(made.truth()), rec.quality_
    rec._move("cuda")
    there = rec.evaluate_users(made.truth())
    judge_clicks(rec)
    rec._move("cpu")
    assert np.allclose(rec.quality_, quality, atol=1e-4)
    assert here.users.equals(there.users)
    assert there.means() == pytest.approx(here.means(), abs=5e-3)  # scores that are near may change places
    assert rec.evaluate(made.truth()) == here.means()  # nothing stayed behind


def test_a_failed_fit_leaves_the_old_one(made: Simulation) -> None:
    rec = Recommender(**QUICK).fit(made.log())
    before = rec.recommend("u1", k=3)
    other = pa.table({"user": ["v1", "v1", "v2"], "item": ["a", "b", "a"]})
    with pytest.raises(DataError, match="0 of 1 rows .* have user ids of the log"):
        rec.fit(other, valid=pa.table({"user": ["nobody"], "item": ["a"]}))

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rec.fit(other, callback=stop)
    assert rec.recommend("u1", k=3) == before
    with pytest.raises(UnknownIdError):
        rec.recommend("v1")
    fresh = Recommender(**QUICK)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(made.log(), callback=stop)
    with pytest.raises(AccordError, match="not trained"):
        fresh.recommend("u1")


def test_only_a_run_of_its_own_kind_is_replaced(made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(**QUICK).fit(made.log())
    foreign = tmp_path / "model"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="no run folder, so it is left alone"):
        rec.save(foreign)
    assert (foreign / "thesis.txt").read_text() == "years of work"
    (foreign / "config.json").write_text('{"kind": "classifier", "format": 1}')
    with pytest.raises(DataError, match="holds a classifier, not a recommender"):
        rec.save(foreign)
    rec.save(tmp_path / "run")
    rec.save(tmp_path / "run")
    assert len({path.stat().st_mode for path in (tmp_path / "run").iterdir()}) == 1, "others can read all of it"


def test_pairs_may_be_called_as_the_log_called_them(made: Simulation) -> None:
    names = ["visitor", "sku", "when"]
    log = made.log().rename_columns(names)
    rec = Recommender(**QUICK).fit(log, user="visitor", item="sku", time="when")
    truth = made.truth().rename_columns([*names[:2], *made.truth().column_names[2:]])
    assert rec.evaluate(truth) == rec.evaluate(made.truth())
    noise = made.clicks()
    renamed = noise.rename_columns(
        [dict(zip(["user", "item"], names, strict=False)).get(n, n) for n in noise.column_names]
    )
    assert rec.evaluate_issues(renamed) == rec.evaluate_issues(noise)
    again = Recommender(**QUICK).fit(
        log.slice(0, 4000), user="visitor", item="sku", time="when", valid=log.slice(4000)
    )
    assert again.notes_["split"] == "a validation file"


def test_a_truth_of_other_ids_is_refused(made: Simulation) -> None:
    rec = Recommender(**QUICK).fit(made.log())
    with pytest.raises(DataError, match="0 of 2 rows of the table have item ids of the log.*'00i1'"):
        rec.evaluate(pa.table({"user": ["u1", "u2"], "item": ["00i1", "00i2"]}))
