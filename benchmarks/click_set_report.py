"""The page of seven click sets: what was run, ranks, gains over normal training with intervals, and cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.evaluation.significance import Difference
from accord.files import write_whole
from click_set_jobs import METHODS_OF, MODELS, NOT_COUNTED, ORACLE, SETS, SOLVED, STUDENT, Asked
from click_set_rows import (
    AHEAD,
    BEHIND,
    JUDGED,
    METRIC,
    NAMES,
    PERHAPS_AHEAD,
    PERHAPS_BEHIND,
    SURE,
    Lead,
    Row,
    Rows,
    against_plain,
    few_seeds,
    judge,
    judged_rows,
    mark,
    plain_against_networks,
    rows_of,
)
from job_pool import Cells

MADE = "<!-- What follows is made by benchmarks/click_sets.py --report; what stands above is kept. -->"
TITLE = "# Seven click sets"


def write_report(cells: Cells, asked: Asked, out: Path) -> None:
    """One page of all sets that have rows, and its figures as JSON; what a person wrote above the mark is kept."""
    out.mkdir(parents=True, exist_ok=True)
    found = {name: rows for name in SETS if (rows := rows_of(cells, asked, name))}
    judge(found)
    lines = [*state(cells, asked, found), HOW_TO_READ, *overview(found), *leads(found), *students(found)]
    lines += unfinished(cells, asked)
    lines += ["## Set by set", "", SET_BY_SET]
    lines += [line for name in found for line in set_page(name, found[name])]
    path = out / "README.md"
    above = path.read_text(encoding="utf-8").partition(MADE)[0] if path.is_file() else f"{TITLE}\n\n"
    page = above + MADE + "\n\n" + "\n".join(lines).rstrip() + "\n"
    write_whole(path, page)
    figures = {name: [figures_of(row) for row in rows.values()] for name, rows in found.items()}
    write_whole(out / "results.json", json.dumps(figures, indent=1) + "\n")


# -- what was run ----------------------------------------------------------------------------------------


def state(cells: Cells, asked: Asked, found: Mapping[str, Rows]) -> list[str]:
    """What is there and what is not, so that nothing on the page looks like more than it is."""
    rows = [row for one in found.values() for row in one.values()]
    tuned = sum(row.stage == "tuned" for row in rows)
    lines = ["## What was run", ""]
    lines += [
        f"**{tuned} of {len(rows)} rows were tuned; all others have default settings.**"
        if tuned
        else f"**Default settings only: none of the {len(rows)} rows was tuned, as no search was run.**",
        "",
    ]
    lines += table(["set", "test users", "rows of networks", "plain models", "council and its students"])
    for name in SETS:
        own = found.get(name, {})
        networks = sum(model in MODELS and method != STUDENT for model, method in own)
        plain = sum(model in (*SOLVED, "popularity") for model, _ in own)
        councils = sum(cells.has(f"{name} {seed} council") for seed in asked.seeds)
        lines.append(
            _line(
                [
                    name,
                    f"{next(iter(own.values())).values.shape[1]:,}" if own else "",
                    _of(networks, len(MODELS) * (len(METHODS_OF) + 1)),
                    _of(plain, len(SOLVED) + 1),
                    _of(councils, len(asked.seeds), " seeds"),
                ]
            )
        )
    where = Counter(row.device for row in rows if row.device)
    lines += ["", "A row of a network has all its seeds, or it is not counted here. "]
    lines[-1] += "Where rows were made: " + ", ".join(f"{device} {count}" for device, count in where.items()) + "."
    return [*lines, ""]


def _of(done: int, whole: int, word: str = "") -> str:
    return f"{done} of {whole}{word}" if done else "not run"


HOW_TO_READ = f"""## How to read it

- NDCG@20 on the clean test, the mean over users and seeds; ± is the standard deviation of seeds. Training and
  noisy validation see all clicks; what is clean decides over the test alone. `benchmarks/click_sets.py` measured it
  and says how.
- Intervals are 95 %, [over seeds and users](../../concepts/intervals.md), of one comparison by itself.
- {AHEAD} ahead of normal training of the same model, {BEHIND} behind, **beyond chance**: p < {SURE:g} after Holm's
  correction over all such comparisons of the counted sets. {PERHAPS_AHEAD} {PERHAPS_BEHIND}: the interval leaves
  zero out, but among so many comparisons that may be chance. No mark: not shown, which does not mean that there
  is none.
- † **oracle**: normal training on the clean clicks alone, which no method can know. These are fewer clicks, so it
  can be behind. Its marks are a family of their own.
- **of the way**: a gain as a share of the oracle's lead. It stands only where the oracle's lead is beyond chance
  and the interval of the gain leaves zero out. "past it": the gain is larger than the oracle's lead.
- KuaiRec is shown and not counted, once it is run: there all clicks teach
  [less than dice](../first-look/README.md).
"""
SET_BY_SET = """Best first. "valid" is the noisy validation; of two networks that answer together, the mean of each
alone. "seconds" are of one seed, trained beside other measurements, several seeds as one stack. They are too long
by an unknown factor and tell the order of size only. Those of the council are of all its members, and a student
needs them before its own. "c": on one thread of a CPU; all others on the GPU.
"""


# -- all sets --------------------------------------------------------------------------------------------


def overview(found: Mapping[str, Rows]) -> list[str]:
    family = sum(name not in NOT_COUNTED for name, _ in judged_rows(found))
    lines = [
        "## Every set and model",
        "",
        f"Gain in NDCG@20 over normal training of the same model; {family} comparisons.",
        "",
    ]
    lines += table(["set", "model", "normal", *(NAMES.get(m, m) for m in JUDGED), NAMES[ORACLE], "settings"])
    for name, rows in found.items():
        for model in MODELS:
            base = rows.get((model, "normal"))
            if base is None:
                continue
            gains = [_gain(rows.get((model, method))) for method in (*JUDGED, ORACLE)]
            lines.append(_line([name, model, number(base.mean), *gains, base.stage]))
    return [*lines, "", *counts(found), ""]


def counts(found: Mapping[str, Rows]) -> list[str]:
    lines = []
    for method in JUDGED:
        own = [row for name, row in judged_rows(found) if row.method == method and name not in NOT_COUNTED]
        ahead = [row for row in own if row.gain is not None and row.gain.difference > 0]
        signs = Counter(row.sign() for row in own)
        if own:
            lines.append(
                f"- {NAMES.get(method, method)}: ahead of normal in {len(ahead)} of {len(own)} counted cells, "
                f"beyond chance in {signs[AHEAD]}; behind beyond chance in {signs[BEHIND]}. Not certain after the "
                f"correction: ahead {signs[PERHAPS_AHEAD]}, behind {signs[PERHAPS_BEHIND]}."
            )
    return lines


def leads(found: Mapping[str, Rows]) -> list[str]:
    """What networks and councils are worth beside models that train in seconds."""
    lines: list[str] = []
    for title, text, head, own in (
        (
            "The best plain model and the best network",
            "The best of EASE, iALS, RP3beta and popularity, less the best of the four networks with normal "
            "training. Noisy validation chose both.",
            ("plain model", "network", "lead of the plain model"),
            plain_against_networks(found),
        ),
        (
            "The council, its students, and the best plain model",
            "The council itself answers with all its members; a student is one network. The best plain model is "
            "chosen by noisy validation.",
            ("row", "best plain", "lead of the row"),
            against_plain(found),
        ),
    ):
        lines += [f"## {title}", "", text, "", *_leads(own, head)] if own else []
    return lines


def _leads(found: Sequence[Lead], head: Sequence[str]) -> list[str]:
    lines = table(["set", *head, "interval", f"p (Holm over {len(found)})"])
    for name, one, other, lead, p in found:
        shown = signed(lead.difference) + mark(lead, p)
        lines.append(_line([name, one, other, shown, interval(lead), chance(p)]))
    return [*lines, ""]


def students(found: Mapping[str, Rows]) -> list[str]:
    """Noisy validation of what learns and of whom it learns from, at the epoch that each keeps."""
    lines: list[str] = []
    for name, rows in found.items():
        for model in MODELS:
            normal, student, council = (
                rows.get(key) for key in ((model, "normal"), (model, STUDENT), ("council", "council"))
            )
            if normal is not None and student is not None and council is not None:
                own = [number(normal.valid), _epochs(normal), number(student.valid), _epochs(student)]
                lines.append(_line([name, model, *own, number(council.valid)]))
    if not lines:
        return []
    head = ["set", "model", "normal", "its epochs", "student", "its epochs", "council"]
    return [
        "## What the students learn",
        "",
        "Noisy validation of normal training at its best epoch, of a student at its last one, and of the council "
        "that it learns from. Epochs: how many were trained, lowest to highest of the seeds. Training ends 30 "
        "epochs after the best one, or at 100 epochs (60 on the larger sets). So 31 means that no epoch was better "
        "than the first.",
        "",
        *table(head),
        *lines,
        "",
    ]


def _epochs(row: Row) -> str:
    low, high = min(row.epochs, default=0), max(row.epochs, default=0)
    return f"{low} to {high}" if low < high else str(low or "")


def unfinished(cells: Cells, asked: Asked) -> list[str]:
    lines = []
    for name in SETS:
        for row, seeds, mean, base in few_seeds(cells, asked, name):
            gain = "" if base is None else number(base)
            lines.append(_line([name, row, str(seeds), number(mean), gain]))
    if not lines:
        return []
    head = ["set", "row", "seeds", METRIC, "normal, same seeds"]
    text = "Not judged and not ranked: these councils are not done for every seed."
    return ["## Councils of fewer seeds", "", text, "", *table(head), *lines, ""]


# -- one set ---------------------------------------------------------------------------------------------


def set_page(name: str, rows: Rows) -> list[str]:
    """All rows of a set, best first."""
    order = sorted(rows.values(), key=lambda row: -row.mean)
    ranked = [row for row in order if row.method != ORACLE]
    ways, tuned = any(row.share is not None for row in order), any(row.stage == "tuned" for row in order)
    lines = [f"### {name}" + (" (not counted)" if name in NOT_COUNTED else ""), ""]
    head = ["rank", "row", *["settings"][:tuned], METRIC, "valid", "gain over normal", "interval", "p (Holm)"]
    lines += table([*head, *["of the way"][:ways], "seconds"])
    for row in order:
        rank = "" if row.method == ORACLE else str(1 + ranked.index(row))
        gain = ["", "", ""]
        if row.gain is not None:
            gain = [signed(row.gain.difference) + row.sign(), interval(row.gain), chance(row.p)]
        spread = float(np.std(row.values.mean(1), ddof=1)) if len(row.values) > 1 else 0.0
        value = number(row.mean) + (f" ± {number(spread)}" if spread > 1e-9 else "")
        seconds = f"{row.seconds:.1f}" + (" c" if row.device.startswith("CPU") else "")
        own = [rank, row.name, *[row.stage][:tuned], value, number(row.valid), *gain]
        lines.append(_line([*own, *[_way(row)][:ways], seconds]))
    found = [f"- {row.name}: {row.settings}" for row in rows.values() if row.stage == "tuned"]
    found += [""] if found else []
    seeds = max(len(row.values) for row in rows.values())
    said = f"{seeds} seeds, {order[0].values.shape[1]:,} test users. A row without ± is the same for every seed."
    return [*lines, "", said, "", *found]


def _way(row: Row) -> str:
    if row.share is None:
        return ""
    return "away from it" if row.share < 0 else "past it" if row.share > 1 else f"{row.share:.0%}"


def figures_of(row: Row) -> dict[str, Any]:
    gain = None if row.gain is None else row.gain._asdict()
    each = row.values.mean(1).tolist()
    names = ("model", "method", "stage", "valid", "seconds", "settings", "share", "epochs", "device")
    own = {name: getattr(row, name) for name in names}
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


def chance(p: float | None) -> str:
    return "" if p is None else "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def number(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))
