"""Tables of what was measured of councils on clicks; differences with intervals over seeds and users."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.evaluation.significance import difference
from accord.files import write_whole
from council_click_jobs import ABLATION, CAUTIONS, CLICKED, COST, MODELS, SOLVED
from council_click_logs import DATA
from job_pool import Cell, Cells

METRIC = "ndcg@20"
SEEDS = range(100)
Value = Callable[[Cell], Any]


def report(cells: Cells, path: Path) -> None:
    """Print every table, and write the figures of all cells as one file."""
    found = {name: cells.read(name) for name in cells.names()}
    write_whole(path, json.dumps({name: cell.figures for name, cell in found.items()}, indent=1))
    tables = Tables(found)
    for part in (tables.simulator, tables.noise, tables.ablation, tables.recommend, tables.clean, tables.cost):
        part()
    print(f"\n{len(found)} cells; their figures are in {path}.")


class Tables:
    """Rows of cells, by log and name; a row has a value for each seed that is there."""

    def __init__(self, cells: dict[str, Cell]) -> None:
        self.cells = cells

    def row(self, log: str, name: str, value: Value) -> dict[int, Any]:
        """A value of each seed, where there is one."""
        found = {seed: self.cells.get(f"{log} {seed} {name}") for seed in SEEDS}
        each = {seed: value(cell) for seed, cell in found.items() if cell is not None}
        return {seed: one for seed, one in each.items() if one is not None}

    # -- parts -------------------------------------------------------------------------------------------

    def simulator(self) -> None:
        rows = _plain_rows() | {"council's student (gmf)": ("council default", _student("gmf"))}
        rows |= {"council": ("council default", _served)}
        rows |= {f"council, caution {c:g}": (f"council caution {c:g}", _served) for c in CAUTIONS}
        self._ranked("Simulator: NDCG@20 of what is truly liked", "simulator", rows)
        used = {
            name: self.row("simulator", name, _figure("caution")) for name, _ in rows.values() if "council" in name
        }
        words = [f"{name.removeprefix('council ')}: {_mean(own, 2)}" for name, own in used.items() if own]
        print(f"\nThe caution that noisy validation left: {'; '.join(words)}." if words else "")
        rows = _judges() | {f"council, clicked {c:g}": f"council clicked {c:g}" for c in CLICKED}
        self._found("Simulator: finding noisy clicks", "simulator", "noise", rows)
        self._by_kind("simulator", "noise", rows)

    def noise(self) -> None:
        rows = _judges() | {"council, no folds": "council folds 0"}
        rows |= {f"council, clicked {c:g}": f"council clicked {c:g}" for c in CLICKED}
        words = "MovieLens-100K: finding"
        self._found(f"{words} 30 % random clicks that were added", "random", "random", rows)
        self._found(f"{words} disliked clicks (rating ≤ 2 against ≥ 4)", "movielens", "disliked", rows)

    def ablation(self) -> None:
        base = self.row("movielens", "council default", _served)
        if not base or not any(self.row("movielens", f"council {name}", _served) for name in ABLATION):
            return
        print("\n### Ablation on MovieLens-100K (fair log)\n")
        head = ["council", "valid", METRIC, "against default", "student valid", f"student {METRIC}"]
        head += ["against default", "disliked AUC", "members' s", "seeds"]
        _head(head)
        for name in ("default", *ABLATION, *(f"members {kind}" for kind in ("lightgcn", "ials", "cdae"))):
            cell = name if name.startswith("members ") else f"council {name}"
            of = {what: self.row("movielens", cell, value) for what, value in _COUNCIL.items()}
            seeds = [seed for seed in of["served"] if seed in (0, 1)]
            if not seeds:
                continue
            of = {what: {seed: one for seed, one in row.items() if seed in seeds} for what, row in of.items()}
            gmf = self.row("movielens", "council default", _student("gmf"))
            print(
                f"| {name.replace('members ', 'only ')} | {_mean(of['valid'])} | {_mean(of['served'])} "
                f"| {_against(of['served'], base)} | {_mean(of['student valid'])} | {_mean(of['student'])} "
                f"| {_against(of['student'], gmf)} | {_mean(of['disliked'])} | {_mean(of['seconds'], 0)} "
                f"| {len(seeds)} |"
            )
        print("\nA student always learns log-odds: the method has no choice of probabilities.")

    def recommend(self) -> None:
        for data in DATA:
            rows: dict[str, tuple[str, Value]] = {"popularity": ("popularity", _served)}
            for model in MODELS:
                rows |= {f"{model} {m}": (f"tuned {model} {m}", _served) for m in ("normal", "ensemble")}
                rows[f"{model} council's student, default settings"] = "students", _student(model)
                rows[f"{model} council's student"] = f"tuned {model} student", _student(model)
            rows |= {model: (f"tuned {model}", _served) for model in SOLVED}
            rows["council"] = "council default", _served
            self._ranked(f"Fair protocol, {data}", data, rows, ("gmf normal", "lightgcn normal", "own normal"))
            self._chosen(data)

    def clean(self) -> None:
        rows = _plain_rows() | {
            "council's student (gmf)": ("council default", _student("gmf")),
            "council's student, caution 0": ("council caution 0", _student("gmf")),
            "council": ("council default", _served),
            "council, caution 0": ("council caution 0", _served),
        }
        self._ranked("MovieLens-100K, liked clicks alone", "liked", rows)

    def cost(self) -> None:
        names = [name for name in self.cells if name.startswith("cost ")]
        if not names:
            return
        print("\n### Seconds on MovieLens-100K, nothing beside it\n")
        _head(["training", "threads", "members", "seconds", "of which the last phase", "members by kind"])
        order = [f"council {name}" for name in COST]
        for name in sorted(names, key=lambda one: order.index(w) if (w := one.split(" ", 3)[3]) in order else 99):
            _, threads, _, what = name.split(" ", 3)
            own = self.cells[name].figures
            kinds = ", ".join(f"{kind} {seconds:.0f}" for kind, seconds in own.get("by_kind", {}).items())
            print(
                f"| {what} | {threads} | {own.get('members', '')} | {own['seconds']:.1f} "
                f"| {own['learning']:.1f} | {kinds} |"
            )

    # -- kinds of tables ---------------------------------------------------------------------------------

    def _ranked(
        self, title: str, log: str, rows: dict[str, tuple[str, Value]], bases: Sequence[str] = ("normal",)
    ) -> None:
        """NDCG@20, noisy validation, and differences to other rows."""
        found = {label: self.row(log, *where) for label, where in rows.items()}
        if not any(found.values()):
            return
        print(f"\n### {title}\n")
        _head(["row", METRIC, "noisy validation", *(f"against {base}" for base in bases), "seconds", "seeds"])
        for label, own in found.items():
            if not own:
                continue
            cell = rows[label][0]
            model = label.split()[0] if "student" in label else ""
            model = "gmf" if model.startswith("council") else model
            valid = self.row(log, cell, _figure("valid", model))
            seconds = self.row(log, cell, _figure("seconds", model))
            others = [f"{label.split()[0]} normal" if base == "own normal" else base for base in bases]
            gains = [_against(own, found.get(other, {})) if other != label else "" for other in others]
            print(
                f"| {label} | {_spread(own)} | {_mean(valid)} | {' | '.join(gains)} | {_mean(seconds, 1)} "
                f"| {len(own)} |"
            )

    def _found(self, title: str, log: str, what: str, rows: dict[str, str]) -> None:
        """How noise is found: differences over seeds alone."""
        found = {label: self.row(log, name, _found(what, "roc_auc")) for label, name in rows.items()}
        if not any(found.values()):
            return
        print(f"\n### {title}\n")
        _head(["row", "ROC-AUC", "against normal", "against popularity", "average precision", "flagged", "seeds"])
        for label, own in found.items():
            if not own:
                continue
            precision, flagged = (
                self.row(log, rows[label], _found(what, n)) for n in ("average_precision", "flagged")
            )
            gains = [_against(own, found[base]) if base != label else "" for base in ("normal", "popularity")]
            print(
                f"| {label} | {_spread(own)} | {' | '.join(gains)} | {_spread(precision)} | {_mean(flagged, 3)} "
                f"| {len(own)} |"
            )

    def _by_kind(self, log: str, what: str, rows: dict[str, str]) -> None:
        found = {label: self.row(log, name, _found(what, "by_kind")) for label, name in rows.items()}
        kinds = sorted({kind for row in found.values() for one in row.values() for kind in one})
        if not kinds:
            return
        print("\nROC-AUC by kind of noise:\n")
        _head(["row", *kinds])
        for label, row in found.items():
            if row:
                each = [_mean({seed: one[kind] for seed, one in row.items()}) for kind in kinds]
                print(f"| {label} | {' | '.join(each)} |")

    def _chosen(self, data: str) -> None:
        """The settings that searches chose."""
        lines = []
        for model in MODELS:
            for seed, own in list(self.row(data, f"tuned {model} student", _settings(model)).items())[:1]:
                lines.append(f"- {model}'s student: {own} (seed {seed})")
        for model in SOLVED:
            lines += [
                f"- {model}: {own}" for own in list(self.row(data, f"tuned {model}", _settings("")).values())[:1]
            ]
        if lines:
            print("\nChosen by noisy validation:\n")
            print("\n".join(lines))


# -- values of a cell ------------------------------------------------------------------------------------


def _served(cell: Cell) -> Any:
    return cell.arrays.get(METRIC)


def _student(model: str) -> Value:
    return lambda cell: cell.arrays.get(f"student {model}")


def _figure(name: str, model: str = "") -> Value:
    """Of what serves, or of a student."""
    if model:
        return lambda cell: cell.figures.get("students", {}).get(model, cell.figures).get(name)
    return lambda cell: cell.figures.get(name)


def _settings(model: str) -> Value:
    return _figure("settings", model)


def _found(what: str, name: str) -> Value:
    return lambda cell: cell.figures["found"].get(what, {}).get(name)


def _member_seconds(cell: Cell) -> Any:
    return sum(member["seconds"] for member in cell.figures.get("members", []))


_COUNCIL: dict[str, Value] = {
    "served": _served,
    "valid": _figure("valid"),
    "student": _student("gmf"),
    "student valid": lambda cell: cell.figures["students"].get("gmf", {}).get("valid"),
    "disliked": _found("disliked", "roc_auc"),
    "seconds": _member_seconds,
}


def _judges() -> dict[str, str]:
    return {name: name for name in ("normal", "deca-p", "popularity")} | {"council": "council default"}


def _plain_rows() -> dict[str, tuple[str, Value]]:
    return {name: (name, _served) for name in ("normal", "deca-p", "popularity")}


# -- words -----------------------------------------------------------------------------------------------


def _head(names: Sequence[str]) -> None:
    print(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}")


def _mean(row: dict[int, Any], digits: int = 4) -> str:
    return f"{np.mean([np.mean(one) for one in row.values()]):.{digits}f}" if row else ""


def _spread(row: dict[int, Any]) -> str:
    each = [float(np.mean(one)) for one in row.values()]
    if not each:
        return ""
    return f"{np.mean(each):.4f} ± {np.std(each, ddof=1):.4f}" if len(each) > 1 else f"{each[0]:.4f}"


def _against(ours: dict[int, Any], theirs: dict[int, Any]) -> str:
    """The difference with its interval, over the seeds that both have."""
    seeds = sorted(set(ours) & set(theirs))
    tables = [np.stack([np.atleast_1d(one[seed]) for seed in seeds]) for one in (ours, theirs)] if seeds else []
    if not tables or tables[0].shape == (1, 1) or np.array_equal(tables[0], tables[1]):
        return ""
    one = difference(*tables)
    return f"{one.difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"
