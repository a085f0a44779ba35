"""Click logs on which councils are measured: what is fitted, what is tested by, and what is known of the noise."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.data.clicks import load_clicks
from accord.data.datasets.benchmarks import Benchmark, load_benchmark
from accord.data.datasets.catalogue import find_data_set
from accord.data.ids import pc
from accord.data.reading import read_table
from accord.data.simulator import SimulatorSettings, simulate
from accord.data.splits import three_way
from accord.experiments.study import Study
from accord.tasks.clicks import ClickTask

INJECTED = 0.3
"""Random clicks that are added, as a share of the training clicks."""
TINY_USERS = 80
RESULTS = Path(__file__).parent.parent / "docs" / "results"
DATA = {"movielens": "movielens-100k", "modcloth": "modcloth", "adressa": "adressa"}


@dataclass
class Log:
    """What a job is given."""

    source: dict[str, Any]
    """Keywords of `fit`."""
    test: Any
    """Clean pairs: they decide nothing."""
    noise: dict[str, Any] = field(default_factory=dict)
    """By name, tables of clicks with is_noise, to judge by and nothing else."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of every estimator on it."""


def log_of(name: str, seed: int, root: Path, tiny: bool) -> Log:
    """A log by name: simulator, random or liked (of MovieLens), or a data set under the fair protocol."""
    if name == "simulator":
        small: dict[str, Any] = {"users": 300, "items": 250, "interactions": 5000} if tiny else {}
        made = simulate(SimulatorSettings(seed=seed, **small))
        return Log({"log": made.log()}, made.truth(), {"noise": made.clicks()})
    if name == "liked":
        return _liked(root, tiny)
    benchmark = benchmark_of(DATA.get(name, DATA["movielens"]), root, tiny)
    task = ClickTask.of_benchmark(benchmark, inject=INJECTED if name == "random" else 0.0)
    study = Study(task, ["normal"], ["gmf"])
    settings = task.check_settings(study.settings_of("gmf", "normal", seed))
    data = task.cell_data("normal", seed, settings, {})
    noise = {} if data.noise is None else {"random": data.noise}
    if benchmark.ratings is not None and name != "random":
        rating = np.asarray(benchmark.ratings["rating"])
        noise["disliked"] = _judged(benchmark.ratings, rating <= 2).filter(pa.array(rating != 3))
    fixed = {"updates": "dense", "cold_users": benchmark.cold_users}  # as in the fair study
    return Log(dict(data.sources[0]), benchmark.test, noise, fixed)


def _judged(table: pa.Table, is_noise: np.ndarray) -> pa.Table:
    return table.select(["user", "item"]).append_column("is_noise", pa.array(is_noise))


def benchmark_of(name: str, root: Path, tiny: bool) -> Benchmark:
    """A data set of the catalogue under the fair protocol, or the clicks of some of its users."""
    whole = load_benchmark(find_data_set(name), "fair", root)
    if not tiny:
        return whole
    users = pc.unique(whole.train["user"])[:TINY_USERS]
    tables = {
        one: table.filter(pc.is_in(table["user"], users))
        for one in ("train", "valid", "test", "known", "clean_train", "ratings")
        if (table := getattr(whole, one)) is not None
    }
    return replace(whole, **tables)


def _liked(root: Path, tiny: bool) -> Log:
    """Likes alone, each user's by time 8:1:1: no noise that ratings tell of."""
    table, _ = read_table(find_data_set(DATA["movielens"]).require(root) / "ml-100k.inter")
    table = table.filter(
        pc.greater_equal(table["rating"].cast(pa.float64()), find_data_set(DATA["movielens"]).liked_from)
    )
    if tiny:
        table = table.filter(pc.is_in(table["user_id"], pc.unique(table["user_id"])[:TINY_USERS]))
    clicks = load_clicks(table)
    train, valid, test = (one.to_table() for one in three_way(clicks, (0.1, 0.1), seed=0, by="time"))
    fixed = {"updates": "dense"}
    return Log({"log": train, "valid": valid, "known": clicks.to_table()}, test, {}, fixed)


def searched_before(data: str, model: str, method: str) -> dict[str, Any]:
    """The learning rate and λ that the fair study found for a row by noisy validation."""
    rows = parquet.read_table(RESULTS / f"recommend-{data}" / "cells.parquet").to_pylist()
    own = next(r for r in rows if (r["part"], r["model"], r["method"]) == ("fair", model, method))
    settings = json.loads(own["settings"])
    return {name: settings[name] for name in ("learning_rate", "l2")}
