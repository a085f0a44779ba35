"""Decisions on the labels of a fitted estimator: recorded, shown, saved, applied and learnt from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError

ROWS, CLASSES = 240, ("a", "b", "c")


def table() -> pd.DataFrame:
    """Three clouds of points; a fifth of the labels is wrong."""
    rng = np.random.default_rng(0)
    truth = np.arange(ROWS) % 3
    x = np.eye(3)[truth] * 3 + rng.normal(size=(ROWS, 3))
    wrong = rng.random(ROWS) < 0.2
    given = np.where(wrong, (truth + rng.integers(1, 3, ROWS)) % 3, truth)
    frame = pd.DataFrame(x, columns=["x1", "x2", "x3"])
    return frame.assign(kind=np.array(CLASSES)[given], truth=np.array(CLASSES)[truth])


def fitted(method: str = "normal", **more: Any) -> Classifier:
    frame = table()
    own: dict[str, Any] = {"members": ("logistic", "neighbours")} if method == "council" else {}
    clf = Classifier(method=method, epochs=6, seed=0, **own)
    return clf.fit(frame[["x1", "x2", "x3", "kind"]], "kind", **more)


@pytest.fixture(scope="module")
def clf() -> Classifier:
    return fitted()


def decided(clf: Classifier, count: int, part: str = "flagged") -> Classifier:
    """A copy on whose labels somebody who knows the truth decided, in the random order."""
    import copy

    own, truth = copy.copy(clf), table()["truth"].to_numpy()
    own.decisions_ = ()
    for row in own._subject().design.part(part).drawn[:count].tolist():
        given = own.classes_[own.labels_[row]]
        if given == truth[row]:
            own.decide(row, "keep")
        else:
            own.decide(row, "fix", label=truth[row])
    return own


def test_decisions_are_shown_beside_what_was_found(clf: Classifier) -> None:
    own = decided(clf, 0).decide([3, 4], "keep").decide(5, "fix", label="b").decide(6, "drop", reviewer="r2")
    shown = own.find_label_issues().set_index("index")
    assert shown.loc[[3, 4, 5, 6], "decision"].tolist() == ["keep", "keep", "fix", "drop"]
    assert shown.loc[5, "decided_label"] == "b"
    assert shown["decision"].notna().sum() == 4
    assert "decision" not in clf.find_label_issues().columns
    told = own.decisions()
    assert told["reviewer"].tolist() == ["reviewer"] * 3 + ["r2"]
    assert told["given_label"].tolist() == clf.classes_[clf.labels_[[3, 4, 5, 6]]].tolist()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((ROWS, "keep"), DataError),
        ((-1, "keep"), DataError),
        (("x", "keep"), SettingError),
        ((1.5, "keep"), SettingError),
        ((1, "delete"), SettingError),
        ((1, "fix"), SettingError),
        (([], "keep"), DataError),
    ],
)
def test_what_cannot_be_decided_is_refused(
    clf: Classifier, given: tuple[Any, str], error: type[AccordError]
) -> None:
    own = decided(clf, 2)
    with pytest.raises(error):
        own.decide(*given)
    assert len(own.decisions_) == 2


def test_a_class_that_nobody_has_is_refused(clf: Classifier) -> None:
    with pytest.raises(DataError, match="none of the classes"):
        decided(clf, 0).decide(1, "fix", label="z")


def test_a_name_of_a_reviewer_is_no_path(clf: Classifier) -> None:
    with pytest.raises(SettingError, match="no name of a reviewer"):
        decided(clf, 0).decide(1, "keep", reviewer="../x")


def test_an_estimator_that_is_not_fitted_has_nothing_to_decide() -> None:
    with pytest.raises(AccordError, match="not fitted"):
        Classifier().decide(0, "keep")


def test_decisions_go_out_as_a_file_and_come_in(clf: Classifier, tmp_path: Path) -> None:
    own = decided(clf, 12)
    for name in ("decisions.parquet", "decisions.csv"):
        if name.endswith("csv"):
            pyarrow.csv.write_csv(own.decisions_table(), tmp_path / name)
        else:
            import pyarrow.parquet as parquet

            parquet.write_table(own.decisions_table(), tmp_path / name)
        again = decided(clf, 0).decide(str(tmp_path / name))
        assert [(one.item, one.action, one.label, one.why) for one in again.decisions_] == [
            (one.item, one.action, one.label, one.why) for one in own.decisions_
        ]


def test_decisions_are_saved_with_the_run_and_are_not_lost(clf: Classifier, tmp_path: Path) -> None:
    own, run = decided(clf, 5).decide(9, "unsure", reviewer="r2"), tmp_path / "run"
    own.save(run)
    again = Classifier.load(run)
    both = ([(one.item, one.action, one.label, one.reviewer) for one in each.decisions_] for each in (again, own))
    assert sorted(next(both), key=str) == sorted(next(both), key=str)
    with pytest.raises(DataError, match="would be lost"):
        clf.save(run)
    assert len(Classifier.load(run).decisions_) == 6
    again.decide(20, "keep").save(run)
    assert len(Classifier.load(run).decisions_) == 7


def test_a_run_of_other_decisions_says_so(clf: Classifier, tmp_path: Path) -> None:
    decided(clf, 3).save(tmp_path / "one")
    other = fitted(sample_weight=np.linspace(0.5, 1.5, ROWS))
    other.save(tmp_path / "two")
    (tmp_path / "one" / "decisions").rename(tmp_path / "two" / "decisions")
    with pytest.raises(DataError, match="another run"):
        Classifier.load(tmp_path / "two")


# -- learning again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["normal", "deca-p", "council"])
def test_decided_labels_are_learnt_and_trusted(clf: Classifier, method: str) -> None:
    given = clf.classes_[clf.labels_]
    told = decided(clf, 0).decide([0, 1], "keep").decide(2, "drop")
    wrong = CLASSES[(CLASSES.index(given[3]) + 1) % 3]
    told.decide(3, "fix", label=wrong)
    again = fitted(method, decisions=told.decisions())
    assert again.classes_[again.labels_].tolist() == given.tolist()  # the given ones are told as they were
    assert again.label_quality_[[0, 1, 2, 3]].tolist() == [1, 1, 0, 0]
    assert again.is_issue_[[0, 1, 2, 3]].tolist() == [False, False, True, True]
    assert again.classes_[again.predicted_[3]] == wrong
    assert again.part_[2] == 2
    assert (again.part_ == 2).sum() == 1
    assert again.notes_["decisions"] | {"flagged": 0} == {
        **{"keep": 2, "fix": 1, "drop": 1, "unsure": 0, "reviewers": 1, "differing": 0},
        **{"wrong_of_all": None, "flagged": 0, "calibrated": False},
        "flagged_by_the_usual_rule": again.notes_["decisions"]["flagged"],
    }


def test_learning_from_decided_labels_is_learning_from_these_labels(clf: Classifier) -> None:
    """Fixed labels are those that a person would have typed into the table."""
    truth, frame = table()["truth"], table()
    rows = np.flatnonzero(frame["kind"] != truth)[:20]
    told = pa.table({"index": rows, "decision": ["fix"] * 20, "decided_label": truth[rows].tolist()})
    again = fitted(decisions=told)
    frame.loc[rows, "kind"] = truth[rows]
    typed = Classifier(method="normal", epochs=6, seed=0).fit(frame[["x1", "x2", "x3", "kind"]], "kind")
    assert np.array_equal(
        again.predict_proba(frame[["x1", "x2", "x3"]]), typed.predict_proba(frame[["x1", "x2", "x3"]])
    )


@pytest.mark.parametrize("method", ["normal", "deca-p", "council"])
def test_a_dropped_example_changes_nothing_of_what_is_learnt(method: str) -> None:
    frame = table()
    X, y = frame[["x1", "x2", "x3"]].to_numpy(copy=True), frame["kind"].to_numpy()
    told = pa.table({"index": [7], "decision": ["drop"]})
    own: dict[str, Any] = {"members": ("logistic", "neighbours")} if method == "council" else {}
    answers = []
    for value in (0.0, 50.0):
        X[7] = value
        clf = Classifier(method=method, epochs=4, seed=0, **own).fit(X, y, decisions=told)
        answers.append(clf.predict_proba(frame[["x1", "x2", "x3"]].to_numpy()))
    assert np.array_equal(*answers)


def test_how_many_are_flagged_agrees_with_the_decisions(clf: Classifier) -> None:
    """A person who finds hardly anything wrong is believed: fewer labels are flagged than by the usual rule."""
    subject = clf._subject()
    rows = [item for part in subject.design.parts for item in part.drawn[:30].tolist()]
    told = decided(clf, 0)
    for row in rows:
        told.decide(row, "keep")
    table_ = told.decisions_table()
    again = fitted(decisions=table_)
    note = again.notes_["decisions"]
    assert note["calibrated"]
    assert note["flagged"] < note["flagged_by_the_usual_rule"]
    assert note["wrong_of_all"]["value"] < 10
    assert not again.is_issue_[rows].any()


def test_decisions_that_the_rule_agrees_with_change_no_flag(clf: Classifier) -> None:
    told = decided(clf, 40)
    for part in ("next", "rest"):
        told.decisions_ = [*told.decisions_, *decided(clf, 30, part).decisions_]
    note = fitted(decisions=told.decisions()).notes_["decisions"]
    assert note["wrong_of_all"] is not None
    assert not note["calibrated"]


def test_decisions_on_other_data_are_refused() -> None:
    with pytest.raises(DataError, match="not in the data"):
        fitted(decisions=pa.table({"index": [ROWS], "decision": ["keep"]}))
    with pytest.raises(DataError, match="another class"):
        fitted(decisions=pa.table({"index": [0], "given_label": ["nothing"], "decision": ["keep"]}))
    with pytest.raises(DataError, match="nothing is left"):
        fitted(decisions=pa.table({"index": range(ROWS), "decision": ["drop"] * ROWS}))


# -- the user's own table --------------------------------------------------------------------------------


def test_the_table_comes_back_with_the_decisions_in_it(clf: Classifier) -> None:
    frame = table()[["x1", "x2", "x3", "kind"]]
    own = decided(clf, 0).decide([10, 11], "drop").decide(12, "unsure")
    new = CLASSES[(CLASSES.index(frame["kind"][13]) + 1) % 3]
    back = own.decide(13, "fix", label=new).decided_table(frame)
    expected = frame.drop(index=[10, 11])
    expected.loc[13, "kind"] = new
    pd.testing.assert_frame_equal(back, expected)
    clean = own.decided_table(frame, undecided="drop")
    flagged = set(np.flatnonzero(clf.is_issue_)) - {13}
    assert clean.index.tolist() == [row for row in expected.index if row not in flagged]
    with pytest.raises(SettingError, match="keep or drop"):
        own.decided_table(frame, undecided="remove")  # pyright: ignore[reportArgumentType]


# -- clicks ----------------------------------------------------------------------------------------------


def test_clicks_are_decided_by_their_pair(made: Simulation, tmp_path: Path) -> None:
    log = made.log()
    rec = Recommender(model="gmf", method="normal", epochs=3, seed=0).fit(log)
    worst = rec.find_label_issues().slice(0, 6).to_pylist()
    pairs = [(row["user"], row["item"]) for row in worst]
    rec.decide(pairs[:3], "drop").decide([pairs[3]], "keep").decide(pairs[4:5], "unsure")
    shown = rec.find_label_issues().slice(0, 6).to_pylist()
    assert [row["decision"] for row in shown] == ["drop", "drop", "drop", "keep", "unsure", None]
    rec.save(tmp_path / "run")
    assert len(Recommender.load(tmp_path / "run").decisions_) == 5
    left = rec.decided_log(log=log)
    gone = {*pairs[:3]}
    expected = [row for row in log.to_pylist() if (row["user"], row["item"]) not in gone]
    assert left.to_pylist() == expected
    again = Recommender(model="gmf", method="normal", epochs=3, seed=0).fit(log, decisions=rec.decisions())
    issues = {(row["user"], row["item"]): row for row in again.find_label_issues().to_pylist()}
    assert [issues[pair]["is_label_issue"] for pair in pairs[:4]] == [True, True, True, False]
    assert [issues[pair]["label_quality"] for pair in pairs[:4]] == [0, 0, 0, 1]
    assert again.notes_["decisions"]["drop"] == 3
    with pytest.raises(SettingError, match="Unknown decision 'fix'"):
        rec.decide(pairs[:1], "fix", label=1)
    with pytest.raises(DataError, match="no label"):
        rec.decide([("nobody", "nothing")], "keep")


def test_dropped_clicks_are_not_learnt_from_and_not_recommended(made: Simulation) -> None:
    log = made.log()
    told = pa.table({"user": log["user"][:50], "item": log["item"][:50], "decision": ["drop"] * 50})
    rec = Recommender(model="gmf", method="normal", epochs=2, seed=0).fit(log, decisions=told)
    pairs = {(row["user"], row["item"]) for row in told.to_pylist()}
    kept = rec.clicks_
    own = [
        (u, i) in pairs
        for u, i in zip(
            kept.user_ids.take(kept.users).to_pylist(), kept.item_ids.take(kept.items).to_pylist(), strict=True
        )
    ]
    assert (rec.part_[own] == 3).all()
    assert not (rec.part_[~np.array(own)] == 3).any()


def test_fewer_clicks_are_flagged_where_a_person_finds_them_right(made: Simulation) -> None:
    rec = Recommender(model="gmf", method="normal", epochs=3, seed=0).fit(made.log())
    subject = rec._subject()
    rows = [item for part in subject.design.parts for item in part.drawn[:30].tolist()]
    names = [subject.columns[name].take(pa.array(rows)).to_pylist() for name in ("user", "item")]
    rec.decide(list(zip(*names, strict=True)), "keep")
    again = Recommender(model="gmf", method="normal", epochs=3, seed=0).fit(made.log(), decisions=rec.decisions())
    note = again.notes_["decisions"]
    assert note["calibrated"]
    assert note["flagged"] < note["flagged_by_the_usual_rule"]
    flagged = again.find_label_issues().filter(pa.compute.field("is_label_issue")).num_rows
    assert flagged == note["flagged"]
