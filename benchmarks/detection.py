"""Wrong labels, found by accord and by cleanlab from the same models: average precision on every labelled set.

    ACCORD_DATA=DIR python benchmarks/detection.py [--only nets tables images] [--images FOLDER] [--seeds 5]
        [--cells FILE] [--minutes 60]
    python benchmarks/detection.py --report

`nets` are the sets DIR/label-errors/*.npz: `given` and `true` labels, and out-of-sample probabilities of several
nets (`benchmarks/predictions.py`). `tables` are digits (all, and a part) and three small tables of scikit-learn,
with uniform, pair and instance-dependent noise. For every seed accord fits a council. Its members of the first
round say something of examples that they never saw; cleanlab is given exactly these probabilities, and so is
accord's judge of predictions. `images` are files FOLDER/*.npz: `probabilities` (examples, classes) of a council's
first round, `given`, `truth`, the `quality` that the council found, and a text of JSON with `data` and `seed`.

cleanlab's default is its score self_confidence, and for several models its ensemble of these, weighted by
accuracy. Its other scores are measured too, and the best of them is chosen by the truth, for each row and measure.
True labels measure only. Every finished cell goes into one file, --cells, and is not made again; no cell is begun
after --minutes. --report prints tables. Intervals of nets are bootstraps over examples. The others are over seeds
and examples; those of precision, and of the difference from cleanlab's best score, are over seeds alone. Holm's
correction is over all differences in average precision from cleanlab's default.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.model_selection import train_test_split

from accord import Classifier, find_label_issues
from accord.data.noise import add_noise
from accord.estimators.council import labels as council_of_labels
from accord.evaluation.significance import Difference, difference, holm
from council_tables import PLAIN_MEMBERS, TABLES
from job_pool import Cell, Cells
from predictions import SCORES, rows_of
from ranked import AP, AT_WRONG, AUC, MEASURES, Ranked, over_examples, ranks, resampled

ARCHIVE = Path(__file__).parents[1] / "docs" / "results" / "detection" / "cells.zip"
KINDS = ("uniform", "pair", "instance")
PART = "digits-part"
"""The 1,257 digits that `benchmarks/council_tables.py` trains on: a table of its own."""
RESAMPLES = 1000
COUNCIL, PREDICTIONS = "accord's council", "council: accord"
"""accord's two ways: a council that is fitted, and what the probabilities of its first round say."""
DEFAULT = "self_confidence"
ENSEMBLE = f"ensemble by accuracy: {DEFAULT}"
ADJUSTED = ("self_confidence", "normalized_margin")
"""cleanlab's scores that it can take from probabilities less their class's mean."""
NAMES = {AUC: "ROC-AUC", AP: "Average precision", AT_WRONG: "Precision at the number of wrong labels"}
SURE = 0.05
Scores = dict[str, np.ndarray]


# -- what is measured --------------------------------------------------------------------------------------


def scores_of(given: np.ndarray, nets: Mapping[str, np.ndarray]) -> Scores:
    """The quality of every label by each of cleanlab's scores and by accord, of each net and of all."""
    from cleanlab.rank import get_label_quality_scores

    exact = {name: normalised(net) for name, net in nets.items()}
    if len(exact) > 1:
        found = {name: quality for name, quality, _ in rows_of(given, exact)}
        exact["mean"] = np.mean(list(exact.values()), 0)
    else:  # nothing to join
        [(name, net)] = exact.items()
        found = {f"{name}: {score}": get_label_quality_scores(given, net, method=score) for score in SCORES}
        found[f"{name}: accord"] = np.asarray(find_label_issues(given, net).sort_by("index")["label_quality"])
    for name, net in exact.items():
        for score in ADJUSTED:
            quality = get_label_quality_scores(given, net, method=score, adjust_pred_probs=True)
            found[f"{name}: {score}, adjusted"] = quality
    return found


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """In double precision, each row with a sum of one."""
    exact = probabilities.astype(np.float64)
    return exact / exact.sum(1, keepdims=True)


def pairs_of(nets: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Of every judge: accord's score, and the one that cleanlab takes by default."""
    alone = {name: (f"{name}: accord", f"{name}: {DEFAULT}") for name in (*nets, "mean")}
    return alone | {"all nets": (PREDICTIONS, ENSEMBLE)}


def rivals_of(ours: str, names: Sequence[str]) -> list[str]:
    """cleanlab's scores of the same probabilities."""
    judge = ours.split(": ")[0]
    of_all = ours in (COUNCIL, PREDICTIONS)
    wanted = ("mean: ", "ensemble by ", "pool: ") if of_all else (f"{judge}: ",)
    return [name for name in names if name.startswith(wanted) and not name.endswith("accord")]


def best_of(rivals: Sequence[str], values: Mapping[str, float]) -> str:
    """The first of those that come highest."""
    return max(rivals, key=lambda name: values[name])


def of_nets(path: Path, resamples: int = RESAMPLES) -> Cell:
    """A file of several nets' probabilities: measures, and bootstraps of differences."""
    started = time.perf_counter()
    with np.load(path) as data:
        given, wrong = data["given"].astype(int), data["given"] != data["true"]
        nets = {name.removeprefix("pred_probs_"): data[name] for name in data if name.startswith("pred_probs_")}
    scores = scores_of(given, nets)
    measures = {name: Ranked(quality, wrong).measures() for name, quality in scores.items()}
    draws = resampled(scores, wrong, resamples=resamples)
    gains: dict[str, dict[str, dict[str, Any]]] = {}
    for judge, (ours, usual) in pairs_of(list(nets)).items():
        gains[judge] = {}
        for k, measure in enumerate(MEASURES):
            best = best_of(rivals_of(ours, list(scores)), {name: one[measure] for name, one in measures.items()})
            gains[judge][measure] = {"best": best} | {
                what: over_examples(
                    measures[ours][measure] - measures[theirs][measure], draws[ours][:, k] - draws[theirs][:, k]
                )
                for what, theirs in (("default", usual), ("rival", best))
            }
    about = {"family": "nets", "data": path.stem, "count": len(wrong), "wrong": int(wrong.sum())}
    about |= {"seconds": round(time.perf_counter() - started, 1), "resamples": resamples, "judges": list(nets)}
    return Cell(about | {"measures": measures, "gains": gains}, {})


def of_table(name: str, kind: str, seed: int, **settings: Any) -> Cell:
    """A council on a table with noise, and what others make of what its members said."""
    read, rate = TABLES["digits" if name == PART else name]
    data: Any = read()
    inputs, truth = np.asarray(data.data, np.float32), np.asarray(data.target)
    if name == PART:
        rows, _ = train_test_split(np.arange(len(truth)), test_size=0.3, stratify=truth, random_state=0)
        inputs, truth = inputs[rows], truth[rows]
    noisy = add_noise(truth, int(truth.max()) + 1, rate, kind=kind, seed=seed, inputs=inputs)
    clf = Classifier(method="council", seed=seed, **settings)
    started = time.perf_counter()
    said = heard(clf, inputs, noisy.labels)
    seconds = time.perf_counter() - started
    nets: Scores = dict(zip(("network", *PLAIN_MEMBERS), np.moveaxis(said, 1, 0), strict=True))
    scores = scores_of(noisy.labels, nets) | {COUNCIL: clf.label_quality_}
    about = {
        "family": "tables",
        "data": f"{name}, {kind}",
        "seed": seed,
        "rate": rate,
        "seconds": round(seconds, 1),
    }
    return seeded(about, scores, noisy.is_noise, (COUNCIL, PREDICTIONS, ENSEMBLE))


def heard(clf: Classifier, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Fit a council: what members of its first round said of examples that they never saw, one array for each."""
    said: list[np.ndarray] = []
    first = council_of_labels.consensus

    def listening(words: np.ndarray, *args: Any, **more: Any) -> Any:
        said.append(words.copy())
        return first(words, *args, **more)

    with mock.patch.object(council_of_labels, "consensus", listening):
        clf.fit(inputs, labels)
    return said[0]


def of_image_file(path: Path) -> Cell:
    """A file of a council on images."""
    about, arrays = image_file(path)
    started = time.perf_counter()
    given, wrong = arrays["given"].astype(int), arrays["given"] != arrays["truth"]
    scores = scores_of(given, {"pool": arrays["probabilities"]}) | {COUNCIL: arrays["quality"]}
    about |= {"family": "images", "seconds": round(time.perf_counter() - started, 1)}
    return seeded(about, scores, wrong, (COUNCIL, "pool: accord", f"pool: {DEFAULT}"))


def image_file(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What it is about, and its arrays. `data` and `seed` are in a text of JSON of any name, or by themselves."""
    with np.load(path) as data:
        every = {name: data[name] for name in data.files}
    about: dict[str, Any] = {}
    for name, array in every.items():
        if array.ndim == 0 and array.dtype.kind == "U" and str(array).startswith("{"):
            about |= json.loads(str(array))
        elif array.ndim == 0:
            about[name] = array.item()
    names = ("probabilities", "given", "truth", "quality")
    missing = [name for name in names if name not in every] + [k for k in ("data", "seed") if k not in about]
    if missing:
        raise SystemExit(
            f"'{path}' has no {' and no '.join(missing)}; it needs arrays {', '.join(names)}, and JSON."
        )
    arrays = {name: every[name] for name in names}
    if len({len(array) for array in arrays.values()}) > 1:
        raise SystemExit(f"The arrays of '{path}' are of different lengths; give one row for each image.")
    return {"data": str(about["data"]), "seed": int(about["seed"])}, arrays


def seeded(about: dict[str, Any], scores: Scores, wrong: np.ndarray, kept: Sequence[str]) -> Cell:
    """A cell of one seed: measures of every score, and the ranks of those that are compared label by label."""
    measures = {name: Ranked(quality, wrong).measures() for name, quality in scores.items()}
    figures = about | {"count": len(wrong), "wrong": int(wrong.sum()), "measures": measures, "kept": list(kept)}
    return Cell(figures, {"wrong": np.packbits(wrong), "ranks": np.stack([ranks(scores[name]) for name in kept])})


# -- one command -------------------------------------------------------------------------------------------


def cells_to_make(asked: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Cell]]]:
    if "nets" in asked.only:
        for path in sorted((asked.data / "label-errors").glob("*.npz")):
            yield f"nets {path.stem}", partial(of_nets, path)
    if "tables" in asked.only:
        for kind in KINDS:
            for name in (*list(TABLES)[:4], PART):
                for seed in range(asked.seeds):
                    yield f"tables {name} {kind} {seed}", partial(of_table, name, kind, seed)
    if "images" in asked.only and asked.images is not None:
        taken: dict[str, Path] = {}
        for path in sorted(asked.images.glob("*.npz")):
            about, _ = image_file(path)
            name = f"images {about['data'].replace('/', '-')} {about['seed']}"
            if name in taken:
                raise SystemExit(f"'{taken[name]}' and '{path}' are of the same data and seed; leave one of them.")
            taken[name] = path
            yield name, partial(of_image_file, path)


def make(asked: argparse.Namespace) -> None:
    """Make the cells that are missing; the file is whole after each."""
    started = time.monotonic()
    asked.cells.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        cells = Cells(Path(folder))
        cells.unpack(asked.cells)
        for name, work in cells_to_make(asked):
            if cells.has(name):
                continue
            if time.monotonic() - started > 60 * asked.minutes:
                print(f"{name}: no time left, not made", flush=True)
                continue
            cell = work()
            cells.write(name, cell)
            cells.pack(archive=asked.cells)
            print(f"{name}: {cell.figures['seconds']} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["nets", "tables", "images"], help="nets, tables, images")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ACCORD_DATA", "data")))
    parser.add_argument("--images", type=Path, help="a folder of files of councils on images")
    parser.add_argument("--seeds", type=int, default=5, help="of every table")
    parser.add_argument("--cells", type=Path, default=ARCHIVE)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, of a network that cleanlab asks for nothing
    if asked.report:
        print(report(read_cells(asked.cells)))
    else:
        make(asked)


# -- the report --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """accord beside cleanlab: on one set, by one judge."""

    family: str
    data: str
    judge: str
    ours: Mapping[str, float]
    theirs: Mapping[str, float]
    gains: Mapping[str, Difference]
    """Of each measure that has an interval, over cleanlab's default."""
    best: Mapping[str, tuple[str, float, Difference]]
    """Of each measure: cleanlab's best score by the truth, its value, and how far accord is ahead of it."""


def read_cells(path: Path) -> dict[str, Cell]:
    with tempfile.TemporaryDirectory() as folder:
        cells = Cells(Path(folder))
        cells.unpack(path)
        return {name: cells.read(name) for name in cells.names()}


def rows_from(cells: Mapping[str, Cell]) -> list[Row]:
    """All rows, in the order of the families."""
    rows: list[Row] = []
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in sorted(cells.values(), key=lambda one: one.figures.get("seed", 0)):
        groups.setdefault((cell.figures["family"], cell.figures["data"]), []).append(cell)
    for family in ("nets", "tables", "images"):
        for _, same in sorted((key, group) for key, group in groups.items() if key[0] == family):
            rows += nets_rows(same[0]) if family == "nets" else seeded_rows(same)
    return rows


def nets_rows(cell: Cell) -> Iterator[Row]:
    figures = cell.figures
    for judge, (ours, usual) in pairs_of(figures["judges"]).items():
        found, measures = figures["gains"][judge], figures["measures"]
        best = {
            name: (one["best"], measures[one["best"]][name], Difference(*one["rival"]))
            for name, one in found.items()
        }
        gains = {name: Difference(*one["default"]) for name, one in found.items()}
        yield Row("nets", figures["data"], judge, measures[ours], measures[usual], gains, best)


def seeded_rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """Of the seeds of one set: accord's council, and its judge of predictions."""
    kept: list[str] = cells[0].figures["kept"]
    *ways, usual = kept
    names = list(cells[0].figures["measures"])
    each = {name: [cell.figures["measures"][name] for cell in cells] for name in names}
    means = {name: {m: float(np.mean([one[m] for one in of])) for m in MEASURES} for name, of in each.items()}
    parts = [parts_of(cell) for cell in cells]
    for way in ways:
        gains = {m: difference(*side_by_side(parts, way, usual, m), units="examples") for m in (AUC, AP)}
        gains |= {} if len(cells) < 2 else {AT_WRONG: over_seeds(each, way, usual, AT_WRONG)}
        best = {}
        for measure in MEASURES:
            rival = best_of(rivals_of(way, names), {name: means[name][measure] for name in names})
            ours, theirs = (np.array([[one[measure]] for one in each[name]]) for name in (way, rival))
            lone = float((ours - theirs).mean())
            gain = (
                difference(ours, theirs) if len(cells) > 1 else Difference(lone, np.nan, np.nan, np.nan, "nothing")
            )
            best[measure] = (rival, means[rival][measure], gain)
        judge = "the council" if way == COUNCIL else "the same probabilities"
        figures = cells[0].figures
        yield Row(figures["family"], figures["data"], judge, means[way], means[usual], gains, best)


def over_seeds(
    each: Mapping[str, Sequence[Mapping[str, float]]], ours: str, theirs: str, measure: str
) -> Difference:
    """A difference of means over seeds alone; of one seed it has no interval."""
    one, other = (np.array([[of[measure]] for of in each[name]]) for name in (ours, theirs))
    if len(one) > 1:
        return difference(one, other)
    return Difference(float((one - other).mean()), np.nan, np.nan, np.nan, "nothing")


def parts_of(cell: Cell) -> dict[str, dict[str, np.ndarray]]:
    """Of every score that was kept: what each label counts in the measures."""
    wrong = np.unpackbits(cell.arrays["wrong"], count=cell.figures["count"]).astype(bool)
    kept = zip(cell.figures["kept"], cell.arrays["ranks"], strict=True)
    return {name: Ranked(quality, wrong).parts() for name, quality in kept}


def side_by_side(
    parts: Sequence[Mapping[str, Mapping[str, np.ndarray]]], ours: str, theirs: str, measure: str
) -> tuple[np.ndarray, np.ndarray]:
    """Two scores' parts, a row for each seed."""
    one, other = (np.stack([of[name][measure] for of in parts]) for name in (ours, theirs))
    return one, other


def report(cells: Mapping[str, Cell]) -> str:
    """Tables in Markdown."""
    rows = rows_from(cells)
    corrected = holm([row.gains[AP].p for row in rows])
    lines = [counted(rows, corrected)]
    for family in dict.fromkeys(row.family for row in rows):
        own = [(row, p) for row, p in zip(rows, corrected, strict=True) if row.family == family]
        lines += [f"\n## {family}", *facts(cells, family), *main_table(own)]
        lines += ["", *other_table([row for row, _ in own])]
    return "\n".join(lines)


def counted(rows: Sequence[Row], corrected: Sequence[float]) -> str:
    """How often accord is ahead and behind in average precision."""

    def ways(gains: Sequence[Difference], sure: Sequence[bool], words: str) -> str:
        ahead, behind = (
            [found for g, found in zip(gains, sure, strict=True) if s * g.difference > 0] for s in (1, -1)
        )
        return (
            f"ahead in {len(ahead)}, {words} in {sum(ahead)}; behind in {len(behind)}, {words} in {sum(behind)}. "
        )

    gains, rivals = [row.gains[AP] for row in rows], [row.best[AP][2] for row in rows]
    clear = [gain.low > 0 or gain.high < 0 for gain in rivals]
    first = ways(gains, [p < SURE for p in corrected], "beyond chance")
    return (
        f"{len(rows)} comparisons. cleanlab's default: {first}"
        f"cleanlab's best score by the truth: {ways(rivals, clear, 'with an interval without zero')}"
    )


def facts(cells: Mapping[str, Cell], family: str) -> list[str]:
    """What was measured: how many examples, how many of them wrong, and seeds."""
    lines = ["", "| data | examples | wrong | seeds |", "| --- | --- | --- | --- |"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in cells.values():
        if cell.figures["family"] == family:
            groups.setdefault(cell.figures["data"], []).append(cell.figures)
    for data, each in groups.items():
        shares = np.mean([one["wrong"] / one["count"] for one in each])
        lines.append(f"| {data} | {each[0]['count']:,} | {shares:.1%} | {len(each)} |")
    return [*lines, ""]


def main_table(rows: Sequence[tuple[Row, float]]) -> list[str]:
    """Average precision."""
    lines = [
        "| data | judged by | accord | cleanlab | accord less cleanlab | p | cleanlab's best score, by the truth | "
        "accord less it |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row, p in rows:
        name, value, gain = row.best[AP]
        lines.append(
            f"| {row.data} | {row.judge} | {row.ours[AP]:.4f} | {row.theirs[AP]:.4f} | {shown(row.gains[AP], p)} | "
            f"{'< .0001' if p < 0.0001 else f'{p:.2g}'} | {value:.4f}, {name} | {shown(gain)} |"
        )
    return lines


def other_table(rows: Sequence[Row]) -> list[str]:
    """The other measures: accord, cleanlab's default, cleanlab's best."""
    lines = ["| data | judged by |", "| --- | --- |"]
    for measure in (AUC, AT_WRONG):
        lines[0] += f" {NAMES[measure]} | accord less cleanlab |"
        lines[1] += " --- | --- |"
    for row in rows:
        line = f"| {row.data} | {row.judge} |"
        for m in (AUC, AT_WRONG):
            gain = shown(row.gains[m]) if m in row.gains else ""
            line += f" {row.ours[m]:.4f}, {row.theirs[m]:.4f}, {row.best[m][1]:.4f} | {gain} |"
        lines.append(line)
    return lines


def shown(gain: Difference, p: float | None = None) -> str:
    """A difference with its interval; in bold where its corrected p is small."""
    words = f"{gain.difference:+.4f}"
    words = f"**{words}**" if p is not None and p < SURE else words
    return words if np.isnan(gain.low) else f"{words} [{gain.low:+.4f}, {gain.high:+.4f}]"


if __name__ == "__main__":
    main()
