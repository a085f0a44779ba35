"""`find_annotator_issues`: its tables, what it takes and refuses, and that it is ahead of a majority."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import accord
from accord import AccordError

KINDS = ["ant", "bee", "cat"]


def made(examples: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A long table of labels by six annotators, of whom the last one guesses; a model; and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, examples)
    rows = []
    for a, rate in enumerate([0.95, 0.9, 0.8, 0.6, 0.55, 0.34]):
        for e in np.flatnonzero(rng.random(examples) < 0.6):
            right = rng.random() < rate
            rows.append((f"e{e}", f"a{a}", KINDS[truth[e] if right else (truth[e] + rng.integers(1, 3)) % 3]))
    table = pd.DataFrame(rows, columns=["example", "annotator", "label"]).sample(frac=1, random_state=seed)
    lost = rng.random(examples) < 0.2
    p = 0.7 * np.eye(3)[np.where(lost, rng.integers(0, 3, examples), truth)] + 0.1
    return table, p, truth


def test_the_tables() -> None:
    table, _, truth = made()
    found = accord.find_annotator_issues(table)
    consensus, people, issues = (one.to_pandas() for one in (found.consensus, found.annotators, found.issues))
    assert consensus.columns.tolist() == ["example", "consensus_label", "label_quality", "annotations", "agreement"]
    assert people.columns.tolist() == ["annotator", "quality", "labels", "agreement", "worst_class"]
    assert consensus["example"].tolist() == table["example"].unique().tolist()
    of = consensus.set_index("example")["consensus_label"]
    for _, row in issues.iterrows():
        source = table.iloc[row["index"]]
        assert (row["example"], row["annotator"], row["given_label"]) == tuple(source)
        assert row["predicted_label"] == of[row["example"]]
        assert row["is_label_issue"] == (row["given_label"] != row["predicted_label"])
    assert sorted(issues["index"]) == list(range(len(table)))
    assert (np.diff(issues["label_quality"]) >= 0).all()
    assert ((issues["label_quality"] < 0.5) == issues["is_label_issue"]).all()
    agrees = table["label"].to_numpy() == of[table["example"]].to_numpy()
    by_person = pd.Series(agrees).groupby(table["annotator"].to_numpy()).agg(["mean", "count"])
    assert people.set_index("annotator")["agreement"].to_dict() == pytest.approx(by_person["mean"].to_dict())
    assert people.set_index("annotator")["labels"].to_dict() == by_person["count"].to_dict()
    by_example = pd.Series(agrees).groupby(table["example"].to_numpy()).agg(["mean", "count"])
    assert consensus.set_index("example")["agreement"].to_dict() == pytest.approx(by_example["mean"].to_dict())
    assert people["annotator"].tolist()[0] == "a5"
    assert set(people["annotator"].tolist()[-2:]) == {"a0", "a1"}
    right = [KINDS[truth[int(e[1:])]] == label for e, label in of.items()]
    majority = table.groupby("example")["label"].agg(lambda own: own.mode()[0])
    assert np.mean(right) > np.mean([KINDS[truth[int(e[1:])]] == label for e, label in majority.items()]) + 0.02


def test_a_model_helps() -> None:
    table, p, truth = made()
    names = table["example"].unique()
    order = np.array([int(name[1:]) for name in names])

    def right(**given: Any) -> float:
        found = accord.find_annotator_issues(table, **given).consensus["consensus_label"].to_pylist()
        return float(np.mean([KINDS[truth[e]] == label for e, label in zip(order, found, strict=True)]))

    assert right(pred_probs=p[order]) > right() + 0.01
    assert right(pred_probs=pd.DataFrame(p[order][:, [1, 0, 2]], columns=["bee", "ant", "cat"])) == pytest.approx(
        right(pred_probs=p[order])
    )
    useless = np.random.default_rng(0).dirichlet(np.ones(3), len(order))
    assert right(pred_probs=useless) > right() - 0.01
    assert right(pred_probs=[useless, p[order]]) > right() + 0.01


def test_examples_that_are_numbers_keep_the_order_of_a_model() -> None:
    table, p, _ = made()
    table["example"] = table["example"].str[1:].astype(int)
    table = table[table["example"] < 300]
    number = {name: k for k, name in enumerate(sorted(table["example"].unique()))}
    table["example"] = table["example"].map(number)
    found = accord.find_annotator_issues(table, p[sorted(number)])
    assert found.consensus["example"].to_pylist() == list(range(len(number)))


@pytest.mark.parametrize("kind", ["polars", "arrow", "dict", "csv", "parquet", "renamed", "categorical"])
def test_every_form_of_table(kind: str, tmp_path: Path) -> None:
    table, _, _ = made(80)
    want = accord.find_annotator_issues(table)
    names: dict[str, str] = {}
    source: Any = {
        "polars": lambda: pl.from_pandas(table),
        "arrow": lambda: pa.Table.from_pandas(table, preserve_index=False),
        "dict": lambda: {name: table[name].tolist() for name in table},
        "categorical": lambda: table.astype("category"),
    }.get(kind, lambda: table)()
    if kind == "csv":
        table.to_csv(source := tmp_path / "labels.csv", index=False)
    elif kind == "parquet":
        table.to_parquet(source := tmp_path / "labels.parquet", index=False)
    elif kind == "renamed":
        source = table.rename(columns={"example": "task", "annotator": "worker", "label": "answer"})
        names = {"example": "task", "annotator": "worker", "label": "answer"}
    found = accord.find_annotator_issues(source, **names)
    assert found.issues.equals(want.issues)
    assert found.annotators.equals(want.annotators)


ROWS = {"example": [1, 1, 2], "annotator": ["a", "b", "a"], "label": ["x", "y", "x"]}


@pytest.mark.parametrize(
    ("changed", "given", "words"),
    [
        ({"label": [None, "y", "x"]}, None, "missing"),
        ({"label": [0.5, 1, 2]}, None, "regression"),
        ({"label": [["x"], ["x", "y"], ["y"]]}, None, "multi-label"),
        ({"label": ["x", "x", "x"]}, None, "one class"),
        ({"annotator": ["a", "a", "a"]}, None, r"repeat.*data row 1\)"),
        ({}, [[0.5, 0.5]], "1 rows for 2 examples"),
        ({}, [[0.2, 0.3, 0.5]] * 2, "3 columns of probabilities and 2 classes"),
        ({"example": [], "annotator": [], "label": []}, None, "no labels"),
    ],
)
def test_bad_input_is_one_sentence(changed: dict[str, Any], given: Any, words: str) -> None:
    with pytest.raises(AccordError, match=words):
        accord.find_annotator_issues({**ROWS, **changed}, given)


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(AccordError, match="No column 'exmple'.*did you mean 'example'"):
        accord.find_annotator_issues(ROWS, example="exmple")
