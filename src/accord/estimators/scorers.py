"""Recommenders that come fitted: anything that scores pairs of the log's own ids.

That is an object with ``predict(users, items)`` or ``score(users, items)``, a function of users and items, or an
object with ``user_factors`` and ``item_factors``, whose rows are the ids. Nothing of it is trained. Two numbers
turn its scores into log-odds, as for models that are solved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from accord.data.ids import Ids
from accord.errors import AccordError, SettingError, first_line
from accord.estimators.naming import has_factors, is_scorer
from accord.models.recommenders.solved import logistic_fit
from accord.training import seeded

PAIRS_AT_ONCE = 1 << 20
"""Pairs that are scored at a time."""
WANTED = "give an object with predict(users, items), or a function of users and items that returns a score for each"


def is_function(given: Any) -> bool:
    """Whether it may be a function that scores pairs: factories are functions too, until they are asked."""
    return inspect.isroutine(given) or isinstance(given, partial)


class Scorer:
    """Scores pairs of row numbers of the log's ids. A copy of it is itself: nothing in it changes."""

    def __init__(self, given: Any, user_ids: Ids, item_ids: Ids) -> None:
        self.given = given
        self.users, self.items = (np.asarray(ids.values.to_pylist()) for ids in (user_ids, item_ids))
        self.factors: tuple[np.ndarray, np.ndarray] | None = None
        self.ask: Callable[[Any, Any], Any] = given
        if has_factors(given):
            pairs = ((given.user_factors, self.users, "user"), (given.item_factors, self.items, "item"))
            first, second = (_rows(values, ids, what) for values, ids, what in pairs)
            self.factors = first, second
        elif not is_function(given):
            self.ask = given.predict if callable(getattr(given, "predict", None)) else given.score

    def __deepcopy__(self, memo: Any) -> Scorer:
        return self

    @property
    def name(self) -> str:
        return getattr(self.given, "__name__", type(self.given).__name__)

    def pairs(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Of rows of users and items, one score each."""
        if self.factors is not None:
            return np.einsum("pd,pd->p", self.factors[0][users], self.factors[1][items])
        blocks = range(0, len(users), PAIRS_AT_ONCE)
        parts = [self._asked(users[k : k + PAIRS_AT_ONCE], items[k : k + PAIRS_AT_ONCE]) for k in blocks]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _asked(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        own = self.users[users], self.items[items]
        example = f"users {own[0][:1].tolist()} and items {own[1][:1].tolist()}"
        try:
            given = self.ask(*own)
            said = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, np.float64)
        except AccordError:
            raise
        except Exception as error:  # whatever somebody's model raises
            raise SettingError(
                f"The model '{self.name}' cannot score {example} ({type(error).__name__}: {first_line(error)}); "
                f"{WANTED}."
            ) from error
        if said.shape != (len(users),):
            raise SettingError(
                f"The model '{self.name}' gives scores of shape {said.shape} for {len(users)} pairs; {WANTED}."
            )
        if not np.isfinite(said).all():
            at = int((~np.isfinite(said)).argmax())
            raise SettingError(
                f"The model '{self.name}' gives user {own[0][at]} and item {own[1][at]} a score that is no finite "
                "number; let it give a low one."
            )
        return said

    def all_items(self, users: np.ndarray) -> np.ndarray:
        """Of every item for some users, (users, items)."""
        count = len(self.items)
        if self.factors is not None:
            return self.factors[0][users] @ self.factors[1].T
        return self.pairs(np.repeat(users, count), np.tile(np.arange(count), len(users))).reshape(len(users), count)


def _rows(factors: Any, ids: np.ndarray, what: str) -> np.ndarray:
    """The vector of every id, which is the number of its row."""
    values = np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors, np.float64)
    if ids.dtype.kind not in "iu" or not len(ids) or ids.min() < 0 or ids.max() >= len(values):
        raise SettingError(
            f"The model's {what}_factors have {len(values)} rows, and the log's {what}s are no numbers of these "
            f"rows (the first is {ids[:1].tolist()}): give a function of users and items that finds the rows."
        )
    return values[ids]


def gives_scores(function: Any, user_ids: Ids, item_ids: Ids) -> bool:
    """Whether a function scores pairs of ids. It is asked with two; a factory, which wants numbers, fails."""
    try:
        with seeded(0, "look"):
            first_pairs(function, user_ids, item_ids)
    except SettingError:
        return False
    return True


def first_pairs(given: Any, user_ids: Ids, item_ids: Ids) -> np.ndarray:
    """What it says of two pairs; refused where it does not answer."""
    return Scorer(given, user_ids, item_ids).pairs(np.zeros(2, np.int64), np.arange(2) % len(item_ids))


class ScoredPairs(nn.Module):
    """A recommender that came fitted, as the network of a run."""

    scale: Tensor
    offset: Tensor

    def __init__(self, given: Any, user_ids: Ids, item_ids: Ids) -> None:
        super().__init__()
        self.scorer = Scorer(given, user_ids, item_ids)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(()))
        if self.scorer.factors is not None:
            vectors = torch.from_numpy(self.scorer.factors[1]).float()
            self.item_vectors = lambda: vectors

    def solve(self, sweep: int) -> Iterator[float]:
        """It has learnt already."""
        yield 1.0

    def calibrate(self, users: Tensor, clicked: Tensor, unclicked: Tensor) -> float:
        """Fit the scale and the offset of the log-odds of a click."""
        affinities = [torch.from_numpy(self._of(users, items)) for items in (clicked, unclicked)]
        scale, offset, loss = logistic_fit(*affinities)
        self.scale.fill_(scale)
        self.offset.fill_(offset)
        return loss

    def _of(self, users: Tensor, items: Tensor) -> np.ndarray:
        return self.scorer.pairs(users.cpu().numpy(), items.cpu().numpy()).astype(np.float64)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(users.shape, items.shape)
        said = self._of(users.expand(shape).reshape(-1), items.expand(shape).reshape(-1))
        return torch.from_numpy(said).to(self.scale).view(shape) * self.scale + self.offset

    def scores(self, users: Tensor) -> Tensor:
        return (
            torch.from_numpy(self.scorer.all_items(users.cpu().numpy())).to(self.scale) * self.scale + self.offset
        )

    def check_loaded(self) -> None:
        """Refuse what no training can have made, with a ValueError."""
        if not float(self.scale) > 0:
            raise ValueError("the scale of the log-odds is not positive")


__all__ = ["WANTED", "ScoredPairs", "Scorer", "first_pairs", "gives_scores", "is_function", "is_scorer"]
