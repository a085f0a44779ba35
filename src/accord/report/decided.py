"""What people decided about a run's labels, for its report: before it was fitted, and since."""

from __future__ import annotations

from typing import Any

from accord.decisions.estimates import estimate
from accord.decisions.resolving import verdicts

ACTIONS = {"keep": "right", "fix": "given another class", "drop": "dropped", "unsure": "not sure"}
VALUES = (
    ("precision", "share of the flagged that are wrong", True),
    ("flagged", "wrong ones among the flagged", False),
    ("below", "wrong ones among the others", False),
    ("every", "wrong ones in all", False),
    ("error", "chance that one answer is a slip", True),
)


def decided(estimator: Any) -> dict[str, Any] | None:
    """Counts, and what they say of all labels; nothing where nobody decided anything."""
    decisions = estimator.decisions_
    if not decisions:
        return None
    held = verdicts(decisions).values()
    counts = [(words, sum(one.action == action for one in held)) for action, words in ACTIONS.items()]
    learnt = estimator.notes_.get("decisions")
    found = learnt and learnt["wrong_of_all"]
    shown: dict[str, Any] = {
        "counts": [(words, count) for words, count in counts if count],
        "reviewers": len({one.reviewer for one in decisions}),
        "differing": sum(not one.agreed for one in held),
        "learnt": learnt,
        "wrong": found and {name: f"{found[name]:.0f}" for name in ("value", "low", "high")},
        "rows": [],
    }
    if learnt:  # the labels that were decided are certain now, so they say nothing of this run's own list
        return shown
    own = estimate(estimator._subject().design, decisions).to_show()
    shown |= {name: own[name] for name in ("words", "checks", "stop", "left")} | {"level": f"{own['level']:.0%}"}
    for name, words, share in VALUES:
        if own[name] is not None:
            shown["rows"].append([words, *(_number(own[name][key], share) for key in ("value", "low", "high"))])
    return shown


def _number(value: float, share: bool) -> str:
    return f"{value:.1%}" if share else f"{value:.0f}"
