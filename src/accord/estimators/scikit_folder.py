"""A scikit-learn model in a run folder: by skops, which unpickles nothing."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.errors import DataError, SettingError, first_line
from accord.estimators.scikit_models import ScikitModel
from accord.extras import needed
from accord.memory import refuse_too_large
from accord.plain import open_plain

MODEL = "model.skops"
PART = 1000
"""Bytes of memory that a part of the file takes besides its content."""


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
    """Write the fitted estimator into a run folder that is being made, if it can be read again."""
    skops = needed("skops.io", "Saving a scikit-learn model")
    fitted = target.fitted.model if target.fitted is not None else None
    try:
        stored = skops.dumps(fitted)
        skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))  # it was made here
        (draft / MODEL).write_bytes(stored)
    except Exception as error:  # whatever a part of somebody's pipeline raises
        raise SettingError(
            f"The {type(fitted).__name__} cannot be saved without pickle: {first_line(error)}; leave out parts "
            "made of functions, or keep the model in memory."
        ) from error


def _refuse_bomb(path: Path) -> None:
    """Refuse an archive whose parts would not fit into memory."""
    try:
        with open_plain(path, inside=True) as file, zipfile.ZipFile(file) as packed:
            need = sum(2 * part.file_size + PART for part in packed.infolist())
            stored = os.fstat(file.fileno()).st_size
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise DataError(
            f"'{path}' does not hold a scikit-learn model ({first_line(error)}); fit it again."
        ) from error
    refuse_too_large(need, f"'{path}'", "fit it again", stored)


def read(run: Path, trusted: Sequence[str]) -> Any:
    """Read it, if all its types are known to be safe or ``trusted``."""
    skops = needed("skops.io", f"'{run}' holds a scikit-learn model, and loading it")
    path = run / MODEL
    _refuse_bomb(path)
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
