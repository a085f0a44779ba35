"""Training methods behind one small interface. A new method is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accord.errors import SettingError, nearest
from accord.methods.base import Batch, Build, Clock, Method, Negatives, Phase
from accord.methods.deca import DeCA
from accord.methods.deca_p import DeCAp
from accord.methods.denoising import Denoising
from accord.methods.ensemble import Ensemble
from accord.methods.normal import Normal
from accord.methods.popularity import Popularity
from accord.methods.t_ce import ReweightedCE, TruncatedCE
from accord.methods.wbpr import WBPR


@dataclass(frozen=True)
class MethodSettings:
    """What the methods can be told; each takes its own."""

    denoising: Denoising
    auxiliary: str = "mf"
    drop_rate: float = 0.1
    ramp_epochs: int = 10
    beta: float = 0.25


METHODS: dict[str, Callable[[MethodSettings], Method]] = {
    "normal": lambda s: Normal(),
    "wbpr": lambda s: WBPR(),
    "t-ce": lambda s: TruncatedCE(s.drop_rate, s.ramp_epochs),
    "r-ce": lambda s: ReweightedCE(s.beta),
    "ensemble": lambda s: Ensemble(),
    "deca": lambda s: DeCA(s.denoising, s.auxiliary),
    "deca-p": lambda s: DeCAp(s.denoising),
    "popularity": lambda s: Popularity(),
}
CONSTANTS = {"deca": (10.0, 10.0), "deca-p": (1.0, 10.0)}
"""C0 and C1 of each method where none are given: the paper's grid, chosen by noisy validation on simulated logs."""


def make_method(name: str, denoising: Denoising | None = None, auxiliary: str = "mf", **more: float) -> Method:
    """The method of a name."""
    if name not in METHODS:
        raise SettingError(f"Unknown method '{name}': {nearest(name, METHODS)}")
    return METHODS[name](MethodSettings(denoising or Denoising(), auxiliary, **more))  # pyright: ignore


__all__ = [
    "CONSTANTS",
    "METHODS",
    "Batch",
    "Build",
    "Clock",
    "DeCA",
    "DeCAp",
    "Denoising",
    "Method",
    "Negatives",
    "Normal",
    "Phase",
    "make_method",
]
