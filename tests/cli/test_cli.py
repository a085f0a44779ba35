"""The command line as a person uses it: results, exit codes, and nothing left behind by bad input."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from accord.data.simulator import Simulation
from accord.experiments.study import Study

FAST = ["--epochs", "2", "--set", "batch_size=512", "--set", "dims=8"]


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sim")
    words = f"simulate --users 300 --items 250 --interactions 5000 --out {folder / 'sim'}".split()
    subprocess.run([sys.executable, "-c", "from accord.cli.main import run; run()", *words], check=True)
    return folder / "sim"


@pytest.fixture(scope="module")
def run_folder(sim: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    words = ["fit", str(sim / "log.parquet"), "--out", str(folder), *FAST]
    subprocess.run([sys.executable, "-c", "from accord.cli.main import run; run()", *words], check=True)
    return folder


def test_simulate_writes_its_three_tables(sim: Path) -> None:
    assert {path.name for path in sim.iterdir()} == {
        "log.parquet",
        "truth.parquet",
        "clicks.parquet",
        "config.json",
    }
    assert parquet.read_table(sim / "log.parquet").column_names == ["user", "item", "ts"]
    assert "is_noise" in parquet.read_table(sim / "clicks.parquet").column_names


def test_fit_leaves_a_whole_run_folder(run_folder: Path) -> None:
    assert {path.name for path in run_folder.iterdir()} == {
        "config.json",
        "weights.safetensors",
        "ids.parquet",
        "clicks.parquet",
        "history.jsonl",
        "metrics.json",
        "report.html",
    }
    history = [json.loads(line) for line in (run_folder / "history.jsonl").read_text().splitlines()]
    assert [record["phase"] for record in history] == ["prior"] * 2 + ["denoising"] * 2


def test_recommend_in_every_format(accord, run_folder: Path, tmp_path: Path) -> None:
    code, out, _ = accord("recommend", run_folder, "--user", "u1", "--user", "u2", "-k", 3, "--format", "json")
    rows = json.loads(out)
    assert code == 0
    assert [row["rank"] for row in rows] == [1, 2, 3, 1, 2, 3]
    code, out, _ = accord("recommend", run_folder, "--user", "u1", "-k", 2, "--format", "csv")
    assert out.splitlines()[0].replace('"', "") == "user,rank,item,score"
    assert accord("recommend", run_folder, "--user", "u1", "-k", 2)[1].count("u1") == 2
    users = tmp_path / "users.txt"
    users.write_text("u1\nu2\n\n")
    target = tmp_path / "out" / "lists.parquet"
    assert accord("recommend", run_folder, "--users-file", users, "-k", 4, "--out", target)[0] == 0
    assert parquet.read_table(target).num_rows == 8


def test_audit_writes_what_it_is_asked_for(accord, run_folder: Path, sim: Path, tmp_path: Path) -> None:
    issues, clean = tmp_path / "issues.csv", tmp_path / "clean.parquet"
    code, out, err = accord(
        "audit",
        run_folder,
        "--share",
        0.2,
        "--out",
        issues,
        "--write-clean",
        clean,
        "--truth",
        sim / "clicks.parquet",
    )
    assert code == 0
    assert "1000 of 5000 clicks flagged" in err
    assert "ROC-AUC" in out
    assert "conformity" in out
    assert len(issues.read_text().splitlines()) == 5001
    assert parquet.read_table(clean).num_rows == 4000
    assert parquet.read_table(clean).column_names == ["user", "item", "ts"]
    assert accord("audit", run_folder, "--top", 7)[1].count("True") == 7


def test_the_clean_log_can_be_fitted_again(accord, run_folder: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.csv"
    assert accord("audit", run_folder, "--write-clean", clean)[0] == 0
    code, _, err = accord("fit", clean, "--out", tmp_path / "again", "--method", "normal", *FAST)
    assert code == 0
    assert "user=user, item=item, time=ts" in err


def test_evaluate_as_table_and_json(accord, run_folder: Path, sim: Path) -> None:
    code, out, _ = accord("evaluate", run_folder, "--truth", sim / "truth.parquet", "-k", 5, "-k", 10, "--json")
    measured = json.loads(out)
    assert code == 0
    assert {"ndcg@5", "recall@10", "precision@5", "hit@10", "mrr@5"} <= set(measured)
    assert "ndcg" in accord("evaluate", run_folder, "--truth", sim / "truth.parquet")[1]


def test_compare_resumes_where_it_stopped(accord, sim: Path, tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    words = ["compare", sim / "log.parquet", "--methods", "normal,deca-p", "--seeds", 2, "--out", out]
    words += ["--truth", sim / "truth.parquet", "--truth", sim / "clicks.parquet"]
    words += ["--set", "epochs=2", "--set", "batch_size=512", "--set", "deca-p.alpha=1"]
    code, shown, _ = accord(*words)
    assert code == 0
    assert "noise auc" in shown
    assert "item popularity" in shown
    cells = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert set(cells) == {
        f"gmf-{m}-seed{s}.{end}" for m in ("normal", "deca-p") for s in (0, 1) for end in ("json", "parquet")
    }
    settings = json.loads((out / "cells" / "gmf-deca-p-seed1.json").read_text())["settings"]
    assert (settings["alpha"], settings["seed"]) == (1.0, 1)
    (out / "cells" / "gmf-normal-seed1.json").unlink()
    assert accord(*words)[0] == 0
    again = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert {name for name in cells if again[name] != cells[name]} == {
        "gmf-normal-seed1.json",
        "gmf-normal-seed1.parquet",
    }
    for name in ("compare.json", "compare.csv", "compare.md", "report.html"):
        assert (out / name).stat().st_size > 0
    page = (out / "report.html").read_bytes()
    code, shown, err = accord(*words, "--set", "epochs=1")  # another study
    assert code == 2
    assert "holds a comparison of other data or settings" in err
    assert (out / "report.html").read_bytes() == page
    assert accord(*words, "--methods", "normal", "--seeds", 1)[0] == 0  # the same study, and no cell is made anew
    assert {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == again


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has"),
            "Tried to allocate 2 GiB;",
        ),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "can't allocate"),
        (MemoryError("Unable to allocate 3 GiB"), "Unable to allocate 3 GiB;"),
    ],
)
def test_memory_that_runs_out_is_one_sentence(accord, sim: Path, tmp_path: Path, monkeypatch, error, said) -> None:
    """As on a GPU that others use too; what is done stays, and the same command resumes it."""

    def fail(*given: object, **more: object) -> None:
        raise error

    words = ("compare", sim / "log.parquet", "--methods", "normal", "--seeds", 1, "--set", "epochs=1")
    with monkeypatch.context() as patched:
        patched.setattr(Study, "run", fail)
        code, _, err = accord(*words, "--out", tmp_path / "cmp")
    assert code == 2
    assert "Traceback" not in err
    sentence = err.splitlines()[-1]  # after those of its progress
    assert said in sentence
    assert "the same command resumes it" in sentence
    assert accord(*words, "--out", tmp_path / "cmp")[0] == 0


def test_a_fault_of_the_program_is_not_called_memory(accord, sim: Path, tmp_path: Path, monkeypatch) -> None:
    def fail(*given: object, **more: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Study, "run", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        accord("compare", sim / "log.parquet", "--methods", "normal", "--out", tmp_path / "cmp")


def test_report_is_written_again(accord, run_folder: Path) -> None:
    (run_folder / "report.html").unlink()
    assert accord("report", run_folder)[0] == 0
    assert (run_folder / "report.html").is_file()


def bad_file(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        ("log.csv", "user,item\na,x\nb,y\n", ["--item", "itm"], "No column 'itm'"),
        ("log.csv", "", [], "is empty"),
        ("log.csv", "user,item\na,x\na,y\n", [], "1 user(s) and 2 item(s)"),
        ("log.csv", "user,item\na,x\n,y\n", ["--on-missing", "refuse"], "1 missing user id"),
        ("log.parquet", "user,item\na,x\n", [], "not a Parquet file"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--set", "alfa=1"], "did you mean 'alpha'"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--set", "alpha"], "not NAME=VALUE"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--set", "alpha=7"], "less than or equal to 1"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--method", "decap"], "did you mean 'deca-p'"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--model", "gfm"], "did you mean 'gmf'"),
        ("log.csv", "user,item\na,x\nb,y\n", ["--device", "abacus"], "Unknown device"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    accord,
    tmp_path: Path,
    name: str,
    content: str,
    words: list[str],
    said: str,
) -> None:
    log = bad_file(tmp_path, name, content)
    code, out, err = accord("fit", log, "--out", tmp_path / "run", *words)
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_unknown_users_exit_2_and_are_named(accord, run_folder: Path, tmp_path: Path) -> None:
    code, out, err = accord(
        "recommend", run_folder, "--user", "u1", "--user", "zoe-404", "--out", tmp_path / "x.csv"
    )
    assert code == 2
    assert "zoe-404" in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_click_twice_is_merged_and_said(accord, tmp_path: Path) -> None:
    log = bad_file(tmp_path, "log.csv", "user,item\na,x\na,x\nb,y\nb,z\nc,x\n")
    code, _, err = accord("fit", log, "--out", tmp_path / "run", *FAST)
    assert code == 0
    assert "(1 repeats merged)" in err


def test_a_taken_place_is_left_alone(accord, run_folder: Path, sim: Path) -> None:
    before = (run_folder / "weights.safetensors").stat().st_mtime_ns
    code, _, err = accord("fit", sim / "log.parquet", "--out", run_folder, *FAST)
    assert code == 2
    assert "--overwrite" in err
    assert (run_folder / "weights.safetensors").stat().st_mtime_ns == before


def test_bad_requests_of_other_commands(accord, run_folder: Path, sim: Path, tmp_path: Path) -> None:
    cases = [
        (["recommend", run_folder], "No user was asked for"),
        (["recommend", run_folder, "--user", "u1", "-k", 0], "at least one"),
        (["recommend", run_folder, "--user", "u1", "--format", "xml"], "Unknown format"),
        (["recommend", tmp_path, "--user", "u1"], "no run folder"),
        (["audit", run_folder, "--share", 7], "makes no sense"),
        (["audit", run_folder, "--truth", sim / "log.parquet"], "no column is_noise"),
        (["evaluate", run_folder, "--truth", tmp_path / "none.csv"], "cannot be opened"),
        (["simulate", "--misclick", 0.9, "--out", tmp_path / "s"], "add up to 1"),
        (["simulate", "--users", 10, "--items", 20, "--out", tmp_path / "s"], "too many"),
        (
            ["compare", sim / "log.parquet", "--methods", "normal,dca", "--out", tmp_path / "c"],
            "did you mean 'deca'",
        ),
        (["compare", tmp_path / "none.csv", "--out", tmp_path / "c"], "cannot be opened"),
    ]
    for words, said in cases:
        code, _, err = accord(*words)
        assert (code, said in err) == (2, True), (words, err)
    assert list(tmp_path.iterdir()) == []


def test_help_is_instant_and_needs_no_torch() -> None:
    def best_of_five(*words: str) -> tuple[float, str]:
        best, said = 9.0, ""
        for _ in range(5):
            started = time.perf_counter()
            said = subprocess.run([sys.executable, "-c", *words], capture_output=True, text=True, check=True).stdout
            best = min(best, time.perf_counter() - started)
        return best, said

    program = "import sys; from accord.cli.main import run\ntry: run()\nfinally: print('torch' in sys.modules)"
    taken, said = best_of_five(program, "fit", "--help")
    assert "  accord fit clicks.csv --out run" in said
    assert said.strip().endswith("False")
    # 0.3 s on an idle machine; on one that is slow now, not much longer than what draws the page takes to import
    assert taken < 0.6 or taken < 3 * best_of_five("import typer, rich.console, rich.table")[0]


def test_names_with_markup_are_shown_as_they_are(accord, tmp_path: Path) -> None:
    odd = ["[bold]", "<script>alert(1)</script>", "a,b", "ü"]
    table = pa.table({"user": odd * 3, "item": ["[red]x"] * 4 + ["<b>"] * 4 + ["z"] * 3 + ["w"]})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert accord("fit", tmp_path / "log.parquet", "--out", tmp_path / "run", *FAST)[0] == 0
    assert "<script>alert" not in (tmp_path / "run" / "report.html").read_text()
    _, out, _ = accord("audit", tmp_path / "run")
    assert "[bold]" in out
    assert "[red]x" in out
    assert accord("recommend", tmp_path / "run", "--user", "[bold]", "--format", "csv")[0] == 0


def test_demo_runs_whole(accord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Simulation) -> None:
    """The demo on a smaller log and fewer epochs; `make demo` runs it in full."""
    from accord.cli import demo

    monkeypatch.setattr(demo, "SimulatorSettings", lambda: made.settings)
    monkeypatch.setattr(demo, "SETTINGS", {"epochs": 2, "batch_size": 512})
    code, out, err = accord("demo", "--out", tmp_path / "demo")
    assert code == 0
    assert "ndcg@20" in out
    assert "recall@20" in out
    assert "noise auc" in out
    assert (tmp_path / "demo" / "compare" / "report.html").is_file()
    page = tmp_path / "demo" / "index.html"
    assert f"Open this page: {page}" in " ".join(err.split())
    text = page.read_text(encoding="utf-8")
    reports = set(re.findall(r'href="([^"]+)"', text))
    assert reports == {f"{run}/report.html" for run in ("compare", "run", "digits-compare", "digits-run")}
    assert all((page.parent / report).is_file() for report in reports)
    truth = {(row["user"], row["item"]): row["kind"] for row in made.clicks().to_pylist()}
    rows = re.findall(r'<td class="id">(u\d+)</td><td class="id">(i\d+)</td>.*<td class="when">([^<]+)<', text)
    assert len(rows) == 12
    words = {"misclick": "slip", "conformity": "crowd", "promotion": "push", "": "true like"}
    assert all(words.get(truth[user, item], "true like") == told for user, item, told in rows)


def test_a_log_file_gets_lines_of_progress(accord, sim: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("accord.progress.LINE_SECONDS", 0.0)
    code, _, err = accord("fit", sim / "log.parquet", "--out", tmp_path / "run", *FAST)
    assert code == 0
    assert "denoising (2/2)  epoch 1/2  ndcg@20 0." in err
    monkeypatch.setattr("accord.progress.LINE_SECONDS", 30.0)
    assert "epoch 1/2" not in accord("fit", sim / "log.parquet", "--out", tmp_path / "other", *FAST)[2]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_refused_fit_leaves_the_checkpoint(accord, sim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run.checkpoint"
    folder.mkdir()
    (folder / "fit.json").write_text("{}")
    (folder / "checkpoint.safetensors").write_bytes(b"hours of work")
    code, _, err = accord("fit", tmp_path / "no.csv", "--out", tmp_path / "run", "--overwrite")
    assert (code, "cannot be opened" in err) == (2, True)
    assert (folder / "checkpoint.safetensors").read_bytes() == b"hours of work"
    assert everything(tmp_path) == {
        "run.checkpoint",
        "run.checkpoint/fit.json",
        "run.checkpoint/checkpoint.safetensors",
    }
    assert accord("fit", sim / "log.parquet", "--out", tmp_path / "run", "--overwrite", *FAST)[0] == 0
    assert not folder.exists()


def test_set_reaches_every_setting(accord, sim: Path, tmp_path: Path) -> None:
    more = ["--set", "method=normal", "--set", "seed=4", "--set", "model=mf"]
    assert accord("fit", sim / "log.parquet", "--out", tmp_path / "run", *FAST, *more)[0] == 0
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (settings["method"], settings["seed"], settings["model"]) == ("normal", 4, "mf")


@pytest.mark.parametrize(
    "words",
    [
        "recommend RUN --user u1 --out FILE/x.csv",
        "recommend RUN --user u1 --out FOLDER.csv",
        "audit RUN --out FILE/x.csv",
        "fit LOG --out FILE/run",
        "compare LOG --methods normal --seeds 1 --out FILE/x",
        "tune LOG --trials 1 --out FILE/x",
        "compare LOG --methods normal,oracle --seeds 1 --epochs 1 --out NEW/a/b",
        "compare LOG --methods normal --seeds 1 --out RUN",
        "tune LOG --trials 1 --out RUN",
        "tune BAD --trials 1 --out NEW/a",
        "fit BAD --out NEW/a/b",
        "simulate --overwrite --out RUN",
        "fit LOG --overwrite --out SIM",
        "demo --out OTHER",
    ],
)
def test_what_cannot_be_is_one_sentence_and_changes_nothing(
    words: str, accord, sim: Path, run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("")
    (tmp_path / "bad.csv").write_text("user;item\n1;2\n")
    places = {"RUN": run_folder, "LOG": sim / "log.parquet", "SIM": sim, "BAD": tmp_path / "bad.csv"}
    places |= {"FILE": tmp_path / "file", "FOLDER": tmp_path / "folder", "NEW": tmp_path / "new"}
    places |= {"OTHER": tmp_path / "other"}
    for name, path in places.items():
        words = words.replace(name, str(path))
    before = everything(tmp_path), everything(run_folder), everything(sim)
    code, _, err = accord(*words.split())
    assert code == 2
    (said,) = err.strip().splitlines()
    assert said.startswith("accord: ")
    assert (everything(tmp_path), everything(run_folder), everything(sim)) == before


def test_a_cleaned_log_without_a_header_has_none(accord, tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("".join(f"{u}\t{i}\n" for u in range(1, 30) for i in range(1, 12) if (u * i) % 3))
    assert accord("fit", log, "--out", tmp_path / "run", *FAST)[0] == 0
    assert accord("audit", tmp_path / "run", "--write-clean", tmp_path / "clean.tsv")[0] == 0
    rows = (tmp_path / "clean.tsv").read_text().splitlines()
    assert set(rows) < set(log.read_text().splitlines())


def test_the_line_that_trains_the_winner_can_be_typed(accord, sim: Path, tmp_path: Path) -> None:
    log = parquet.read_table(sim / "log.parquet").rename_columns(["the visitor", "sku", "when"])
    parquet.write_table(log, tmp_path / "my log.parquet")
    columns = ["--user", "the visitor", "--item", "sku", "--time", "when"]
    words = ["tune", tmp_path / "my log.parquet", "--method", "normal", "--trials", "1", "--out", tmp_path / "s"]
    code, out, err = accord(*words, *columns, *FAST)
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if line.startswith("accord fit")]
    _, *typed = shlex.split(line)
    typed[typed.index("run")] = str(tmp_path / "run")
    assert accord(*typed)[0] == 0
    assert (tmp_path / "run" / "config.json").is_file()
