"""What `fit` of a recommender comes to: the log is read and checked, and a training is made of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from accord.data.stored_interactions import StoredInteractions
from accord.data.tables_out import kind_of_table
from accord.errors import DataWarning, SettingError
from accord.estimators.base import CUSTOM, Cache, Prepared, class_of, place_of
from accord.estimators.handed import told_of, weights_of
from accord.estimators.limits import require_memory
from accord.estimators.log_split import TRAIN, SplitLog
from accord.estimators.originals import Source
from accord.estimators.recommender_data import (
    eval_task,
    interactions_of,
    split_of,
    validation_depths,
    validation_task,
)
from accord.estimators.recommender_networks import NO_WEIGHTS, build
from accord.estimators.recommender_ranks import feed_for, refuse_undivided
from accord.estimators.recommender_stacks import shared_by_stack
from accord.estimators.scorers import gives_scores
from accord.estimators.serving.warm_start import WarmStart
from accord.models import is_solved, trait
from accord.models.stack import stack_kind
from accord.ranks.group import here
from accord.stored import blocks, trim
from accord.training import Run

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


def prepare(rec: Recommender, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
    """Read and divide the log, and say what to train."""
    split = split_of(rec, source, cache)
    _take(rec, split, source)
    rec._came_as = kind_of_table(source.get("log"))
    if rec._open and gives_scores(rec._factory, split.user_ids, split.item_ids):
        rec._open, rec._settings = False, rec._settings.model_copy(update={"method": "normal"})
    settings, ranks = rec.settings, here()
    if ranks.shards > 1:
        refuse_undivided(rec, ranks)
    _refuse_weights(rec, split)
    if isinstance(rec._factory, nn.Module):
        rec.notes_["weights"] = told_of(rec._factory, settings.pretrained)
    need = _require_memory(rec, device)
    rows = b"".join(np.packbits(some == TRAIN).tobytes() for (some,) in blocks(rec.part_))
    made = cache.get(("train", rows, str(device)), [split.clicks], lambda: interactions_of(rec, TRAIN, device))
    drawn = settings.seed if split.held_users > settings.valid_users else None  # which are ranked is drawn
    ks = validation_depths(settings)
    key = ("valid", rows, settings.valid_users, drawn, settings.cold_users, ks)
    valid = cache.get(key, [split.clicks], lambda: validation_task(rec, made))
    watched = source.get("eval_set")
    key = ("eval_set", rows, settings.valid_users, settings.cold_users, ks)
    eval_set = cache.get(key, [split.clicks, watched], lambda: eval_task(rec, watched, made))
    if isinstance(made, StoredInteractions) and ranks.shards > 1:
        raise SettingError("Several ranks train a log that fits into memory; give each more memory, or start one.")
    alone = ranks.shards == 1 and not ranks.many
    capture = alone and stack_kind(class_of(settings.model, rec.task)) is not None
    options = settings.training_options(len(rec.user_ids_), capture)
    if isinstance(made, StoredInteractions):
        options = replace(options, in_files=True)
        trim()
    warm = WarmStart.of(rec, source, cache)
    if warm is not None and ranks.shards > 1:
        raise SettingError("Several ranks cannot go on from an earlier run; fit anew, or in one process.")

    def built(role: str, architecture: Any = None) -> nn.Module:
        network = build(rec, role, architecture, made, ranks)
        return network if warm is None else warm.begin(network, role)

    return Prepared(
        Run(options, made, feed_for(made, ranks, settings.negatives), valid, eval_set, ranks=ranks),
        built,
        settings.model if rec._factory is None else CUSTOM,
        [*_identity(rec, split, source), *([] if warm is None else warm.identity())],
        shared_by_stack(rec, made, split),
        bytes_needed=need,
    )


def _require_memory(rec: Recommender, device: torch.device) -> int:
    """The bytes that the training takes, roughly; refused where there are not as many."""
    settings = rec.settings
    users, items = len(rec.user_ids_), len(rec.item_ids_)
    divided = not is_solved(settings.model) or trait(settings.model, "divided_tables", False)
    parts = here().size if divided else 1
    need = settings.memory_need(-(-users // parts), -(-items // parts), len(rec.clicks_))
    usual = "use fewer dims, a smaller batch size, or a machine with more"
    what = f"Model '{settings.model}' of {len(rec.item_ids_):,} items"
    advice = trait(settings.model, "too_large", None)
    require_memory(need, device, what if advice else "Training this log", advice or usual)
    return need


def _identity(rec: Recommender, split: SplitLog, source: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Words and arrays that identify the training, for its checkpoint."""
    return [
        *_identity_of_log(split),
        *((split.user_ids, len(split.user_ids)), *place_of(source)),
        *([] if here().shards == 1 else [(here(), f"{here().shards} shards")]),
        *weights_of([rec._factory, *rec._objects.values()], rec.settings.pretrained),
    ]


def _identity_of_log(split: SplitLog) -> list[tuple[Any, Any]]:
    """What identifies the clicks, all of them, and their use."""
    if split.digest is not None:
        return [(split, split.digest)]
    weights = [] if split.clicks.weights is None else [(split.clicks, split.clicks.weights)]
    return [(split.clicks, split.clicks.identity), (split.part, split.part), *weights]


def _take(rec: Recommender, split: SplitLog, source: Mapping[str, Any]) -> None:
    """Keep what the log says."""
    dropped = split.notes.get("dropped")
    if dropped and source.get("divided") is None:
        words = f"{dropped:,} row(s) of the log have no user or no item, and were left out"
        warnings.warn(f"{words}; they stay in the cleaned log.", DataWarning, stacklevel=2)
    rec.source_ = Source.of(source)
    rec.columns_, rec.user_ids_, rec.item_ids_ = split.clicks.columns, split.user_ids, split.item_ids
    rec._sharing = split.ranks
    rec.clicks_, rec.part_, rec.notes_ = split.clicks, split.part, dict(split.notes)
    rec.__dict__.pop("_cache", None)


def _refuse_weights(rec: Recommender, split: SplitLog) -> None:
    """Weights multiply losses, and some methods and models have none that they could multiply."""
    settings = rec.settings
    if split.clicks.weights is not None and not settings.method_class.takes_weights:
        raise SettingError(f"{NO_WEIGHTS} for method '{settings.method}'.")
