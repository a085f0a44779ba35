"""Labelled data on the command line: the same words as for click logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from PIL import Image

FAST = ["--epochs", "3", "--set", "batch_size=64", "--model", "mlp"]


def table(seed: int = 0, count: int = 200) -> pa.Table:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, count)
    names = np.array(["ash", "birch", "cedar"])[kind]
    return pa.table({"a": rng.normal(kind, 0.3), "b": rng.normal(-kind, 0.3), "note": ["n"] * count, "kind": names})


@pytest.fixture
def digits(accord, tmp_path: Path) -> Path:
    code, _, err = accord("fit", "digits", "--noise", "0.4", "--out", tmp_path / "run", *FAST)
    assert code == 0, err
    assert "40% of labels redrawn (uniform), 35.5% are wrong" in err
    return tmp_path / "run"


def test_digits_from_fit_to_report(accord, digits: Path, tmp_path: Path) -> None:
    names = {path.name for path in digits.iterdir()}
    assert names == {
        *("config.json", "weights.safetensors", "labels.parquet", "history.jsonl", "metrics.json"),
        *("report.html", "truth.parquet", "worst.safetensors", "noise.safetensors"),
    }
    config = json.loads((digits / "config.json").read_text())
    assert config["data"]["noise"]["realised"] == pytest.approx(0.355, abs=0.001)
    code, out, err = accord("audit", digits, "--top", "4", "--truth", digits / "truth.parquet")
    assert code == 0, err
    assert "given_label" in out
    assert "ROC-AUC" in out
    code, out, _ = accord("evaluate", digits, "--json")
    assert code == 0
    assert json.loads(out)["examples"] == 500
    issues, clean = tmp_path / "issues.csv", tmp_path / "clean.parquet"
    assert accord("audit", digits, "--share", "0.3", "--out", issues, "--write-clean", clean)[0] == 0
    assert csv.read_csv(issues).num_rows == 1297
    kept = parquet.read_table(clean)
    assert kept.column_names == ["index", "label"]
    assert kept.num_rows == 1297 - round(0.3 * 1297)
    (digits / "report.html").unlink()
    assert accord("report", digits)[0] == 0
    assert "data:image/png;base64," in (digits / "report.html").read_text()


def test_noise_from_a_matrix_and_by_the_example(accord, tmp_path: Path) -> None:
    matrix = np.full((10, 10), 0.02) + 0.8 * np.eye(10)
    np.savetxt(tmp_path / "matrix.csv", matrix, delimiter=",")
    for kind, share in ((tmp_path / "matrix.csv", None), ("instance", "0.2")):
        out = tmp_path / f"run-{share}"
        rate = [] if share is None else ["--noise", share]
        assert accord("fit", "digits", *rate, "--noise-kind", kind, "--out", out, *FAST)[0] == 0
        noise = json.loads((out / "config.json").read_text())["data"]["noise"]
        assert noise["kind"] == ("matrix" if share is None else "instance")
        assert noise["realised"] == pytest.approx(0.18 if share is None else 0.2, abs=0.03)
    code, _, _ = accord(
        *("compare", "digits", "--methods", "normal", "--seeds", 1, "--epochs", 1, "--out", tmp_path / "cmp"),
        *("--noise-kind", tmp_path / "matrix.csv"),
    )
    assert code == 0


def test_a_table(accord, tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "t.parquet")
    csv.write_csv(table(1), tmp_path / "test.csv")
    words = ["--label", "kind", "--ignore", "note"]
    code, _, err = accord("fit", tmp_path / "t.parquet", *words, "--out", tmp_path / "run", "--epochs", "20")
    assert code == 0, err
    code, out, err = accord("evaluate", tmp_path / "run", "--truth", tmp_path / "test.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["accuracy"] > 0.8
    truth = pa.table({"true_label": table()["kind"]})
    parquet.write_table(truth, tmp_path / "truth.parquet")
    code, _, err = accord("audit", tmp_path / "run", "--truth", tmp_path / "truth.parquet")
    assert code == 2
    assert "both kinds" in err  # every label is right


def photos(folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"p{k}.png" for k in range(40)]
    for k, name in enumerate(names):
        Image.fromarray((rng.integers(0, 60, (8, 8)) + 150 * (k % 2)).astype(np.uint8)).save(folder / name)
    labels = folder.parent / "labels.csv"
    csv.write_csv(pa.table({"file": names, "label": ["dark", "light"] * 20}), labels)
    return labels


def test_a_folder_of_images(accord, tmp_path: Path) -> None:
    labels = photos(tmp_path / "photos")
    run = tmp_path / "run"
    code, _, err = accord("fit", tmp_path / "photos", "--labels", labels, "--out", run, *FAST)
    assert code == 0, err
    code, out, _ = accord("audit", run, "--top", "3")
    assert code == 0
    assert ".png" in out
    code, out, err = accord("evaluate", run, "--truth", labels, "--images", tmp_path / "photos", "--json")
    assert code == 0, err
    assert json.loads(out)["accuracy"] > 0.9


def test_compare_with_reference_rows(accord, tmp_path: Path) -> None:
    words = ["--noise", "0.3", "--methods", "normal,itlm,mw-net,oracle", "--models", "mlp", "--seeds", "2"]
    command = ["compare", "digits", *words, "--epochs", "2", "--out", tmp_path / "cmp"]
    code, out, err = accord(*command)
    assert code == 0, err
    for name in ("mw-net †", "oracle †", "noise auc", "last accuracy"):
        assert name in out
    cell = json.loads((tmp_path / "cmp" / "cells" / "mlp-itlm-seed0.json").read_text())
    assert cell["noise"]["kind"] == "uniform"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cmp" / "cells").glob("*.json")}
    assert accord(*command)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "digits", "--noise", "2"], "noise rate of 2"),
        (["fit", "digits", "--noise", "0.1", "--noise-kind", "pairs"], "did you mean 'pair'"),
        (["fit", "digits", "--noise", "0.1", "--noise-kind", "matrix"], "--noise-kind matrix.csv"),
        (["fit", "digits", "--method", "mw-net"], "--clean FILE"),
        (["fit", "digits", "--model", "gmf"], "Unknown model 'gmf'"),
        (["fit", "digits", "--set", "epohcs=3"], "did you mean 'epochs'"),
        (["fit", "digit"], "did you mean 'digits'"),
        (["fit", "."], "FILE"),
        (["fit", "missing.csv", "--label", "x"], "cannot be opened"),
        (["fit", "missing.csv", "--labels", "x.csv"], "folder of images"),
        (["fit", "cifar10"], "accord data get cifar10"),
        (["compare", "digits", "--methods", "oracle"], "--noise"),
        (["data", "get", "cifer10", "--to", "d"], "did you mean 'cifar10'"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    accord, words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    out = [] if words[0] == "data" else ["--out", tmp_path / "run"]
    code, _, err = accord(*words, *out)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]
    assert not list((tmp_path / "here").iterdir())


def test_columns_are_matched_by_name(accord, tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "t.parquet")
    swapped = table(1).select(["b", "kind", "a", "note"])
    parquet.write_table(swapped, tmp_path / "test.parquet")
    words = ["--label", "kind", "--ignore", "note", "--methods", "normal", "--seeds", "1", "--epochs", "20"]
    command = ["compare", tmp_path / "t.parquet", *words, "--truth", tmp_path / "test.parquet"]
    code, _, err = accord(*command, "--out", tmp_path / "cmp")
    assert code == 0, err
    assert (
        json.loads((tmp_path / "cmp" / "compare.json").read_text())["rows"][0]["metrics"]["accuracy"]["mean"] > 0.9
    )
    code, _, err = accord(*command, "--truth", tmp_path / "t.parquet", "--out", tmp_path / "two")
    assert code == 2
    assert "one --truth" in err
    parquet.write_table(swapped.rename_columns(["b", "kind", "z", "note"]), tmp_path / "odd.parquet")
    command[-1] = tmp_path / "odd.parquet"
    code, _, err = accord(*command, "--out", tmp_path / "three")
    assert code == 2
    assert "'a' is in one of them alone" in err
