"""Which labels there are to decide on, in which order to look at them, and which come up at random."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accord.decisions.journal import Decision

NEAREST = 50
"""Labels that are not flagged but next to it: at least so many, and as many as are flagged."""


PARTS = ("flagged", "next", "rest")
"""Labels that are flagged; those that come next; all others."""


@dataclass(frozen=True)
class Part:
    """Labels of one kind, for which one number is estimated: those that are flagged, the next ones, the rest."""

    name: str
    items: np.ndarray
    """Worst first."""
    drawn: np.ndarray
    """The same ones, in the order of random checks."""


@dataclass(frozen=True)
class Design:
    """The labels of a run, and the order of looking at them."""

    identity: str
    """By which the run is known."""
    quality: np.ndarray
    """Of every position; those that are not asked about have none."""
    flagged: np.ndarray
    given: np.ndarray | None
    """Class numbers of the given labels; clicks have none."""
    asked: np.ndarray
    """Positions that can be decided, worst first: those that are flagged before the others."""
    parts: tuple[Part, ...] = field(repr=False)

    @staticmethod
    def of(
        quality: np.ndarray,
        flagged: np.ndarray,
        given: np.ndarray | None = None,
        own: np.ndarray | None = None,
        names: Any = b"",
    ) -> Design:
        """From what a run says of every label; ``own`` marks those that are asked about."""
        own = np.ones(len(quality), bool) if own is None else own
        digest = hashlib.sha256(np.ascontiguousarray(quality, np.float64).tobytes())
        digest.update(np.packbits(flagged).tobytes() + np.packbits(own).tobytes() + bytes(names))
        digest.update(b"" if given is None else np.ascontiguousarray(given, np.int64).tobytes())
        identity = digest.hexdigest()[:32]
        order = np.argsort(quality, kind="stable")
        order = order[own[order]]
        worst, others = order[flagged[order]], order[~flagged[order]]
        near = max(NEAREST, len(worst))
        rng = np.random.default_rng(int(identity[:16], 16))
        parts = tuple(
            Part(name, items, rng.permutation(items))
            for name, items in zip(PARTS, (worst, others[:near], others[near:]), strict=True)
        )
        return Design(identity, quality, flagged, given, np.concatenate([worst, others]), parts)

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def says_wrong(self, one: Decision) -> bool | None:
        """Whether a person takes a label for wrong; nothing if the person cannot say."""
        if one.action == "unsure":
            return None
        if one.action == "fix" and self.given is not None:
            return bool(self.given[one.item] != one.label)
        return one.action != "keep"
