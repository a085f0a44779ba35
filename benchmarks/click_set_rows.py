"""Rows of the study of seven click sets, read from their cells, and what is judged of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accord.evaluation.significance import Difference, difference, holm
from click_set_jobs import (
    METHODS_OF,
    MODELS,
    NOT_COUNTED,
    ORACLE,
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
PERHAPS_AHEAD, PERHAPS_BEHIND = "△", "▽"
"""By its own interval, and no longer after the correction."""


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
    epochs: list[int] = field(default_factory=list)
    """Of every seed: how many were trained, which is more than how many were kept."""
    device: str = ""
    gain: Difference | None = None
    p: float | None = None
    """Of the gain, Holm-corrected over its family."""
    share: float | None = None
    """Of the way from normal to the oracle, where both the way and the gain are more than chance."""

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def name(self) -> str:
        words = [self.model, NAMES.get(self.method, self.method)]
        return " ".join(words[: 1 if self.model in (*SOLVED, "popularity", "council") else 2])

    def sign(self) -> str:
        return "" if self.gain is None or self.p is None else mark(self.gain, self.p)


def mark(one: Difference, p: float) -> str:
    """What chance makes of a difference: by p, which is corrected, or by its interval, which is not."""
    signs = (AHEAD, BEHIND) if p < SURE else (PERHAPS_AHEAD, PERHAPS_BEHIND) if is_clear(one) else ("", "")
    return signs[one.difference < 0]


def is_clear(one: Difference) -> bool:
    """Whether its interval leaves zero out."""
    return one.low > 0 or one.high < 0


Rows = dict[tuple[str, str], Row]
Lead = tuple[str, str, str, Difference, float]
"""A set, who is compared, with whom, how far the first is ahead, and p, Holm-corrected over its family."""


# -- rows ------------------------------------------------------------------------------------------------


def rows_of(cells: Cells, asked: Asked, name: str) -> Rows:
    """Every row of a set: tuned where it is and no method of its model has a row with default settings alone,
    otherwise with default settings."""
    rows: Rows = {}
    for model in MODELS:
        of = {s: {m for m in METHODS_OF if _has(cells, asked, name, model, m, s)} for s in ("tuned", "default")}
        tuned = "normal" in of["tuned"] and of["default"] <= of["tuned"]
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


def _has(cells: Cells, asked: Asked, name: str, model: str, method: str, stage: str) -> bool:
    return cells.has(row_of(name, model, method, stage, asked.seeds))


def _row(cells: Cells, asked: Asked, name: str, model: str, method: str, stage: str) -> Row | None:
    for seeds in (asked.seeds, (0,)):
        cell = row_of(name, model, method, stage, seeds)
        if cells.has(cell):
            own = cells.read(cell)
            values = np.repeat(own.arrays[METRIC], len(asked.seeds) if len(seeds) == 1 else 1, axis=0)
            seconds = own.figures["wall"] / len(own.figures["seeds"])
            row = Row(model, method, stage, values, _mean(own.figures["valid"]), seconds)
            return _detailed(row, [own.figures])
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
    valid = _mean(v for one in own for v in one["valid"])
    return _detailed(Row(model, STUDENT, stage, values, valid, seconds), own)


def _council(cells: Cells, asked: Asked, name: str) -> Row | None:
    each = _every_seed(cells, asked, name, "council")
    if not each:
        return None
    values = np.concatenate([one.arrays[METRIC] for one in each])
    seconds = float(np.mean([one.figures["wall"] for one in each]))
    valid = _mean(one.figures["valid"][0] for one in each)
    row = _detailed(Row("council", "council", "default", values, valid, seconds), [one.figures for one in each])
    row.epochs = []  # it is not trained
    return row


def _detailed(row: Row, own: Sequence[Mapping[str, Any]]) -> Row:
    row.settings = own[0].get("settings", {})
    row.epochs = [count for one in own for count in one.get("epochs", [])]
    row.device = own[0].get("machine", {}).get("device", "")
    return row


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
    for family in (JUDGED, (ORACLE,)):
        counted = [row for name, row in judged_rows(found, family) if name not in NOT_COUNTED]
        for row, p in zip(counted, holm([row.gain.p for row in counted if row.gain is not None]), strict=True):
            row.p = p
    for rows in found.values():
        for (model, method), row in rows.items():
            oracle = rows.get((model, ORACLE))
            if method in JUDGED and oracle is not None:
                row.share = share_of_way(row, oracle)


def judged_rows(found: Mapping[str, Rows], methods: Sequence[str] = JUDGED) -> Iterator[tuple[str, Row]]:
    for name, rows in found.items():
        for (_, method), row in rows.items():
            if method in methods and row.gain is not None:
                yield name, row


def compared(one: Row, other: Row) -> Difference | None:
    """Over seeds and users; none where both are the same."""
    return None if np.array_equal(one.values, other.values) else difference(one.values, other.values)


def share_of_way(row: Row, oracle: Row) -> float | None:
    """Of the way from normal to the oracle; none where the oracle's lead or the row's gain may be chance."""
    way, gain = oracle.gain, row.gain
    if way is None or gain is None or oracle.stage != row.stage or oracle.sign() != AHEAD or not is_clear(gain):
        return None
    return gain.difference / way.difference


def against_plain(found: Mapping[str, Rows]) -> list[Lead]:
    """The council and its students, over the best plain model by noisy validation; a family of its own."""
    pairs = []
    for name, rows in found.items():
        best = best_plain(rows)
        if best is not None and name not in NOT_COUNTED:
            asked = [("council", "council"), *((model, STUDENT) for model in MODELS)]
            pairs += [(name, rows[key], best) for key in asked if key in rows]
    return _leads(pairs)


def plain_against_networks(found: Mapping[str, Rows]) -> list[Lead]:
    """The best plain model over the best network that is trained normally, both by noisy validation."""
    pairs = []
    for name, rows in found.items():
        networks = [rows[model, "normal"] for model in MODELS if (model, "normal") in rows]
        best = best_plain(rows)
        if best is not None and len(networks) == len(MODELS) and name not in NOT_COUNTED:
            pairs.append((name, best, max(networks, key=lambda row: row.valid)))
    return _leads(pairs)


def best_plain(rows: Rows) -> Row | None:
    """Of popularity and the solved models, by noisy validation; none unless all of them are there."""
    plain = [rows[model, "normal"] for model in (*SOLVED, "popularity") if (model, "normal") in rows]
    return max(plain, key=lambda row: row.valid) if len(plain) > len(SOLVED) else None


def _leads(pairs: Sequence[tuple[str, Row, Row]]) -> list[Lead]:
    found = [
        (name, one.name, other.name, lead)
        for name, one, other in pairs
        if (lead := compared(one, other)) is not None
    ]
    return [(*lead, p) for lead, p in zip(found, holm([lead[-1].p for lead in found]), strict=True)]


def few_seeds(cells: Cells, asked: Asked, name: str) -> list[tuple[str, int, float, float | None]]:
    """Of a set whose councils are not done for every seed: a row, of how many seeds, its NDCG@20, and normal's."""
    done = [k for k, seed in enumerate(asked.seeds) if cells.has(f"{name} {seed} council")]
    if not done or len(done) == len(asked.seeds):
        return []
    each = [cells.read(f"{name} {asked.seeds[k]} council").arrays for k in done]
    found: list[tuple[str, int, float, float | None]] = [
        ("council", len(done), float(np.mean([one[METRIC] for one in each])), None)
    ]
    for model in MODELS:
        normal = _row(cells, asked, name, model, "normal", "default")
        if all(f"student {model}" in one for one in each):
            mean = float(np.mean([one[f"student {model}"] for one in each]))
            base = None if normal is None else float(normal.values[done].mean())
            found.append((f"{model} {NAMES[STUDENT]}", len(done), mean, base))
    return found
