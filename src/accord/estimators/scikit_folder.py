"""A scikit-learn model in a run folder: by skops, which unpickles nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.errors import DataError, SettingError, first_line
from accord.estimators.scikit_models import ScikitModel
from accord.extras import needed

MODEL = "model.skops"


class Stored:
    """In place of an estimator that is still to be read."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self.trusted = [trusted] if isinstance(trusted, str) else list(trusted)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, X: Any, y: Any) -> None:
        raise NotImplementedError

    def predict_proba(self, X: Any) -> None:
        raise NotImplementedError


def write(target: ScikitModel, draft: Path) -> None:
    """Write the fitted estimator into a run folder that is being made."""
    dumps = needed("skops.io", "Saving a scikit-learn model").dumps
    fitted = target.fitted.model if target.fitted is not None else None
    try:
        (draft / MODEL).write_bytes(dumps(fitted))
    except Exception as error:  # whatever a part of somebody's pipeline raises
        raise SettingError(
            f"The {type(fitted).__name__} cannot be saved without pickle: {first_line(error)}; leave out parts "
            "made of functions, or keep the model in memory."
        ) from error


def read(run: Path, trusted: Sequence[str]) -> Any:
    """Read it, if all its types are known to be safe or ``trusted``."""
    skops = needed("skops.io", f"'{run}' holds a scikit-learn model, and loading it")
    path = run / MODEL
    try:
        unknown = [name for name in skops.get_untrusted_types(file=path) if name not in trusted]
        fitted = None if unknown else skops.load(path, trusted=list(trusted))
    except Exception as error:  # whatever a damaged file makes skops raise
        raise DataError(
            f"'{path}' does not hold a scikit-learn model ({first_line(error)}); fit it again."
        ) from error
    if unknown:
        raise DataError(
            f"'{path}' holds types that are not known to be safe: {', '.join(unknown)}; if you trust where the run "
            f"comes from, load it with trusted={unknown!r}."
        )
    if not hasattr(fitted, "predict_proba") or not hasattr(fitted, "classes_"):
        raise DataError(f"'{path}' does not hold a fitted classifier; fit it again.")
    return fitted
