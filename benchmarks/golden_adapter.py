"""Every call of `golden_runs.py` that differs between the versions of accord to compare, and nothing else."""

# pyright: reportMissingImports=false

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accord import Recommender
from accord.estimators import fit_together
from accord.training import Checkpoint

OLD = "sources" not in inspect.signature(fit_together).parameters
"""Whether accord is as before the rebuild: clicks and labels are fitted together by two functions."""

RENAMED = {"watched": "eval_set", "watched_together": "eval_set_together"}
"""Keys of the history, old to new."""


def fit(estimator: Any, source: Mapping[str, Any], callback: Any = None, checkpoint: Any = None) -> Any:
    """`estimator.fit(**source)`; the source may hold an ``eval_set``."""
    words = dict(source)
    if OLD:
        words["watch"] = words.pop("eval_set", None)
        return estimator.fit(**words, hook=callback, checkpoint=checkpoint)
    return estimator.fit(**words, callback=callback, checkpoint=checkpoint)


def together(
    estimators: Sequence[Any],
    sources: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    callbacks: Sequence[Any] | None = None,
    checkpoint: Path | None = None,
) -> list[Any]:
    """Fit as one stack, on one source or on one for each."""
    kept_in = None if checkpoint is None else every_step(checkpoint)
    if not OLD:
        return list(fit_together(estimators, sources, callbacks=callbacks, checkpoint=kept_in))  # pyright: ignore
    each = [sources] * len(estimators) if isinstance(sources, Mapping) else list(sources)
    if isinstance(estimators[0], Recommender):
        from accord.estimators.stacking import Source, fit_stacked  # pyright: ignore[reportMissingImports]

        made = [Source(one["log"], watch=one.get("eval_set")) for one in each]
        return fit_stacked(estimators, made, hooks=callbacks, checkpoint=kept_in)
    inputs, labels, clean = ([one.get(name) for one in each] for name in ("X", "y", "clean"))
    words: dict[str, Any] = {"clean": clean, "watch": each[0].get("eval_set"), "hooks": callbacks}
    return list(fit_together(estimators, inputs, labels, **words))  # pyright: ignore


def every_step(path: Path) -> Any:
    """A checkpoint that is written as often as it can be."""
    return Checkpoint(path, seconds=0.0)


def history_of(estimator: Any) -> list[dict[str, Any]]:
    """The history without seconds, in the words of today."""

    def plain(record: Mapping[str, Any]) -> dict[str, Any]:
        kept = {RENAMED.get(k, k): v for k, v in record.items() if not k.endswith("seconds")}
        return {k: plain(v) if isinstance(v, Mapping) else v for k, v in kept.items()}

    return [plain(record) for record in estimator.history_]
