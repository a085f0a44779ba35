"""A recommender that several ranks train together: each has a part of the users, and of every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from accord.batches.clicks import ClickFeed, positives
from accord.batches.shards import ShardedFeed
from accord.data.interactions import Interactions
from accord.errors import DataError, SettingError
from accord.estimators.base import CUSTOM, Trained
from accord.estimators.log_split import over_pairs
from accord.estimators.recommender_data import as_served
from accord.evaluation import RankingTask
from accord.evaluation.ranking import METRICS, stacked_metrics
from accord.methods import METHODS, methods_of
from accord.models import MODELS, trait
from accord.models.recommenders.solved import SolvedModel
from accord.models.stack import as_stack
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


def part_of(training: Interactions, ranks: Ranks) -> Interactions:
    """The training clicks of this rank's users."""
    return training.of_users(ranks.rank, ranks.size) if ranks.many else training


def feed_for(training: Interactions, ranks: Ranks, per_click: int) -> Any:
    """What makes the batches of a training set, with so many non-clicks for each click: in shards where several
    ranks, or one for several, make them."""
    if ranks.shards == 1:
        return partial(ClickFeed, per_click=per_click)
    drawn = torch.where(training.full_users, 0, training.degrees)
    sizes = [int(drawn[shard :: ranks.shards].sum()) for shard in range(ranks.shards)]
    if not ranks.many:
        return partial(ShardedFeed, sizes=sizes, own=None, per_click=per_click)
    from_all = partial(_from_all, ranks)
    return partial(ShardedFeed, sizes=sizes, own=ranks.rank, from_all=from_all, per_click=per_click)


def _from_all(ranks: Ranks, numbers: Tensor) -> Tensor:
    return ranks.joined_rows(numbers.T).T


def task_of(rec: Recommender, whole: RankingTask | None, part: Interactions, ranks: Ranks) -> Any:
    """A ranking task, of which each rank measures its own users."""
    if whole is None or not ranks.many:
        return whole
    return DividedTask(whole, as_served(rec, whole.of_users(ranks.rank, ranks.size), part), ranks)


@dataclass(frozen=True, eq=False)
class DividedTask:
    """A ranking task whose users are divided; what each rank finds is added up."""

    whole: RankingTask
    own: RankingTask
    ranks: Ranks

    def same_as(self, other: DividedTask) -> bool:
        return self is other

    def measure(self, target: Any, which: Sequence[int], tasks: Sequence[DividedTask]) -> dict[str, Tensor]:
        """Metrics of the only member of a stack, each (1,). It scores with whole tables of items."""
        (network,) = as_stack(target).networks
        ks = self.own.ks
        names = [f"{name}@{k}" for k in ks for name in METRICS]
        with self.ranks.sending("validation"):
            near: Any = whole_network(network, users=False)
            each = stacked_metrics(lambda users: near.scores(users)[None], self.own, ks, 1)
            settled = self.own.settled
            sums = [each[name].double().sum() for name in names]
            if settled is not None:
                more = settled.sums(ks)
                sums = [own + more[name].double() for own, name in zip(sums, names, strict=True)]
            users = len(self.own.users) + (0 if settled is None else len(settled))
            total = self.ranks.summed(torch.stack([*sums, sums[0].new_tensor(float(users))]))
        return {name: (total[k] / total[-1])[None] for k, name in enumerate(names)}


def gather(rec: Recommender, trained: Trained, judges: bool, ranks: Ranks) -> tuple[Trained, np.ndarray | None]:
    """What was trained, with whole networks on the first rank, and the quality of every click."""
    notes = _notes(trained, ranks)
    with ranks.sending("the end"):
        quality = _quality(rec, trained, ranks) if judges else None
        kept = {role: whole_network(one, users=True, everywhere=False) for role, one in trained.kept.items()}
    for one in kept.values() if ranks.leads else ():
        if isinstance(one, SolvedModel):
            one.ranks = ALONE
            one.bind(rec._training().starts, rec._training().items)
    run: Any = trained.run
    whole = {name: getattr(one, "whole", one) for name in ("valid", "eval_set") if (one := getattr(run, name))}
    rec.notes_["ranks"] = notes
    return replace(trained, kept=kept, run=replace(run, **whole)), quality


def _notes(trained: Trained, ranks: Ranks) -> dict[str, float]:
    """How many ranks there were, and what the busiest of them sent in a step."""
    run: Any = trained.run
    steps = max(1, len(trained.history) * run.feed([run.data], run.options.batch_size, False, False).count)
    (sent, waited), (checked, _) = ranks.figures("training"), ranks.figures("validation")
    return {
        "count": ranks.size,
        "steps": steps,
        "bytes_per_step": round(sent / steps, 1),
        "seconds_waited_per_step": round(waited / steps, 6),
        "bytes_per_validation": round(checked / max(1, len(trained.history)), 1),
    }


@torch.no_grad()
def _quality(rec: Recommender, trained: Trained, ranks: Ranks) -> np.ndarray | None:
    """The quality of every click, on the first rank; each rank judges those of its own users."""
    method, clicks = rec._method(), rec.clicks_
    near = {role: whole_network(one, users=False) for role, one in trained.kept.items()}
    run: Any = trained.run
    device = run.data.device

    def quality(users: Tensor, items: Tensor) -> Tensor:
        return method.label_quality(near, positives(users.to(device), items.to(device))).flatten().cpu()

    own = clicks.users % ranks.size == ranks.rank
    found = over_pairs(quality, clicks.users[own] // ranks.size, clicks.items[own])
    parts = ranks.at_first(torch.from_numpy(found))
    if not ranks.leads:
        return None
    whole = np.empty(len(clicks), np.float32)
    for rank, part in enumerate(parts):
        whole[clicks.users % ranks.size == rank] = part.numpy()
    return whole
