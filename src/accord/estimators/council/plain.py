"""Members of a council that are scikit-learn estimators: by a short name, or given as an object.

They are fitted again for every fold and round, and only what they say is kept: nothing of them is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accord.estimators.naming import is_estimator
from accord.estimators.scikit_models import Pupil, taken


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, min_samples_leaf=2)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=0.1, max_iter=300)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(15, weights="distance")


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, min_samples_leaf=20)


PLAIN: dict[str, Callable[[], Any]] = {
    "forest": _forest,
    "logistic": _logistic,
    "neighbours": _neighbours,
    "boosting": _boosting,
}
"""Names of members that scikit-learn has."""


def is_plain(member: Any) -> bool:
    """Whether it is a scikit-learn classifier, or the name of one."""
    return member in PLAIN if isinstance(member, str) else is_estimator(member)


class PlainMember:
    """A scikit-learn classifier as a member."""

    def __init__(self, kind: str, given: Any, seed: int, names: np.ndarray | None = None) -> None:
        self.kind, self.named = kind, isinstance(given, str)
        model = PLAIN[given]() if isinstance(given, str) else given
        self.pupil = Pupil(model, seed, f"Member '{kind}'", None if self.named else names)
        self.model: Any = self.pupil.model
        if "random_state" in self.model.get_params():
            self.model.set_params(random_state=seed % (1 << 32))

    def identity(self) -> str:
        return repr(sorted(self.model.get_params().items(), key=lambda one: one[0]))

    def said(self, inputs: Any, targets: np.ndarray, rows: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Fit to rows of the inputs and their targets (rows, classes): the probabilities of those asked."""
        learnt = targets.argmax(1)
        if (learnt == learnt[0]).all():  # one class alone: most classifiers refuse to learn it
            return np.tile(targets.mean(0, dtype=np.float32), (len(asked), 1))
        if self.named and "n_neighbors" in self.model.get_params():
            self.model.set_params(n_neighbors=min(self.model.n_neighbors, len(rows)))
        self.pupil.learn(inputs, targets, rows)
        return self.pupil.say(taken(inputs, asked), targets.shape[1]).astype(np.float32)
