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


def make_method(name: str, denoising: Denoising, auxiliary: str = "mf") -> Method:
    """The method of a name."""
    if name not in METHODS:
        raise SettingError(f"Unknown method '{name}': {nearest(name, METHODS)}")
    return METHODS[name](denoising, auxiliary)


__all__ = ["METHODS", "Batch", "Build", "DeCA", "DeCAp", "Denoising", "Method", "Normal", "Phase", "make_method"]
