"""accord: learn from labels you cannot trust, and find the ones that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["AccordError", "Classifier", "Recommender", "__version__"]

if TYPE_CHECKING:
    from accord.errors import AccordError
    from accord.estimators import Classifier, Recommender


def __getattr__(name: str) -> object:
    # torch is imported only when an estimator is asked for, so that `accord --help` is instant.
    if name in ("Classifier", "Recommender"):
        from accord import estimators

        return getattr(estimators, name)
    if name == "AccordError":
        from accord.errors import AccordError

        return AccordError
    raise AttributeError(f"module 'accord' has no attribute {name!r}")
