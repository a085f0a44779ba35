"""Training methods behind one small interface. A new method is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable

from accord.errors import SettingError, nearest
from accord.methods.base import Batch, Build, Method, Phase
from accord.methods.deca import DeCA
from accord.methods.deca_p import DeCAp
from accord.methods.denoising import Denoising
from accord.methods.normal import Normal

METHODS: dict[str, Callable[[Denoising, str], Method]] = {
    "normal": lambda denoising, auxiliary: Normal(),
    "deca": DeCA,
    "deca-p": lambda denoising, auxiliary: DeCAp(denoising),
}


CONSTANTS = {"normal": (0.0, 0.0), "deca": (10.0, 10.0), "deca-p": (1.0, 10.0)}
"""C0 and C1 of each method where none are given: the paper's grid, chosen by noisy validation on simulated logs."""


def make_method(name: str, denoising: Denoising, auxiliary: str = "mf") -> Method:
    """The method of a name."""
    if name not in METHODS:
        raise SettingError(f"Unknown method '{name}': {nearest(name, METHODS)}")
    return METHODS[name](denoising, auxiliary)


__all__ = [
    "CONSTANTS",
    "METHODS",
    "Batch",
    "Build",
    "DeCA",
    "DeCAp",
    "Denoising",
    "Method",
    "Normal",
    "Phase",
    "make_method",
]
