"""Fitting several recommenders as one stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from accord.data.clicks import Clicks, load_clicks
from accord.data.interactions import NO_NEGATIVE, Interactions
from accord.errors import AccordError, DataError, SettingError
from accord.estimators.limits import free_memory
from accord.estimators.parts import TRAIN
from accord.estimators.recommender import Recommender
from accord.estimators.settings import RecommenderSettings
from accord.evaluation import RankingTask, stacked_means
from accord.methods import Denoising, make_method
from accord.methods.denoising import PerRun
from accord.models import RECOMMENDERS
from accord.models.stack import Stack
from accord.models.stacked import STACKS, stack
from accord.training import Hook, Where, checkpoint_of, resolve_device
from accord.training.optimisers import MANY_ROWS
from accord.training.stacked_worlds import Clicks as ClickWorld
from accord.training.stacking import StackedRun, train_stacked

MAY_DIFFER = frozenset({"seed", "learning_rate", "l2", "c0", "c1", "alpha", "drop_rate", "beta"})
"""Settings in which the runs of a stack may differ."""
METHODS = ("normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p")
"""Methods whose loss is the same for one run and for many."""


ON_CPU, ON_GPU = 16, 256
"""Most runs of a stack: beyond them nothing is gained."""
SHARE = 0.25
"""Share of the free memory that a stack may fill."""
T = TypeVar("T")


def stack_size(settings: RecommenderSettings, n_users: int, n_items: int) -> int:
    """How many runs fit into memory as one stack, with their optimiser's moments and a step's batches."""
    if settings.method not in METHODS or RECOMMENDERS.get(settings.model) not in STACKS:
        return 1
    device = resolve_device(settings.device)
    if _by_rows(settings, n_users, n_items, device):
        return 1
    need = settings.memory_need(n_users, n_items, settings.batch_size)
    most = ON_GPU if device.type == "cuda" else ON_CPU
    return int(max(1, min(most, SHARE * free_memory(device) // need)))


def _by_rows(settings: RecommenderSettings, n_users: int, n_items: int, device: torch.device) -> bool:
    """Whether a run alone would update its tables by rows, which a stack does not."""
    if device.type != "cpu" or settings.updates == "dense":
        return False
    return settings.updates == "rows" or max(n_users, n_items) > MANY_ROWS * settings.batch_size


def can_stack(recommenders: Sequence[Recommender]) -> bool:
    """Whether these can be trained as one: one architecture and method, alike but for what may differ."""
    if not recommenders:
        return False
    first = recommenders[0].settings
    if first.method not in METHODS or RECOMMENDERS.get(first.model) not in STACKS:
        return False
    if RECOMMENDERS[first.noise_model] not in STACKS or RECOMMENDERS[first.auxiliary] not in STACKS:
        return False
    fixed = [r.settings.model_dump(exclude=set(MAY_DIFFER)) for r in recommenders]
    return all(one == fixed[0] for one in fixed)


class StackError(SettingError):
    """These runs cannot be one stack, though each can be trained alone."""


class Source(NamedTuple):
    """What a recommender is fitted on: `Recommender.fit`'s own words."""

    log: Any
    valid: Any = None
    known: Any = None
    seen: Any = None
    columns: Mapping[str, str | None] = {}
    watch: Any = None


def fit_stacked(
    recommenders: Sequence[Recommender],
    sources: Source | Sequence[Source],
    *,
    hooks: Sequence[Hook | None] | None = None,
    judge: bool = True,
    failed: Callable[[int, AccordError], None] | None = None,
    checkpoint: Where | None = None,
) -> list[Recommender]:
    """Fit several recommenders as one program, on one log or on logs of one size; each ends as it would alone.

    Without ``judge`` the clicks are not judged: enough for a search, which reads the history alone. A run that
    diverges leaves the stack and the others go on; ``failed`` is told of it, or its error is raised at the end.
    ``checkpoint`` is as in `Recommender.fit`, of the stack as a whole.
    """
    each = [sources] * len(recommenders) if isinstance(sources, Source) else list(sources)
    told = hooks or [None] * len(recommenders)
    if not recommenders or not len(recommenders) == len(each) == len(told):
        raise DataError("Give as many sources (and hooks) as recommenders, and at least one.")
    if not can_stack(recommenders):
        raise SettingError(
            f"These recommenders cannot be stacked; they may differ in {', '.join(sorted(MAY_DIFFER))}."
        )
    device = resolve_device(recommenders[0].settings.device)
    taken = _Taken(device)
    runs = [taken.run(rec, source, hook) for rec, source, hook in zip(recommenders, each, told, strict=True)]
    first = recommenders[0].settings
    if not all(run.data.drawn_in_an_epoch for run in runs):
        raise DataError(NO_NEGATIVE)
    if len({(run.data.drawn_in_an_epoch, run.data.n_users, run.data.n_items) for run in runs}) > 1:
        raise StackError("The training parts of these runs differ in size; give a validation file to share.")
    if _by_rows(first, runs[0].data.n_users, runs[0].data.n_items, device):
        raise StackError("Tables of these sizes are updated by rows, which a stack does not; give updates=dense.")
    if "cdae" in (first.model, first.auxiliary, first.noise_model):
        cut = [run.data.row_batches(first.batch_size) for run in runs]
        if not all(own.even and own.batches == cut[0].batches for own in cut):
            raise StackError("A user has more clicks than a batch holds, so the runs' passes differ in length.")
    if len({id(run.data) for run in runs}) > 1 and "lightgcn" in (first.model, first.auxiliary, first.noise_model):
        raise StackError("A stack of LightGCN shares one graph, but these runs hold out different clicks.")
    stacks: list[Stack] = []

    def build(role: str, model: str | None = None) -> nn.Module:
        stacks.append(
            stack([rec._build(role, model, run.data) for rec, run in zip(recommenders, runs, strict=True)])
        )
        return stacks[-1]

    values = {  # shares of a count are rounded as exactly as those of a run alone
        name: PerRun([float(getattr(rec.settings, name)) for rec in recommenders], device, dtype)
        for name, dtype in (("drop_rate", torch.float64), ("beta", torch.float32))
    }
    denoising, settings = _denoising(recommenders, device)
    method = make_method(first.method, denoising, first.auxiliary, ramp_epochs=first.ramp_epochs, **values)
    phases = method.phases(build)
    known = [device.type, *(source.watch if isinstance(source.watch, str | Path) else "" for source in each)]
    known += [words for rec in recommenders for words in (rec.settings.model_dump_json(), len(rec.user_ids_))]
    shared = [(rec.clicks_, rec.clicks_.keys) for rec in recommenders] + [(r.part_, r.part_) for r in recommenders]
    kept_in = checkpoint_of(checkpoint, *known, *once(shared))
    train_stacked(phases, stacks, [*settings, *values.values()], runs, ClickWorld(_measure), kept_in)
    errors: list[tuple[int, AccordError]] = []
    for r, (rec, run) in enumerate(zip(recommenders, runs, strict=True)):
        if run.error is not None:
            errors.append((r, run.error))
            continue
        kept: dict[str, Any] = {role: phase.networks[role] for phase in phases for role in phase.kept}
        rec.history_ = run.history
        rec.networks_ = {role: s.everyone[r] for role, s in kept.items() if role != "prior"}
        if judge:
            rec._judge_clicks()
        rec._move("cpu")
    if kept_in is not None and isinstance(checkpoint, str | Path):
        kept_in.remove()
    for r, error in errors:
        if failed is None:
            raise error
        failed(r, error)
    return list(recommenders)


def batched(jobs: Sequence[T], most: int) -> list[list[T]]:
    """At most so many at a time, and as evenly as may be: one left over would train alone."""
    parts = -(-len(jobs) // most)
    bounds = [k * len(jobs) // parts for k in range(parts + 1)] if parts else []
    return [list(jobs[a:b]) for a, b in pairwise(bounds)]


def once(arrays: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """The arrays of (whose it is, array); where whose it is came before, its number instead."""
    seen: dict[int, int] = {}
    for owner, array in arrays:
        yield seen.get(id(owner), array)
        seen.setdefault(id(owner), len(seen))


def _measure(scorer: Any, task: RankingTask, runs: int) -> dict[str, Tensor]:
    return stacked_means(scorer, task, [20], runs)


class _Taken:
    """Logs that were read, and their tensors on the device: runs that share them share one copy."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._clicks: dict[tuple[int, int], Clicks] = {}
        self._split: dict[Any, Recommender] = {}
        self._data: dict[Any, Interactions] = {}
        self._tasks: dict[Any, RankingTask | None] = {}
        self._watched: dict[Any, RankingTask | None] = {}

    def run(self, rec: Recommender, source: Source, hook: Hook | None) -> StackedRun:
        log = id(source.log), id(source.known)
        if log not in self._clicks:
            self._clicks[log] = load_clicks(source.log, known=source.known, **source.columns)
        settings = rec.settings
        drawn = (settings.seed, settings.valid_share, settings.split) if source.valid is None else ()
        key = (*log, id(source.valid), id(source.seen), *drawn)
        if key in self._split:
            rec._share_log(self._split[key])
        else:
            rec._take_log(self._clicks[log], source.valid, source.seen)
            self._split[key] = rec
        rec.__dict__.pop("_cache", None)
        part = id(rec.clicks_), np.packbits(rec.part_ == TRAIN).tobytes()
        if part not in self._data:
            self._data[part] = rec._interactions(rec.part_ == TRAIN, self.device)
        data = self._data[part]
        users = len(np.unique(rec.clicks_.users[rec.part_ != TRAIN]))
        seed = settings.seed if users > settings.valid_users else None  # which of them are ranked is drawn
        if (part, settings.valid_users, seed) not in self._tasks:
            self._tasks[part, settings.valid_users, seed] = rec._validation_task(data)
        task = self._tasks[part, settings.valid_users, seed]
        if source.watch is not None and (part, id(source.watch)) not in self._watched:
            self._watched[part, id(source.watch)] = rec._watched_task(source.watch, data)
        watched = self._watched.get((part, id(source.watch)))
        return StackedRun(settings.training_options(len(rec.user_ids_)), data, task, hook, watched)


def _denoising(recommenders: Sequence[Recommender], device: Any) -> tuple[Denoising, list[PerRun]]:
    each = [rec.settings.denoising() for rec in recommenders]
    values = {name: PerRun([float(getattr(d, name)) for d in each], device) for name in ("c0", "c1", "alpha")}
    first = each[0]
    made = Denoising(
        values["c0"], values["c1"], values["alpha"], sub_tasks=first.sub_tasks, noise_model=first.noise_model
    )
    return made, list(values.values())
