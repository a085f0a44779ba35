"""Golden runs as files, and what differs between two recordings: see `golden.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Golden(NamedTuple):
    """Everything a run computed."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]

    def write(self, stem: Path) -> None:
        np.savez(f"{stem}.npz", **self.arrays)  # pyright: ignore[reportArgumentType]
        stem.with_name(f"{stem.name}.json").write_text(
            json.dumps(self.facts, indent=1, sort_keys=True, default=float)
        )

    def equals(self, other: Golden) -> bool:
        return not list(differences(self, other))


class Difference(NamedTuple):
    what: str
    words: str
    most: float
    """The largest absolute difference; infinite where the two cannot be subtracted."""


def read(folder: Path, name: str) -> Golden:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return Golden(arrays, json.loads((folder / f"{name}.json").read_text()))


def differences(one: Golden, other: Golden) -> Iterator[Difference]:
    """What is not the same bytes."""
    for key in sorted(one.arrays.keys() | other.arrays.keys()):
        a, b = one.arrays.get(key), other.arrays.get(key)
        if a is None or b is None:
            yield Difference(key, f"only in {'the second' if a is None else 'the first'}", np.inf)
        elif a.shape != b.shape or a.dtype != b.dtype:
            yield Difference(key, f"{a.dtype}{a.shape} and {b.dtype}{b.shape}", np.inf)
        elif a.tobytes() != b.tobytes():
            yield _between_arrays(key, a, b)
    left, right = dict(_leaves(one.facts)), dict(_leaves(other.facts))
    for key in sorted(left.keys() | right.keys()):
        if key not in left or key not in right:
            yield Difference(key, f"only in {'the first' if key in left else 'the second'}", np.inf)
        elif repr(left[key]) != repr(right[key]):
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left[key], right[key]))
            most = abs(left[key] - right[key]) if numbers else np.inf
            yield Difference(key, f"{left[key]!r} and {right[key]!r}", most)


def _between_arrays(key: str, a: np.ndarray, b: np.ndarray) -> Difference:
    if a.dtype.kind in "fiu":
        most = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        return Difference(key, f"by {most:.3g}, of at most {float(np.abs(a).max()):.3g}", most)
    return Difference(key, f"{int((a != b).sum())} of {a.size} values", np.inf)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{k}]")
    else:
        yield path, value


def chosen_epochs(facts: Mapping[str, Any]) -> dict[str, int]:
    """The epoch kept in each phase."""
    best = {}
    for record in facts.get("history", []):
        if record.get("is_best"):
            best[record["phase"]] = record["epoch"]
    return best


def _group(what: str) -> str:
    """The row of the table that a difference belongs to."""
    parts = what.split("/")
    return " ".join(parts[:2]) if parts[0] == "weights" else parts[0].split("[")[0]


def _rows(name: str, one: Golden, other: Golden, whole: bool) -> list[list[str]]:
    found: dict[str, list[Difference]] = {}
    for difference in differences(one, other):
        found.setdefault(_group(difference.what), []).append(difference)
    everything = dict.fromkeys(map(_group, [*one.arrays, *(key for key, _ in _leaves(one.facts))]))
    a, b = chosen_epochs(one.facts), chosen_epochs(other.facts)
    epochs = "" if not a | b else "same" if a == b else f"{a} and {b}"
    if not found:
        return (
            [[name, what, "equal", "0", epochs] for what in everything]
            if whole
            else [
                [
                    name,
                    f"all of {len(one.arrays)} arrays and {len(dict(_leaves(one.facts)))} facts",
                    "equal",
                    "0",
                    epochs,
                ]
            ]
        )
    rows = []
    for what in everything | found:
        own = found.get(what, [])
        if not own and not whole:
            continue
        worst = max(own, key=lambda d: d.most, default=None)
        most = "0" if worst is None else f"{worst.most:.3g}"
        rows.append([name, what, "equal" if worst is None else f"{worst.what}: {worst.words}", most, epochs])
    return rows


def compare(before: Path, after: Path, whole: bool) -> bool:
    """Print a table of what differs; whether nothing does."""
    names = [{path.stem for path in folder.glob("*.npz")} for folder in (before, after)]
    rows, unequal = [["run", "what", "equal bytes", "max abs difference", "chosen epochs"]], 0
    for name in sorted(names[0] | names[1]):
        if name not in names[0] & names[1]:
            rows.append([name, "", f"only in {before if name in names[0] else after}", "", ""])
            unequal += 1
            continue
        own = _rows(name, read(before, name), read(after, name), whole)
        unequal += any(row[2] != "equal" for row in own)
        rows += own
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{len(names[0] | names[1])} runs, {unequal} differ")
    return not unequal
