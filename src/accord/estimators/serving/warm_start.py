"""Go on learning: networks that begin with what an earlier recommender has learned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from accord.data.clicks import Clicks, locate, pair_keys
from accord.errors import DataWarning, SettingError
from accord.estimators.base import CUSTOM, Cache
from accord.models import is_solved, trait

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

FEW = 0.5
"""The share of the earlier users that should be in the log."""
SIDES = ("user", "item")


class WarmStart:
    """An earlier recommender, whose rows of known users and items are taken over."""

    def __init__(self, rec: Recommender, earlier: Recommender, where: str) -> None:
        self.rec, self.earlier, self.where = rec, earlier, where
        ids = {"user": (rec.user_ids_, earlier.user_ids_), "item": (rec.item_ids_, earlier.item_ids_)}
        self.rows = {side: old.find(new.values) for side, (new, old) in ids.items()}
        self.sizes = {side: (len(old), len(new)) for side, (new, old) in ids.items()}

    @staticmethod
    def of(rec: Recommender, source: Mapping[str, Any], cache: Cache) -> WarmStart | None:
        """What `fit` was asked to begin with, if anything."""
        given = source.get("warm_start")
        earlier = earlier_of(rec, source, cache)
        if earlier is None:
            return None
        where = f"'{given}'" if isinstance(given, str | Path) else "the earlier recommender"
        made = WarmStart(rec, earlier, where)
        made._refuse_or_warn()
        rec.notes_["warm_start"] = made.notes()
        return made

    def notes(self) -> dict[str, Any]:
        """How many users and items are known, and how many are new."""
        counts = {f"{side}s": int((rows >= 0).sum()) for side, rows in self.rows.items()}
        return counts | {f"new_{side}s": int((rows < 0).sum()) for side, rows in self.rows.items()}

    def identity(self) -> list[tuple[Any, Any]]:
        """By what a checkpoint is known that began so."""
        networks = sorted(self.earlier.networks_.items())
        tensors = [tensor for _, network in networks for tensor in network.state_dict().values()]
        arrays = [tensor.detach().float().cpu().numpy() for tensor in tensors]
        return [(array, array) for array in (*arrays, *self.rows.values())]

    def begin(self, network: nn.Module, role: str) -> nn.Module:
        """A fresh network with what the earlier one of its role has learned; a prior begins as the target was."""
        old = self.earlier.networks_.get(role)
        if old is None and role == "prior":
            old = self.earlier.networks_.get("target")
        if old is None or type(old) is not type(network) or _solved_at_once(network):
            return network
        before = old.state_dict()
        with torch.no_grad():
            for name, value in network.state_dict().items():
                if name in before:
                    self._take(role, name, value, before[name])
        return network

    def _take(self, role: str, name: str, new: Tensor, old: Tensor) -> None:
        side = self._side(name, new, old)
        if new.shape[1:] != old.shape[1:] or (side is None and new.shape != old.shape):
            raise SettingError(
                f"'{name}' of {role} has the shape {tuple(old.shape)} in {self.where} and {tuple(new.shape)} here: "
                "let the settings of the model be the same, such as dims."
            )
        if side is None:
            new.copy_(old)
            return
        rows = torch.from_numpy(self.rows[side])
        known = rows >= 0
        new[known.to(new.device)] = old[rows[known]].to(new)

    def _side(self, name: str, new: Tensor, old: Tensor) -> str | None:
        """Whether a table has a row for each user or for each item: as it is called, where their numbers agree."""
        if not new.dim() or not old.dim():
            return None
        fitting = [side for side in SIDES if self.sizes[side] == (len(old), len(new))]
        return next((side for side in fitting if side in name), fitting[0] if fitting else None)

    def _refuse_or_warn(self) -> None:
        rec, earlier = self.rec, self.earlier
        if _model(rec) != _model(earlier):
            raise SettingError(
                f"{self.where} holds the model '{_model(earlier)}', and this is '{_model(rec)}': an earlier "
                "model of the same kind can be continued."
            )
        if _model(rec) != CUSTOM and _solved_at_once(_model(rec)):
            warnings.warn(
                f"Model '{_model(rec)}' is solved anew: its closed form takes nothing over from {self.where}.",
                DataWarning,
                stacklevel=2,
            )
        missing = len(earlier.user_ids_) - int((self.rows["user"] >= 0).sum())
        if missing > FEW * len(earlier.user_ids_):
            warnings.warn(
                f"{missing:,} of the {len(earlier.user_ids_):,} users of {self.where} are not in this log, and are "
                "forgotten; give their clicks too, if they are to stay.",
                DataWarning,
                stacklevel=2,
            )


def earlier_of(rec: Recommender, source: Mapping[str, Any], cache: Cache) -> Recommender | None:
    """The recommender that `fit` was asked to begin with, if any; read once."""
    given = source.get("warm_start")
    return None if given is None else cache.get(("warm start", str(given)), [given], lambda: _fitted(rec, given))


def parts_before(clicks: Clicks, earlier: Recommender) -> np.ndarray:
    """The use of each click in the earlier recommender, −1 where it had no such click."""
    users, items = earlier.user_ids_.find(clicks.user_ids.values), earlier.item_ids_.find(clicks.item_ids.values)
    users, items = users[clicks.users], items[clicks.items]
    keys = pair_keys(users, items, len(earlier.item_ids_))
    at, found = locate(earlier.clicks_.keys, keys, (users >= 0) & (items >= 0))
    return np.where(found, earlier.part_[at], -1)


def _model(rec: Recommender) -> str:
    return CUSTOM if rec._factory is not None else rec.settings.model


def _solved_at_once(model: Any) -> bool:
    """Whether a model, by name or as a network, comes out the same wherever it begins."""
    sweeps = trait(model, "sweeps", 1) if isinstance(model, str) else getattr(model, "sweeps", 1)
    return is_solved(model) and sweeps is not None


def _fitted(rec: Recommender, given: Any) -> Recommender:
    """A recommender that was handed over, or read from its folder."""
    if isinstance(given, str | Path):
        return type(rec).load(given)
    if not isinstance(given, type(rec)):
        raise SettingError(
            f"warm_start is a {type(given).__name__}; give a fitted Recommender, or the folder of a saved one."
        )
    given._require_fit()
    return given
