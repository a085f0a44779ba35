"""A search for settings by noisy validation alone, with the same budget for every method."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf, isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from accord.errors import AccordError, DataError, LimitError
from accord.estimators.run_folder import write_json
from accord.experiments.budget import ROUNDS, Budget
from accord.experiments.cells import CellFiles, CellStore
from accord.experiments.compare import Wanted, every_row
from accord.experiments.spaces import FIRST_ROUND, SECOND_ROUND, narrowed, second_round, size
from accord.experiments.stored import is_sound, read_stored
from accord.experiments.study import CHECKPOINTS, MOST, ORACLE, Cell, Study, refuse_varied, row_name
from accord.experiments.trials import Asked, Trials
from accord.files import copy_whole, whole_file
from accord.methods import METHODS, Space
from accord.plain import refuse_links
from accord.training import Callback, Checkpoints, clear_checkpoints


@dataclass(frozen=True)
class Tuning:
    """What to search: a study's model and method, a space, and a budget."""

    study: Study
    """Gives the data and trains; its first model and method are tuned."""
    trials: int = 20
    seeds: int = 1
    sampler: str = "random"
    space: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values that replace those of the method's own space."""
    alone: bool = False
    """Whether ``space`` is all that is searched."""
    seed: int = 0
    storage: str | None = None
    """An address of a database; by default a file in the search's folder."""
    default_first: bool = False
    """Whether the default settings are tried first, besides the trials."""

    @property
    def row(self) -> tuple[str, str]:
        return self.study.models[0], self.study.methods[0]

    def whole_space(self) -> Space:
        return (
            dict(self.space) if self.alone else narrowed(self.study.searched(self.row[1], self.row[0]), self.space)
        )

    def identity(self) -> str:
        """What must stay the same for a search to be resumed."""
        first = self.study.identity(Cell(*self.row, 0))
        own: list[Any] = [self.seeds, self.sampler, self.seed]  # without the number of trials, which may grow
        own += ["default first"] * self.default_first
        return json.dumps([first, own, self.whole_space()], default=str)

    def usual_settings(self) -> dict[str, Any]:
        """The default values of what is searched; without those that depend on the model or the method."""
        usual = self.study.task.check_settings(self.settings_of({}, 0))
        each = {name: getattr(usual, name) for name in self.whole_space()}
        return {name: value for name, value in each.items() if value is not None}

    def settings_of(self, chosen: dict[str, Any], seed: int) -> dict[str, Any]:
        return self.study.settings_of(*self.row, seed) | chosen

    def check(self) -> None:
        self.study.check()
        if self.trials < 1 or self.seeds < 1:
            raise DataError("A search needs at least one trial and one seed.")
        if max(self.trials, self.seeds) > MOST:
            raise DataError(f"A search has at most {MOST} trials and {MOST} seeds; give smaller numbers.")
        for name, values in self.whole_space().items():
            refuse_varied(name)
            for value in values:
                self.study.task.check_settings(self.settings_of({name: value}, 0))


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is."""

    done: int
    trials: int
    best: float | None
    settings: dict[str, Any]
    """Of the best so far."""


TUNE, FINDINGS, BEST, TRIALS = "tune", "tune.json", "best.json", "trials.parquet"
COMMON, OWN = "common", "own"
"""Folders of the two rounds."""
SHARED = 4
"""Where others may work on a search, one process asks for at most this part of what is left."""
OnProgress = Callable[[SearchProgress], None]
MakeCallback = Callable[[int, int], Callback | None]
"""Called with (trial, seed) when a training begins; gives its callback."""


def tune(
    tuning: Tuning,
    out: Path,
    on_progress: OnProgress = lambda progress: None,
    callback: MakeCallback = lambda trial, seed: None,
) -> dict[str, Any]:
    """Run the trials that are left and save what was found."""
    tuning.check()
    out.mkdir(parents=True, exist_ok=True)
    refuse_links(out)
    trials = Trials(
        tuning.storage or f"sqlite:///{out / 'study.db'}",
        "-".join(word for word in tuning.row if word),
        tuning.whole_space(),
        tuning.sampler,
        tuning.trials,
        tuning.seed,
        tuning.identity(),
        tuning.default_first,
    )
    together = max(1, tuning.study.validated_at_once() // tuning.seeds)
    with closing(trials), trials.heartbeats():
        _show(trials, on_progress)
        while not trials.complete():
            share = -(-len(trials.left()) // SHARED) if tuning.storage else together
            asked = trials.ask(min(together, max(1, share)))
            if not asked:
                time.sleep(1.0)  # others are at the last trials
                continue
            checkpoints = Checkpoints(out / CHECKPOINTS)
            _work(tuning, trials, asked, callback, checkpoints)
            checkpoints.forget()
            _show(trials, on_progress)
        rows = trials.finished()
        if not rows:
            raise DataError(f"No trial of the search could be trained: {trials.first_reason()}")
        found = write_findings(tuning, rows, out)
    clear_checkpoints(out / CHECKPOINTS)  # what others left there
    return found


def _show(trials: Trials, on_progress: OnProgress) -> None:
    rows = trials.finished()
    best = max(rows, key=lambda row: row["value"], default=None)
    value, settings = (None, {}) if best is None else (best["value"], best["settings"])
    on_progress(SearchProgress(len(rows), trials.count, value, settings))


def _work(
    tuning: Tuning, trials: Trials, asked: Sequence[Asked], callback: MakeCallback, checkpoints: Checkpoints
) -> None:
    started = time.perf_counter()
    jobs = [(one, seed) for one in asked for seed in range(tuning.seeds)]
    settings = [tuning.settings_of(one.settings, seed) for one, seed in jobs]
    callbacks = [callback(one.index, seed) for one, seed in jobs]
    try:
        values = tuning.study.validate(settings, tuning.row[1], callbacks, checkpoints)
    except AccordError as error:
        if isinstance(error, DataError) and not isinstance(error, LimitError):
            raise  # no trial can be trained on such data
        if len(asked) == 1:
            trials.report_failure(asked[0], str(error))
            return
        for one in asked:  # one of them cannot be trained: find out which
            _work(tuning, trials, [one], callback, checkpoints)
        return
    seconds = (time.perf_counter() - started) / len(asked)
    for k, one in enumerate(asked):
        own = values[k * tuning.seeds : (k + 1) * tuning.seeds]
        if all(isfinite(value) for value in own):
            trials.report(one, own, seconds)
        else:
            trials.report_failure(one, "training diverged")


def tuned_study(
    study: Study,
    out: Path,
    budget: Budget,
    on_progress: Callable[[str, SearchProgress], None],
    callback: MakeCallback,
    has_time: Callable[[], bool] = lambda: True,
    after: Callable[[Study], Any] = lambda study: None,
    wanted: Wanted = every_row,
    reuse: Path | None = None,
    stores: Callable[[Path], CellStore] = CellFiles,
) -> Study:
    """A comparison whose every row has been searched with the same budget; rows that learn nothing are not.

    A row with few settings tries each with more seeds.

    Once ``has_time`` says no, rows that are not searched yet leave the comparison. So do rows that are not wanted
    and that no wanted one takes its settings from. After each row ``after`` is given the comparison of the rows
    found so far. Finished searches of the folder ``reuse`` are copied. Where a search is no longer at hand, the
    settings of a finished cell of its row are used. ``stores`` makes the store of a folder.
    """
    done = [stores(folder) for folder in (out, reuse) if folder is not None]
    needed = {
        name for model, method in study.rows() if wanted(model, method) for name in study.found_for(model, method)
    }
    found: dict[str, dict[str, Any]] = {}
    tuned = replace(study, tuned=found, budget=budget, only_tuned=True)  # pyright: ignore[reportArgumentType]
    for model, method in study.rows():
        if method == ORACLE or method in study.follows or not study.searched(method, model):
            continue
        name = row_name(model, method)
        one = replace(study, models=[model], methods=[method])  # pyright: ignore[reportArgumentType]
        own = budget.of(study.searched(method, model))
        where = Path(TUNE, name.replace(" ", "-"), *([] if own is budget else [f"{own.seeds}-seeds"]))
        path = out / where
        earlier = _searched(one, method, own, path, _read_findings)
        if earlier is None and reuse is not None:
            earlier = _searched(one, method, own, reuse / where, _read_findings)
            if earlier is not None:
                _copy_findings(reuse / where, path)
        if earlier is None:
            earlier = _found_by_cells(one, Cell(model, method, 0), budget, done)
        if earlier is not None:
            found[name] = earlier
        if name not in needed or not has_time():
            continue
        if earlier is not None:
            after(tuned)
            continue

        def search(tuning: Tuning, path: Path, name: str = name) -> dict[str, Any]:
            done = _read_findings(tuning, path) or _copy_first_round(tuning, path)
            return done or tune(tuning, path, lambda progress: on_progress(name, progress), callback)

        found[name] = _searched(one, method, own, path, search) or {}
        after(tuned)
    return tuned


Search = Callable[[Tuning, Path], dict[str, Any] | None]
"""Gives the findings of a search in a folder; None where they are only read, and are not all there."""


def _searched(one: Study, method: str, budget: Budget, path: Path, search: Search) -> dict[str, Any] | None:
    """The best settings of a row."""
    if budget.sampler == ROUNDS:
        return _in_rounds(one, method, budget, path, search)
    found = search(Tuning(one, budget.trials, budget.seeds, budget.sampler), path)
    return None if found is None else found["best"]


def _in_rounds(one: Any, method: str, budget: Budget, path: Path, search: Search) -> dict[str, Any] | None:
    """The best of two rounds: the common settings first, then the method's own at the best of those.

    Of a method that begins as another, the first round is of that one: DeCA(p) with constants that are not searched
    yet tells little about the rate and the λ that suit its prior.
    """
    searched: Space = one.searched(method, one.models[0])
    common = {name: values for name, values in FIRST_ROUND.items() if name in searched}
    further = {name: values for name, values in SECOND_ROUND.items() if name in searched}
    own = {name: values for name, values in searched.items() if name not in FIRST_ROUND}
    first = min(size(common), max(1, budget.trials // 3)) if common else 0
    left = budget.trials - first

    def of(one: Any, space: Space, trials: int) -> Tuning:
        return Tuning(one, trials, budget.seeds, "random", space=space, alone=True)

    chosen, value = {}, -inf
    if first:
        begins_as = METHODS.find(one.trained(method)).begins_as or None
        begun = one if begins_as is None else replace(one, methods=[begins_as])
        found = search(of(begun, common, first), path / COMMON)
        if found is None:
            return None
        chosen = found["best"]
        if begins_as is None:  # else the value is not of this method
            value = found["value"]
    if left:
        space = second_round(own, further, left)
        fixed = {name: chosen[name] for name in chosen if name not in space}
        second = of(replace(one, settings={**one.settings, **fixed}), space, left)
        # Another number of trials is another search: it may start from another winner of the first round.
        found = search(second, path / f"{OWN}-{left}")
        if found is None:
            return None
        if found["value"] > value:
            chosen = {**chosen, **found["best"]}  # with the common settings they were tried at
    return chosen


def _read_findings(tuning: Tuning, path: Path) -> dict[str, Any] | None:
    """The findings in a folder, where they are those of a search, brought to its end."""
    found = read_stored(path / FINDINGS, "findings") or {}
    planned = min(tuning.trials, size(tuning.whole_space()))
    is_done = found.get("identity") == tuning.identity() and found.get("planned", 0) >= planned
    return found if is_done else None


def _copy_first_round(tuning: Tuning, path: Path) -> dict[str, Any] | None:
    """The findings of a first round that another row has begun with too."""
    others = sorted(path.parent.parent.glob(f"*/{COMMON}")) if path.name == COMMON else []
    for other in others:
        found = _read_findings(tuning, other)
        if found is not None:
            _copy_findings(other, path)
            return found
    return None


def _found_by_cells(one: Any, first: Cell, budget: Budget, stores: Sequence[CellStore]) -> dict[str, Any] | None:
    """What such a search has found, by the settings of a finished cell of its row.

    The identity of the cell tells which of its settings were found: all that are searched, or the common ones.
    """
    searched = one.searched(first.method, first.model)
    cells = [first._replace(seed=seed) for seed in range(one.seeds)]
    for cell, store in product(cells, stores):
        done = store.read(cell) or {}
        if not is_sound(done, "cell"):
            continue
        if not budget.matches(str(done.get("search_budget", "")), searched):
            continue
        for names in (list(searched), [name for name in searched if name in FIRST_ROUND]):
            found = {name: done["settings"].get(name) for name in names}
            if replace(one, tuned={cell.row: found}).identity(cell) == done.get("identity"):
                return found
    return None


def _copy_findings(source: Path, target: Path) -> None:
    for findings in sorted(source.rglob(FINDINGS)):
        for path in (findings.with_name(TRIALS), findings.with_name(BEST), findings):
            copy_whole(path, target / path.relative_to(source))


def write_findings(tuning: Tuning, rows: list[dict[str, Any]], out: Path) -> dict[str, Any]:
    """The trials as a table, and the winner's settings as JSON."""
    usual = tuning.usual_settings() if tuning.default_first else {}
    rows = [row | {"settings": row["settings"] or usual} for row in rows]
    best = max(rows, key=lambda row: row["value"])  # of equals, the first of the plan
    default = next((row["value"] for row in rows if tuning.default_first and row["trial"] == 0), None)
    model, method = tuning.row
    found = {
        "model": model,
        "method": method,
        "best": best["settings"],
        "value": best["value"],
        "metric": tuning.study.validation_metric,
        "selection": "validation alone",
        "trials": len(rows) - (default is not None),
        "planned": tuning.trials,
        "identity": tuning.identity(),
        "seeds": tuning.seeds,
        "sampler": tuning.sampler,
        "space": {name: list(values) for name, values in tuning.whole_space().items()},
        "fixed": {k: v for k, v in tuning.study.settings.items() if k not in best["settings"]},
        "rows": rows,
        **({} if default is None else {"default": default}),
    }
    names = list(tuning.whole_space())
    table = {"trial": [r["trial"] for r in rows], **{n: [r["settings"].get(n) for r in rows] for n in names}}
    table |= {"value": [r["value"] for r in rows], "seconds": [r["seconds"] for r in rows]}
    with whole_file(out / TRIALS) as draft:
        parquet.write_table(pa.table(table), draft)
    write_json(out / BEST, best["settings"])
    write_json(out / FINDINGS, found)
    return found


def fit_line(found: dict[str, Any], data: str, given: Sequence[str] = ()) -> str:
    """The command that trains the winner; ``given`` are further words, such as of columns."""
    chosen = {**found["fixed"], **found["best"]}
    words = ["accord", "fit", data, "--out", "run", *(["--model", found["model"]] if found["model"] else [])]
    words += ["--method", found["method"], *given]
    for name, value in chosen.items():
        words += [] if name == "device" else ["--set", f"{name}={plain(value)}"]
    return shlex.join(words)


def plain(value: Any) -> str:
    """A value as a person would type it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
