"""`find_click_issues`: what it takes, gives and refuses, and that non-clicks and good recommenders count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accord
from accord import AccordError
from accord.evaluation import detection_metrics
from accord.predictions.labels import notes_of


def made(seed: int = 0, users: int = 150, items: int = 60) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """A log, non-clicks, and which clicks are noise. Popular items score high with everybody.

    `good` knows the users' taste, `fair` a little of it, `bad` nothing.
    """
    rng = np.random.default_rng(seed)
    taste = rng.normal(0, 1, (users, items))
    popular = np.exp(rng.normal(0, 1, items))
    chance = popular * np.exp(1.5 * taste)
    meant = rng.random((users, items)) < 0.12 * chance / chance.mean()
    noise = (rng.random((users, items)) < 0.05 * popular / popular.mean()) & ~meant
    crowd = np.log(popular)[None]
    scores = {
        "good": taste + crowd + rng.normal(0, 0.4, taste.shape),
        "fair": 3 * (0.5 * taste + crowd + rng.normal(0, 1, taste.shape)),
        "bad": rng.normal(0, 5, taste.shape),
    }

    def table(at: tuple[np.ndarray, np.ndarray]) -> pd.DataFrame:
        pairs = {"user": [f"u{u}" for u in at[0]], "item": [f"i{i}" for i in at[1]]}
        return pd.DataFrame({**pairs, **{name: values[at] for name, values in scores.items()}})

    own = np.nonzero(meant | noise)
    free = np.nonzero(~(meant | noise))
    odds = popular[free[1]] / popular[free[1]].sum()
    far = rng.choice(len(free[0]), 3000, False, odds)
    return table(own), table((free[0][far], free[1][far])), noise[own]


def quality(table: Any) -> np.ndarray:
    return table.to_pandas().sort_values("index")["label_quality"].to_numpy()


def test_the_table() -> None:
    log, far, noise = made()
    found = accord.find_click_issues(log, ["good", "fair", "bad"], non_clicks=far)
    names = ["index", "user", "item", "label_quality", "is_label_issue", "votes", "voters", "agreement"]
    assert found.column_names == names
    assert accord.find_click_issues(log, "good").column_names == names[:5]
    frame = found.to_pandas()
    assert (np.diff(frame["label_quality"]) >= 0).all()
    source = log.iloc[frame["index"]].reset_index(drop=True)
    assert frame["user"].equals(source["user"])
    assert frame["item"].equals(source["item"])
    assert (frame["voters"] == 3).all()
    means = far[["good", "fair", "bad"]].mean().to_numpy()
    votes = (source[["good", "fair", "bad"]].to_numpy() >= means).sum(1)
    assert (frame["votes"] == votes).all()
    assert frame["agreement"].to_numpy() == pytest.approx(np.abs(2 * votes / 3 - 1))
    flagged = frame["is_label_issue"].to_numpy()
    assert flagged.any()
    assert frame["label_quality"][flagged].max() < frame["label_quality"][~flagged].min()
    wrong = noise[frame["index"]]
    assert wrong[flagged].mean() > wrong.mean() + 0.15


def test_good_recommenders_count_and_non_clicks_tell_the_crowd_from_taste() -> None:
    log, far, noise = made(users=400)
    members = ["good", "fair", "bad"]
    found = accord.find_click_issues(log, members, non_clicks=far)
    weights = notes_of(found)["weights"]
    assert weights["good"] > weights["fair"] > weights["bad"]
    assert weights["bad"] < 0.05
    council = detection_metrics(quality(found), noise)["roc_auc"]
    alone = {name: detection_metrics(log[name].to_numpy(), noise)["roc_auc"] for name in members}
    assert council > max(alone.values()) + 0.02


def test_without_non_clicks_there_is_an_order_and_no_flag_and_agreement_weighs() -> None:
    log, _, noise = made()
    log["twin"] = log["good"] + np.random.default_rng(1).normal(0, 0.2, len(log))
    found = accord.find_click_issues(log, ["good", "twin", "bad"])
    assert not found["is_label_issue"].to_numpy().any()
    assert notes_of(found)["weights"]["bad"] < 0.1
    assert notes_of(found)["rule"] is False
    equal = (log[["good", "twin", "bad"]].rank() / len(log)).mean(axis=1).to_numpy()
    assert detection_metrics(quality(found), noise)["roc_auc"] > detection_metrics(equal, noise)["roc_auc"]
    flagged = accord.find_click_issues(log, "good", share=0.1)["is_label_issue"].to_numpy()
    assert flagged.sum() == round(0.1 * len(log))
    assert flagged[: flagged.sum()].all()


@pytest.mark.parametrize("kind", ["polars", "csv", "parquet", "array", "matrix", "mapping", "found"])
def test_every_form(kind: str, tmp_path: Path) -> None:
    log, far, _ = made()
    members = ["good", "fair"]
    log, far = log[["user", "item", *members]], far[["user", "item", *members]]
    want = quality(accord.find_click_issues(log, members, non_clicks=far))
    given: dict[str, Any] = {"clicks": log, "scores": members, "non_clicks": far}
    pairs = {"clicks": log[["user", "item"]], "non_clicks": far[["user", "item"]]}
    if kind == "polars":
        given |= {"clicks": pl.from_pandas(log), "non_clicks": pl.from_pandas(far)}
    elif kind in ("csv", "parquet"):
        for name in ("clicks", "non_clicks"):
            given[name].to_csv(path := tmp_path / f"{name}.{kind}", index=False) if kind == "csv" else given[
                name
            ].to_parquet(path := tmp_path / f"{name}.{kind}", index=False)
            given[name] = path
    elif kind == "matrix":
        given |= pairs | {"scores": log[members].to_numpy(), "non_click_scores": far[members].to_numpy()}
    elif kind == "mapping":
        given |= pairs | {"scores": dict(log[members]), "non_click_scores": dict(far[members])}
    elif kind == "found":
        given |= {"scores": None}
    elif kind == "array":
        want = quality(accord.find_click_issues(log, "good", non_clicks=far))
        given |= pairs | {"scores": log["good"], "non_click_scores": far["good"].tolist()}
    assert quality(accord.find_click_issues(**given)) == pytest.approx(want, abs=1e-6)


def test_who_says_nothing_is_spoken_for() -> None:
    log, far, _ = made()
    gaps = log.copy()
    gaps.loc[gaps.index[::3], "good"] = np.nan
    found = accord.find_click_issues(gaps, ["good", "fair"], non_clicks=far)
    assert np.isfinite(quality(found)).all()
    voters = found.to_pandas().sort_values("index")["voters"].to_numpy()
    assert (voters == np.where(gaps["good"].isna(), 1, 2)).all()


def test_clicks_among_non_clicks_are_left_out() -> None:
    log, far, _ = made()
    both = pd.concat([far, log])
    want, found = (accord.find_click_issues(log, "good", non_clicks=one) for one in (far, both))
    assert quality(found) == pytest.approx(quality(want))
    with pytest.raises(AccordError, match="All pairs"):
        accord.find_click_issues(log, "good", non_clicks=log)


LOG = {"user": ["u1", "u1", "u2"], "item": ["i1", "i2", "i1"], "als": [0.9, -0.2, 0.7]}


@pytest.mark.parametrize(
    ("changed", "given", "words"),
    [
        ({"als": ["x", "y", "z"]}, {}, "No column .* holds scores"),
        ({"als": ["x", "y", "z"]}, {"scores": "als"}, "holds no numbers"),
        ({}, {"scores": ["alz"]}, "No column 'alz'.*did you mean 'als'"),
        ({}, {"scores": [0.1, 0.2]}, "3 clicks and scores of shape 2"),
        ({"als": [0.1, np.inf, 2]}, {}, "infinite"),
        ({}, {"scores": [0.1, np.nan, 0.2]}, "row 1"),
        ({}, {"scores": [0.1, 0.2, 0.3], "non_clicks": {"user": ["u2"], "item": ["i2"]}}, "non_click_scores"),
        ({}, {"share": 3}, "share of 3"),
        ({"user": ["u1", None, "u2"]}, {}, "missing user"),
    ],
)
def test_bad_input_is_one_sentence(changed: dict[str, Any], given: dict[str, Any], words: str) -> None:
    with pytest.raises(AccordError, match=words):
        accord.find_click_issues({**LOG, **changed}, **given)
