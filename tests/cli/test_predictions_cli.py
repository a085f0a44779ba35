"""`accord audit` without a run: labels, clicks and annotations from files, with predictions from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import accord as library

KINDS = ["ant", "bee", "cat"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Labels of 90 examples, one in ten wrong, and two models, in files of every kind."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    labels = np.where(np.arange(90) % 10 == 0, (truth + 1) % 3, truth)
    models = []
    for _ in range(2):
        p = np.exp(np.log(0.8 * np.eye(3)[truth] + 0.2 / 3) + rng.normal(0, 0.2, (90, 3)))
        models.append(p / p.sum(1, keepdims=True))
    words = [KINDS[k] for k in labels]
    table = pd.DataFrame({"id": [f"x{k}" for k in range(90)], "note": "as, it is", "label": words})
    table.to_csv(tmp_path / "y.csv", index=False)
    table.to_parquet(tmp_path / "y.parquet", index=False)
    table.rename(columns={"label": "kind"}).to_csv(tmp_path / "kind.csv", index=False)
    table["label"].to_csv(tmp_path / "headed.csv", index=False)
    (tmp_path / "named.csv").write_text("answer\n" + "\n".join(words) + "\n")
    (tmp_path / "bare.csv").write_text("\n".join(words) + "\n")
    (tmp_path / "numbers.csv").write_text("\n".join(map(str, labels)) + "\n")
    np.save(tmp_path / "y.npy", labels)
    np.save(tmp_path / "words.npy", np.array(words))
    for name, p in zip("ab", models, strict=True):
        np.save(tmp_path / f"{name}.npy", p.astype(np.float32))
    frame = pd.DataFrame(models[0][:, [2, 0, 1]], columns=["cat", "ant", "bee"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    pd.DataFrame(models[0]).to_csv(tmp_path / "bare-a.csv", index=False, header=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_printed_and_written(accord: Any, folder: Path) -> None:
    words = ["audit", "--labels", "y.csv", "--pred-probs", "a.npy", "--pred-probs", "b.npy", "--top", 4]
    files = ["--write-issues", "judged.csv", "--write-clean", "clean.parquet"]
    code, out, err = accord(*words, *files)
    assert code == 0, err
    assert "The 4 least believable labels" in out
    assert "9 of 90 labels flagged (taken for another class)" in err
    assert "weights: a 0." in err
    source, judged = pd.read_csv("y.csv"), pd.read_csv("judged.csv")
    pd.testing.assert_frame_equal(judged[source.columns.tolist()], source)
    assert np.flatnonzero(judged["is_label_issue"]).tolist() == list(range(0, 90, 10))
    pair = {name: np.load(f"{name}.npy") for name in "ab"}
    want = library.find_label_issues(source["label"], pair).sort_values("index")
    assert judged["label_quality"].to_numpy() == pytest.approx(want["label_quality"].to_numpy())
    assert (judged["votes"].to_numpy() == want["votes"].to_numpy()).all()
    clean = pd.read_parquet("clean.parquet")
    pd.testing.assert_frame_equal(
        clean, source[~judged["is_label_issue"]].reset_index(drop=True), check_dtype=False
    )
    code, out, _ = accord(*words, "--out", "issues.parquet", "--share", 0.5)
    assert parquet.read_table("issues.parquet").num_rows == 90
    assert pd.read_parquet("issues.parquet")["is_label_issue"].sum() == 45


@pytest.mark.parametrize(
    ("labels", "probabilities"),
    [
        ("y.parquet", "a.npy"),
        ("headed.csv", "a.csv"),
        ("named.csv", "a.parquet"),
        ("bare.csv", "bare-a.csv"),
        ("words.npy", "a.parquet"),
        ("y.npy", "a.npy"),
        ("numbers.csv", "a.npy"),
    ],
)
def test_every_kind_of_file(labels: str, probabilities: str, accord: Any, folder: Path) -> None:
    code, out, err = accord("audit", "--labels", labels, "--pred-probs", probabilities, "--json", "--top", 90)
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["judged"], answer["flagged"]) == (90, 9)
    assert sorted(row["index"] for row in answer["rows"] if row["is_label_issue"]) == list(range(0, 90, 10))
    if labels in ("numbers.csv", "y.npy"):
        assert {row["given_label"] for row in answer["rows"]} == {0, 1, 2}


def test_columns_and_classes_are_named(accord: Any, folder: Path) -> None:
    np.save("turned.npy", np.load("a.npy")[:, ::-1])
    words = ["audit", "--labels", "kind.csv", "--pred-probs", "turned.npy", "--classes", "cat,bee,ant"]
    code, _, err = accord(*words, "--label", "kind")
    assert code == 0, err
    assert "9 of 90" in err
    code, _, err = accord(*words)
    assert code == 2
    assert "has id, note, kind" in err


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("sprung", "w")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Say what to audit"),
        ("--labels y.csv", "--pred-probs"),
        ("--pred-probs a.npy", "Say what to audit"),
        ("--labels y.csv --pred-probs none.npy", "cannot be opened"),
        ("--labels none.csv --pred-probs a.npy", "cannot be opened"),
        ("--labels y.csv --pred-probs trap.npy", "Python objects"),
        ("--labels trap.npy --pred-probs a.npy", "Python objects"),
        ("--labels y.csv --pred-probs broken.npy", "no array that can be read"),
        ("--labels y.csv --pred-probs y.csv", "other than numbers"),
        ("--labels y.csv --pred-probs a.npy --pred-probs a.npy", "names a file twice"),
        ("--labels y.csv --clicks y.csv --pred-probs a.npy", "one of them"),
        ("--labels y.csv --pred-probs a.npy --scores als", "--scores goes with clicks"),
        ("--labels y.csv --pred-probs a.npy --truth y.csv", "--truth goes with a run"),
        ("run --labels y.csv", "--labels goes with files"),
        ("--labels y.csv --pred-probs a.npy --top 0", "--top 0"),
        ("--labels y.csv --pred-probs a.npy --write-issues j.xlsx", "no known format"),
        ("--clicks y.csv --write-consensus c.csv", "--annotations"),
        ("--annotations y.csv --share 0.1", "--share does not go"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(words: str, said: str, accord: Any, folder: Path) -> None:
    np.save("trap.npy", np.array([Trap()], object), allow_pickle=True)
    (folder / "broken.npy").write_bytes((folder / "a.npy").read_bytes()[:40])
    before = sorted(path.name for path in folder.iterdir())
    code, out, err = accord("audit", *words.split())
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_clicks(accord: Any, folder: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = [(f"u{k % 40}", f"i{k % 31}") for k in range(600)]
    log = pd.DataFrame(pairs, columns=["user", "item"])
    log["als"], log["knn"] = (np.where(np.arange(600) % 5 == 0, -1, 1) + rng.normal(0, 0.3, 600) for _ in range(2))
    far = pd.DataFrame([(f"u{k % 40}", f"i{(k * 7 + 3) % 31}") for k in range(600)], columns=["user", "item"])
    far["als"], far["knn"] = (rng.normal(-1, 0.3, 600) for _ in range(2))
    kept = ~pd.MultiIndex.from_frame(far[["user", "item"]]).isin(pd.MultiIndex.from_frame(log[["user", "item"]]))
    log.to_csv("log.csv", index=False)
    far[kept].to_csv("far.csv", index=False)
    code, _, err = accord("audit", "--clicks", "log.csv", "--top", 2)
    assert code == 0, err
    assert "0 of 600 clicks flagged (there is no rule without non-clicks" in err
    words = ["audit", "--clicks", "log.csv", "--scores", "als", "--scores", "knn", "--share", 0.2]
    code, out, err = accord(*words, "--non-clicks", "far.csv", "--write-issues", "judged.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["flagged"] == 120
    judged = pd.read_csv("judged.csv")
    assert judged[["user", "item"]].equals(log[["user", "item"]])
    assert judged["is_label_issue"].to_numpy()[::5].mean() > 0.9


def test_annotations(accord: Any, folder: Path) -> None:
    rows = [(f"e{e}", f"a{a}", e % 2 if a < 3 else (e // 2) % 2) for e in range(30) for a in range(4)]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv("long.csv", index=False)
    words = ["audit", "--annotations", "long.csv", "--example", "task", "--annotator", "worker", "--top", 1]
    code, out, err = accord(*words, "--write-consensus", "consensus.csv", "--write-issues", "judged.csv")
    assert code == 0, err
    assert "The 1 least reliable annotators" in out
    assert "a3" in out
    consensus = pd.read_csv("consensus.csv")
    assert consensus["consensus_label"].tolist() == [e % 2 for e in range(30)]
    judged = pd.read_csv("judged.csv")
    wrong = judged["label"] != judged["task"].str[1:].astype(int) % 2
    assert judged["is_label_issue"].equals(wrong)
    code, out, _ = accord(*words, "--json")
    assert json.loads(out)["annotators"]["rows"][0]["annotator"] == "a3"
