"""`find_label_issues`: what it takes, what it gives, what it refuses, and that it finds what is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import accord
from accord import AccordError
from accord.evaluation import detection_metrics
from accord.objectives import consensus_reference as slow
from accord.objectives.consensus import LEAST, NoiseFit
from accord.predictions import arrays, council
from accord.predictions.labels import notes_of

KINDS = ["ant", "bee", "cat", "dog"]


def made(
    n: int = 600, members: int = 3, classes: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities (members, n, classes) by members of different worth; given labels, a fifth wrong; the truth."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    labels = np.where(rng.random(n) < 0.2, rng.integers(0, classes, n), truth)
    labels[:classes] = truth[:classes]
    seen = []
    for k in range(members):
        lost = rng.random(n) < 0.05 + 0.15 * k
        guess = np.where(lost, rng.integers(0, classes, n), truth)
        p = 0.75 * np.eye(classes)[guess] + 0.25 / classes
        p = np.exp(np.log(p) + rng.normal(0, 0.3, p.shape))
        seen.append(p / p.sum(1, keepdims=True))
    return np.stack(seen), labels, truth


def by_index(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas().sort_values("index").reset_index(drop=True)


def test_the_table() -> None:
    p, labels, truth = made()
    one = accord.find_label_issues(labels, p[0])
    assert one.column_names == ["index", "given_label", "predicted_label", "label_quality", "is_label_issue"]
    several = accord.find_label_issues(labels, list(p))
    assert several.column_names == [*one.column_names, "votes", "voters", "agreement"]
    assert (np.diff(np.asarray(several["label_quality"])) >= 0).all()
    frame = by_index(several)
    assert frame["index"].tolist() == list(range(len(labels)))
    assert (frame["given_label"] == labels).all()
    assert (frame["is_label_issue"] == (frame["predicted_label"] != frame["given_label"])).all()
    assert (frame["label_quality"] < 0.5).equals(frame["is_label_issue"])
    choices = p.argmax(2)
    assert (frame["votes"] == (choices == labels).sum(0)).all()
    assert (frame["voters"] == 3).all()
    same = [(choices[0] == choices[1]), (choices[0] == choices[2]), (choices[1] == choices[2])]
    assert frame["agreement"].to_numpy() == pytest.approx(np.mean(same, 0))
    wrong = labels != truth
    assert detection_metrics(frame["label_quality"].to_numpy(), wrong)["average_precision"] > 0.95
    assert wrong[frame["is_label_issue"]].mean() > 0.9


def test_quality_is_the_reference() -> None:
    p, labels, _ = made(n=40)
    rng = np.random.default_rng(3)
    weights, matrix = np.array([0.5, 0.0, 0.8]), rng.dirichlet(np.ones(4), 4) * 0.4 + 0.6 * np.eye(4)
    for nearness in (0.0, 0.7):
        held = council.Council(weights, NoiseFit(matrix, 1.5, nearness, 5.0, 0.0), 0.6)
        found = council.judge(held, list(p), labels)
        for i in range(40):
            pool = slow.pooled(p[:, i], weights, LEAST)
            likely = slow.true_classes(pool, matrix, 1.5, nearness, LEAST)
            q = slow.target(likely, int(labels[i]), matrix, 0.6, LEAST)
            assert found.quality[i] == pytest.approx(slow.quality(q, int(labels[i])), rel=1e-3)
            assert found.predicted[i] == int(np.argmax(q))


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "array", "float16"])
def test_every_form_of_several_arrays(kind: str) -> None:
    p, labels, _ = made()
    forms: dict[str, Any] = {
        "list": list(p),
        "tuple": tuple(p),
        "dict": dict(zip("abc", p, strict=True)),
        "array": p,
        "float16": list(p.astype(np.float16)),
    }
    want, found = by_index(accord.find_label_issues(labels, list(p))), accord.find_label_issues(labels, forms[kind])
    assert by_index(found)["label_quality"].to_numpy() == pytest.approx(want["label_quality"].to_numpy(), abs=5e-3)
    weights = notes_of(found)["weights"]
    assert list(weights) == (["a", "b", "c"] if kind == "dict" else ["1", "2", "3"])
    assert weights[next(iter(weights))] == max(weights.values()) > 0.4  # the first member is the best one


@pytest.mark.parametrize(
    "kind", ["list", "numpy", "object", "pandas", "categorical", "polars", "arrow", "integers"]
)
def test_labels_of_every_kind(kind: str) -> None:
    p, labels, _ = made()
    words = [KINDS[k] for k in labels]
    forms: dict[str, Any] = {
        "list": words,
        "numpy": np.array(words),
        "object": np.array(words, object),
        "pandas": pd.Series(words, index=range(600, 0, -1)),
        "categorical": pd.Series(pd.Categorical(words, categories=[*KINDS[::-1], "eel"])),
        "polars": pl.Series(words, dtype=pl.Categorical),
        "arrow": pa.array(words).dictionary_encode(),
        "integers": labels + 10,
    }
    names = list(range(10, 14)) if kind == "integers" else KINDS
    want, found = by_index(accord.find_label_issues(labels, p)), by_index(accord.find_label_issues(forms[kind], p))
    assert found["given_label"].tolist() == [names[k] for k in want["given_label"]]
    assert found["predicted_label"].tolist() == [names[k] for k in want["predicted_label"]]
    assert (found["label_quality"] == want["label_quality"]).all()


def test_the_order_of_the_columns() -> None:
    p, labels, _ = made()
    words, order = [KINDS[k] for k in labels], [2, 0, 3, 1]
    want = by_index(accord.find_label_issues(words, p))
    turned, names = p[:, :, order], [KINDS[k] for k in order]
    said = by_index(accord.find_label_issues(words, turned, classes=names))
    frames = [pd.DataFrame(one, columns=names) for one in turned]
    named = by_index(accord.find_label_issues(words, frames))
    polars = by_index(accord.find_label_issues(words, [pl.from_pandas(one) for one in frames]))
    for found in (said, named, polars):
        assert found["predicted_label"].equals(want["predicted_label"])
        assert found["label_quality"].to_numpy() == pytest.approx(want["label_quality"].to_numpy(), abs=1e-6)


def test_whole_numbers_are_columns_where_some_class_is_never_given() -> None:
    p, labels, _ = made()
    labels = np.where(labels == 1, 2, labels)
    found = by_index(accord.find_label_issues(labels, p[0]))
    assert set(found["given_label"]) == {0, 2, 3}
    assert (found["predicted_label"] == 1).sum() > 50
    truths = by_index(accord.find_label_issues(labels > 1, np.stack([p[0, :, :2].sum(1), p[0, :, 2:].sum(1)], 1)))
    assert truths["predicted_label"].dtype == bool


def test_share_and_seed() -> None:
    p, labels, _ = made()
    found = by_index(accord.find_label_issues(labels, p, share=0.1))
    assert found["is_label_issue"].sum() == 60
    worst = found["label_quality"].nsmallest(60).index
    assert found["is_label_issue"][worst].all()
    with pytest.raises(AccordError, match="share of 2"):
        accord.find_label_issues(labels, p, share=2)


def test_blocks_and_whole_are_the_same_and_nothing_given_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    p, labels, _ = made()
    before = p.copy(), labels.copy()
    whole = accord.find_label_issues(labels, p)
    assert (p == before[0]).all()
    assert (labels == before[1]).all()
    monkeypatch.setattr(arrays, "BLOCK_CELLS", 50)
    parts = accord.find_label_issues(labels, p)
    assert np.allclose(by_index(whole)["label_quality"], by_index(parts)["label_quality"])
    monkeypatch.setattr(council, "WEIGHT_ROWS", 300)
    monkeypatch.setattr(council, "NOISE_ROWS", 300)
    sample = accord.find_label_issues(labels, p)
    assert accord.find_label_issues(labels, p).equals(sample)  # the same draw
    assert not accord.find_label_issues(labels, p, seed=1).equals(sample)


def test_many_classes_have_one_noise_rate() -> None:
    p, labels, truth = made(n=900, members=1, classes=60)
    right = np.diag(council.fit_council([p[0]], labels).noise.matrix)
    assert np.ptp(right) < 1e-12
    found = by_index(accord.find_label_issues(labels, p[0]))
    assert detection_metrics(found["label_quality"].to_numpy(), labels != truth)["roc_auc"] > 0.9


def test_pair_noise_is_seen_through() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 4, 3000)
    flip = rng.random(3000) < 0.4
    labels = np.where(flip, (truth + 1) % 4, truth)
    p = 0.57 * np.eye(4)[truth] + 0.37 * np.eye(4)[(truth + 1) % 4] + 0.015
    p = np.exp(np.log(p) + rng.normal(0, 0.3, p.shape))
    found = by_index(accord.find_label_issues(labels, p / p.sum(1, keepdims=True)))
    assert ((found["predicted_label"] == truth).mean()) > 0.97
    assert flip[found["is_label_issue"]].mean() > 0.95


def test_one_example_and_one_class_alone() -> None:
    assert accord.find_label_issues(["a"], [[0.4, 0.6]], classes=["a", "b"]).num_rows == 1
    found = accord.find_label_issues([0] * 5, [[0.9, 0.1]] * 5)
    assert not any(found["is_label_issue"].to_pylist())


GOOD = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("labels", "given", "words"),
    [
        ([0, 1], GOOD, "3 rows for 2 labels"),
        ([], np.zeros((0, 2)), "no labels"),
        ([0, 1, None], GOOD, r"missing \(the first in row 2\)"),
        ([0.5, 1, 0], GOOD, "fractions"),
        ([["a"], ["b"], ["a", "b"]], GOOD, "multi-label"),
        (["a", 1, "b"], GOOD, "several kinds"),
        ([0, 1, 2], GOOD, "2 columns of probabilities and 3 classes"),
        (["a", "a", "a"], GOOD, "classes="),
        ([0, 1, 1], [[0.9, 0.1], [np.nan, 1], [0.5, 0.5]], "row 1"),
        ([0, 1, 1], [[0.9, 0.1], [3.0, -2.0], [0.5, 0.5]], r"Row 1 .*no probabilities"),
        ([0, 1, 1], [[0.9, 0.1], [2.0, 1.0], [0.5, 0.5]], "add up to 3"),
        ([0, 1, 1], [0.1, 0.2, 0.3], "of shape 3"),
        ([0, 1, 1], [[1], [1], [1]], "at least two"),
        ([0, 1, 1], [["x", "y"]] * 3, "give numbers"),
        ([0, 1, 1], [GOOD, [[0.2, 0.3, 0.5]] * 3], "2 and 3 columns"),
        ([0, 1, 1], {"net": GOOD, "tree": GOOD[:2]}, "Array tree"),
        ([0, 1, 1], {}, "No probabilities"),
    ],
)
def test_bad_input_is_one_sentence(labels: Any, given: Any, words: str) -> None:
    with pytest.raises(AccordError, match=words):
        accord.find_label_issues(labels, given)


def test_bad_classes() -> None:
    for classes, words in ((["a", "a"], "twice"), (["a", "b", "c"], "2 columns"), (["a", "c"], "'b'.*row 1")):
        with pytest.raises(AccordError, match=words):
            accord.find_label_issues(["a", "b", "a"], GOOD, classes=classes)


@pytest.mark.data
@pytest.mark.parametrize("name", ["cifar10-synthetic", "cifar10n-aggregate"])
def test_a_council_of_five_nets_is_ahead_of_each(name: str) -> None:
    folder = os.environ.get("ACCORD_DATA")
    path = Path(folder or ".", "label-errors", f"{name}.npz")
    if not folder or not path.is_file():
        pytest.skip("ACCORD_DATA names no folder with label-errors")
    with np.load(path) as data:
        given, wrong = data["given"], data["given"] != data["true"]
        nets = {key: data[key] for key in data if key.startswith("pred_probs")}
    council = by_index(accord.find_label_issues(given, nets))
    found = detection_metrics(council["label_quality"].to_numpy(), wrong)
    best = nets["pred_probs_swin_base_patch4_window7_224"]
    alone = detection_metrics(by_index(accord.find_label_issues(given, best))["label_quality"].to_numpy(), wrong)
    assert found["roc_auc"] >= alone["roc_auc"]
    assert found["average_precision"] >= alone["average_precision"]
