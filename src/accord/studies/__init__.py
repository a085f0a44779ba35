"""Comparisons of methods as declarations."""

from accord.studies.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
