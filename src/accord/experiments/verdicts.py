"""What a comparison says in the end: which rows differ from normal beyond chance, and which one to serve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from accord.evaluation.significance import OVER_SEEDS, Difference, difference, holm_by_family, over_seeds
from accord.experiments.cells import CellStore
from accord.methods import METHODS
from accord.tasks.base import Cell

_Rows = dict[tuple[str, str], dict[str, Any]]


class Tested(NamedTuple):
    """What is compared."""

    column: str
    """The metric of each user or example."""
    mean: str
    """What a table calls its mean."""
    units: str
    """Users or examples."""


def add_verdicts(
    summary: dict[str, Any], tested: Tested, store: CellStore, before: Sequence[dict[str, Any]] = ()
) -> None:
    """Each row's difference from normal of the same model, with an interval and a p-value, Holm-corrected.

    A row of no model is compared with normal of the first model. Seeds and users count together. Where metrics of
    each user or example are no longer at hand, such an interval of a summary made ``before``, of this study or of
    one whose cells were copied, stays for rows that have not changed; others are compared over their seeds. Rows
    that are compared over other things are corrected apart.
    """
    seeds, models = summary["seeds"], summary["models"]
    rows, earlier = _by_name(summary), [_by_name(one) for one in before]
    whole = {name for name, row in rows.items() if row["seeds"] == seeds}

    @cache
    def measured(model: str, method: str) -> np.ndarray | None:
        cells = [Cell(model, method, seed) for seed in range(seeds)] if (model, method) in whole else []
        values = [store.values(cell, tested.column) for cell in cells] or [None]
        return None if any(one is None for one in values) else np.stack([one for one in values if one is not None])

    found = dict[tuple[str, str], Difference | None]()
    for name, row in rows.items():
        row.pop("against_normal", None)
        pair = name, (name[0] or models[0], "normal")
        if name == pair[1] or name[1] == "normal":
            continue
        ours, theirs = (measured(*one) for one in pair)
        if ours is not None and theirs is not None:
            alike = ours.shape == theirs.shape and ours.size > 1
            found[name] = difference(ours, theirs, units=tested.units) if alike else None
            continue
        known = [one for one in (_known(rows, own, pair) for own in earlier) if one is not None]
        if known:
            found[name] = known[0]
        elif whole.issuperset(pair):
            own, base = (rows[one]["metrics"].get(tested.mean) for one in pair)
            found[name] = over_seeds(own, base, seeds) if own and base else None
    sure = {name: one for name, one in found.items() if one is not None}
    for (name, one), corrected in zip(sure.items(), holm_by_family(list(sure.values())), strict=True):
        rows[name]["against_normal"] = {"metric": tested.mean, **one._asdict(), "p_holm": corrected}


def _known(rows: _Rows, earlier: _Rows, pair: Sequence[tuple[str, str]]) -> Difference | None:
    """The interval of an earlier summary, where both rows are still of the same cells and users were counted."""
    known = earlier.get(pair[0], {}).get("against_normal", {})
    if "low" not in known or known["over"] == OVER_SEEDS:
        return None
    if not all(one in rows and _alike(rows[one], earlier.get(one)) for one in pair):
        return None
    return Difference(*(known[name] for name in Difference._fields))


def _by_name(summary: dict[str, Any]) -> _Rows:
    return {(row.get("model", ""), row["method"]): row for row in summary["rows"]}


def _alike(row: dict[str, Any], earlier: dict[str, Any] | None) -> bool:
    """Whether a row is of the same cells: to the last digit, no other training gives the same metrics."""
    if earlier is None or row["seeds"] != earlier.get("seeds"):
        return False
    return all(row["metrics"].get(name) == value for name, value in earlier["metrics"].items())


def add_served(summary: dict[str, Any], valid: str, test: str) -> None:
    """The row that noisy validation chooses, of each model and of all, with what the clean test says of it.

    Rows that use knowledge no method has are not to be served, and rows that lack a seed are not compared. Rows
    whose validation is of one network, though several are served, say so.
    """
    for row in summary["rows"]:
        if row["method"] in METHODS and not METHODS.find(row["method"]).validates_served:
            row["validates_part"] = True
    ready = [
        row
        for row in summary["rows"]
        if row["seeds"] == summary["seeds"] and valid in row["metrics"] and not row.get("uses_knowledge")
    ]
    groups = {model: [row for row in ready if row["model"] == model] for model in summary["models"]}
    groups["all"] = ready
    found = []
    for of, rows in groups.items():
        if not rows or (of == "all" and len(rows) == len(groups[summary["models"][0]])):
            continue  # of one model alone the whole is no other choice
        best = max(rows, key=lambda row: row["metrics"][valid]["mean"])
        shown = {name: best["metrics"][name] for name in (valid, test) if name in best["metrics"]}
        found.append({"of": of, "model": best["model"], "method": best["method"], "metrics": shown})
    summary.pop("served", None)
    summary |= {"served": found} if found else {}
