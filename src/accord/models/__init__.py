"""Networks that return logits and know no loss. A new model is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from accord.errors import SettingError, nearest
from accord.models.gmf import GMF
from accord.models.mf import MF
from accord.models.pairwise import SPREAD, FactorModel, PairModel

if TYPE_CHECKING:
    from torch import nn

RECOMMENDERS: dict[str, type[FactorModel]] = {"mf": MF, "gmf": GMF}

ModelFactory = Callable[[int, int], "nn.Module"]
"""Builds a model for a number of users and a number of items."""


def recommender_factory(
    model: str | ModelFactory, *, dims: int, item_bias: bool, spread: float = SPREAD
) -> ModelFactory:
    """The factory of a named model, or the caller's own, checked when it is used."""
    if callable(model):
        return model
    if model not in RECOMMENDERS:
        raise SettingError(f"Unknown model '{model}': {nearest(model, RECOMMENDERS)}")
    return partial(RECOMMENDERS[model], dims=dims, item_bias=item_bias, spread=spread)


__all__ = ["GMF", "MF", "RECOMMENDERS", "FactorModel", "ModelFactory", "PairModel", "recommender_factory"]
