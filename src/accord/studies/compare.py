"""Models and methods side by side: every cell a JSON file, so that an interrupted comparison goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from accord import __version__
from accord.data.benchmarks import Benchmark
from accord.data.reading import open_table
from accord.errors import DataError, SettingError, nearest
from accord.estimators import Recommender, make_settings
from accord.estimators.run_folder import read_json, write_json
from accord.methods import METHODS
from accord.studies.materials import Materials, clean_only, with_false_clicks
from accord.studies.significance import holm, paired_bootstrap
from accord.training import Hook

CELLS = "cells"
ORACLE = "oracle"
"""Normal training on the truly clean rows: a reference that uses knowledge no method has."""
NEEDS_NO_MODEL = ("popularity",)


@dataclass(frozen=True)
class Comparison:
    """What to compare: a log, models, methods, seeds, settings, and the truth if it is known."""

    log: Any
    methods: Sequence[str]
    seeds: int = 3
    models: Sequence[str] = ("gmf",)
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of every cell; ``method.name`` sets one method's alone."""
    truths: Sequence[Any] = ()
    """Files with clean test pairs, or with is_noise for each click."""
    columns: dict[str, str | None] = field(default_factory=dict)
    valid: Any = None
    ks: Sequence[int] = (20,)
    known: Any = None
    clean_log: Any = None
    inject: float = 0.0
    """Share of random false clicks added to training alone."""
    protocol: dict[str, Any] = field(default_factory=dict)
    """Written into every cell: protocol, split sizes, and the like."""

    @staticmethod
    def of_benchmark(benchmark: Benchmark, **choices: Any) -> Comparison:
        """A data set of the catalogue under one of its protocols."""
        settings = {"cold_users": benchmark.cold_users} | choices.pop("settings", {})
        return Comparison(
            log=benchmark.train,
            valid=benchmark.valid,
            truths=[benchmark.test],
            known=benchmark.known,
            clean_log=benchmark.clean_train,
            ks=benchmark.ks,
            settings=settings,
            protocol={"data": benchmark.name, "protocol": benchmark.protocol, "sizes": benchmark.sizes},
            **choices,
        )

    def rows(self) -> list[tuple[str, str]]:
        """(model, method) of every row; a method that needs no model stands once."""
        once = [("", method) for method in self.methods if method in NEEDS_NO_MODEL]
        return once + [(m, method) for m in self.models for method in self.methods if method not in NEEDS_NO_MODEL]

    def settings_of(self, model: str, method: str, seed: int) -> dict[str, Any]:
        trained = "normal" if method == ORACLE else method
        chosen: dict[str, Any] = {"model": model or "mf", "method": trained, "seed": seed}
        for name, value in self.settings.items():
            owner, dot, plain = name.rpartition(".")
            if not dot:
                chosen[name] = value
            elif owner == method:
                chosen[plain] = value
        return chosen

    def check(self) -> None:
        """Refuse what cannot be run before anything is trained."""
        if not self.methods or not self.models:
            raise SettingError("No methods were given; for example --methods normal,deca,deca-p.")
        for model, method in self.rows():
            make_settings(self.settings_of(model, method, 0))
        for name in self.settings:
            owner, dot, _ = name.rpartition(".")
            if dot and owner not in METHODS:
                raise SettingError(f"Setting '{name}' is for an unknown method: {nearest(owner, METHODS)}")
        if self.seeds < 1:
            raise SettingError("At least one seed is needed.")
        if not 0 <= self.inject <= 10:
            raise SettingError(f"A share of {self.inject:g} false clicks makes no sense; give for example 0.2.")


Start = Callable[[str, int, int, int], Hook | None]
"""Told (row, seed, number, of) when a cell begins; gives the hook its training reports to."""


def compare(study: Comparison, out: Path, start: Start | None = None) -> dict[str, Any]:
    """Run every cell that is not done yet and summarise."""
    study.check()
    pairs, noise = sort_truths(study.truths)
    (out / CELLS).mkdir(parents=True, exist_ok=True)
    cells = [(model, method, seed) for seed in range(study.seeds) for model, method in study.rows()]
    results = []
    for number, (model, method, seed) in enumerate(cells, 1):
        hook = start(row_name(model, method), seed, number, len(cells)) if start else None
        results.append(_cell(study, model, method, seed, out / CELLS, pairs, noise, hook))
    summary = summarise(results, study)
    if pairs is not None:
        _add_significance(summary, study, out / CELLS)
    write_json(out / "compare.json", summary)
    return summary


def row_name(model: str, method: str) -> str:
    return f"{model} {method}".strip()


def cell_name(model: str, method: str, seed: int) -> str:
    return f"{row_name(model, method)} seed{seed}".replace(" ", "-")


def sort_truths(truths: Sequence[Any]) -> tuple[Any, Any]:
    """(file of clean test pairs, file of clicks with is_noise), told apart by their columns."""
    pairs = noise = None
    for truth in truths:
        table, _ = open_table(truth)
        if "is_noise" in table.column_names:
            noise = truth
        else:
            pairs = truth
    return pairs, noise


def _materials(study: Comparison, method: str, seed: int, noise: Any) -> Materials:
    materials = Materials(study.log, study.valid, study.known, noise)
    if study.inject:
        share = make_settings(study.settings_of(study.models[0], "normal", seed)).valid_share
        materials = with_false_clicks(materials, study.inject, study.columns, seed, share)
        if method == ORACLE:
            return clean_only(materials, None)
    return clean_only(materials, study.clean_log) if method == ORACLE else materials


def _cell(
    study: Comparison, model: str, method: str, seed: int, out: Path, pairs: Any, noise: Any, hook: Hook | None
) -> dict[str, Any]:
    settings = study.settings_of(model, method, seed)
    identity = _identity(study, settings, method)
    path = out / f"{cell_name(model, method, seed)}.json"
    if path.is_file():
        done = read_json(path)
        if done.get("identity") == identity:
            return done
    materials = _materials(study, method, seed, noise)
    columns = study.columns if materials.log is study.log else {}
    rec = Recommender(**settings).fit(
        materials.log,
        valid=materials.valid,
        known=materials.known,
        seen=materials.seen,
        hook=hook,
        **columns,
    )
    result = _measured(rec, study, materials, pairs, path, method)
    result |= {"model": model, "method": method, "seed": seed, "identity": identity}
    draft = path.with_suffix(".tmp")
    write_json(draft, result)
    draft.replace(path)
    return result


def _measured(
    rec: Recommender, study: Comparison, materials: Materials, pairs: Any, path: Path, method: str
) -> dict[str, Any]:
    kept = rec.metrics_["validation"]
    result: dict[str, Any] = {
        "accord": __version__,
        "protocol": study.protocol,
        "uses_knowledge": method == ORACLE,
        "inject": study.inject,
        "settings": rec.settings.model_dump(),
        "selection": _selection(rec),
        "search_budget": "none: the settings as given",
        "validation": kept,
        "seconds": rec.metrics_["train_seconds"],
        "epochs": rec.metrics_["epochs"],
        "metrics": {"valid ndcg@20": list(kept.values())[-1].get("ndcg@20", float("nan"))},
    }
    if pairs is not None:
        ranked = rec.evaluate_users(pairs, k=study.ks)
        parquet.write_table(ranked.table(), path.with_suffix(".parquet"))
        result["ranking"] = ranked.means()
        wanted = ("ndcg", "recall")
        result["metrics"] |= {n: v for n, v in result["ranking"].items() if n.split("@")[0] in wanted}
    if materials.noise is not None and method != ORACLE:
        result["detection"] = rec.evaluate_issues(materials.noise)
        result["metrics"]["noise auc"] = result["detection"]["roc_auc"]
    return result


def _selection(rec: Recommender) -> str:
    if rec.settings.restore == "last":
        return "none, the last epoch"
    return f"best epoch by NDCG@20 on held-out clicks ({rec.notes_['split']})"


def _identity(study: Comparison, settings: dict[str, Any], method: str) -> str:
    """Changes when the settings or the input files do."""
    words = [json.dumps(settings, sort_keys=True, default=str), json.dumps(list(study.ks)), method]
    words += [str(study.inject), json.dumps(study.protocol, sort_keys=True)]
    for source in [study.log, study.valid, *study.truths]:
        if isinstance(source, str | os.PathLike):
            stat = Path(source).stat() if Path(source).exists() else None
            words.append(f"{source}:{stat.st_size if stat else 0}:{stat.st_mtime_ns if stat else 0}")
        elif source is not None:
            words.append(f"table of {len(source)}")
    return hashlib.blake2b("\n".join(words).encode(), digest_size=12).hexdigest()


def summarise(results: list[dict[str, Any]], study: Comparison) -> dict[str, Any]:
    """Mean and standard deviation over the seeds for each row and metric."""
    if not results:
        raise DataError("Nothing to compare: no methods were given.")
    rows = []
    for model, method in study.rows():
        own = [r for r in results if (r["model"], r["method"]) == (model, method)]
        row: dict[str, Any] = {"model": model, "method": method, "metrics": {}}
        row |= {"seconds": fmean(r["seconds"] for r in own), "uses_knowledge": own[0]["uses_knowledge"]}
        for name in own[0]["metrics"]:
            values = [r["metrics"][name] for r in own]
            row["metrics"][name] = {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}
        if "detection" in own[0]:
            kinds = own[0]["detection"]["by_kind"]
            row["auc_by_kind"] = {k: fmean(r["detection"]["by_kind"][k] for r in own) for k in kinds}
        rows.append(row)
    summary: dict[str, Any] = {
        "models": list(study.models),
        "seeds": study.seeds,
        "selection": results[0]["selection"],
        **study.protocol,
        "rows": rows,
    }
    detected = [r for r in results if "detection" in r]
    if detected:
        summary["popularity_auc_by_kind"] = detected[0]["detection"]["popularity_by_kind"]
    return summary


def _add_significance(summary: dict[str, Any], study: Comparison, cells: Path) -> None:
    """p-value of each row's difference from normal of the same model, Holm-corrected over the table."""
    metric = f"ndcg@{max(study.ks)}"

    def per_user(model: str, method: str) -> np.ndarray:
        files = [cells / f"{cell_name(model, method, seed)}.parquet" for seed in range(study.seeds)]
        return np.stack([np.asarray(parquet.read_table(file, columns=[metric])[metric]) for file in files])

    tested = []
    for row in summary["rows"]:
        base = row["model"] or study.models[0]
        if row["method"] != "normal" and (base, "normal") in study.rows():
            ours, theirs = per_user(row["model"], row["method"]), per_user(base, "normal")
            if ours.shape == theirs.shape:
                tested.append((row, paired_bootstrap(ours, theirs)))
    for (row, p), corrected in zip(tested, holm([p for _, p in tested]), strict=True):
        row["against_normal"] = {"metric": metric, "p": p, "p_holm": corrected}
