"""A recommender that several ranks train together: each has a part of the users, and of every table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from accord.batches.clicks import ClickFeed, positives
from accord.batches.shards import ShardedFeed
from accord.data.interactions import Interactions
from accord.errors import DataError, SettingError
from accord.estimators.base import CUSTOM, Trained
from accord.estimators.log_split import by_popularity, over_pairs
from accord.estimators.own_log import together
from accord.methods import METHODS, methods_of
from accord.models import MODELS, trait
from accord.models.recommenders.solved import SolvedModel
from accord.ranks.group import ALONE, Ranks
from accord.ranks.tables import whole_network

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


def refuse_undivided(rec: Recommender, ranks: Ranks) -> None:
    """Refuse what several ranks cannot train together."""
    settings, advice = rec.settings, "train it in one process, without torchrun"
    able = [name for name in MODELS if trait(name, "divides", False)]
    methods = [name for name in methods_of(rec.task) if METHODS.find(name).divides]
    models = [settings.model if rec._factory is None else CUSTOM]
    if settings.method in ("deca", "deca-p"):
        models += [settings.noise_model, *([settings.auxiliary] if settings.method == "deca" else [])]
    for model in models:
        if model not in able:
            raise SettingError(
                f"Model '{model}' cannot be divided over {ranks.shards} ranks: take {', '.join(able)}, or {advice}."
            )
    if settings.method not in methods or settings.method_class.fits_first(settings):
        what = f"Method '{settings.method}'" + (" with a prior of its own" if settings.method == "deca-p" else "")
        raise SettingError(
            f"{what} cannot be divided over {ranks.shards} ranks: take {', '.join(methods)}, or {advice}."
        )
    if len(rec.user_ids_) < ranks.shards or len(rec.item_ids_) < ranks.shards:
        raise DataError(
            f"{len(rec.user_ids_):,} users and {len(rec.item_ids_):,} items cannot be divided over {ranks.shards} "
            "ranks; start fewer."
        )


def feed_for(training: Interactions, ranks: Ranks, per_click: int) -> Any:
    """What makes the batches of a training set, with so many non-clicks for each click: in shards where several
    ranks, or one for several, make them."""
    if ranks.shards == 1 and not ranks.many:
        return partial(ClickFeed, per_click=per_click)
    if not ranks.many:
        drawn = torch.where(training.full_users, 0, training.degrees)
        sizes = [int(drawn[shard :: ranks.shards].sum()) for shard in range(ranks.shards)]
        return partial(ShardedFeed, sizes=sizes, own=None, per_click=per_click)
    sizes, from_all = ranks.numbers(training.drawn_in_an_epoch), partial(_from_all, ranks)
    return partial(ShardedFeed, sizes=sizes, own=ranks.rank, from_all=from_all, per_click=per_click)


def _from_all(ranks: Ranks, numbers: Tensor) -> Tensor:
    return ranks.joined_rows(numbers.T).T


def gather(rec: Recommender, trained: Trained, judges: bool, ranks: Ranks) -> tuple[Trained, np.ndarray | None]:
    """What was trained, with whole networks on the first rank, and the quality of every click."""
    notes, run = _notes(trained, ranks), cast(Any, trained.run)
    with ranks.sending("the end"):
        quality = together(rec, _quality(rec, trained) if judges else None, ranks)
        if judges and run.valid is not None:
            lowest = run.valid.means(by_popularity(run.data))
            rec.notes_["lowest"] = {"item popularity": float(lowest[rec.metric])}
        kept = {role: whole_network(one, users=True, everywhere=False) for role, one in trained.kept.items()}
    for one in kept.values() if ranks.leads else ():
        if isinstance(one, SolvedModel):
            one.ranks = ALONE
            one.bind(rec._training().starts, rec._training().items)
    rec.notes_["ranks"] = notes
    return replace(trained, kept=kept), quality


def _notes(trained: Trained, ranks: Ranks) -> dict[str, float]:
    """How many ranks there were, and what the busiest of them sent while reading, in a step and to validate."""
    run: Any = trained.run
    steps = max(1, len(trained.history) * run.feed([run.data], run.options.batch_size, False, False).count)
    (sent, waited), (checked, _) = ranks.figures("training"), ranks.figures("validation")
    read, _ = ranks.figures("reading")
    return {
        "count": ranks.size,
        "steps": steps,
        "bytes_read": round(read, 1),
        "bytes_per_step": round(sent / steps, 1),
        "seconds_waited_per_step": round(waited / steps, 6),
        "bytes_per_validation": round(checked / max(1, len(trained.history)), 1),
    }


@torch.no_grad()
def _quality(rec: Recommender, trained: Trained) -> np.ndarray:
    """The quality of the clicks of this rank's users."""
    method, clicks, ranks = rec._method(), rec.clicks_, rec._sharing
    near = {role: whole_network(one, users=False) for role, one in trained.kept.items()}
    run: Any = trained.run
    device = run.data.device

    def quality(users: Tensor, items: Tensor) -> Tensor:
        return method.label_quality(near, positives(users.to(device), items.to(device))).flatten().cpu()

    return over_pairs(quality, clicks.users // ranks.size, clicks.items)
