"""Comparisons of methods as declarations."""

from accord.studies.clicks import Comparison
from accord.studies.compare import compare
from accord.studies.study import Study

__all__ = ["Comparison", "Study", "compare"]
