"""The objects users hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier
    from accord.estimators.fitting import fit_together
    from accord.estimators.recommender import Recommender

__all__ = ["Classifier", "Recommender", "fit_together"]


def __getattr__(name: str) -> Any:
    # torch and scikit-learn are imported only when an estimator is asked for.
    if name == "Recommender":
        from accord.estimators.recommender import Recommender

        return Recommender
    if name == "Classifier":
        from accord.estimators.classifier import Classifier

        return Classifier
    if name == "fit_together":
        from accord.estimators.fitting import fit_together

        return fit_together
    raise AttributeError(f"module 'accord.estimators' has no attribute {name!r}")
