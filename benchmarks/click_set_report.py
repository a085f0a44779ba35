"""The page of seven click sets: ranks, gains over tuned normal training with intervals, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accord.evaluation.significance import Difference, difference, holm
from accord.files import write_whole
from click_set_jobs import (
    METHODS_OF,
    MODELS,
    NOT_COUNTED,
    ORACLE,
    SETS,
    SOLVED,
    STUDENT,
    Asked,
    row_of,
)
from job_pool import Cell, Cells

METRIC, SURE = "ndcg@20", 0.05
NAMES = {"t-ce": "T-CE", "deca-p": "DeCA(p)", STUDENT: "council's student", ORACLE: "oracle †"}
JUDGED = ("ensemble", "t-ce", "deca-p", STUDENT)
"""Compared with normal training of the same model."""
AHEAD, BEHIND = "▲", "▼"


@dataclass
class Row:
    """A model and a method on a set: NDCG@20 of every seed and user."""

    model: str
    method: str
    stage: str
    values: np.ndarray
    valid: float
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    gain: Difference | None = None
    p: float | None = None
    """Of the gain, Holm-corrected over its family."""
    share: float | None = None
    """Of the way from normal to the oracle."""

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def name(self) -> str:
        words = [self.model, NAMES.get(self.method, self.method)]
        return " ".join(words[: 1 if self.model in (*SOLVED, "popularity", "council") else 2])

    def sign(self) -> str:
        if self.gain is None or self.p is None or self.p >= SURE:
            return ""
        return AHEAD if self.gain.difference > 0 else BEHIND


Rows = dict[tuple[str, str], Row]
Leads = dict[tuple[str, str], tuple[str, Difference, float]]
"""Of a set and a model: the best solved model, how far the student is ahead of it, and the p of that."""


def write_report(cells: Cells, asked: Asked, out: Path) -> None:
    """One page of all sets that have rows, and its figures as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    found = {name: rows for name in SETS if (rows := rows_of(cells, asked, name))}
    judge(found)
    plain = against_plain(found)
    page = "\n".join(
        [HEAD, *overview(found, plain), *(line for name in found for line in set_page(name, found[name]))]
    )
    write_whole(out / "README.md", page.rstrip() + "\n")
    figures = {name: [figures_of(row) for row in rows.values()] for name, rows in found.items()}
    write_whole(out / "results.json", json.dumps(figures, indent=1) + "\n")
    print(page)


# -- rows ------------------------------------------------------------------------------------------------


def rows_of(cells: Cells, asked: Asked, name: str) -> Rows:
    """Every row of a set: tuned where it and normal of its model are, otherwise with default settings."""
    rows: Rows = {}
    for model in MODELS:
        tuned = cells.has(row_of(name, model, "normal", "tuned", asked.seeds))
        for method in (*METHODS_OF, ORACLE, STUDENT):
            for stage in ("tuned", "default") if tuned else ("default",):
                row = _student(cells, asked, name, model, stage) if method == STUDENT else None
                row = row or _row(cells, asked, name, model, method, stage)
                if row is not None:
                    rows[model, method] = row
                    break
    for model in (*SOLVED, "popularity"):
        row = _row(cells, asked, name, model, "normal", "tuned") or _row(
            cells, asked, name, model, "normal", "default"
        )
        if row is not None:
            rows[model, "normal"] = row
    served = _council(cells, asked, name)
    if served is not None:
        rows["council", "council"] = served
    return rows


def _row(cells: Cells, asked: Asked, name: str, model: str, method: str, stage: str) -> Row | None:
    for seeds in (asked.seeds, (0,)):
        cell = row_of(name, model, method, stage, seeds)
        if cells.has(cell):
            own = cells.read(cell)
            values = np.repeat(own.arrays[METRIC], len(asked.seeds) if len(seeds) == 1 else 1, axis=0)
            seconds = own.figures["wall"] / len(own.figures["seeds"])
            return Row(model, method, stage, values, _mean(own.figures["valid"]), seconds, own.figures["settings"])
    return None


def _every_seed(cells: Cells, asked: Asked, name: str, words: str) -> list[Cell]:
    names = [f"{name} {seed} {words}" for seed in asked.seeds]
    return [cells.read(one) for one in names] if all(cells.has(one) for one in names) else []


def _student(cells: Cells, asked: Asked, name: str, model: str, stage: str) -> Row | None:
    each = _every_seed(cells, asked, name, "students tuned" if stage == "tuned" else "council")
    if not each or any(model not in one.figures["students"] for one in each):
        return None
    own = [one.figures["students"][model] for one in each]
    values = np.concatenate([one.arrays[f"student {model}"] for one in each])
    seconds = float(np.mean([one["wall"] for one in own]))
    return Row(
        model, STUDENT, stage, values, _mean(v for one in own for v in one["valid"]), seconds, own[0]["settings"]
    )


def _council(cells: Cells, asked: Asked, name: str) -> Row | None:
    each = _every_seed(cells, asked, name, "council")
    if not each:
        return None
    values = np.concatenate([one.arrays[METRIC] for one in each])
    seconds = float(np.mean([one.figures["wall"] for one in each]))
    return Row("council", "council", "default", values, _mean(one.figures["valid"][0] for one in each), seconds)


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


# -- what is judged --------------------------------------------------------------------------------------


def judge(found: Mapping[str, Rows]) -> None:
    """Gains over normal training of the same model, one family of the counted sets; shares of the way."""
    for rows in found.values():
        for (model, method), row in rows.items():
            base = rows.get((model, "normal"))
            alike = base is not None and (row.stage == base.stage or method == STUDENT)
            if base is not None and alike and model in MODELS and method != "normal":
                row.gain = compared(row, base)
        for (model, method), row in rows.items():
            oracle, base = rows.get((model, ORACLE)), rows.get((model, "normal"))
            if method in JUDGED and oracle is not None and base is not None:
                row.share = share_of_way(row, base, oracle)
    family = [row for name, row in _judged(found) if name not in NOT_COUNTED]
    for row, p in zip(family, holm([row.gain.p for row in family if row.gain is not None]), strict=True):
        row.p = p
    for name, row in _judged(found):
        if name in NOT_COUNTED and row.gain is not None:
            row.p = None


def _judged(found: Mapping[str, Rows]) -> Iterator[tuple[str, Row]]:
    for name, rows in found.items():
        for (_, method), row in rows.items():
            if method in JUDGED and row.gain is not None:
                yield name, row


def compared(one: Row, other: Row) -> Difference | None:
    """Over seeds and users; none where both are the same."""
    return None if np.array_equal(one.values, other.values) else difference(one.values, other.values)


def share_of_way(row: Row, base: Row, oracle: Row) -> float | None:
    """Of the way from normal to the oracle; none where the oracle is not ahead beyond chance, uncorrected."""
    way = compared(oracle, base) if oracle.stage == base.stage else None
    return None if way is None or way.low <= 0 else (row.mean - base.mean) / way.difference


def against_plain(found: Mapping[str, Rows]) -> Leads:
    """Over the best solved model by noisy validation; a family of its own."""
    leads: dict[tuple[str, str], tuple[str, Difference]] = {}
    for name, rows in found.items():
        plain = [rows[model, "normal"] for model in (*SOLVED, "popularity") if (model, "normal") in rows]
        if name in NOT_COUNTED or len(plain) < len(SOLVED) + 1:
            continue
        best = max(plain, key=lambda row: row.valid)
        for model in MODELS:
            row = rows.get((model, STUDENT))
            lead = None if row is None else compared(row, best)
            if lead is not None:
                leads[name, model] = best.model, lead
    corrected = holm([lead.p for _, lead in leads.values()])
    return {key: (*own, p) for (key, own), p in zip(leads.items(), corrected, strict=True)}


# -- the page --------------------------------------------------------------------------------------------

HEAD = f"""# Seven click sets

`benchmarks/click_sets.py` measured it; its head says how rows are tuned. NDCG@20 on the clean test, the mean
over users and seeds. Training, noisy validation and every search see all clicks; what is clean decides over the
test alone. Intervals are [over seeds and users](../../concepts/intervals.md).

- {AHEAD} ahead of normal training of the same model, {BEHIND} behind, beyond chance: p < {SURE:g}, Holm-corrected
  over all such comparisons of the counted sets. No mark: within chance.
- **of the way**: the share of the way from normal training to the oracle. Nothing stands there where the oracle
  itself is not ahead of normal training: then there is no way to speak of.
- **settings**: tuned, or as they are by default where the search was not run. A student with default settings is
  compared with tuned normal training too, where that is there.
- † knows what no method knows. KuaiRec is shown and not counted: there all clicks teach
  [less than dice](../first-look/README.md).
"""


def overview(found: Mapping[str, Rows], plain: Leads) -> list[str]:
    lines = ["## Every set and model", "", "Gain over normal training of the same model.", ""]
    lines += table(["set", "model", "normal", *(NAMES.get(m, m) for m in JUDGED), NAMES[ORACLE], "rows"])
    for name, rows in found.items():
        for model in MODELS:
            base = rows.get((model, "normal"))
            if base is None:
                continue
            gains = [_gain(rows.get((model, method))) for method in (*JUDGED, ORACLE)]
            lines.append(_line([name, model, number(base.mean), *gains, base.stage]))
    lines += ["", *counts(found), ""]
    if plain:
        lines += ["## The council's student and the best plain model", ""]
        lines += ["The best of EASE, iALS, RP3beta and popularity by noisy validation. A family of its own.", ""]
        lines += table(["set", "model", "best plain", "lead of the student", "interval", "p (Holm)"])
        for (name, model), (best, lead, p) in plain.items():
            lines.append(_line([name, model, best, signed(lead.difference), interval(lead), f"{p:.3f}"]))
    return [*lines, ""]


def counts(found: Mapping[str, Rows]) -> list[str]:
    lines = []
    for method in JUDGED:
        own = [row for name, row in _judged(found) if row.method == method and name not in NOT_COUNTED]
        ahead = [row for row in own if row.gain is not None and row.gain.difference > 0]
        sure = [sum(row.sign() == sign for row in own) for sign in (AHEAD, BEHIND)]
        if own:
            lines.append(
                f"- {NAMES.get(method, method)}: ahead of normal in {len(ahead)} of {len(own)} counted cells, "
                f"beyond chance in {sure[0]}; behind beyond chance in {sure[1]}."
            )
    return lines


def set_page(name: str, rows: Rows) -> list[str]:
    """All rows of a set, best first."""
    order = sorted(rows.values(), key=lambda row: -row.mean)
    ranked = [row for row in order if row.method != ORACLE]
    lines = [f"## {name}" + (" (not counted)" if name in NOT_COUNTED else ""), ""]
    head = ["rank", "row", "settings", METRIC, "valid", "gain over normal", "interval", "of the way", "seconds"]
    lines += table(head)
    for row in order:
        rank = "" if row.method == ORACLE else str(1 + ranked.index(row))
        gain = ["", ""] if row.gain is None else [signed(row.gain.difference) + row.sign(), interval(row.gain)]
        way = "" if row.share is None else f"{row.share:.0%}"
        spread = float(np.std(row.values.mean(1), ddof=1)) if len(row.values) > 1 else 0.0
        value = f"{number(row.mean)} ± {number(spread)}"
        lines.append(_line([rank, row.name, row.stage, value, number(row.valid), *gain, way, f"{row.seconds:.1f}"]))
    found = [f"- {row.name}: {row.settings}" for row in rows.values() if row.stage == "tuned"]
    found += [""] if found else []
    seeds = max(len(row.values) for row in rows.values())
    return [*lines, "", f"{seeds} seeds, {order[0].values.shape[1]:,} test users.", "", *found]


def figures_of(row: Row) -> dict[str, Any]:
    gain = None if row.gain is None else row.gain._asdict()
    each = row.values.mean(1).tolist()
    own = {
        name: getattr(row, name) for name in ("model", "method", "stage", "valid", "seconds", "settings", "share")
    }
    return {**own, METRIC: row.mean, "seeds": each, "against_normal": gain, "p_holm": row.p}


def table(head: Sequence[str]) -> list[str]:
    return [_line(head), f"|{' --- |' * len(head)}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _gain(row: Row | None) -> str:
    if row is None:
        return "not run"
    return "" if row.gain is None else signed(row.gain.difference) + row.sign()


def interval(one: Difference) -> str:
    return f"[{signed(one.low)}, {signed(one.high)}]"


def number(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))
