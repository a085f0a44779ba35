"""Methods side by side on one log: every cell a JSON file, so that an interrupted comparison goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from accord.data.reading import open_table
from accord.errors import DataError, SettingError, nearest
from accord.estimators import Recommender, make_settings
from accord.estimators.run_folder import read_json, write_json
from accord.methods import METHODS
from accord.training import Hook

CELLS = "cells"


@dataclass(frozen=True)
class Comparison:
    """What to compare: a log, methods, seeds, settings, and the truth if it is known."""

    log: Any
    methods: Sequence[str]
    seeds: int = 3
    model: str = "gmf"
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of every cell; ``method.name`` sets one method's alone."""
    truths: Sequence[Any] = ()
    """Files with clean test pairs, or with is_noise for each click."""
    columns: dict[str, str | None] = field(default_factory=dict)
    valid: Any = None
    ks: Sequence[int] = (20,)

    def settings_of(self, method: str, seed: int) -> dict[str, Any]:
        chosen: dict[str, Any] = {"model": self.model, "method": method, "seed": seed}
        for name, value in self.settings.items():
            owner, dot, plain = name.rpartition(".")
            if not dot:
                chosen[name] = value
            elif owner == method:
                chosen[plain] = value
        return chosen

    def check(self) -> None:
        """Refuse what cannot be run before anything is trained."""
        for method in self.methods:
            make_settings(self.settings_of(method, 0))
        for name in self.settings:
            owner, dot, _ = name.rpartition(".")
            if dot and owner not in METHODS:
                raise SettingError(f"Setting '{name}' is for an unknown method: {nearest(owner, METHODS)}")
        if self.seeds < 1:
            raise SettingError("At least one seed is needed.")


Start = Callable[[str, int, int, int], Hook | None]
"""Told (method, seed, number, of) when a cell begins; gives the hook its training reports to."""


def compare(study: Comparison, out: Path, start: Start | None = None) -> dict[str, Any]:
    """Run every cell that is not done yet and summarise."""
    study.check()
    pairs, noise = sort_truths(study.truths)
    (out / CELLS).mkdir(parents=True, exist_ok=True)
    cells = [(method, seed) for seed in range(study.seeds) for method in study.methods]
    results = []
    for number, (method, seed) in enumerate(cells, 1):
        hook = start(method, seed, number, len(cells)) if start else None
        results.append(_cell(study, method, seed, out, pairs, noise, hook))
    summary = summarise(results, study)
    write_json(out / "compare.json", summary)
    return summary


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


def _cell(
    study: Comparison, method: str, seed: int, out: Path, pairs: Any, noise: Any, hook: Hook | None
) -> dict[str, Any]:
    settings = study.settings_of(method, seed)
    identity = _identity(study, settings)
    path = out / CELLS / f"{method}-seed{seed}.json"
    if path.is_file():
        done = read_json(path)
        if done.get("identity") == identity:
            return done
    rec = Recommender(**settings).fit(study.log, valid=study.valid, hook=hook, **study.columns)
    kept = rec.metrics_["validation"]
    result: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "identity": identity,
        "settings": rec.settings.model_dump(),
        "selection": _selection(rec),
        "validation": kept,
        "seconds": rec.metrics_["train_seconds"],
        "epochs": rec.metrics_["epochs"],
    }
    result["metrics"] = {"valid ndcg@20": list(kept.values())[-1].get("ndcg@20", float("nan"))}
    if pairs is not None:
        ranked = rec.evaluate(pairs, k=study.ks)
        result["metrics"] |= {n: v for n, v in ranked.items() if n.split("@")[0] in ("ndcg", "recall")}
        result["ranking"] = ranked
    if noise is not None:
        result["detection"] = rec.evaluate_issues(noise)
        result["metrics"]["noise auc"] = result["detection"]["roc_auc"]
    draft = path.with_suffix(".tmp")
    write_json(draft, result)
    draft.replace(path)
    return result


def _selection(rec: Recommender) -> str:
    if rec.settings.restore == "last":
        return "none, the last epoch"
    return f"best epoch by NDCG@20 on held-out clicks ({rec.notes_['split']})"


def _identity(study: Comparison, settings: dict[str, Any]) -> str:
    """Changes when the settings or the input files do."""
    words = [json.dumps(settings, sort_keys=True, default=str), json.dumps(list(study.ks))]
    for source in [study.log, study.valid, *study.truths]:
        if isinstance(source, str | os.PathLike):
            stat = Path(source).stat() if Path(source).exists() else None
            words.append(f"{source}:{stat.st_size if stat else 0}:{stat.st_mtime_ns if stat else 0}")
        else:
            words.append(str(id(source)) if source is not None else "")
    return hashlib.blake2b("\n".join(words).encode(), digest_size=12).hexdigest()


def summarise(results: list[dict[str, Any]], study: Comparison) -> dict[str, Any]:
    """Mean and standard deviation over the seeds for each method and metric."""
    if not results:
        raise DataError("Nothing to compare: no methods were given.")
    rows = []
    for method in study.methods:
        own = [r for r in results if r["method"] == method]
        row: dict[str, Any] = {"method": method, "metrics": {}, "seconds": fmean(r["seconds"] for r in own)}
        for name in own[0]["metrics"]:
            values = [r["metrics"][name] for r in own]
            row["metrics"][name] = {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}
        if "detection" in own[0]:
            kinds = own[0]["detection"]["by_kind"]
            row["auc_by_kind"] = {k: fmean(r["detection"]["by_kind"][k] for r in own) for k in kinds}
        rows.append(row)
    summary: dict[str, Any] = {
        "model": study.model,
        "seeds": study.seeds,
        "selection": results[0]["selection"],
        "rows": rows,
    }
    if "detection" in results[0]:
        summary["popularity_auc_by_kind"] = results[0]["detection"]["popularity_by_kind"]
    return summary
