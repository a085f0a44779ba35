"""What people decided about a run's labels, for its report: before it was fitted, and since."""

from __future__ import annotations

from typing import Any

from accord.decisions.estimates import estimate, rows_of
from accord.decisions.resolving import counts, verdicts

ACTIONS = {"keep": "right", "fix": "given another class", "drop": "dropped", "unsure": "not sure"}


def decided(estimator: Any) -> dict[str, Any] | None:
    """Counts, and what they say of all labels; nothing where nobody decided anything."""
    decisions = estimator.decisions_
    if not decisions:
        return None
    held = verdicts(decisions).values()
    each = counts(held)
    learnt = estimator.notes_.get("decisions")
    found = learnt and learnt["wrong_of_all"]
    shown: dict[str, Any] = {
        "counts": [(words, each[action]) for action, words in ACTIONS.items() if each[action]],
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
    return shown | {"rows": rows_of(own)}
