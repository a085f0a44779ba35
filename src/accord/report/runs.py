"""The page that lists and compares the runs below a folder. Nothing is loaded but what their JSON files say."""

from __future__ import annotations

import math
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accord.errors import DataError
from accord.plain import read_json, size_of
from accord.report.rendering import write_page
from accord.report.settings_table import differing, in_words

RUNS = "runs.html"
MOST_RUNS, MOST_FOLDERS, DEEPEST = 1_000, 20_000, 8
"""Runs that are listed, folders that are looked into, and folders inside one another."""
LARGEST = 1 << 25
"""Bytes of a JSON file beyond which it is not read."""
LONGEST = 300
"""Letters of what a run says in one cell."""
TASKS = {
    "recommender": ("clicks", "ndcg@20", "NDCG@20"),
    "classifier": ("labels", "accuracy", "accuracy"),
}
"""Of each kind of run: its task, and the metric of noisy validation by name and in words."""
UNREADABLE = (DataError, OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class ListedRun:
    """What the page says of a run."""

    name: str
    """Its path below the folder."""
    report: str = ""
    """The address of its report, relative to the page; empty where there is none."""
    task: str = ""
    data: str = ""
    model: str = ""
    method: str = ""
    settings: str = ""
    """Those that differ from the default."""
    metric: str = ""
    value: float | None = None
    """Of noisy validation."""
    flagged: int | None = None
    share: float | None = None
    seconds: float | None = None
    written: str = ""
    problem: str = ""
    """Why nothing else is known."""
    same_data: tuple[str, ...] = ()
    """What tells its data from those of other runs."""
    is_best: bool = False


@dataclass
class Found:
    """Run folders below a folder."""

    folders: list[Path] = field(default_factory=list)
    links: int = 0
    """Links, which are not followed."""
    closed: int = 0
    """Folders that cannot be read."""
    left_out: bool = False
    """Whether there is more than is looked at."""


def report_runs(folder: str | Path) -> Path:
    """Write runs.html into a folder: a page that lists and compares the runs below it. Gives its path.

    At most 1,000 runs are listed. Links are not followed. A run that cannot be read is listed with the reason.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"'{folder}' is no folder; name one that has run folders in it.")
    found = find_runs(folder)
    if not found.folders:
        raise DataError(f"'{folder}' is no run folder, and there is none below it; make one with `accord fit`.")
    runs = _with_best([listed(path, folder) for path in found.folders])
    try:
        write_page(
            folder / RUNS,
            RUNS,
            ("rows", "sortable"),
            title=f"Runs in {folder.resolve().name}",
            runs=runs,
            found=found,
            most=MOST_RUNS,
        )
    except OSError as error:
        words = error.strerror or error
        raise DataError(f"'{folder / RUNS}' cannot be written: {words}; nothing was changed.") from error
    return folder / RUNS


def find_runs(folder: Path) -> Found:
    """Run folders below a folder, in the order of their names; hidden folders and links are passed by."""
    found = Found()
    looked = 0
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        looked += 1
        if looked > MOST_FOLDERS or len(found.folders) == MOST_RUNS:
            found.left_out = True
            break
        if depth and _is_run(place):
            found.folders.append(place)
        elif depth < DEEPEST:
            waiting += [(one, depth + 1) for one in reversed(list(_below(place, found)))]
        else:
            found.left_out = True
    return found


def _below(place: Path, found: Found) -> Iterator[Path]:
    """The folders inside a folder; links among them are counted."""
    try:
        with os.scandir(place) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        found.closed += 1
        return
    for entry in inside:
        if entry.is_symlink():
            found.links += 1
        elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _is_run(place: Path) -> bool:
    """Whether a folder has the settings of a run, or such as cannot be read."""
    if not _is_plain(place / "config.json"):
        return False
    try:
        config = _small_json(place / "config.json")
    except UNREADABLE:
        return True
    return isinstance(config, dict) and config.get("kind") in TASKS


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _small_json(path: Path) -> Any:
    if size_of(path, inside=True) > LARGEST:
        raise DataError(f"{path.name} has more than {LARGEST >> 20} MB")
    return read_json(path)


def listed(run: Path, folder: Path) -> ListedRun:
    """What the page says of one run."""
    below = run.relative_to(folder)
    name = below.as_posix()
    report = f"./{quote(os.fsencode(below.as_posix()))}/report.html" if _is_plain(run / "report.html") else ""
    try:
        config, metrics = (_small_json(run / file) for file in ("config.json", "metrics.json"))
        return replace(_told(config, metrics), name=name, report=report, written=_written(run / "config.json"))
    except UNREADABLE:
        return ListedRun(name, report, problem="Its files cannot be read; fit it again.")


def _told(config: dict[str, Any], metrics: dict[str, Any]) -> ListedRun:
    task, metric, words = TASKS[config["kind"]]
    settings = {str(name): value for name, value in config["settings"].items()}
    kept = list(metrics["validation"].values())[-1] if metrics["validation"] else {}
    issues = metrics["label_issues"]
    changed = differing(settings, task, leave=("model", "method"))
    data, same = _data_of(config, issues, task)
    return ListedRun(
        name="",
        task=task,
        data=data,
        model=_short(config.get("model") or settings["model"]),
        method=_short(settings["method"]),
        settings=_short(", ".join(f"{name}={in_words(value)}" for name, value in changed.items())),
        metric=words,
        value=_number(kept.get(metric)),
        flagged=_count(issues["flagged"]),
        share=_number(issues["share"]),
        seconds=_number(metrics["train_seconds"]),
        same_data=(task, *same),
    )


def _data_of(config: dict[str, Any], issues: dict[str, Any], task: str) -> tuple[str, tuple[str, ...]]:
    """What a run learned from, in words, and what tells it from other data."""
    if task == "clicks":
        log, source = config["log"], config.get("source") or {}
        named = log.get("catalogue") or Path(str(source.get("path") or "")).name
        size = f"{_count(log['clicks']):,} clicks of {_count(log['users']):,} users"
        exact = source.get("fingerprint") or ""
    else:
        notes = config["data"]
        named = Path(str(notes.get("data") or "")).name
        examples = _count(notes.get("examples")) or _examples(issues)
        size = f"{len(config['classes']['values']):,} classes"
        size = size if examples is None else f"{examples:,} examples, {size}"
        noise = notes.get("noise") or {}
        exact = f"{config['classes']['values']} {config['shape']} {noise.get('kind', '')} {noise.get('rate', '')}"
        size += f", {noise['rate']:.0%} redrawn" if _number(noise.get("rate")) else ""
    words = f"{named}: {size}" if named else size
    return _short(words), (words, str(exact))


def _examples(issues: dict[str, Any]) -> int | None:
    """How many labels there are, from how many are flagged and which share these are."""
    flagged, share = _count(issues["flagged"]), _number(issues["share"])
    return round(flagged / share) if flagged and share else None


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _written(path: Path) -> str:
    """When a file was written, in UTC."""
    return datetime.fromtimestamp(os.lstat(path).st_mtime, UTC).strftime("%Y-%m-%d %H:%M")


def _with_best(runs: list[ListedRun]) -> list[ListedRun]:
    """Mark the best of the runs that learned from the same data, where there are several."""
    known = [run for run in runs if run.value is not None]
    several = Counter(run.same_data for run in known)
    best: dict[tuple[str, ...], float] = {}
    for run in known:
        if run.value is not None:
            best[run.same_data] = max(best.get(run.same_data, -math.inf), run.value)
    return [
        replace(run, is_best=several[run.same_data] > 1 and run.value == best.get(run.same_data)) for run in runs
    ]
