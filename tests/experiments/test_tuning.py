"""Searches: plans, asking, kills, shared storages, and selection by noisy validation alone."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError
from accord.experiments.budget import Budget
from accord.experiments.compare import compare
from accord.experiments.spaces import plan, size
from accord.experiments.study import Cell, Study
from accord.experiments.trials import INDEX, PROCESS, Trials
from accord.experiments.tuning import SearchProgress, Tuning, fit_line, tune, tuned_study
from accord.tasks.clicks import ClickTask

QUICK = {"epochs": 1, "batch_size": 512, "dims": 4}
SMALL: dict[str, tuple[Any, ...]] = {"learning_rate": (0.01,), "l2": (0.1, 1.0), "c0": (1.0,), "alpha": (0.5,)}


def search(made: Simulation, **more: Any) -> Tuning:
    study = Study(ClickTask(made.log()), ["deca-p"], ["gmf"], settings=QUICK)
    return Tuning(study, **{"trials": 4, "space": SMALL | {"c1": (1.0, 10.0)}, **more})


def test_plans() -> None:
    space = {"a": (1, 2, 3), "b": (4, 5)}
    assert [tuple(p.values()) for p in plan(space, "grid", 6, 0)] == [
        (1, 4),
        (1, 5),
        (2, 4),
        (2, 5),
        (3, 4),
        (3, 5),
    ]
    drawn = plan(space, "random", 4, seed=1)
    assert len({tuple(p.values()) for p in drawn}) == 4
    assert plan(space, "random", 6, seed=1)[:4] == drawn  # a longer search goes on with a shorter one
    assert plan(space, "random", 4, seed=2) != drawn
    with pytest.raises(SettingError, match="The grid has 6 settings"):
        plan(space, "grid", 5, 0)
    task = ClickTask(pa.table({"user": [1], "item": [1]}))
    assert size(task.space("deca")) == 3 * 6 * 4 * 4 * 3
    assert task.space("popularity") == {}


@pytest.mark.parametrize("sampler", ["random", "grid", "tpe"])
def test_the_winner_has_the_best_noisy_validation(sampler: str, made: Simulation, tmp_path: Path) -> None:
    seen: list[SearchProgress] = []
    tuning = search(made, sampler=sampler, seeds=2)
    found = tune(tuning, tmp_path, seen.append)
    assert len(found["rows"]) == 4
    assert found["value"] == max(row["value"] for row in found["rows"])
    best = next(row for row in found["rows"] if row["settings"] == found["best"])
    assert best["value"] == pytest.approx(sum(best["values"]) / 2)
    again = tuning.study.validate(
        [tuning.settings_of(found["best"], seed) for seed in (0, 1)], "deca-p", [None] * 2
    )
    assert again == pytest.approx(best["values"], rel=1e-3)
    assert [s.done for s in seen] == [0, 4]  # all at once, as one stack
    assert json.loads((tmp_path / "best.json").read_text()) == found["best"]
    assert parquet.read_table(tmp_path / "trials.parquet").num_rows == 4
    line = fit_line(found, "clicks.csv")
    assert line.startswith("accord fit clicks.csv --out run --model gmf --method deca-p")
    assert f"--set l2={found['best']['l2']:g}" in line


def test_tpe_depends_on_its_seed_alone(made: Simulation, tmp_path: Path) -> None:
    """On no process's number: the same search twice, and another with another seed."""
    tried = [
        [row["settings"] for row in tune(search(made, sampler="tpe", seed=seed), tmp_path / str(k))["rows"]]
        for k, seed in enumerate((1, 1, 2))
    ]
    assert tried[0] == tried[1] != tried[2]


def test_the_truth_is_never_read(made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accord import Recommender

    for name in ("evaluate", "evaluate_users", "evaluate_issues"):
        monkeypatch.setattr(Recommender, name, lambda *a, **k: pytest.fail("the truth was read"))
    study = Study(ClickTask(made.log(), [made.truth(), made.clicks()]), ["normal"], ["gmf"], settings=QUICK)
    tune(Tuning(study, trials=1), tmp_path)


def test_a_search_goes_on_and_refuses_another(made: Simulation, tmp_path: Path) -> None:
    first = tune(search(made, trials=2), tmp_path)
    more = tune(search(made, trials=4), tmp_path)
    assert [r["settings"] for r in more["rows"][:2]] == [r["settings"] for r in first["rows"]]
    with pytest.raises(SettingError, match="begun with other"):
        tune(search(made, trials=4, seeds=2), tmp_path)


def test_settings_that_cannot_be_trained_are_passed_over(made: Simulation, tmp_path: Path) -> None:
    class Failing(Study):
        def validate(self, settings: Any, method: str, callbacks: Any, checkpoints: Any = None) -> list[float]:
            if any(one["l2"] == 1.0 for one in settings):
                raise AccordError("Training diverged.")
            return [0.5 for _ in settings]

    failing = Failing(ClickTask(made.log()), ["normal"], ["gmf"], settings=QUICK)
    found = tune(
        Tuning(failing, sampler="grid", space={"learning_rate": (0.01,), "l2": (0.1, 1.0, 10.0)}), tmp_path
    )
    assert [row["settings"]["l2"] for row in found["rows"]] == [0.1, 10.0]


def test_bad_searches_are_refused(made: Simulation, tmp_path: Path) -> None:
    for more, words in (
        ({"space": {"c9": (1,)}}, "Unknown setting 'c9'"),
        ({"space": {"alpha": (7.0,)}}, "less than or equal to 1"),
        ({"sampler": "tpa"}, "choose from random, grid, tpe"),
        ({"trials": 0}, "at least one trial"),
        ({"storage": "postgresql+psycopg://nobody:secret@localhost:1/x"}, "cannot be used"),
    ):
        with pytest.raises((SettingError, DataError), match=words) as caught:
            tune(search(made, **more), tmp_path / "out")
        assert "secret" not in str(caught.value)


def opened(path: Path, trials: int = 3) -> Trials:
    space = {"a": tuple(range(1, trials + 1))}
    return Trials(f"sqlite:///{path / 'l.db'}", "s", space, "grid", trials, 0, "same")


def chosen(asked: list[Any]) -> list[Any]:
    return [one.settings["a"] for one in asked]


def test_two_that_ask_for_one_index_end_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either writes: the later trial gives way."""
    one, two = opened(tmp_path), opened(tmp_path)
    index = two.left()[0]
    first = one.ask(1)
    assert two._ask(index) is None  # its stale look found an index that was taken meanwhile
    second = two.ask(5)
    assert chosen(first + second) == [1, 2, 3]
    for trials, mine in ((one, first), (two, second)):
        for asked in mine:
            assert not one.complete()
            trials.report(asked, [float(asked.settings["a"])], 0.1)
    assert one.complete()
    assert [row["value"] for row in one.finished()] == [1.0, 2.0, 3.0]


def test_many_that_ask_at_once_get_every_trial_once(tmp_path: Path) -> None:
    """SQLite locks no rows; and the tables are made at that moment too."""
    found: list[int] = []
    together = Barrier(4)

    def work() -> None:
        together.wait()
        trials = opened(tmp_path, 12)
        while asked := trials.ask(1):
            found.append(asked[0].index)
            trials.report(asked[0], [0.5], 0.1)
        trials.close()

    workers = [Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert sorted(found) == list(range(12))


def test_who_is_taken_for_dead_before_it_has_its_trial_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(tmp_path)
    made = list[int]()
    create = one._storage.create_new_trial

    def slow(*words: Any) -> int:
        made.append(create(*words))
        if len(made) == 1:
            one._finish(made[0], "FAIL")
        return made[-1]

    monkeypatch.setattr(one._storage, "create_new_trial", slow)
    assert chosen(one.ask(3)) == [1, 2, 3]
    assert len(made) == 4


def test_what_is_interrupted_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while it asks nor while it works; what is done stays so."""
    one = opened(tmp_path)
    one.report(one.ask(1)[0], [0.5], 0.1)
    assert chosen(one.ask(1)) == [2]

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(one, "_taken", stopped)
    with pytest.raises(KeyboardInterrupt), closing(one):
        one._ask(2)
    assert chosen(opened(tmp_path).ask(5)) == [2, 3]


def test_trials_of_the_dead_are_tried_again(tmp_path: Path) -> None:
    """At once those of this machine; of another machine not while its heartbeat is young."""
    one = opened(tmp_path)
    asked = one.ask(3)
    machine, pid, began = one.process.split(":")
    names = (
        f"{machine}:999999999:1",
        f"{machine}:{pid}:1",
        f"elsewhere:{pid}:{began}",
    )  # the second pid is used again
    for trial, process in zip(asked, names, strict=True):
        one._storage.set_trial_user_attr(trial.trial_id, PROCESS, process)
    assert chosen(opened(tmp_path).ask(5)) == [1, 2]


def test_a_trial_without_heartbeats_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes of other machines one dies before its first heartbeat, or only seems to."""
    monkeypatch.setattr("accord.experiments.trials.HEARTBEAT", 0.2)
    alive, dead, other = (opened(tmp_path) for _ in range(3))
    monkeypatch.setattr(alive, "process", "second:1:1")
    monkeypatch.setattr(dead, "process", "third:1:1")
    running, lost = alive.ask(1)[0], dead.ask(1)[0]
    monkeypatch.setattr(other._storage, "grace_period", 4)
    until = time.time() + 60
    with alive.heartbeats():
        while (left := other.left()) == [2] and time.time() < until:
            time.sleep(0.2)
        assert left == [1, 2]
        assert chosen(other.ask(5)) == [2, 3]
    dead.report(lost, [1.0], 0.1)  # dropped
    alive.report(running, [2.0], 0.1)
    assert [row["trial"] for row in other.finished()] == [0]


def test_settings_that_failed_are_done(tmp_path: Path) -> None:
    one = opened(tmp_path)
    asked = one.ask(2)
    one.report_failure(asked[1], "training diverged")
    one.report(asked[0], [0.5], 0.1)
    two = opened(tmp_path)
    assert two.left() == [2]
    assert not two.complete()
    assert two.first_reason() == "training diverged"
    two.report(two.ask(1)[0], [0.5], 0.1)
    assert one.complete()


def test_a_trial_that_is_not_of_the_plan_is_not_waited_for(made: Simulation, tmp_path: Path) -> None:
    """As earlier versions left them, whose process was killed before it had said which one it is at."""
    tuning = search(made)
    found = tune(tuning, tmp_path)
    trials = Trials(
        f"sqlite:///{tmp_path / 'study.db'}",
        "-".join(tuning.row),
        tuning.whole_space(),
        tuning.sampler,
        tuning.trials,
        tuning.seed,
        tuning.identity(),
    )
    trials.study.add_trial(trials.optuna.create_trial(state=trials.optuna.trial.TrialState.RUNNING))
    assert trials.complete()
    trials.close()
    started = time.time()
    assert tune(tuning, tmp_path)["best"] == found["best"]
    assert time.time() - started < 20


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    for storage in (
        "nonsense:me:secret@here",
        "postgresql+psycopg://localhost:1/x?user=me&password=secret",
        "postgresql+psycopg://me:se{cret}secret@localhost:1/x",
    ):
        with pytest.raises(DataError, match="cannot be used") as caught:
            Trials(storage, "s", {"a": (1,)}, "grid", 1, 0, "same")
        assert "secret" not in str(caught.value)


COMMAND = [
    *(sys.executable, "-c", "from accord.cli.main import main; main()", "tune"),
    *("--method", "t-ce", "--trials", "12", "--epochs", "1", "--set", "batch_size=256", "--set", "dims=4"),
    *(
        "--space",
        "drop_rate=0.1",
        "--space",
        "ramp_epochs=10",
        "--space",
        "learning_rate=0.001,0.003,0.01",
        "--space",
        "l2=0.01,0.1,1,10",
        "--seed",
        "5",
    ),
]


def start(log: Path, out: Path, *words: str) -> subprocess.Popen[bytes]:
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, str(log), "--out", str(out), *words],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


def finished(out: Path, storage: str | None = None) -> list[Any]:
    import optuna

    opened = optuna.storages.RDBStorage(storage or f"sqlite:///{out / 'study.db'}")
    study = optuna.load_study(study_name=None, storage=opened)
    trials = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    opened.remove_session()
    opened.engine.dispose()
    return trials


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_a_killed_search_ends_as_if_it_had_not_been(sampler: str, log: Path, tmp_path: Path) -> None:
    whole = start(log, tmp_path / "whole", "--sampler", sampler)
    assert whole.wait(120) == 0
    out = tmp_path / "killed"
    chance = random.Random(sampler)
    for _ in range(2):
        process = start(log, out, "--sampler", sampler)
        deadline = time.time() + 60
        while not (out / "study.db").exists() and time.time() < deadline:
            time.sleep(0.02)
        time.sleep(0.3 + chance.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = start(log, out, "--sampler", sampler)
    assert last.wait(120) == 0
    places = Counter(t.user_attrs[INDEX] for t in finished(out))
    assert places == Counter(range(13))  # the default settings, and twelve
    found = [json.loads((folder / "tune.json").read_text()) for folder in (tmp_path / "whole", out)]
    assert found[0]["best"] == found[1]["best"]
    assert [r["value"] for r in found[0]["rows"]] == [r["value"] for r in found[1]["rows"]]


def postgres() -> Path | None:
    """The folder of PostgreSQL's programs."""
    places = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in places if (p / "initdb").exists() and (p / "pg_ctl").exists()), None)


class Server(str):
    """The address of a server that can be killed and started again."""

    control: Any

    def kill(self) -> None:
        self.control("-m", "immediate", "stop")

    def begin(self) -> None:
        self.control("-w", "start")


@pytest.fixture
def server() -> Any:
    """A PostgreSQL of our own, for a while."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = postgres()
    if programs is None:
        pytest.skip("no PostgreSQL programs here")
    place = Path(tempfile.mkdtemp(prefix="accord-pg-"))  # pytest's own folders are closed to other users
    place.chmod(0o777)
    user: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}  # PostgreSQL refuses to run as root
    port = 20000 + os.getpid() % 20000
    data = place / "data"
    quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **user}
    try:
        subprocess.run([programs / "initdb", "-D", data, "-U", "accord", "-A", "trust"], **quiet)
        options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1"
        running = Server(f"postgresql+psycopg://accord:secret@127.0.0.1:{port}/postgres")
        running.control = lambda *words: subprocess.run(
            [programs / "pg_ctl", "-D", data, "-o", options, *words], **quiet
        )
        running.begin()
    except (subprocess.CalledProcessError, OSError, PermissionError) as error:
        shutil.rmtree(place)
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield running
    running.kill()
    shutil.rmtree(place)


def test_a_server_that_is_killed_and_started_again_in_the_middle_of_a_search(
    server: Server, log: Path, tmp_path: Path
) -> None:
    process = start(log, tmp_path / "out", "--storage", server)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "out").glob("checkpoints")) and time.monotonic() < deadline:
        time.sleep(0.02)
    server.kill()
    time.sleep(1.0)
    server.begin()
    code = process.wait(180)
    if code == 2:  # on a busy machine a connection may break anew; then it said that the same command resumes
        code = start(log, tmp_path / "out", "--storage", server).wait(180)
    assert code == 0
    trials = finished(tmp_path, server)
    assert Counter(t.user_attrs[INDEX] for t in trials) == Counter(range(13))  # the default settings, and twelve
    assert "secret" not in "".join(path.read_text(errors="replace") for path in (tmp_path / "out").glob("*.*"))


def test_a_server_that_stays_away_is_one_sentence_and_the_search_goes_on_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trials_of() -> Trials:
        return Trials(server, "s", {"a": (1, 2)}, "grid", 2, 0, "same")

    monkeypatch.setattr("accord.experiments.trials.AWAY", (0.1,))
    one = trials_of()
    (asked,) = one.ask(1)
    server.kill()
    with pytest.raises(DataError, match="the same command resumes the search once it can be") as caught:
        one.report(asked, [0.5], 1.0)
    assert "secret" not in str(caught.value)
    one.close()
    server.begin()
    other = trials_of()
    assert other.left() == [0, 1] or [t.index for t in other.ask(2)] == [1]  # ours may still count as alive
    one.report(asked, [0.5], 1.0)  # what was computed meanwhile is not lost
    assert [row["value"] for row in other.finished()] == [0.5]
    one.close()
    other.close()


@pytest.mark.parametrize(("right", "wrong"), [("/postgres", "/nosuch"), ("//accord:", "//nobody:")])
def test_a_server_that_does_not_know_the_user_or_the_database(server: Server, right: str, wrong: str) -> None:
    with pytest.raises(DataError, match="does not exist; correct the address") as caught:
        Trials(server.replace(right, wrong), "s", {"a": (1, 2)}, "grid", 2, 0, "same")
    assert "secret" not in str(caught.value)


def test_two_processes_share_a_search_on_postgresql(server: str, log: Path, tmp_path: Path) -> None:
    long = ("--epochs", "100", "--set", "patience=0")  # so that the other, too, begins before all is done
    pair = [start(log, tmp_path / f"p{k}", "--storage", server, *long) for k in range(2)]
    for process in pair:
        assert process.wait(180) == 0
    trials = finished(tmp_path, server)
    assert Counter(t.user_attrs[INDEX] for t in trials) == Counter(range(13))  # the default settings, and twelve
    assert len({t.user_attrs[PROCESS] for t in trials}) == 2
    found = [json.loads((tmp_path / f"p{k}" / "best.json").read_text()) for k in range(2)]
    assert found[0] == found[1]


def test_every_row_of_a_comparison_gets_the_same_budget(made: Simulation, tmp_path: Path) -> None:
    methods = ["popularity", "normal", "deca-p", "oracle"]
    study = Study(ClickTask(made.log(), [made.clicks()]), methods, ["gmf"], seeds=1, settings=QUICK)
    budget = Budget(2)
    tuned = tuned_study(study, tmp_path, budget, lambda row, now: None, lambda trial, seed: None)
    assert set(tuned.tuned) == {"gmf normal", "gmf deca-p"}
    for name in tuned.tuned:
        assert len(json.loads((tmp_path / "tune" / name.replace(" ", "-") / "tune.json").read_text())["rows"]) == 2
    summary = compare(tuned, tmp_path)
    assert summary["search_budget"] == "2 trials of 1 seed(s) for each row, random search"
    cell = json.loads((tmp_path / "cells" / "gmf-deca-p-seed0.json").read_text())
    assert cell["settings"]["c0"] == tuned.tuned["gmf deca-p"]["c0"]
    oracle = json.loads((tmp_path / "cells" / "gmf-oracle-seed0.json").read_text())
    assert oracle["settings"]["l2"] == tuned.tuned["gmf normal"]["l2"]


def test_a_row_of_few_settings_spends_its_budget_on_seeds(made: Simulation, tmp_path: Path) -> None:
    """Two of normal's, three times each, beside six of DeCA's; and the cells say so."""
    few = {"l2": (0.1, 1.0), "c0": (1.0, 10.0, 100.0)}

    class Few(ClickTask):
        def space(self, method: str, model: str = "") -> dict[str, tuple[Any, ...]]:
            return {name: values for name, values in few.items() if name in super(Few, self).space(method, model)}

    study = Study(Few(made.log()), ["normal", "deca"], ["gmf"], seeds=1, settings=QUICK)
    trained: list[tuple[int, int]] = []
    budget = Budget(6)

    def callback(trial: int, seed: int) -> None:
        trained.append((trial, seed))

    tuned = tuned_study(study, tmp_path, budget, lambda row, now: None, callback)
    assert len(trained) == 12
    assert sorted(trained[:6]) == [(trial, seed) for trial in range(2) for seed in range(3)]
    found = json.loads((tmp_path / "tune" / "gmf-normal" / "3-seeds" / "tune.json").read_text())
    assert (found["trials"], found["seeds"]) == (2, 3)
    summary = compare(tuned, tmp_path)
    each = "6 trials of 1 seed(s) for each row, random search"
    assert summary["search_budget"] == f"{each}; rows of few settings with more seeds"
    said = {
        m: json.loads((tmp_path / "cells" / f"gmf-{m}-seed0.json").read_text())["search_budget"]
        for m in study.methods
    }
    assert said == {
        "normal": "2 trials of 3 seed(s) for this row, random search",
        "deca": each,
    }
    shutil.rmtree(tmp_path / "tune")  # finished cells tell what was found, in the same words alone
    again = tuned_study(study, tmp_path, budget, lambda row, now: None, callback, lambda: False)
    assert again.tuned == tuned.tuned
    other = tuned_study(study, tmp_path, Budget(4), lambda row, now: None, callback, lambda: False)
    assert other.tuned == {}
    assert len(trained) == 12


def test_a_cell_found_by_another_search_says_so(made: Simulation, tmp_path: Path) -> None:
    """It is not trained again."""
    tuned = {"gmf normal": {"l2": 0.1}}
    study = Study(ClickTask(made.log()), ["normal"], ["gmf"], seeds=1, settings=QUICK, tuned=tuned)
    cell = tmp_path / "cells" / "gmf-normal-seed0.json"
    compare(replace(study, budget=Budget(2)), tmp_path)
    before = json.loads(cell.read_text())
    assert before["search_budget"] == Budget(2).words()
    compare(replace(study, budget=Budget(3)), tmp_path, lambda *cell: pytest.fail("trained again"))
    assert json.loads(cell.read_text()) == before | {"search_budget": Budget(3).words()}


def test_two_rounds_spend_the_same_budget_on_every_row(made: Simulation, tmp_path: Path) -> None:
    """Common settings first, then a method's own at the best of them, or further common ones."""
    study = Study(ClickTask(made.log()), ["normal", "t-ce", "deca-p"], ["gmf"], settings=QUICK)
    budget = Budget(9, sampler="rounds")
    seen: list[list[str]] = []
    tuned = tuned_study(
        study,
        tmp_path,
        budget,
        lambda row, now: None,
        lambda trial, seed: None,
        after=lambda s: seen.append(sorted(s.tuned)),
    )
    assert [len(rows) for rows in seen] == [1, 2, 3]  # the rows found so far
    assert tuned.budget == budget
    for method in study.methods:
        rounds = [
            json.loads((tmp_path / "tune" / f"gmf-{method}" / r / "tune.json").read_text())
            for r in ("common", "own-6")
        ]
        assert [r["trials"] for r in rounds] == [3, 6]
        best = rounds[1] if method == "deca-p" else max(rounds, key=lambda r: r["value"])
        chosen = tuned.tuned[f"gmf {method}"]
        assert best["best"].items() <= chosen.items()
        assert set(rounds[0]["space"]) == {"learning_rate", "l2"}
        own = {"normal": set(), "t-ce": {"drop_rate", "ramp_epochs"}, "deca-p": {"c0", "c1", "alpha"}}[method]
        further = {"learning_rate", "l2"} if method == "normal" else set()  # the others have enough of their own
        assert set(rounds[1]["space"]) == own | further
        assert rounds[0]["method"] == ("normal" if method == "deca-p" else method)
        if method == "deca-p":  # its own settings are tried at the common ones that suit its prior best
            assert rounds[0]["best"].items() <= rounds[1]["fixed"].items()
            assert rounds[0] == json.loads((tmp_path / "tune" / "gmf-normal" / "common" / "tune.json").read_text())
            assert not (tmp_path / "tune" / "gmf-deca-p" / "common" / "study.db").exists()  # not searched twice
    variant = {"deca-p dp": {"method": "deca-p", "sub_tasks": "dp"}}
    alone = tuned_study(
        replace(study, methods=["deca-p", *variant], variants=variant),
        tmp_path / "alone",
        budget,
        lambda row, now: None,
        lambda t, s: None,
    )
    assert alone.tuned["gmf deca-p"] == tuned.tuned["gmf deca-p"]
    begun = [tmp_path / "alone" / "tune" / f"gmf-{name}" / "common" for name in ("deca-p", "deca-p-dp")]
    assert [(place / "study.db").exists() for place in begun] == [True, False]  # rows that begin alike begin once
    assert len({(place / "tune.json").read_text() for place in begun}) == 1


def test_a_variant_waits_for_a_search_of_its_own(made: Simulation, tmp_path: Path) -> None:
    """What was found for the method it changes is not meant for it; an oracle takes normal training's."""
    variants = {"deca dp": {"method": "deca", "sub_tasks": "dp"}}
    methods = ["normal", "deca", "deca dp", "oracle"]
    task = ClickTask(made.log(), [made.truth(), made.clicks()])
    study = Study(task, methods, ["gmf"], 1, settings=QUICK, variants=variants)
    ready: list[list[str]] = []
    tuned_study(
        study,
        tmp_path,
        Budget(3, sampler="rounds"),
        lambda row, now: None,
        lambda trial, seed: None,
        after=lambda now: ready.append([m for m in methods if now.ready(Cell("gmf", m, 0))]),
    )
    assert ready == [["normal", "oracle"], ["normal", "deca", "oracle"], methods]


def test_a_round_that_is_over_is_not_searched_again(made: Simulation, tmp_path: Path) -> None:
    """Its findings are enough, as where the databases of a search have not been kept."""
    study = Study(ClickTask(made.log()), ["t-ce"], ["gmf"], settings=QUICK)
    place, seen = tmp_path / "tune" / "gmf-t-ce", list[int]()

    def searched() -> dict[str, Any]:
        budget = Budget(6, sampler="rounds")
        on_progress = lambda row, now: seen.append(now.trials)  # noqa: E731
        return dict(tuned_study(study, tmp_path, budget, on_progress, lambda trial, seed: None).tuned)

    found = searched()
    assert set(seen) == {2, 4}
    for database in place.rglob("study.db"):
        database.unlink()
    (place / "own-4" / "tune.json").unlink()
    seen.clear()
    assert searched() == found
    assert set(seen) == {4}


@pytest.mark.parametrize("sampler", ["random", "rounds"])
def test_finished_cells_tell_what_their_search_found(made: Simulation, tmp_path: Path, sampler: str) -> None:
    """Where the search is no longer at hand; of another budget, data or settings they tell nothing."""
    methods = ["normal", "t-ce", "deca-p"]
    study = Study(ClickTask(made.log()), methods, ["gmf"], settings=QUICK, seeds=2)

    def found_by_cells(study: Study = study, trials: int = 3, reuse: Path | None = None) -> dict[str, Any]:
        budget = Budget(trials, sampler=sampler)
        none = (lambda row, now: None, lambda trial, seed: None, lambda: False)
        return dict(tuned_study(study, out, budget, *none, reuse=reuse).tuned)

    out = tmp_path / "whole"
    budget = Budget(3, sampler=sampler)
    tuned = tuned_study(study, out, budget, lambda row, now: None, lambda trial, seed: None)
    compare(tuned, out)
    shutil.rmtree(out / "tune")
    (out / "cells" / "gmf-t-ce-seed0.json").unlink()  # one of a row is enough
    assert found_by_cells() == tuned.tuned
    assert found_by_cells(trials=4) == {}
    assert found_by_cells(replace(study, settings={**QUICK, "dims": 8})) == {}
    assert set(found_by_cells(replace(study, methods=["normal"]))) == {"gmf normal"}
    whole, out = out, tmp_path / "other"
    assert found_by_cells() == {}
    assert found_by_cells(reuse=whole) == tuned.tuned


def test_rounds_has_time_with_more_trials_and_are_read_when_time_is_up(made: Simulation, tmp_path: Path) -> None:
    def searched(trials: int, has_time: bool = True, **settings: Any) -> dict[str, Any]:
        study = Study(ClickTask(made.log()), ["t-ce"], ["gmf"], settings=QUICK | settings)
        budget = Budget(trials, sampler="rounds")
        none = (lambda row, now: None, lambda trial, seed: None)
        return dict(tuned_study(study, tmp_path, budget, *none, lambda: has_time).tuned)

    found = searched(3)
    assert searched(3, has_time=False) == found
    assert searched(6, has_time=False) == {}  # not searched yet
    assert searched(3, has_time=False, dims=8) == {}  # found for another study
    assert set(searched(6)) == {"gmf t-ce"}
    assert searched(1) == searched(1, has_time=False) != {}
