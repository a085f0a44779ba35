"""Adam and SGD for R ≥ 1 runs at once, each run with a rate and an L2 factor of its own."""

from accord.optim.adam import Adam, MetaAdam
from accord.optim.base import Optimiser
from accord.optim.rows import MANY_ROWS, Updates, updated_by_rows
from accord.optim.sgd import SGD

__all__ = ["MANY_ROWS", "SGD", "Adam", "MetaAdam", "Optimiser", "Updates", "updated_by_rows"]
