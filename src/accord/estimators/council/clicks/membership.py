"""Who the members of a council of recommenders are: some see all clicks, one of every kind misses a fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from accord.errors import SettingError
from accord.estimators.council.members import Member
from accord.estimators.handed import ByIds
from accord.estimators.log_split import SEEN, TRAIN, SplitLog, refuse_other_ids
from accord.estimators.naming import is_scorer
from accord.estimators.recommender import Recommender
from accord.estimators.scorers import first_pairs, gives_scores, is_function
from accord.models import is_solved

FOLDS, MOST_CLICKS = 5, 2_000_000
"""Folds by default, and the largest log that is cross-fitted without being asked to."""
FEWEST = 4
"""Clicks of a fold."""
SEEDS_APART = 1009
"""Between the first seeds of the members of councils of neighbouring seeds."""
SHARED = ("device", "split", "valid_share", "valid_users", "cold_users")
"""Settings that members have in common with the estimator."""
INHERITED = (*SHARED, "epochs", "patience", "restore", "batch_size", "updates", "pretrained")
"""These too, unless a member has its own."""


def folds_of(settings: Any, split: SplitLog) -> list[np.ndarray]:
    """Rows of the training clicks, cut at random into parts of one size; a few may be left over."""
    rows, count = np.flatnonzero(split.part == TRAIN), settings.folds
    if count is None:
        count = min(FOLDS, len(rows) // FEWEST) if len(rows) <= MOST_CLICKS else 0
    if count < 2:
        return []
    if len(rows) < FEWEST * count:
        raise SettingError(f"{len(rows)} training clicks are too few for {count} folds; give folds=0.")
    np.random.default_rng([settings.seed, 0xF01D]).shuffle(rows)
    size = len(rows) // count
    return [np.sort(rows[k * size : (k + 1) * size]) for k in range(count)]


def members_of(
    rec: Recommender,
    split: SplitLog,
    source: Mapping[str, Any],
    folds: Sequence[np.ndarray],
    found: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Member]:
    """All members, to be fitted or fitted already; those given by name with what was ``found`` for their models."""
    settings = rec.settings
    common = {name: getattr(settings, name) for name in INHERITED}
    whole = {"log": source["log"], "divided": split}
    made: list[Member] = []
    for number, name in enumerate(settings.members):
        given = rec.objects().get(name, name)
        kind = _kind(given, number)
        if isinstance(given, Recommender) and hasattr(given, "networks_"):
            refuse_other_ids(given.user_ids_, split.user_ids, "member", "users")
            refuse_other_ids(given.item_ids_, split.item_ids, "member", "items")
            made.append(Member(kind, given, whole, fitted=True))
            continue
        fitted = scores_pairs(given, split)
        own: dict[str, Any] = {"method": "normal", **(found or {}).get(kind if isinstance(given, str) else "", {})}
        model: Any = given
        if isinstance(given, Recommender):  # not fitted: its settings are what is wanted
            model = given._chosen
            own = {k: v for k, v in given.changed_settings().items() if k not in (*SHARED, "model", "seed")}

        def one(seed: int, model: Any = model, own: dict[str, Any] = own) -> Recommender:
            values: dict[str, Any] = {**common, **own, "model": model, "seed": seed}
            return Recommender(**values)

        seeds = 1 if fitted or is_solved(model) else settings.member_seeds
        first = settings.seed * SEEDS_APART
        made += [Member(kind, one(first + k), whole) for k in range(seeds)]
        for k, rows in enumerate(() if fitted else folds):  # it has seen all clicks, perhaps
            part = split.part.copy()
            part[rows] = SEEN
            divided = replace(split, part=part)
            made.append(Member(kind, one(first + seeds + k), {"log": source["log"], "divided": divided}, fold=k))
    return made


def scores_pairs(given: Any, split: SplitLog) -> bool:
    """Whether a member comes fitted, and scores pairs of ids."""
    if isinstance(given, Recommender):
        given = given._chosen
    ids = split.user_ids, split.item_ids
    if isinstance(given, nn.Module):
        ByIds(given, *ids)  # what does not fit the log is refused here
    if is_scorer(given):
        first_pairs(given, *ids)
        return True
    return is_function(given) and gives_scores(given, *ids)


def _kind(given: Any, number: int) -> str:
    """What a member is called, however it was given."""
    if isinstance(given, Recommender):
        method = given.settings.method_class
        given = given._chosen if method.needs_model else method.name
    if isinstance(given, str):
        return given
    if is_scorer(given) or isinstance(given, nn.Module):
        return type(given).__name__
    if not callable(given):
        raise SettingError(
            f"Member {number + 1} of the council is of type {type(given).__name__}: give the name of a model, a "
            "function (users, items) -> module, or a Recommender."
        )
    return getattr(given, "__name__", f"own {number + 1}")
