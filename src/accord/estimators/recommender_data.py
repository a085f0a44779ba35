"""The clicks of a recommender: its log, read and divided, and the parts that it learns from and is measured on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from accord.data.clicks import Clicks, load_clicks, locate, match_pairs, pair_keys
from accord.data.interactions import Interactions
from accord.data.marks import RIGHT, UNKNOWN, WRONG
from accord.data.stored_interactions import StoredInteractions
from accord.decisions.tables import Names
from accord.errors import DataError
from accord.estimators.base import Cache
from accord.estimators.deciding import Decided, decided
from accord.estimators.divided_task import DividedTask
from accord.estimators.log_split import SEEN, TRAIN, VALID, VALID_FILE, SplitLog, by_popularity, split_log
from accord.estimators.own_log import most_in_memory, own_split
from accord.estimators.serving.warm_start import earlier_of, parts_before
from accord.estimators.settings import GIGABYTE
from accord.evaluation import RankingTask
from accord.evaluation.ranking import drawn_users
from accord.ranks.group import here
from accord.ranks.tables import own_count
from accord.stored import chosen, is_stored, release, tally, where_true

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


def split_of(rec: Recommender, source: Mapping[str, Any], cache: Cache) -> SplitLog:
    """The log, read and divided; once for all that divide it alike."""
    rec._decided = None
    if source.get("divided") is not None:  # of a member of a council, or a prior
        return source["divided"]
    if (ranks := here()).many:
        return own_split(rec, source, lambda: _whole_split(rec, source, cache, most_in_memory(rec)), ranks)
    return _whole_split(rec, source, cache, rec.settings.memory * GIGABYTE)


def _whole_split(rec: Recommender, source: Mapping[str, Any], cache: Cache, memory: float) -> SplitLog:
    """All of the log; what would take more memory is kept in files."""
    log, known = source["log"], source.get("known")
    columns: dict[str, Any] = {n: source.get(n) for n in ("user", "item", "time", "query", "weight")}
    columns |= {"on_missing": source.get("on_missing") or "drop"}
    trusted = source.get("trusted")
    columns |= {"memory": memory}
    clicks = cache.get(
        ("log", *columns.items()),
        [log, known, trusted],
        lambda: load_clicks(log, known=known, trusted=trusted, **columns),
    )
    told = source.get("decisions")
    if told is not None:
        clicks, rec._decided = cache.get(("decisions",), [clicks, told], lambda: _marked(clicks, told))
    settings, valid, seen = rec.settings, source.get("valid"), source.get("seen")
    drawn = (settings.seed, settings.valid_share, settings.split) if valid is None else ()
    earlier = earlier_of(rec, source, cache)

    def divided() -> SplitLog:
        before = None if earlier is None else parts_before(clicks, earlier)
        return split_log(clicks, valid, seen, settings, before)

    return cache.get(("split", *drawn), [clicks, valid, seen, earlier], divided)


def _marked(clicks: Clicks, told: Any) -> tuple[Clicks, Decided]:
    """Clicks that are marked as right or wrong by what people decided."""
    found = decided(told, names_of(clicks), len(clicks))
    marks = np.zeros(len(clicks), np.int8) if clicks.marks is None else clicks.marks.copy()
    marks[found.at("keep")], marks[found.at("drop")] = RIGHT, WRONG
    marks[found.at("unsure")] = UNKNOWN
    return replace(clicks, marks=marks), found


def names_of(clicks: Clicks) -> Names:
    """How clicks are named: by their user and their item."""

    def find(table: pa.Table) -> np.ndarray:
        users, items = clicks.user_ids.find(table["user"]), clicks.item_ids.find(table["item"])
        known = (users >= 0) & (items >= 0)
        at, there = locate(clicks.keys, pair_keys(users, items, len(clicks.item_ids)), known)
        return np.where(there, at, -1)

    return Names("clicks", None, find)


def interactions_of(rec: Recommender, part: int | np.ndarray, device: torch.device | str = "cpu") -> Interactions:
    """Its clicks of one use, or those of these rows; those to train on with their weights.

    Of several ranks each has its own users, whose numbers are counted anew, and knows what everybody clicked.
    """
    clicks, sizes, ranks = rec.clicks_, (len(rec.user_ids_), len(rec.item_ids_)), rec._sharing
    weights = clicks.weights if isinstance(part, int) and part == TRAIN else None
    if is_stored(clicks.users) and torch.device(device).type == "cpu":
        rows = where_true(rec.part_, lambda some: some == part) if isinstance(part, int) else part
        return StoredInteractions.of(clicks.users, clicks.items, *sizes, None if rows.all() else rows, weights)
    rows = rec.part_ == part if isinstance(part, int) else part
    weights = None if weights is None else weights[rows]
    if not ranks.many:
        return Interactions.from_pairs(clicks.users[rows], clicks.items[rows], *sizes, device, weights)
    mean = None if weights is None else ranks.mean(weights)
    users, sizes = clicks.users[rows] // ranks.size, (own_count(sizes[0], ranks), sizes[1])
    made = Interactions.from_pairs(users, clicks.items[rows], *sizes, device, weights, mean)
    ranks.add_up([made.popularity])
    return made


def validation_depths(settings: Any) -> tuple[int, ...]:
    """Lengths of the lists that are measured after every epoch: 20, and that of the metric that chooses."""
    return tuple(sorted({20, int(settings.metric.partition("@")[2])}))


def validation_task(rec: Recommender, training: Interactions) -> Any:
    """The clicks that are held out, to be ranked high."""
    held = where_true(rec.part_, lambda some: (some != TRAIN) & (some != SEEN))
    ranks, uses = rec._sharing, tally(rec.part_, SEEN + 1)
    if not any(ranks.numbers(int(uses[VALID] + uses[VALID_FILE]))):
        return None
    seen = [SEEN] if any(ranks.numbers(int(uses[SEEN]))) else []
    clicks = rec.clicks_
    users, items = chosen(clicks.users, held), chosen(clicks.items, held)
    release(clicks.users, clicks.items, rec.part_, held)
    masked = [training, *(interactions_of(rec, one, training.device) for one in seen)]
    task = _task(rec, users, items, masked, rec.settings.seed)
    if not any(ranks.numbers(len(task.users))):
        raise DataError("No user of the validation clicks has a training click, so that they decide nothing.")
    return DividedTask(task, ranks) if ranks.many else task


def _task(
    rec: Recommender, users: np.ndarray, items: np.ndarray, masked: list[Interactions], seed: int
) -> RankingTask:
    """Pairs to rank high, of this rank's users; of all ranks' users as many are drawn as the settings say."""
    most, ranks = rec.settings.valid_users, rec._sharing
    if ranks.many:
        everyone = ranks.joined_rows(torch.from_numpy(np.unique(users))).sort()[0].numpy()
        kept = np.isin(users, drawn_users(everyone, most, seed))
        users, items = users[kept] // ranks.size, items[kept]
    task = RankingTask.from_pairs(users, items, masked, max_users=None if ranks.many else most, seed=seed)
    return as_served(rec, replace(task, ks=validation_depths(rec.settings)), masked[0])


def as_served(rec: Recommender, task: RankingTask, training: Interactions) -> RankingTask:
    """Users without a training click are ranked as in use: by popularity, unless the model is to rank them."""
    if rec.settings.cold_users == "model":
        return task
    return task.with_settled(training.degrees[task.users] == 0, by_popularity(training))


def eval_task(rec: Recommender, eval_set: Any, training: Interactions) -> Any:
    """Pairs to rank high, among all that the log does not hold."""
    if eval_set is None:
        return None
    pairs = match_pairs(eval_set, rec.user_ids_, rec.item_ids_, rec.columns_)
    seen = [training, interactions_of(rec, rec.part_ != TRAIN, training.device)]
    users, items, ranks = pairs.users[pairs.known], pairs.items[pairs.known], rec._sharing
    if not len(users):
        raise DataError("No pair of the eval_set has a known user and item; are these the same ids as in the log?")
    own = users % ranks.size == ranks.rank
    task = _task(rec, users[own], items[own], seen, 0)
    return DividedTask(task, ranks) if ranks.many else task
