"""The objects users hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord.estimators.recommender import Recommender

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier
    from accord.estimators.fitting import fit_together

__all__ = ["Classifier", "Recommender", "fit_together"]


def __getattr__(name: str) -> Any:
    # scikit-learn is imported only when a classifier is asked for.
    if name == "Classifier":
        from accord.estimators.classifier import Classifier

        return Classifier
    if name == "fit_together":
        from accord.estimators.fitting import fit_together

        return fit_together
    raise AttributeError(f"module 'accord.estimators' has no attribute {name!r}")
