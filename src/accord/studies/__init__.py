"""Comparisons of methods as declarations."""

from accord.studies.clicks import Comparison
from accord.studies.compare import Study, compare

__all__ = ["Comparison", "Study", "compare"]
