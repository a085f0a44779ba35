"""What people decided about labels: one append-only journal for each reviewer, in the run folder.

A line is one step: a decision on one label or on many at once, or the taking back of the step before it. It is on
the disk before it is acknowledged. A line that was cut off was never acknowledged, and is left out.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from accord.errors import DataError, SettingError
from accord.files import write_whole
from accord.locks import locked, owner_of
from accord.plain import read_plain

FOLDER, ENDING, LOCK = "decisions", ".jsonl", ".lock"
"""In a run folder, and of the files in it."""
FORMAT = "accord decisions 1"
ACTIONS = ("keep", "fix", "drop", "unsure")
"""The label is right; it is another one; the example should go; the person cannot say."""
WHY = ("chosen", "worst", "check", "again", "bulk")
"""How a label came up: picked by a person, worst first, drawn at random, asked again, with a whole selection."""
REVIEWER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
USUAL_REVIEWER = "reviewer"


@dataclass(frozen=True)
class Decision:
    """One person's word on one label."""

    item: int
    """The label's position in the run: the row of an example, or the position of a click among the run's clicks."""
    action: str
    label: int | None
    """The class it should have, of a label that is fixed."""
    reviewer: str
    at: str
    """When, in UTC."""
    why: str
    number: int
    """Of its step in the reviewer's journal."""


@dataclass(frozen=True)
class Step:
    """What was decided at once."""

    items: tuple[int, ...]
    action: str
    label: int | None
    at: str
    why: str

    def to_line(self) -> str:
        values = {"at": self.at, "action": self.action, "items": list(self.items), "why": self.why}
        return json.dumps(values | ({} if self.label is None else {"label": self.label})) + "\n"


@dataclass
class Journal:
    """One reviewer's decisions on a run."""

    path: Path
    reviewer: str
    identity: str
    """Of the run."""
    size: int | None = None
    """How many labels the run has, where that is known."""
    done: list[Step] = field(default_factory=list)
    standing: dict[int, Decision] = field(default_factory=dict)
    """The last word on each item."""
    _end: int = 0
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    @staticmethod
    @contextmanager
    def opened(run: Path, reviewer: str, identity: str, size: int | None = None) -> Iterator[Journal]:
        """The journal of a reviewer, who may have it open once."""
        path = _path(run, reviewer)
        path.parent.mkdir(exist_ok=True)
        _refuse_link(path.parent)
        with locked(path.with_suffix(LOCK)) as ours:
            if not ours:
                owner = owner_of(path.with_suffix(LOCK)) or "another process"
                raise DataError(
                    f"Reviewer '{reviewer}' is at work on '{run}' already ({owner}); end that, or take another "
                    "name."
                )
            journal = Journal(path, reviewer, identity, size)
            journal._start()
            yield journal

    @property
    def steps(self) -> list[Decision]:
        """Everything that was decided and not taken back, in order."""
        with self._lock:
            return [one for number, step in enumerate(self.done) for one in self._decisions(step, number)]

    def decide(self, items: Sequence[int], action: str, *, label: int | None = None, why: str = "chosen") -> None:
        """Write a step; it is on the disk when this returns."""
        step = checked(items, action, label, why, self.size)
        with self._lock:
            self._append(step.to_line())
            self._take(step)

    def undo(self) -> list[int]:
        """Take back the last step; returns its items."""
        with self._lock:
            if not self.done:
                return []
            self._append(json.dumps({"at": now(), "undo": True}) + "\n")
            return self._take_back()

    # -- the file ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Read what is there, or begin."""
        if os.path.lexists(self.path):
            text = self._read()
            if text:
                self._end = len(text.encode())
                self._truncate()
                return
        self._append(json.dumps({"format": FORMAT, "run": self.identity, "reviewer": self.reviewer}) + "\n")
        _flush_folder(self.path.parent)

    def _read(self) -> str:
        """Take the steps of the file; returns its whole lines."""
        text = read_plain(self.path, kind="lines", inside=True)
        whole = text[: text.rfind("\n") + 1]
        lines = whole.splitlines()
        if not lines:
            return ""
        self._check_head(_parsed(lines[0], self.path, 1))
        for number, line in enumerate(lines[1:], 2):
            values = _parsed(line, self.path, number)
            try:
                if values.get("undo") is True:
                    self._take_back()
                else:
                    given = (values["items"], values["action"], values.get("label"), values["why"])
                    self._take(checked(*given, self.size, at=str(values["at"])))
            except (KeyError, TypeError, SettingError) as error:
                raise _damaged(self.path, number) from error
        return whole

    def _check_head(self, head: dict[str, Any]) -> None:
        if head.get("format") != FORMAT or head.get("reviewer") != self.reviewer:
            raise _damaged(self.path, 1)
        if head.get("run") != self.identity:
            raise DataError(
                f"'{self.path}' holds decisions on another run; export them from that run and give them as a file."
            )

    def _append(self, line: str) -> None:
        file = self._opened()
        try:
            data = line.encode()
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, self._end)
            raise DataError(
                f"'{self.path}' cannot be written: {error.strerror or error}; nothing was kept."
            ) from error
        finally:
            os.close(file)
        self._end += len(line.encode())

    def _opened(self) -> int:
        """The file, to be written at its end; never through a link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        try:
            return os.open(self.path, flags, 0o666)
        except OSError as error:
            raise DataError(f"'{self.path}' cannot be written: {error.strerror or error}.") from error

    def _truncate(self) -> None:
        """Remove a last line that was cut off."""
        file = self._opened()
        try:
            if os.fstat(file).st_size > self._end:
                os.ftruncate(file, self._end)
        finally:
            os.close(file)

    # -- what stands -------------------------------------------------------------------------------------

    def _decisions(self, step: Step, number: int) -> Iterator[Decision]:
        for item in step.items:
            yield Decision(item, step.action, step.label, self.reviewer, step.at, step.why, number)

    def _take(self, step: Step) -> None:
        for one in self._decisions(step, len(self.done)):
            self.standing[one.item] = one
        self.done.append(step)

    def _take_back(self) -> list[int]:
        if not self.done:
            return []
        last = set(self.done.pop().items)
        for item in last:
            self.standing.pop(item, None)
        for number, step in enumerate(self.done):
            if not last.isdisjoint(step.items):
                self.standing |= {one.item: one for one in self._decisions(step, number) if one.item in last}
        return sorted(last)


def checked(
    items: Sequence[int], action: str, label: int | None, why: str, size: int | None, at: str | None = None
) -> Step:
    """A step that makes sense."""
    if action not in ACTIONS:
        raise SettingError(f"Unknown decision '{action}'; choose from {', '.join(ACTIONS)}.")
    if why not in WHY:
        raise SettingError(f"Unknown reason '{why}'; choose from {', '.join(WHY)}.")
    if (label is not None) != (action == "fix") or not (label is None or _is_number(label)):
        raise SettingError("A label that is fixed needs its new class, and no other decision has one.")
    numbers = tuple(items)
    if not numbers or not all(_is_number(item) and (size is None or item < size) for item in numbers):
        raise SettingError("A decision is on labels of the run, by their positions from 0; there is no such label.")
    return Step(tuple(map(int, numbers)), action, None if label is None else int(label), at or now(), why)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def reviewers(run: Path) -> set[str]:
    """Who has decided something about a run."""
    folder = run / FOLDER
    there = folder.is_dir() and not folder.is_symlink()
    return {path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}")} if there else set()


def journals(run: Path, identity: str, size: int | None = None) -> dict[str, list[Decision]]:
    """What every reviewer decided on a run, step by step; nothing is changed."""
    folder = run / FOLDER
    if not os.path.lexists(folder):
        return {}
    _refuse_link(folder)
    found = {}
    for path in sorted(folder.glob(f"*{ENDING}")):
        journal = Journal(path, path.name.removesuffix(ENDING), identity, size)
        if REVIEWER.fullmatch(journal.reviewer) and journal._read():
            found[journal.reviewer] = journal.steps
    return found


def write_journal(run: Path, reviewer: str, identity: str, decisions: Sequence[Decision]) -> None:
    """A whole journal of one reviewer's decisions, in a run folder that is being written."""
    path = _path(run, reviewer)
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"format": FORMAT, "run": identity, "reviewer": reviewer}) + "\n"]
    steps = [Step((one.item,), one.action, one.label, one.at, one.why) for one in decisions]
    write_whole(path, "".join([*lines, *(step.to_line() for step in steps)]))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _path(run: Path, reviewer: str) -> Path:
    if not REVIEWER.fullmatch(reviewer):
        raise SettingError(
            "A reviewer's name has letters, digits, '.', '_', '@' and '-', at most 64, and begins with a letter or "
            f"a digit; '{reviewer[:80]}' does not."
        )
    return run / FOLDER / f"{reviewer}{ENDING}"


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise DataError(f"'{folder}' is a link or no folder; remove it.")


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):  # systems that cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, number) from error
    if not isinstance(values, dict):
        raise _damaged(path, number)
    return values


def _damaged(path: Path, number: int) -> DataError:
    return DataError(f"'{path}' is damaged in line {number}; remove that line, or move the file away.")
