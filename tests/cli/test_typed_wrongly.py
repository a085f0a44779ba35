"""What was typed and cannot be meant so: one sentence that says it, exit code 2, and a disk as it was."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from PIL import Image

from accord import Recommender
from accord.data.simulator import Simulation
from accord.files import whole_file

FAST = ["--set", "batch_size=512", "--set", "dims=4"]


@pytest.fixture
def log(made: Simulation, tmp_path: Path) -> Path:
    path = tmp_path / "given" / "log.parquet"
    path.parent.mkdir()
    parquet.write_table(made.log(), path)
    return path


@pytest.fixture
def run(log: Path, made: Simulation) -> Path:
    Recommender(method="normal", epochs=1, dims=4).fit(made.log()).save(log.parent / "run")
    return log.parent / "run"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(accord: Any, said: str, *words: object) -> None:
    code, out, err = accord(*words)
    assert code == 2, err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "--set", "seed=7"], "'seed' cannot be set for all rows"),
        (["compare", "--set", "model=mf"], "'model' cannot be set"),
        (["compare", "--set", "deca.method=normal"], "'method' cannot be set"),
        (["tune", "--set", "method=deca"], "'method' cannot be set"),
        (["tune", "--space", "seed=1,2"], "'seed' cannot be set"),
        (["compare", "--noise", "0.4"], "--noise is for labelled data"),
        (["tune", "--noise", "0.4"], "--noise is for labelled data"),
        (["compare", "--trials", "-1"], "-1 trials make no search"),
        (["tune", "--valid", "nosuch.csv", "--trials", "2"], "'nosuch.csv' cannot be opened"),
        (["compare", "--valid", "nosuch.csv", "--trials", "2"], "'nosuch.csv' cannot be opened"),
        (["compare", "--trials", "2", "--sampler", "foo"], "foo"),
        (["fit", "--resume", "elsewhere"], "--out cannot be given with --resume"),
    ],
)
def test_options_that_cannot_be_meant(accord, words: list[str], said: str, log: Path, tmp_path: Path) -> None:
    before = everything(tmp_path)
    refused(accord, said, words[0], *([] if "--resume" in words else [log]), *words[1:], "--out", tmp_path / "out")
    assert everything(tmp_path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "digits", "--inject", "0.5"], "--inject cannot be given with labelled data"),
        (["compare", "digits", "--valid", "x.csv", "-k", "3"], "--valid and -k cannot be given"),
        (["compare", "digits", "--protocol", "papr"], "--protocol cannot be given"),
        (["fit", "digits", "--user", "u"], "--user cannot be given with labelled data"),
        (["fit", "digits", "--size", "9"], "--size cannot be given with a data set of the catalogue"),
        (["fit", "digits", "--noise-kind", "foo"], "Unknown kind of noise 'foo'"),
        (["fit", "log.csv", "--noise-kind", "m.csv"], "--noise-kind is for labelled data"),
        (["tune", "digits", "--noise-kind", "foo"], "Unknown kind of noise 'foo'"),
        (
            ["compare", "movielens-100k", "-k", "7", "--truth", "t.csv"],
            "--truth and -k cannot be given with a data set",
        ),
        (["fit", "movielens-100k", "--user", "u"], "--user cannot be given with a data set of the catalogue"),
        (["reproduce", "hyper", "--part", "movielens-100k", "--part", "modclth"], "did you mean 'modcloth'"),
        (["reproduce", "hyper", "--seeds", "0"], "0 seeds make no study"),
        (["reproduce", "hyper", "--device", "gpu"], "Unknown device"),
        (["reproduce", "recommend-modcloth", "--trials", "0"], "0 trials make no search"),
        (["reproduce", "hyper", "--show"], "There is nothing of study 'hyper'"),
    ],
)
def test_options_that_say_nothing_there(accord, words: list[str], said: str, tmp_path: Path) -> None:
    refused(accord, said, *words, "--out", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_set_is_stronger_than_options(accord, log: Path, tmp_path: Path) -> None:
    more = ["--seeds", 1, "--epochs", 5, "--set", "epochs=2", "--set", "patience=0", *FAST]
    code, _, err = accord("compare", log, "--methods", "normal", *more, "--out", tmp_path / "cmp")
    assert code == 0, err
    cell = json.loads((tmp_path / "cmp" / "cells" / "gmf-normal-seed0.json").read_text())
    assert cell["epochs"] == 2


@pytest.mark.parametrize("command", [["compare", "--trials", "1"], ["compare"], ["tune"]])
def test_other_folders_are_left_alone(accord, command: list[str], log: Path, run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("mine")
    before = everything(tmp_path)
    refused(accord, "holds a recommender", command[0], log, *command[1:], "--out", run)
    refused(accord, "holds 'report.html'", command[0], log, *command[1:], "--out", tmp_path / "mine")
    assert everything(tmp_path) == before


def test_a_search_and_a_comparison_keep_to_their_own_folders(accord, log: Path, tmp_path: Path) -> None:
    quick = ["--epochs", 1, *FAST]
    out, other = tmp_path / "search", tmp_path / "cmp"
    assert accord("tune", log, "--method", "normal", "--trials", 1, *quick, "--out", out)[0] == 0
    assert accord("compare", log, "--methods", "normal", "--seeds", 1, *quick, "--out", other)[0] == 0
    before = everything(tmp_path)
    refused(
        accord, "holds the search of normal", "tune", log, "--method", "deca", "--trials", 1, *quick, "--out", out
    )
    refused(accord, "and no search", "tune", log, "--method", "normal", "--trials", 1, *quick, "--out", other)
    refused(accord, "and no comparison", "compare", log, "--methods", "normal", *quick, "--out", out)
    assert everything(tmp_path) == before


def test_studies_keep_to_their_own_folders(accord, run: Path, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "README.md").write_text("# my project")
    refused(accord, "'README.md'", "reproduce", "agreement-recommend", "--minutes", 0, "--out", tmp_path / "repo")
    refused(accord, "recommender", "reproduce", "hyper", "--minutes", 0, "--out", run)
    place = tmp_path / "hyper"
    assert accord("reproduce", "hyper", "--data", tmp_path, "--minutes", 0, "--out", place)[0] == 0
    before = everything(place)
    refused(accord, "study 'hyper'", "reproduce", "cost", "--show", "--out", place)
    refused(accord, "study 'hyper'", "reproduce", "ablation", "--minutes", 0, "--out", place)
    assert everything(place) == before


def test_what_a_search_could_not_train_is_said(accord, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item\na,x\na,y\n")
    said = "1 user(s) and 2 item(s)"
    for command in (["tune", "--method", "normal"], ["compare", "--methods", "normal"]):
        refused(
            accord, said, command[0], tmp_path / "log.csv", *command[1:], "--trials", 2, "--out", tmp_path / "o"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_a_column_that_only_sounds_like_times_can_be_left_out(accord, tmp_path: Path) -> None:
    rows = [f"u{n % 9},i{n % 7},{1 + n % 28}/12/2020\n" for n in range(63)]
    (tmp_path / "log.csv").write_text("user,item,date\n" + "".join(rows))
    refused(accord, "--time ''", "fit", tmp_path / "log.csv", "--out", tmp_path / "run")
    code, _, err = accord("fit", tmp_path / "log.csv", "--time", "", "--epochs", 1, "--out", tmp_path / "run")
    assert code == 0, err
    assert "time=none" in err
    assert "random clicks" in err


def test_an_audit_writes_all_or_nothing(accord, run: Path, tmp_path: Path) -> None:
    refused(accord, "b.xyz", "audit", run, "--out", tmp_path / "a.csv", "--write-clean", tmp_path / "b.xyz")
    refused(accord, "--top -3", "audit", run, "--top", -3)
    assert not (tmp_path / "a.csv").exists()


def test_names_of_columns_may_have_commas_and_endings_capitals(
    accord, run: Path, log: Path, tmp_path: Path
) -> None:
    capital = tmp_path / "LOG.CSV"
    capital.write_text('"user","item","title, long"\n' + "".join(f'u{n % 9},i{n % 7},"a, b"\n' for n in range(63)))
    assert accord("fit", capital, "--epochs", 1, "--out", tmp_path / "again")[0] == 0
    assert accord("audit", run, "--data", log, "--write-clean", tmp_path / "clean.TSV")[0] == 0
    assert accord("fit", tmp_path / "clean.TSV", "--epochs", 1, *FAST, "--out", tmp_path / "third")[0] == 0


@pytest.mark.parametrize("folder", [".", "/", ""])
def test_a_run_is_resumed_from_a_folder_with_a_name(accord, folder: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(accord, "cannot be a run's folder", "fit", "--resume", folder)


def test_commands_that_are_printed_can_be_typed(accord, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "my run"
    code, _, err = accord("fit", log, "--method", "normal", "--epochs", 1, *FAST, "--out", out)
    assert code == 0, err
    assert f"accord audit '{out}'" in err


def test_pairs_that_can_never_be_hit_are_told(accord, run: Path, log: Path) -> None:
    code, _, err = accord("evaluate", run, "--truth", log)
    assert code == 0
    assert "5000 of the pairs are clicks of the log" in err


def test_users_come_with_a_byte_order_mark(accord, run: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("u1\n", encoding="utf-8-sig")
    assert accord("recommend", run, "--users-file", tmp_path / "users.txt")[0] == 0


NAME = "rün\U0001f600"


def in_c(*words: Any, **more: str) -> tuple[int, str]:
    """A command where the locale is that of bare machines."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    command = [sys.executable, "-m", "accord", *map(str, words)]
    done = subprocess.run(command, env={**env, "LC_ALL": "C", **more}, capture_output=True, check=False)
    return done.returncode, done.stderr.decode()


def test_names_of_all_letters_where_the_locale_is_c(log: Path, tmp_path: Path) -> None:
    fit = ("fit", log, "--method", "normal", "--epochs", 1, "--out", tmp_path / NAME)
    code, said = in_c(*fit)
    assert code == 0
    assert f"accord audit {tmp_path / NAME}" in said.replace("'", "").replace("\n", "")
    assert in_c("audit", tmp_path / NAME, "--out", tmp_path / f"{NAME}.csv")[0] == 0
    assert (tmp_path / f"{NAME}.csv").is_file()
    code, said = in_c(*fit, "--overwrite", PYTHONUTF8="0")
    assert code == 2
    assert r"r\xfcn\U0001f600' has letters that Python does not know here (ascii); set PYTHONUTF8=1." in said
    assert len(said.splitlines()) == 1


SAVES = """
from accord import Recommender
from accord.errors import DataError
rec = Recommender(method="normal", epochs=1).fit({"user": list("aabbcc"), "item": list("xyxzyz")})
for act in (rec.save, Recommender.load):
    try:
        act("r\\xfcn")
    except DataError as error:
        print(ascii(str(error)))
"""


def test_names_in_python_that_files_cannot_have(tmp_path: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", SAVES], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert len(said) == 2
    assert all("has letters that names of files cannot have here, where they are ascii; set" in one for one in said)
    assert list(tmp_path.iterdir()) == []


def test_words_that_are_no_text(log: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "accord",
        "fit",
        os.fsencode(tmp_path) + b"/b\xe9.csv",
        "--out",
        tmp_path / "o",
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 2
    assert "is no UTF-8" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "PYTHONUTF8" not in done.stderr
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([sys.executable, "-m", "accord", "data", "list"], env=ascii_only, capture_output=True)
    assert shown.returncode == 0
    assert rb"\xd7" in shown.stdout


def test_images_that_cannot_fit_are_refused_unread(accord, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    names = [f"p{k}.png" for k in range(4)]
    for name in names:
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "photos" / name)
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"{n},{k % 2}\n" for k, n in enumerate(names)))
    words = ["fit", tmp_path / "photos", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run"]
    refused(accord, "give a smaller size", *words, "--size", 1_000_000)


def test_the_truth_says_which_rows_were_trained_on(accord, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 120)
    parquet.write_table(pa.table({"a": rng.normal(kind, 0.3), "kind": kind}), tmp_path / "t.parquet")
    words = [
        "fit",
        tmp_path / "t.parquet",
        "--label",
        "kind",
        "--method",
        "mw-net",
        "--noise",
        "0.2",
        "--epochs",
        1,
    ]
    code, _, err = accord(*words, "--out", tmp_path / "run")
    assert code == 0, err
    assert "12 examples were kept apart as clean" in err
    truth = parquet.read_table(tmp_path / "run" / "truth.parquet")
    assert truth.num_rows == 108
    assert truth["true_label"].to_pylist() == kind[truth["row"].to_numpy()].tolist()


def test_a_comparison_says_how_much_is_wrong(accord, tmp_path: Path) -> None:
    words = ["compare", "digits", "--noise", "0.4", "--methods", "normal", "--models", "mlp", "--epochs", 1]
    code, _, err = accord(*words, "--seeds", 1, "--out", tmp_path / "cmp")
    assert code == 0, err
    assert "40% of labels redrawn (uniform), of which 35.5% of all are wrong" in err


def test_a_file_that_was_named_stays_a_link_a_device_or_a_pipe(tmp_path: Path) -> None:
    def write(path: Path, text: str) -> None:
        with whole_file(path, follow=True) as draft:
            draft.write_text(text)

    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    (tmp_path / "loose").symlink_to(tmp_path / "later")
    write(tmp_path / "loose", "new")
    assert (tmp_path / "later").read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    write(pipe, "through")
    assert reader.communicate(timeout=10)[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write(Path("/dev/null"), "nothing")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_run_behind_a_link_is_replaced_and_the_link_stays(made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(method="normal", epochs=1, dims=4).fit(made.log())
    rec.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    rec.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert Recommender.load(tmp_path / "link").user_ids_.values.equals(rec.user_ids_.values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
