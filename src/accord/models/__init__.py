"""Networks that return logits and know no loss. A new model is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from accord.errors import SettingError, nearest
from accord.models.cdae import CDAE
from accord.models.gmf import GMF
from accord.models.lightgcn import LightGCN
from accord.models.mf import MF
from accord.models.neumf import NeuMF
from accord.models.noise_model import NoiseModel
from accord.models.pairwise import SPREAD, FactorModel, PairModel
from accord.models.popularity import Popularity
from accord.models.vision import MLP, Backbone, ConvNet, FeatureModel, FeatureReader, Inception, ResNet32, Wrapped

if TYPE_CHECKING:
    from torch import nn

RECOMMENDERS: dict[str, Callable[..., nn.Module]] = {
    "mf": MF,
    "gmf": GMF,
    "neumf": NeuMF,
    "cdae": CDAE,
    "lightgcn": LightGCN,
}
"""Models by name. A model with a method ``bind(starts, items)`` is given the training clicks before it is used."""
UNTRAINED: dict[str, Callable[..., nn.Module]] = {"popularity": Popularity}
NOISE_MODELS = ("mf", "gmf", "neumf")
"""What the noise models h and h′ can be."""

CLASSIFIERS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "mlp": MLP,
    "convnet": ConvNet,
    "resnet32": ResNet32,
    "inception": Inception,
}
"""Classifier networks by name: each is built for the shape of an example and a number of classes."""

ModelFactory = Callable[[int, int], "nn.Module"]
"""Builds a model for a number of users and a number of items."""


def recommender_factory(
    model: str | ModelFactory, *, dims: int | None = None, item_bias: bool = False, spread: float = SPREAD
) -> ModelFactory:
    """The factory of a named model, or the caller's own; without ``dims`` a model has the paper's."""
    if callable(model):
        return model
    known = RECOMMENDERS | UNTRAINED
    if model not in known:
        raise SettingError(f"Unknown model '{model}': {nearest(model, RECOMMENDERS)}")
    options: dict[str, Any] = {"item_bias": item_bias, "spread": spread}
    return partial(known[model], **options, **({} if dims is None else {"dims": dims}))


__all__ = [
    "CDAE",
    "CLASSIFIERS",
    "GMF",
    "MF",
    "MLP",
    "NOISE_MODELS",
    "RECOMMENDERS",
    "Backbone",
    "ConvNet",
    "FactorModel",
    "FeatureModel",
    "FeatureReader",
    "Inception",
    "LightGCN",
    "ModelFactory",
    "NeuMF",
    "NoiseModel",
    "PairModel",
    "Popularity",
    "ResNet32",
    "Wrapped",
    "recommender_factory",
]
