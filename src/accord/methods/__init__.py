"""Training methods behind one small interface. A new method is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from accord.errors import SettingError, nearest
from accord.methods.base import Batch, Build, Clock, Method, Phase
from accord.methods.deca import DeCA
from accord.methods.deca_p import DeCAp
from accord.methods.denoising import Denoising, PerRun
from accord.methods.ensemble import Ensemble
from accord.methods.itlm import ITLM
from accord.methods.mw_net import MWNet
from accord.methods.normal import Normal
from accord.methods.popularity import Popularity
from accord.methods.t_ce import ReweightedCE, TruncatedCE
from accord.methods.two_stage import TwoStage
from accord.methods.wbpr import WBPR
from accord.objectives import multiclass

S = TypeVar("S")


@dataclass(frozen=True)
class MethodSettings:
    """What the methods of the recommender can be told; each takes its own."""

    denoising: Denoising
    auxiliary: str = "mf"
    drop_rate: float | PerRun = 0.1
    ramp_epochs: int = 10
    beta: float | PerRun = 0.25


METHODS: dict[str, Callable[[MethodSettings], Method]] = {
    "normal": lambda s: Normal(),
    "wbpr": lambda s: WBPR(),
    "t-ce": lambda s: TruncatedCE(drop_rate=s.drop_rate, ramp_epochs=s.ramp_epochs),
    "r-ce": lambda s: ReweightedCE(beta=s.beta),
    "ensemble": lambda s: Ensemble(),
    "deca": lambda s: DeCA(denoising=s.denoising, auxiliary=s.auxiliary),
    "deca-p": lambda s: DeCAp(denoising=s.denoising),
    "popularity": lambda s: Popularity(),
}
CONSTANTS = {"deca": (10.0, 10.0), "deca-p": (1.0, 10.0)}
"""C0 and C1 of each method where none are given: the paper's grid, chosen by noisy validation on simulated logs."""


@dataclass(frozen=True)
class ClassifierMethodSettings:
    """What the methods of the classifier can be told; each takes its own."""

    denoising: TwoStage
    auxiliary: str = "mlp"
    keep_share: float = 0.7
    round_epochs: int = 10
    weight_rate: float = 1e-3
    clean: Any = None
    """Examples with trusted labels, for MW-Net alone."""
    keep_last: bool = False
    """Whether an ensemble keeps its networks of the last epochs too."""


CLASSIFIER_METHODS: dict[str, Callable[[ClassifierMethodSettings], Method]] = {
    "normal": lambda s: Normal(multiclass),
    "ensemble": lambda s: Ensemble(multiclass, s.keep_last),
    "mw-net": lambda s: MWNet(multiclass, s.clean, s.weight_rate),
    "itlm": lambda s: ITLM(multiclass, s.keep_share, s.round_epochs),
    "deca": lambda s: DeCA(multiclass, s.denoising, s.auxiliary),
    "deca-p": lambda s: DeCAp(multiclass, s.denoising),
}
USES_CLEAN_LABELS = ("mw-net",)
"""Methods that are given some clean labels; their rows are marked."""


def make_method(name: str, denoising: Denoising | None = None, auxiliary: str = "mf", **more: Any) -> Method:
    """The recommender's method of a name."""
    return _find(METHODS, name)(MethodSettings(denoising or Denoising(), auxiliary, **more))  # pyright: ignore


def make_classifier_method(name: str, settings: ClassifierMethodSettings) -> Method:
    """The classifier's method of a name."""
    return _find(CLASSIFIER_METHODS, name)(settings)


def _find(methods: Mapping[str, Callable[[S], Method]], name: str) -> Callable[[S], Method]:
    if name not in methods:
        raise SettingError(f"Unknown method '{name}': {nearest(name, methods)}")
    return methods[name]


__all__ = [
    "CLASSIFIER_METHODS",
    "CONSTANTS",
    "METHODS",
    "USES_CLEAN_LABELS",
    "Batch",
    "Build",
    "ClassifierMethodSettings",
    "Clock",
    "DeCA",
    "DeCAp",
    "Denoising",
    "Method",
    "Normal",
    "Phase",
    "TwoStage",
    "make_classifier_method",
    "make_method",
]
