"""Recommenders that are trained as one stack: what they must share, and how many there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from accord.batches.clicks import RowCuts
from accord.data.interactions import Interactions
from accord.estimators.base import Cache, Prepared, class_of
from accord.estimators.log_split import SplitLog
from accord.estimators.recommender_data import split_of
from accord.models.stack import stack_kind
from accord.optim import MANY_ROWS

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

MOST = {"cpu": 16, "cuda": 256}
"""Most runs of a stack: beyond them nothing is gained."""


def shared_by_stack(rec: Recommender, data: Interactions, split: SplitLog) -> dict[str, Any]:
    """What the runs of a stack must have in common."""
    by_rows = updated_by_rows(rec, split, data.device)
    return {
        "numbers of training clicks, users and items": (data.drawn_in_an_epoch, data.n_users, data.n_items),
        "weights of clicks": data.weights is not None,
        "tables, which are too large to be updated whole; give updates=dense": by_rows,
    }


def refuse_stack(rec: Recommender, model: type[nn.Module], prepared: Sequence[Prepared]) -> None:
    """Refuse to stack networks of a class for runs whose data it cannot be stacked on."""
    from accord.estimators.fitting import StackError

    each = [one.run.data for one in prepared]
    if getattr(model, "one_graph", False) and any(data is not each[0] for data in each):
        raise StackError("These runs hold out different clicks, but share one graph in a stack.")
    if getattr(model, "reads_rows", False):
        cuts = [RowCuts.of(data, rec.settings.batch_size) for data in each]
        if not all(own.even and own.batches == cuts[0].batches for own in cuts):
            raise StackError("A user has more clicks than a batch holds, so the runs' passes differ in length.")


def updated_by_rows(rec: Recommender, split: SplitLog, device: torch.device) -> Any:
    """Something of its own where the run would update its tables by rows, which a stack does not."""
    settings, rows = rec.settings, max(len(split.user_ids), len(split.item_ids))
    if device.type != "cpu" or settings.updates == "dense":
        return None
    large = settings.updates == "rows" or rows > MANY_ROWS * settings.batch_size
    return id(rec) if large else None


def stackable(rec: Recommender, settings: Any) -> bool:
    """Whether runs with such settings are worth training as stacks, where they are alike."""
    return rec._factory is None and not rec._objects and stack_kind(class_of(settings.model, rec.task)) is not None


def room(rec: Recommender, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
    """How many runs like this one are best trained as one stack; 1 where they are not stacked."""
    from accord.estimators.fitting import room_for

    split = split_of(rec, source, cache)
    if updated_by_rows(rec, split, device) is not None:
        return 1
    need = rec.settings.memory_need(len(split.user_ids), len(split.item_ids), rec.settings.batch_size)
    return room_for(need, MOST[device.type], device)
