"""One reviewer at work on one run: what is in the queue, what was decided, and what that says."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from accord.decisions.design import Design
from accord.decisions.estimates import estimate
from accord.decisions.journal import Decision, Journal
from accord.decisions.resolving import last_words
from accord.decisions.suggesting import Suggesting
from accord.errors import SettingError
from accord.review.asked import MOST_ITEMS, AskedDecision, AskedNext, AskedRows, AskedSelection, AskedStep
from accord.review.items import CODES, NOTHING, Items
from accord.review.shown import Shown

SAMPLE = 12
"""Labels of a selection that are shown before it is decided."""
REMEMBERED = 1000
"""Steps whose answers are kept, for pages that ask again."""
FRESH = 20.0
"""Seconds for which the other reviewers' decisions are taken as they were read."""
Others = Callable[[], dict[str, list[Decision]]]
"""Reads what other reviewers decided."""


class Session:
    """Answers the page; several threads may ask at once."""

    def __init__(self, items: Items, shown: Shown, journal: Journal, design: Design, others: Others = dict) -> None:
        self.items, self.shown, self.journal, self.design = items, shown, journal, design
        self.server = secrets.token_hex(8)
        """Names this process, so that a page knows when another one answers."""
        self._lock = threading.RLock()
        self._read_others, self._others, self._read_at = others, dict[str, list[Decision]](), -FRESH
        self._answered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._again: set[int] = set()
        """Labels that this server has asked again."""
        self._mine = np.zeros(items.size, np.int8)
        self._refresh(list(journal.standing))
        self._estimated: tuple[Any, dict[str, Any]] | None = None

    def warm_up(self) -> None:
        """Import and sort beforehand what the first page needs: seconds, for which nobody should wait there."""
        self.rows(AskedRows(limit=1))
        self.next(AskedNext(limit=1))
        self.progress()

    # -- the queue -------------------------------------------------------------------------------------

    def rows(self, asked: AskedRows) -> dict[str, Any]:
        with self._lock:
            found = self.items.select(asked.query, self._mine)
            offset = asked.offset
            if asked.first_open:
                still = self._mine[found] == NOTHING
                offset = int(still.argmax()) // asked.limit * asked.limit if still.any() else 0
            shown = found[offset : offset + asked.limit]
            return {"total": len(found), "offset": offset, "rows": [self.row(int(at)) for at in shown]}

    def next(self, asked: AskedNext) -> dict[str, Any]:
        """What to look at next, and why each comes up; where one is asked again, the first answer is not told."""
        with self._lock:
            steps, taken = self.journal.steps, self._taken()
        suggesting = Suggesting(self.design, steps, taken)  # which decisions need not wait for
        found = suggesting.checks(asked.limit) if asked.mode == "checks" else suggesting.next(asked.limit)
        with self._lock:
            self._again |= {at for at, why in found if why == "again"}
            rows = [self.row(at) | {"why": why} for at, why in found]
            rows = [row | {"mine": None} if row["why"] == "again" else row for row in rows]
            return {"total": len(rows), "offset": 0, "rows": rows}

    def selection(self, asked: AskedSelection) -> dict[str, Any]:
        """The labels of a selection, and some of them drawn at random."""
        with self._lock:
            if (asked.query is None) == (asked.items is None):
                raise SettingError("Say which labels are meant: by a query or by their numbers.")
            if asked.query is not None:
                found = self.items.select(asked.query, self._mine)
            else:
                found = self._known(asked.items or [])
            if len(found) > MOST_ITEMS:
                raise SettingError(f"{len(found):,} labels are too many at once; filter them to {MOST_ITEMS:,}.")
            drawn = np.random.default_rng().permutation(found)[:SAMPLE]
            return {"items": found.tolist(), "count": len(found), "sample": [self.row(int(at)) for at in drawn]}

    def row(self, at: int) -> dict[str, Any]:
        """A label as the queue shows it."""
        items = self.items
        row: dict[str, Any] = {"at": at, "title": self.shown.title(at), "cells": self.shown.cells(at)}
        row |= {"quality": round(float(items.quality[at]), 4), "flagged": bool(items.flagged[at])}
        row |= {"given": None if items.given is None else int(items.given[at])}
        row |= {"predicted": None if items.predicted is None else int(items.predicted[at])}
        row |= {name: round(float(column[at]), 3) for name, column in items.votes.items()}
        return row | {"mine": self._word(at)}

    def details(self, at: int) -> dict[str, Any]:
        with self._lock:
            self._known([at])
            told = self.row(at) | self.shown.details(at)
            for other in told.get("history", ()):
                other["mine"] = self._word(other["at"])
            return told

    def picture(self, at: int, largest: int) -> bytes | None:
        return self.shown.picture(at, largest) if 0 <= at < self.items.size else None

    def _known(self, positions: list[int]) -> np.ndarray:
        """Positions that can be decided, each once."""
        there = bool(positions) and min(positions) >= 0 and max(positions) < self.items.size
        found = np.unique(np.array(positions if there else [], np.int64))
        if not there or not self.items.own[found].all():
            raise SettingError(f"There is no such {self.items.what.removesuffix('s')} in this run.")
        return found

    # -- deciding --------------------------------------------------------------------------------------

    def decide(self, asked: AskedDecision) -> dict[str, Any]:
        """Write a decision into the journal; what is returned is on the disk."""
        with self._lock:
            known = self._answered.get(asked.step)
            if known is None:
                items = self._known(asked.items).tolist()
                self._check_label(asked)
                why = asked.why if asked.why != "again" or set(items) <= self._again else "chosen"
                if not self._was_done(asked, items):
                    self.journal.decide(items, asked.action, label=asked.label, why=why)
                known = self._answer(asked.step, items)
            return known

    def undo(self, asked: AskedStep) -> dict[str, Any]:
        """Take back the last step."""
        with self._lock:
            known = self._answered.get(asked.step)
            if known is None:
                # After a server was killed the page asks the next one; if the step is gone, it was taken back.
                gone = asked.server != self.server and len(self.journal.done) < asked.after
                known = self._answer(asked.step, [] if gone else self.journal.undo())
            return known

    def _check_label(self, asked: AskedDecision) -> None:
        if asked.action == "fix" and self.items.given is None:
            raise SettingError("A click is kept or dropped; it has no other label.")
        if asked.label is not None and asked.label >= len(self.items.classes):
            raise SettingError(f"There is no class {asked.label} in this run.")

    def _was_done(self, asked: AskedDecision, items: list[int]) -> bool:
        """Whether a server that was killed wrote this very step before it could say so."""
        done = self.journal.done
        if asked.server == self.server or asked.after >= len(done):
            return False
        step = done[asked.after]
        return (list(step.items), step.action, step.label) == (items, asked.action, asked.label)

    def _answer(self, step: str, items: list[int]) -> dict[str, Any]:
        self._refresh(items)
        answer = {"after": len(self.journal.done), "server": self.server, "decided": len(self.journal.standing)}
        answer["items"] = [[at, self._word(at)] for at in items]
        self._answered[step] = answer
        if len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)
        return answer

    def _refresh(self, items: list[int]) -> None:
        for at in items:
            word = self.journal.standing.get(at)
            self._mine[at] = NOTHING if word is None else CODES[word.action]

    def _word(self, at: int) -> dict[str, Any] | None:
        """This reviewer's last word on a label."""
        word = self.journal.standing.get(at)
        return None if word is None else {"action": word.action, "label": word.label}

    # -- what it says ----------------------------------------------------------------------------------

    def start(self) -> dict[str, Any]:
        """What the page has to know first."""
        items, journal = self.items, self.journal
        return {
            "what": items.what,
            "count": len(items),
            "flagged": int((items.flagged & items.own).sum()),
            "classes": list(items.classes),
            "columns": list(self.shown.columns),
            "grid": self.shown.grid,
            "pictures": self.shown.pictures is not None or self.shown.grid,
            "votes": sorted(items.votes),
            "sorts": items.sorts,
            "notices": self.shown.notices,
            "reviewer": journal.reviewer,
            "identity": journal.identity,
            "server": self.server,
            "after": len(journal.done),
            "decided": len(journal.standing),
        }

    def progress(self) -> dict[str, Any]:
        """What the decisions so far say of all labels."""
        with self._lock:
            theirs = self._of_others()
            steps = [*self.journal.steps, *(one for own in theirs.values() for one in own)]
        key = len(steps), steps[-1:] and steps[-1], len(theirs)
        if self._estimated is None or self._estimated[0] != key:
            self._estimated = key, estimate(self.design, steps).to_show()
        mine = len(self.journal.standing)
        counted = {name: int((self._mine == code).sum()) for name, code in CODES.items()}
        return {"estimate": self._estimated[1], "mine": mine, "counted": counted, "others": self._told_of(theirs)}

    def _told_of(self, theirs: dict[str, list[Decision]]) -> list[dict[str, Any]]:
        """How much each other person decided, and where both decided otherwise."""
        told = []
        for name, steps in sorted(theirs.items()):
            words, mine = last_words(steps), self.journal.standing
            both = [at for at in words if at in mine]
            differ = sum((words[at].action, words[at].label) != (mine[at].action, mine[at].label) for at in both)
            told.append({"name": name, "decided": len(words), "both": len(both), "differ": differ})
        return told

    def _of_others(self) -> dict[str, list[Decision]]:
        if time.monotonic() - self._read_at > FRESH:
            self._others, self._read_at = self._read_others(), time.monotonic()
        return self._others

    def _taken(self) -> set[int]:
        return {one.item for own in self._of_others().values() for one in own}
