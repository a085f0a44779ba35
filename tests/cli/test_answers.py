"""What commands answer to programs, and what they say where a batch is not all known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import typer
from PIL import Image

from accord import Classifier, Recommender
from accord.cli.answers import as_json
from accord.cli.main import app
from accord.data.frames import table_of_array
from accord.data.simulator import Simulation

FAST = ["--epochs", 1, "--set", "batch_size=512"]


@pytest.fixture(scope="module")
def place(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs, a table, images, and a run of each."""
    folder = tmp_path_factory.mktemp("place")
    for name, table in (("log", made.log()), ("truth", made.truth()), ("clicks", made.clicks())):
        parquet.write_table(table, folder / f"{name}.parquet")
    Recommender(method="normal", epochs=1, dims=4).fit(folder / "log.parquet").save(folder / "run")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    table = pa.table({"a": X[:, 0] + 3 * y, "b": X[:, 1], "kind": [("cat", "dog")[k] for k in y]})
    csv.write_csv(table, folder / "table.csv")
    (folder / "photos").mkdir()
    for k in range(8):
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / "photos" / f"p{k}.png")
    words = {"file": [f"p{k}.png" for k in range(8)], "label": ["x", "y"] * 4}
    csv.write_csv(pa.table(words), folder / "labels.csv")
    return folder


def answer(accord: Any, *words: object) -> Any:
    code, out, err = accord(*words, "--json")
    assert code == 0, err
    assert len(out.splitlines()) == 1
    return json.loads(out)


def every_command() -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    flat = {}
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        flat |= {name: command} if inner is None else {f"{name} {k}": one for k, one in inner.items()}
    return flat


def test_every_command_takes_json() -> None:
    found = every_command()
    assert {"fit", "predict", "tune", "data get"} <= set(found)
    for name, command in found.items():
        assert sum("--json" in option.opts for option in command.params) == 1, name


def test_simulate_fit_and_report(accord: Any, tmp_path: Path) -> None:
    words = ["--users", 60, "--items", 150, "--interactions", 600, "--out", tmp_path / "sim"]
    said = answer(accord, "simulate", *words)
    assert said["clicks"] == 600
    assert Path(said["files"]["log"]).is_file()
    fitted = answer(accord, "fit", said["files"]["log"], *FAST, "--set", "dims=4", "--out", tmp_path / "run")
    assert fitted["kind"] == "recommender"
    assert fitted["settings"]["dims"] == 4
    assert fitted["metrics"] == json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert any("clicks of 60 users" in line for line in fitted["remarks"])
    assert Path(answer(accord, "report", tmp_path / "run")["report"]).is_file()


def test_recommend_and_audit(accord: Any, place: Path, tmp_path: Path) -> None:
    rec = Recommender.load(place / "run")
    said = answer(accord, "recommend", place / "run", "--user", "u1", "--user", "u2", "-k", 3)
    assert said == {"rows": rec.recommend(["u1", "u2"], k=3).to_pylist(), "unknown_users": []}
    said = answer(accord, "audit", place / "run", "--top", 4, "--truth", place / "clicks.parquet")
    assert said["rows"] == rec.find_label_issues().slice(0, 4).to_pylist()
    assert said["judged"] == len(rec.find_label_issues())
    assert said["flagged"] == rec.metrics_["label_issues"]["flagged"]
    assert said["against_truth"] == as_told(rec.evaluate_issues(place / "clicks.parquet"))
    out, clean = tmp_path / "issues.csv", tmp_path / "clean.parquet"
    said = answer(accord, "audit", place / "run", "--out", out, "--write-clean", clean)
    assert "rows" not in said
    assert (said["written"], said["count"]) == (str(out), said["judged"])
    assert said["clean"] == {"written": str(clean), "count": parquet.read_table(clean).num_rows}


def as_told(measured: Any) -> Any:
    return json.loads(as_json(measured))


def test_evaluate_compare_and_tune(accord: Any, place: Path, tmp_path: Path) -> None:
    truth = place / "truth.parquet"
    said = answer(accord, "evaluate", place / "run", "--truth", truth, "-k", 5)
    assert said == as_told(Recommender.load(place / "run").evaluate(truth, k=[5]))
    log, quick = place / "log.parquet", [*FAST, "--set", "dims=4"]
    words = ["compare", log, "--methods", "normal", "--truth", truth, "--seeds", 1, *quick]
    said = answer(accord, *words, "--out", tmp_path / "cmp")
    assert said["rows"][0]["method"] == "normal"
    assert Path(said["report"]).is_file()
    words = ["tune", log, "--method", "normal", "--trials", 1, *quick, "--out", tmp_path / "search"]
    said = answer(accord, *words)
    assert said["value"] == max(row["value"] for row in said["rows"])
    assert said["command"].startswith("accord fit ")


def test_lists_of_studies_and_data_sets(accord: Any) -> None:
    assert {"study", "what"} <= set(answer(accord, "reproduce", "--list")["studies"][0])
    listed = answer(accord, "data", "list")
    assert "digits" in {entry["name"] for entry in listed["labelled"]}
    assert answer(accord, "data", "show", "movielens-100k")["users"] == 943
    assert len(answer(accord, "data", "show", "digits")["classes"]) == 10


def test_an_error_leaves_standard_output_empty(accord: Any, place: Path) -> None:
    for words in (
        ["evaluate", place / "run"],
        ["recommend", place / "run", "--user", "u1", "--format", "csv"],
        ["recommend", place / "run", "--user", "nobody"],
        ["report", place / "nowhere"],
    ):
        code, out, err = accord(*words, "--json")
        assert (code, out) == (2, "")
        assert len(err.strip().splitlines()) == 1


def test_without_json_people_see_tables_again(accord: Any, place: Path) -> None:
    answer(accord, "recommend", place / "run", "--user", "u1")
    assert "Top 10 for 1 user" in accord("recommend", place / "run", "--user", "u1")[1]


# -- batches in which not all is known ---------------------------------------------------------------------


def test_unknown_users_are_named_or_skipped(accord: Any, place: Path, tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("u1\nnobody\nu2\nno-one\n")
    words = ["recommend", place / "run", "--users", users, "-k", 2]
    code, out, err = accord(*words)
    assert (code, out) == (2, "")
    assert "Unknown users: nobody, no-one" in err
    code, out, err = accord(*words, "--on-unknown", "skip", "--format", "csv")
    assert code == 0
    assert "2 of 4 users are unknown and were skipped: nobody, no-one" in err
    assert [line.split(",")[0].strip('"') for line in out.splitlines()[1:]] == ["u1", "u1", "u2", "u2"]
    assert answer(accord, *words, "--on-unknown", "skip")["unknown_users"] == ["nobody", "no-one"]
    users.write_text("nobody\n")
    assert answer(accord, *words, "--on-unknown", "skip") == {"rows": [], "unknown_users": ["nobody"]}
    code, _, err = accord(*words, "--on-unknown", "keep")
    assert code == 2
    assert "choose skip or refuse" in err


def test_pairs_get_scores(accord: Any, place: Path, tmp_path: Path) -> None:
    rec = Recommender.load(place / "run")
    items = rec.item_ids_.values.to_pylist()[:2]
    pairs = pa.table({"user": ["u1", "ghost", "u2"], "item": [items[0], items[1], items[1]]})
    csv.write_csv(pairs, tmp_path / "pairs.csv")
    words = ["predict", place / "run", tmp_path / "pairs.csv"]
    code, _, err = accord(*words)
    assert code == 2
    assert "Unknown user: ghost" in err
    out = tmp_path / "scores.parquet"
    code, _, err = accord(*words, "--on-unknown", "skip", "--out", out)
    assert code == 0
    assert "1 of 3 rows are unknown and were skipped: ghost" in err
    found = parquet.read_table(out)
    assert found.column_names == ["user", "item", "score"]
    assert np.array_equal(np.asarray(found["score"]), rec.predict(["u1", "u2"], items))
    code, _, err = accord(*words, "--probabilities")
    assert code == 2
    assert "leave --probabilities out" in err


def test_a_table_gets_labels(accord: Any, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["fit", place / "table.csv", "--label", "kind", "--model", "mlp", "--method", "normal", "--epochs", 2]
    assert accord(*words, "--out", run)[0] == 0
    table = csv.read_csv(place / "table.csv")
    new = tmp_path / "new.parquet"  # columns in another order, one more, and no label
    parquet.write_table(pa.table({"b": table["b"], "note": ["?"] * 60, "a": table["a"]}), new)
    said = answer(accord, "predict", run, new, "--probabilities")["rows"]
    clf = Classifier.load(run)
    X = np.stack([np.asarray(table[name]) for name in "ab"], 1)
    p = clf.predict_proba(table_of_array(X, list(clf.feature_names_in_)))
    assert [row["index"] for row in said] == list(range(60))
    assert [row["predicted_label"] for row in said] == clf.predict(
        table_of_array(X, list(clf.feature_names_in_))
    ).tolist()
    np.testing.assert_allclose([[row["p_cat"], row["p_dog"]] for row in said], p)
    np.testing.assert_allclose([row["probability"] for row in said], p.max(1))
    parquet.write_table(pa.table({"b": table["b"]}), new)
    code, _, err = accord("predict", run, new)
    assert code == 2
    assert "No column 'a'" in err


def test_images_get_labels(accord: Any, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["fit", place / "photos", "--labels", place / "labels.csv", "--method", "normal", "--epochs", 1]
    assert accord(*words, "--model", "mlp", "--out", run)[0] == 0
    said = answer(accord, "predict", run, place / "photos")["rows"]
    assert [row["file"] for row in said] == [f"p{k}.png" for k in range(8)]
    images = np.stack([np.asarray(Image.open(place / "photos" / f"p{k}.png")) for k in range(8)])
    assert [row["predicted_label"] for row in said] == Classifier.load(run).predict(images).tolist()
    np.save(tmp_path / "new.npy", images)
    again = answer(accord, "predict", run, tmp_path / "new.npy")["rows"]
    assert [row["predicted_label"] for row in again] == [row["predicted_label"] for row in said]
    np.save(tmp_path / "odd.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for path, words in (("odd.npy", "cannot be read as an array"), ("labels.csv", "trained on images")):
        code, _, err = accord("predict", run, (tmp_path if path == "odd.npy" else place) / path)
        assert code == 2
        assert words in err
    (tmp_path / "none").mkdir()
    assert accord("predict", run, tmp_path / "none")[0] == 2


# -- searches and data sets --------------------------------------------------------------------------------


def test_a_search_begins_with_the_default_settings(accord: Any, place: Path, tmp_path: Path) -> None:
    log = place / "log.parquet"
    words = ["tune", log, "--method", "normal", *FAST, "--set", "dims=4", "--out", tmp_path / "search"]
    code, shown, err = accord(*words, "--space", "learning_rate=1e-9", "--trials", 2)
    assert code == 0, err
    assert "Nothing that was tried beat the default settings" in err
    found = json.loads((tmp_path / "search" / "tune.json").read_text())
    assert found["best"] == {} == found["rows"][0]["settings"]
    assert found["default"] == found["value"] == found["rows"][0]["value"]
    assert "learning_rate" not in shown.splitlines()[-1]  # the winner's command
    assert "nothing beat the default" in (tmp_path / "search" / "report.html").read_text()
    fitted = Recommender(method="normal", epochs=1, dims=4, batch_size=512).fit(log)
    assert found["default"] == pytest.approx(fitted.validation_["training"]["ndcg@20"])


@pytest.mark.data
def test_a_run_of_the_catalogue_is_evaluated_on_its_own_test(accord: Any, movielens: Path, tmp_path: Path) -> None:
    words = ["fit", "movielens-100k", "--method", "popularity", "--out", tmp_path / "run"]
    assert accord(*words)[0] == 0
    said = answer(accord, "evaluate", tmp_path / "run")
    from accord.data.datasets.benchmarks import load_benchmark
    from accord.data.datasets.catalogue import DATA_SETS

    benchmark = load_benchmark(DATA_SETS["movielens-100k"], "fair")
    expected = Recommender.load(tmp_path / "run").evaluate(benchmark.test, k=benchmark.ks)
    assert said == as_told(expected)


# -- completion --------------------------------------------------------------------------------------------


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        place = {"_ACCORD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        program = "from accord.cli.main import main; import sys; sys.argv = ['accord']; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **place}, capture_output=True, text=True
        )
        return done.stdout.split()

    assert {"fit", "predict"} <= set(completed("accord "))
    assert completed("accord predi") == ["predict"]
    assert "--on-unknown" in completed("accord recommend --on")
