"""Fitting several recommenders as one stack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from accord.data.clicks import Clicks, load_clicks
from accord.errors import SettingError
from accord.estimators.parts import TRAIN
from accord.estimators.recommender import Recommender
from accord.estimators.settings import RecommenderSettings
from accord.evaluation import mean_metrics
from accord.methods import Denoising, make_method
from accord.methods.denoising import PerRun
from accord.models import RECOMMENDERS
from accord.models.stacked import STACKS, Stack, stack
from accord.training import Hook, resolve_device
from accord.training.stacking import StackedRun, train_stacked

MAY_DIFFER = frozenset({"seed", "learning_rate", "l2", "c0", "c1", "alpha"})
"""Settings in which the runs of a stack may differ."""
METHODS = ("normal", "wbpr", "r-ce", "ensemble", "deca", "deca-p")
"""Methods whose loss is the same for one run and for many."""


ON_CPU, ON_GPU = 16, 256
"""Most runs of a stack: beyond them nothing is gained."""
SHARE = 0.25
"""Share of the free memory that a stack may fill."""


def stack_size(settings: RecommenderSettings, n_users: int, n_items: int) -> int:
    """How many runs fit into memory as one stack, with their optimiser's moments and a step's batches."""
    if settings.method not in METHODS or RECOMMENDERS.get(settings.model) not in STACKS:
        return 1
    dims = settings.dims or (64 if settings.model == "lightgcn" else 32)
    wide = 5 * dims if settings.model == "neumf" else dims
    numbers = (n_users + n_items) * wide * NETWORKS * 5 + settings.batch_size * wide * NETWORKS * 12
    device = resolve_device(settings.device)
    if device.type == "cuda":
        free, most = torch.cuda.mem_get_info(device)[0], ON_GPU
    else:
        free, most = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), ON_CPU
    return int(max(1, min(most, SHARE * free // (4 * numbers))))


NETWORKS = 4
"""Networks of a method at most: target, auxiliary or prior, and two noise models."""


def can_stack(recommenders: Sequence[Recommender]) -> bool:
    """Whether these can be trained as one: one architecture and method, alike but for what may differ."""
    first = recommenders[0].settings
    if first.method not in METHODS or RECOMMENDERS.get(first.model) not in STACKS:
        return False
    if RECOMMENDERS[first.noise_model] not in STACKS or RECOMMENDERS[first.auxiliary] not in STACKS:
        return False
    fixed = [r.settings.model_dump(exclude=set(MAY_DIFFER)) for r in recommenders]
    return all(one == fixed[0] for one in fixed)


def fit_stacked(
    recommenders: Sequence[Recommender],
    log: Any,
    *,
    valid: Any = None,
    known: Any = None,
    seen: Any = None,
    hooks: Sequence[Hook | None] | None = None,
    **columns: str | None,
) -> list[Recommender]:
    """Fit several recommenders on one log as one program; each ends as it would alone."""
    if not can_stack(recommenders):
        raise SettingError(
            f"These recommenders cannot be stacked; they may differ in {', '.join(sorted(MAY_DIFFER))}."
        )
    clicks = load_clicks(log, known=known, **columns)
    device = resolve_device(recommenders[0].settings.device)
    runs, seen_parts = [], dict[bytes, Any]()
    for rec, hook in zip(recommenders, hooks or [None] * len(recommenders), strict=True):
        runs.append(_prepared(rec, clicks, valid, seen, device, hook, seen_parts))
    if len({run.data.drawn_in_an_epoch for run in runs}) > 1:
        raise SettingError("The training parts of these runs differ in size; give a validation file to share.")
    first = recommenders[0].settings
    if len(seen_parts) > 1 and "lightgcn" in (first.model, first.auxiliary, first.noise_model):
        raise SettingError("A stack of LightGCN shares one graph, but these runs hold out different clicks.")
    stacks: list[Stack] = []
    shared = [run.data for run in runs]

    def build(role: str, model: str | None = None) -> nn.Module:
        members = [rec._build(role, model, data) for rec, data in zip(recommenders, shared, strict=True)]
        stacks.append(stack(members))
        return stacks[-1]

    denoising, settings = _denoising(recommenders, device)
    method = make_method(first.method, denoising, first.auxiliary, beta=first.beta)
    phases = method.phases(build)
    train_stacked(phases, stacks, settings, runs)
    for r, (rec, run) in enumerate(zip(recommenders, runs, strict=True)):
        kept: dict[str, Any] = {role: phase.networks[role] for phase in phases for role in phase.kept}
        rec.history_ = run.history
        rec.networks_ = {role: s.everyone[r].to("cpu") for role, s in kept.items() if role != "prior"}
        rec._judge_clicks()
    return list(recommenders)


def _prepared(
    rec: Recommender, clicks: Clicks, valid: Any, seen: Any, device: Any, hook: Hook | None, parts: dict[bytes, Any]
) -> StackedRun:
    rec._take_log(clicks, valid, seen)
    rec.__dict__.pop("_cache", None)
    key = np.packbits(rec.part_ == TRAIN).tobytes()
    if key not in parts:  # runs that share their training part share its tensors
        data = rec._interactions(rec.part_ == TRAIN, device)
        parts[key] = data, rec._validation_task(data)
    data, task = parts[key]
    validate = None if task is None else lambda net: mean_metrics(net.scores, task, [20])  # pyright: ignore
    return StackedRun(rec.settings.training_options(len(rec.user_ids_)), data, validate, hook)


def _denoising(recommenders: Sequence[Recommender], device: Any) -> tuple[Denoising, list[PerRun]]:
    each = [rec.settings.denoising() for rec in recommenders]
    values = {name: PerRun([float(getattr(d, name)) for d in each], device) for name in ("c0", "c1", "alpha")}
    first = each[0]
    made = Denoising(
        values["c0"], values["c1"], values["alpha"], sub_tasks=first.sub_tasks, noise_model=first.noise_model
    )
    return made, list(values.values())
