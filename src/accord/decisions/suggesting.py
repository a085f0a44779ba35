"""What to look at next: random checks until the precision is known, then the worst, some checks, some again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accord.decisions.design import Design
from accord.decisions.estimates import precision
from accord.decisions.journal import Decision

WIDTH = 0.05
"""The precision of the flagged is known when it is within so much."""
AGAIN_AFTER = 15
"""Decisions after which a label may be asked again."""
CHECKING = ("flagged", "flagged", "flagged", "next", "flagged", "flagged", "again", "flagged", "flagged", "rest")
"""The turns while the precision is not known."""
CLEANING = ("worst", "worst", "flagged", "worst", "worst", "next", "worst", "worst", "again", "worst")
"""Afterwards."""


class Suggesting:
    """The next labels for one person, given what was decided so far."""

    def __init__(self, design: Design, decisions: list[Decision], taken: set[int] | None = None) -> None:
        """``decisions`` are this person's; what others decided (``taken``) does not come up."""
        self.design, self.decisions = design, decisions
        self.taken = {one.item for one in decisions} | (taken or set())

    def next(self, count: int) -> list[tuple[int, str]]:
        """Labels and why each comes up."""
        known = precision(self.design, self.decisions)
        turns = CLEANING if known is not None and known.half_width <= WIDTH else CHECKING
        queues = {part.name: self._open(part.drawn) for part in self.design.parts}
        queues |= {"worst": self._open(self.design.part("flagged").items), "again": self._again()}
        why = {"worst": "worst", "again": "again"}
        found: dict[int, str] = {}
        turn = len(self.decisions)
        empty = set[str]()
        while len(found) < count and len(empty) < len(queues):
            name = turns[turn % len(turns)]
            turn += 1
            for one in (name, *(other for other in queues if other not in (name, "again")), "again"):
                item = next((item for item in queues[one] if item not in found), None)
                if item is not None:
                    found[item] = why.get(one, "check")
                    break
                empty.add(one)
        return list(found.items())

    def checks(self, count: int) -> list[tuple[int, str]]:
        """Random checks of the flagged alone."""
        some = self._open(self.design.part("flagged").drawn)
        return [(item, "check") for item, _ in zip(some, range(count), strict=False)]

    def _open(self, items: np.ndarray) -> Iterator[int]:
        return (item for item in map(int, items) if item not in self.taken)

    def _again(self) -> Iterator[int]:
        """Labels that were decided a while ago, once; the same ones come up for the same decisions."""
        asked = {one.item for one in self.decisions if one.why == "again"}
        old = [
            one.item for one in self.decisions[:-AGAIN_AFTER] if one.item not in asked and one.action != "unsure"
        ]
        rng = np.random.default_rng(int(self.design.identity[:16], 16) + len(asked))
        return (int(item) for item in rng.permutation(list(dict.fromkeys(old))))
