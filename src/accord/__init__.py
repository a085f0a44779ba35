"""accord: learn from labels you cannot trust, and find the ones that are wrong."""

from __future__ import annotations

import os

# MKL's own store of buffers does not survive a fork of a process whose threads have multiplied: a forked worker
# would wait for ever in its first product. Products take as long without it.
os.environ.setdefault("MKL_DISABLE_FAST_MM", "1")

from typing import TYPE_CHECKING

__version__ = "0.2.0"
__all__ = [
    "AccordError",
    "Classifier",
    "Recommender",
    "__version__",
    "find_annotator_issues",
    "find_click_issues",
    "find_label_issues",
    "report_runs",
    "write_report",
]

if TYPE_CHECKING:
    from accord.errors import AccordError
    from accord.estimators import Classifier, Recommender
    from accord.predictions.annotators import find_annotator_issues
    from accord.predictions.clicks import find_click_issues
    from accord.predictions.labels import find_label_issues
    from accord.report import report_runs, write_report

FUNCTIONS = {
    "find_annotator_issues": "predictions.annotators",
    "find_click_issues": "predictions.clicks",
    "find_label_issues": "predictions.labels",
    "report_runs": "report",
    "write_report": "report",
}
"""What works on predictions alone, and on what is trained already: each with the module that has it."""


def __getattr__(name: str) -> object:
    # torch is imported only when an estimator is asked for, so that `accord --help` is instant.
    if name in ("Classifier", "Recommender"):
        from accord import estimators

        return getattr(estimators, name)
    if name == "AccordError":
        from accord.errors import AccordError

        return AccordError
    if name in FUNCTIONS:
        import importlib

        return getattr(importlib.import_module(f"accord.{FUNCTIONS[name]}"), name)
    raise AttributeError(f"module 'accord' has no attribute {name!r}")
