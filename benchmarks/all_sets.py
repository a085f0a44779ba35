"""One page of all sets × methods: rank, gain over normal training with its interval, and cost.

    python benchmarks/all_sets.py [docs/results]

It reads what studies have stored (click-sets/results.json, recommend-*/study.json, images-*/study.json and
council/images.parquet), computes nothing anew but the intervals of the last, and writes all-sets.md beside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pyarrow import parquet

from accord.evaluation.significance import Difference, difference
from accord.files import write_whole
from accord.reproduction.running import OUTCOME, read_outcome
from accord.reproduction.studies import STUDIES
from click_set_jobs import MODELS, ORACLE, STUDENT
from click_set_report import interval, number, signed, table
from click_set_rows import AHEAD, BEHIND, METRIC, NAMES, mark

PAGE = "all-sets.md"
KNOWS = ("mw-net",)
"""Besides the oracle: what uses clean labels."""
HEAD = """# All sets and methods

Every set of every study, on one page, made from their stored results by `benchmarks/all_sets.py`. The pages of the
studies have the rest: settings, seeds, machines, validation, and what was not run.

A cell has the **rank** of a method among all of its line (normal training takes part, † does not), its **gain over
normal training** of the same model, and the 95 % interval of this one comparison. ▲ ahead, ▼ behind, beyond chance:
p < 0.05 after Holm's correction over the family that its study names. △ ▽: the interval alone leaves zero out. No
mark: within chance, which does not mean that there is no difference. † knows clean labels or clicks.

**Cost** is in times of normal training of the same line, median (lowest to highest). Machines were busy and several
runs trained as one stack, so it tells the order of size only.
"""
SHOWN = {
    "deca": "DeCA",
    "wbpr": "WBPR",
    "itlm": "ITLM",
    "mw-net": "MW-Net †",
    "council-served": "council, all members",
}


@dataclass
class Entry:
    """A method in a line."""

    mean: float
    seconds: float = 0.0
    """None known where it is zero."""
    gain: Difference | None = None
    p: float = 1.0


NONE = Entry(0.0)


@dataclass
class Section:
    """Lines that may be compared: {(set, model): {method: entry}}."""

    title: str
    text: str
    lines: dict[tuple[str, str], dict[str, Entry]] = field(default_factory=dict)

    def methods(self) -> list[str]:
        found = dict.fromkeys(method for line in self.lines.values() for method in line)
        return sorted((one for one in found if one != "normal"), key=lambda one: knows(one))


def knows(method: str) -> bool:
    return method in (ORACLE, *KNOWS)


def shown(method: str) -> str:
    return (NAMES | SHOWN).get(method, method)


# -- what is stored ----------------------------------------------------------------------------------------


def click_sets(folder: Path) -> Section:
    text = (
        "Five seeds; intervals over seeds and users; one family of all lines. A line has default settings "
        "or, where it says so, rows that were tuned alike; students have default settings everywhere. A "
        "student's cost is with all members of its council. [The study](click-sets/README.md) says what was "
        "not run, and why the student's two gains are over weak settings; it has the plain models and the "
        "council itself, too."
    )
    section = Section("Clicks, seven sets", text)
    stored = json.loads((folder / "click-sets" / "results.json").read_text(encoding="utf-8"))
    for name, rows in stored.items():
        council = next((row["seconds"] for row in rows if row["model"] == "council"), 0.0)
        stages = {row["model"]: row["stage"] for row in rows if row["method"] == "normal"}
        for row in rows:
            if row["model"] in MODELS and (row["method"] == STUDENT or row["stage"] == stages[row["model"]]):
                model = row["model"] + (", tuned" if stages[row["model"]] == "tuned" else "")
                seconds = row["seconds"] + (council if row["method"] == STUDENT else 0.0)
                entry = _entry(row[METRIC], seconds, row["against_normal"], row["p_holm"])
                section.lines.setdefault((name, model), {})[row["method"]] = entry
    return section


def tuned(folder: Path, beginning: str, parts: Sequence[str] | None, title: str, text: str) -> Section:
    """Of the studies of the paper whose names begin so."""
    section = Section(title, text)
    for name in STUDIES:
        outcome = folder / name / OUTCOME
        if not (name.startswith(beginning) and outcome.is_file()):
            continue
        for part, own in sorted(read_outcome(outcome)["parts"].items()):
            if parts is not None and part not in parts:
                continue
            label = (
                own.get("data", "") if parts is not None else f"{own.get('data', '')}, {part.partition('-')[2]} %"
            )
            for row in own.get("rows", []):
                metric = METRIC if METRIC in row["metrics"] else "accuracy"
                found = row.get("against_normal")
                if row["model"] and metric in row["metrics"]:
                    entry = _entry(
                        row["metrics"][metric]["mean"], row["seconds"], found, (found or {}).get("p_holm")
                    )
                    section.lines.setdefault((label, row["model"]), {})[row["method"]] = entry
    return section


def _entry(mean: float, seconds: float, gain: Mapping[str, Any] | None, p: float | None) -> Entry:
    if gain is None:
        return Entry(mean, seconds)
    values = {name: gain[name] for name in Difference._fields}
    return Entry(mean, seconds, Difference(**values), 1.0 if p is None else p)


def council_images(folder: Path) -> Section:
    text = (
        "Three seeds, five where rounds continue, or as said; intervals over seeds and images, not corrected, so "
        "△ and ▽ alone. Trained on all 50,000 images without tuning, the last epoch kept. The tuned rows above "
        "learn from 40,000: do not compare them with these. With uniform noise no normal training was run in this "
        "way. [The study](council/README.md#images) has the cost, and the council's students on MovieLens-100K "
        "beside tuned normal training, digits and tables."
    )
    section = Section("Images, the council", text)
    rows = parquet.read_table(folder / "council" / "images.parquet").to_pylist()
    for data in dict.fromkeys(row["data"] for row in rows):
        line: dict[str, Entry] = {}
        each: dict[str, np.ndarray] = {}
        for method in dict.fromkeys(row["method"] for row in rows if row["data"] == data):
            own = sorted((row for row in rows if row["data"] == data and row["method"] == method), key=_seed)
            name = method if len(own) > 2 else f"{method}, {len(own)} seeds"
            line[name] = Entry(float(np.mean([row["accuracy"] for row in own])))
            if all(row["right"] for row in own):  # of every test image
                each[name] = np.stack([np.unpackbits(np.frombuffer(row["right"], np.uint8)) for row in own])
        for name, entry in line.items():
            if name != "normal" and name in each and "normal" in each:
                entry.gain = difference(each[name], each["normal"], units="images")
        section.lines[data, "resnet32"] = line
    return section


def _seed(row: Mapping[str, Any]) -> int:
    return row["seed"]


# -- the page ------------------------------------------------------------------------------------------------


def page_of(sections: Iterable[Section]) -> str:
    return "\n".join([HEAD, *(line for one in sections for line in shown_section(one))]).rstrip() + "\n"


def shown_section(section: Section) -> list[str]:
    methods = section.methods()
    lines = [f"## {section.title}", "", section.text, ""]
    lines += table(["set", "model", "normal", *map(shown, methods)])
    for (name, model), line in section.lines.items():
        base = [f"{place(line, 'normal')}. {number(line['normal'].mean)}" if "normal" in line else "not run"]
        lines.append(f"| {' | '.join([name, model, *base, *(cell(line, method) for method in methods)])} |")
    lines += ["", *table(["method", "lines", "median rank", "ahead", AHEAD, BEHIND, "cost"])]
    for method in ("normal", *methods):
        lines.append(summary(section, method))
    return [*lines, ""]


def cell(line: Mapping[str, Entry], method: str) -> str:
    entry = line.get(method)
    if entry is None:
        return "not run"
    rank = f"{place(line, method)}. " if not knows(method) else ""
    if entry.gain is None:
        return rank + number(entry.mean)
    return f"{rank}{signed(entry.gain.difference)}{mark(entry.gain, entry.p)} {interval(entry.gain)}"


def place(line: Mapping[str, Entry], method: str) -> int:
    return 1 + sum(entry.mean > line[method].mean for name, entry in line.items() if not knows(name))


def summary(section: Section, method: str) -> str:
    own = [line for line in section.lines.values() if method in line]
    gains = [(line[method].gain, line[method].p) for line in own]
    marks = [mark(gain, p) for gain, p in gains if gain is not None]
    ahead = sum(gain.difference > 0 for gain, _ in gains if gain is not None)
    rank = "" if knows(method) else f"{median(place(line, method) for line in own):g}"
    costs = [line[method].seconds / line["normal"].seconds for line in own if line.get("normal", NONE).seconds]
    cost = f"{median(costs):.1f} ({min(costs):.1f} to {max(costs):.1f})" if costs and method != "normal" else ""
    counted = ["", "", ""] if not marks else [f"{ahead} of {len(marks)}", *_counts(marks)]
    return f"| {' | '.join([shown(method), str(len(own)), rank, *counted, cost])} |"


def _counts(marks: Sequence[str]) -> list[str]:
    return [str(marks.count(one)) for one in (AHEAD, BEHIND)]


def sections_of(folder: Path) -> Iterator[Section]:
    welch = "Three seeds; intervals over these seeds alone, by Welch's test, which shows large differences only."
    fair = (
        f"{welch} Every row has the same search of 36 trials by noisy validation. T-CE's rows are of an older rule."
    )
    drawn = (
        f"{welch} Accuracy, by the share of labels redrawn. Tuned at 40 % alone. ITLM's rows, but for 40 %, are of "
        "an older rule."
    )
    studies = "[The studies](overview.md)."
    yield click_sets(folder)
    yield tuned(folder, "recommend-", ("fair",), "Clicks, tuned", f"{fair} {studies}")
    yield tuned(folder, "images-", None, "Images, tuned", f"{drawn} {studies}")
    yield council_images(folder)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/results")
    write_whole(folder / PAGE, page_of(sections_of(folder)))
    print(folder / PAGE)


if __name__ == "__main__":
    main()
