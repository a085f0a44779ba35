"""Click logs: a log, its validation clicks, and what is known of the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as parquet

from accord.data.datasets.benchmarks import Benchmark
from accord.data.reading import read_table
from accord.errors import DataError, SettingError
from accord.estimators.log_split import whole_k
from accord.estimators.recommender import Recommender
from accord.estimators.setting_rules import takes_item_bias
from accord.evaluation.ranking import in_words
from accord.files import whole_file
from accord.tasks.base import ORACLE, Cell, CellData, Task
from accord.tasks.cell_data import NEEDS_TRUTH, ClickData, clean_only, with_false_clicks
from accord.training import resolve_device


@dataclass(frozen=True)
class ClickTask(Task):
    """A log, and the truth if it is known."""

    name: ClassVar[str] = "clicks"
    metric: ClassVar[str] = "ndcg@20"
    rules: ClassVar[tuple[str, ...]] = (
        "in validation, as in the test, users without a training click are ranked for by popularity",
        "every machine updates whole tables",
        "no click that is tested by is added as a false one",
    )

    log: Any
    truths: Sequence[Any] = ()
    """Files with clean test pairs, or with is_noise for each click."""
    columns: Mapping[str, str | None] = field(default_factory=dict)
    valid: Any = None
    ks: Sequence[int] = (20,)
    known: Any = None
    """Pairs whose ids the models know, besides those of the log."""
    clean_log: Any = None
    """The truly clean rows, for the oracle alone."""
    inject: float = 0.0
    """Share of random false clicks added to training alone."""
    ratings: Any = None
    """Training pairs with their rating, to judge by and nothing else."""
    test_epochs: bool = False
    """Whether the clean test is measured after every epoch, for measurements of the history."""

    @staticmethod
    def of_benchmark(benchmark: Benchmark, **choices: Any) -> ClickTask:
        """A data set of the catalogue under one of its protocols."""
        return ClickTask(
            log=benchmark.train,
            valid=benchmark.valid,
            truths=[benchmark.test],
            known=benchmark.known,
            clean_log=benchmark.clean_train,
            ks=benchmark.ks,
            ratings=benchmark.ratings,
            protocol={"data": benchmark.name, "protocol": benchmark.protocol, "sizes": benchmark.sizes},
            **choices,
        )

    def estimator_class(self) -> type[Recommender]:
        return Recommender

    def estimator(self, settings: Mapping[str, Any]) -> Any:
        return super().estimator(_taken(settings))

    def check_settings(self, values: dict[str, Any]) -> Any:
        return super().check_settings(_taken(values))

    @cached_property
    def tables(self) -> dict[str, Any]:
        """Every file, read once; tables held in memory as they are."""
        truths = self._truths
        noise = [table for table in truths if "is_noise" in table.column_names]
        pairs = [table for table in truths if "is_noise" not in table.column_names]
        return {
            "log": read_table(self.log)[0],
            "valid": None if self.valid is None else read_table(self.valid)[0],
            "pairs": pairs[-1] if pairs else None,
            "noise": noise[-1] if noise else None,
        }

    @cached_property
    def _truths(self) -> list[Any]:
        return [read_table(truth)[0] for truth in self.truths]

    def check(self, methods: Sequence[str]) -> None:
        for k in self.ks:
            whole_k(k)
        if not 0 <= self.inject <= 10:
            raise SettingError(f"A share of {self.inject:g} false clicks makes no sense; give for example 0.2.")
        noise = self.tables["noise"]
        if ORACLE in methods and self.clean_log is None and noise is None and not self.inject:
            raise DataError(NEEDS_TRUTH)

    def cell_data(self, method: str, seed: int, settings: Any, cache: dict[Any, Any]) -> CellData:
        drawn = (seed, settings.valid_share) if self.inject else ()  # one log for all seeds
        key = (id(self), method == ORACLE, *drawn)
        if key not in cache:
            cache[key] = self, self._drawn(method, seed, settings)
        data: ClickData = cache[key][1]
        columns = dict(self.columns) if data.log is self.tables["log"] else {}
        eval_set = self.tables["pairs"] if self.test_epochs else None
        source = {
            "log": data.log,
            "valid": data.valid,
            "known": data.known,
            "seen": data.seen,
            "eval_set": eval_set,
        }
        return CellData([{**source, **columns}], data.noise)

    def _drawn(self, method: str, seed: int, settings: Any) -> ClickData:
        tables = self.tables
        data = ClickData(tables["log"], tables["valid"], self.known, tables["noise"])
        clean = self.clean_log
        if self.inject:
            spared = [table for table in (self.known, tables["pairs"]) if table is not None]
            data = with_false_clicks(data, self.inject, dict(self.columns), seed, settings.valid_share, spared)
            clean = None
        return clean_only(data, clean) if method == ORACLE else data

    def stack_group(self, cell: Cell) -> Any:
        return id(self), cell.method == ORACLE

    def measured(self, estimators: Sequence[Recommender], data: CellData, cell: Cell, path: Path) -> dict[str, Any]:
        (estimator,) = estimators
        result: dict[str, Any] = {"inject": self.inject, "metrics": {}}
        pairs = self.tables["pairs"]
        if pairs is not None:
            estimator._move(resolve_device(estimator.settings.device))
            ranked = estimator.evaluate_users(pairs, k=self.ks)
            estimator._move("cpu")
            with whole_file(path) as draft:
                parquet.write_table(ranked.table(), draft)
            result["ranking"] = ranked.means()
            result["metrics"] |= shown_of(result["ranking"], max(self.ks))
        if data.noise is not None and cell.method != ORACLE:
            result["detection"] = estimator.evaluate_issues(data.noise)
            result["metrics"]["noise auc"] = result["detection"]["roc_auc"]
        return result

    def selection(self, estimator: Recommender) -> str:
        if estimator.settings.kept_epoch == "last":
            return "none, the last epoch"
        metric = in_words(estimator.settings.metric)
        return f"best epoch by {metric} on held-out clicks ({estimator.notes_['split']})"

    def tested(self) -> str:
        return f"ndcg@{max(self.ks)}"

    def inputs(self) -> list[Any]:
        read = self.tables
        return [read["log"], read["valid"], *self._truths, self.known, self.clean_log, self.ratings]

    def identity_words(self, measurements: Sequence[str]) -> list[str]:
        return [json.dumps(list(self.ks)), str(self.inject), json.dumps(list(measurements))]


def _taken(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of all rows as one model takes them: an item bias holds for the models that can have one or none."""
    wanted = {"true": True, "false": False}.get(str(settings.get("item_bias")).lower())
    if not takes_item_bias(str(settings.get("model")), wanted):
        return {name: value for name, value in settings.items() if name != "item_bias"}
    return dict(settings)


def shown_of(ranking: Mapping[str, Any], k: int) -> dict[str, float]:
    """What a table shows of a ranking: NDCG and recall and, where some users have no training click, that of the
    others."""
    wanted = [n for n in ranking if n.split("@")[0] in ("ndcg", "recall") or n == f"warm ndcg@{k}"]
    return {name: ranking[name] for name in wanted}
