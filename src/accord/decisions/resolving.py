"""What holds where a person changed their mind, or several people decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accord.decisions.journal import ACTIONS, Decision


@dataclass(frozen=True)
class Verdict:
    """What holds of one label."""

    action: str
    """keep, fix, drop or unsure."""
    label: int | None
    by: tuple[str, ...]
    """Who decided it."""
    agreed: bool
    """Whether all who decided it said the same; those who were unsure are not counted."""


def last_words(decisions: Iterable[Decision]) -> dict[int, Decision]:
    """One reviewer's last word on each item."""
    return {one.item: one for one in decisions}


def verdicts(decisions: Iterable[Decision]) -> dict[int, Verdict]:
    """What holds of each label: each person's last word, and of several people what more than half of them say.

    Where no more than half say the same, it is 'unsure'.
    """
    last: dict[tuple[int, str], Decision] = {}
    for one in decisions:
        last.pop((one.item, one.reviewer), None)
        last[one.item, one.reviewer] = one
    by_item: dict[int, list[Decision]] = {}
    for one in last.values():
        by_item.setdefault(one.item, []).append(one)
    return {item: _verdict(own) for item, own in sorted(by_item.items())}


def counts(held: Iterable[Verdict]) -> dict[str, int]:
    """How many labels there are of each decision."""
    actions = [one.action for one in held]
    return {action: actions.count(action) for action in ACTIONS}


def _verdict(own: list[Decision]) -> Verdict:
    by = tuple(sorted(one.reviewer for one in own))
    words = [(one.action, one.label) for one in own if one.action != "unsure"]
    if not words:
        return Verdict("unsure", None, by, True)
    most = max(words, key=words.count)
    if 2 * words.count(most) <= len(words):
        return Verdict("unsure", None, by, False)
    return Verdict(*most, by, len(set(words)) == 1)
