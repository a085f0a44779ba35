"""DeCA(p)'s prior where it is not of the target's own architecture: another model, an estimator or a council.

It is fitted before the phases begin, as an estimator of its own, on the part that the target learns from. One that
came fitted is kept as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from accord.data.interactions import Interactions
from accord.errors import SettingError
from accord.estimators.base import Cache, Convening, Estimator, Prepared
from accord.estimators.council.members import Asked, Member, refuse_lost, told_of
from accord.estimators.naming import is_scorer, object_of
from accord.estimators.networks import logits_twice
from accord.estimators.run_folder import seconds_of_members
from accord.estimators.setting_rules import takes_item_bias
from accord.estimators.settings import COUNCIL
from accord.methods.assembly import Taught
from accord.models.stack import stack_kind
from accord.training import Callback

SEEDS_APART = 1009
"""Between the seeds of the priors of neighbouring seeds."""


@dataclass
class Prior:
    """A prior that is ready."""

    network: nn.Module
    notes: dict[str, Any]
    """What the run says of it."""
    known_by: list[Any]
    architectures: dict[str, str] = field(default_factory=dict)
    role: ClassVar[str] = "prior"

    def identity(self) -> list[Any]:
        """Words and arrays by which a checkpoint knows it."""
        return self.known_by


def fitted_first(
    est: Estimator, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Callback | None
) -> Convening | None:
    """Have the prior fitted, if it is not; None where it is of the target's architecture: a phase."""
    given = object_of(est.settings.prior, est.objects())
    if isinstance(given, str) and given in (est.settings.model, prepared.architecture):
        return None
    return _ready(est, given, prepared, source, cache, callback)


def _ready(
    est: Estimator,
    given: Any,
    prepared: Prepared,
    source: Mapping[str, Any],
    cache: Cache,
    callback: Callback | None,
) -> Generator[Asked, list[Member], Prior]:
    """Have it fitted, unless it came so."""
    device = prepared.run.data.device
    if hasattr(given, "networks_") and isinstance(given, type(est)):
        network = _copied(est._as_prior(given)).to(device)
        weights = [tensor.detach().float().cpu().numpy() for tensor in network.state_dict().values()]
        (row,) = told_of([Member(_words(given), given, fitted=True)], "")
        made = Prior(_asked_fast(network, prepared), row | {"fitted": True}, weights)
    else:
        wanted = _wanted(est, given)
        member = Member(_words(wanted), wanted, est._divided(source, cache))
        key = _key(est, member, device) if isinstance(given, str) and not est.objects() else None
        if key is not None and key in cache.lasting:
            member = cache.lasting[key]
        else:
            yield Asked([member], callback, what="prior")
            refuse_lost([member])
            if key is not None:
                cache.lasting.clear()  # one at a time is held for others
                cache.lasting[key] = member
        (row,) = told_of([member], est.metric)
        row["model"] = _words(member.estimator)
        row["seconds"] = round(row["seconds"] + seconds_of_members(member.estimator.notes_), 3)
        network = est._as_prior(member.estimator).to(device)
        made = Prior(_asked_fast(network, prepared), row, [repr(wanted.settings_to_save())])
    return made


def _asked_fast(network: nn.Module, prepared: Prepared) -> nn.Module:
    """A prior as every step asks it: of clicks by a table of its answers, unless it answers fast by itself."""
    data, kind = prepared.run.data, type(network)
    if not isinstance(data, Interactions) or (
        stack_kind(kind) is not None and not getattr(kind, "reads_rows", False)
    ):
        return network
    made = Taught(network, data.n_users, data.n_items, data.device, lowest=-torch.inf)
    if made.table is None:  # then it is asked in every step, and may do what cannot be captured
        prepared.run.options = replace(prepared.run.options, capture=False)
    return made


def _copied(network: nn.Module) -> nn.Module:
    """A network of its own, to be moved to a device and asked; its buffers change no more, and so are shared."""
    return copy.deepcopy(network, {id(one): one for one in network.buffers()}).requires_grad_(False).eval()


def _key(est: Estimator, member: Member, device: torch.device) -> tuple[Any, ...]:
    """What priors have in common that are the same."""
    divided, settings = member.source["divided"], repr(member.estimator.settings)
    if isinstance(divided, np.ndarray):  # of labels; the member holds its examples, so no others have their id
        labels = np.asarray(est.labels_)  # pyright: ignore[reportAttributeAccessIssue]
        weights = member.source["sample_weight"]
        own = (
            divided.tobytes(),
            labels.tobytes(),
            id(member.source["X"]),
            None if weights is None else weights.tobytes(),
        )
        return "prior", str(device), *own, settings
    return "prior", str(device), divided.part.tobytes(), divided.clicks.keys.tobytes(), settings


def _wanted(est: Estimator, given: Any) -> Estimator:
    """The estimator to fit: one that was given with its own settings, or one of a model with the target's."""
    settings = est.settings
    seed = {"seed": settings.seed * SEEDS_APART + 1}
    if isinstance(given, Estimator):
        if not isinstance(given, type(est)):
            raise SettingError(
                f"The prior of a {est.kind} is a {est.kind}, not a {given.kind}; give one, or a model's name."
            )
        own = {name: value for name, value in given.changed_settings().items() if name in seed}
        return given.renewed(**seed | own, device=settings.device)
    fields = type(settings).model_fields
    of_target = {*settings.method_class.settings_of(est.task).model_fields, "learning_rate", "l2", "negatives"}
    left = of_target & set(fields)
    if isinstance(given, str) and est.task == "clicks" and not takes_item_bias(given, settings.item_bias):
        left.add("item_bias")
    usual = {name: fields[name].default for name in left} | seed
    if given == COUNCIL:
        return est.renewed(method=COUNCIL, **usual)
    if isinstance(given, str):
        return est.renewed(model=given, method="normal", **usual)
    scores = est.task == "clicks" and is_scorer(given)
    if not scores and (not callable(given) or hasattr(given, "predict_proba")):
        raise SettingError(
            f"A {type(given).__name__} cannot be a prior: give a model's name, a {est.kind} or a torch module; "
            "another estimator can be a member of a council, and a council a prior."
        )
    own = {"features": logits_twice} if est.task == "labels" else {}
    return est.renewed(model=given, method="normal", **usual, **own)


def _words(one: Any) -> str:
    """A prior in a few words: its model, and its method where that is not normal training."""
    model = getattr(one, "model_", one.settings.model)  # once it is fitted, what auto came to
    return model if one.settings.method == "normal" else f"{model} {one.settings.method}"
