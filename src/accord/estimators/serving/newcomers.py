"""People whom a trained recommender has never seen: taken in by what they clicked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.data.columns import begun, choose_columns
from accord.data.ids import Ids, encode
from accord.data.interactions import Interactions
from accord.data.reading import is_text, read_table
from accord.errors import AccordError, DataError
from accord.estimators.log_split import by_popularity
from accord.estimators.serving.lists import Wanted, best_lists, joined
from accord.evaluation.ranking import Scorer

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

NOISE = "noise"
"""How roles of networks begin that say how clicks go wrong; of newcomers they know the average user alone."""
LISTS = (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)


@dataclass(frozen=True)
class Histories:
    """What some people clicked."""

    user_ids: Ids
    clicks: Interactions
    """By row numbers of these people, and of the model's items."""


def histories_of(rec: Recommender, history: Any) -> Histories:
    """A history, several, or a table of them."""
    if isinstance(history, LISTS):
        several = len(history) > 0 and all(isinstance(one, LISTS) for one in history)
        rows = [_plain(one) for one in (history if several else [history])]
        items = list(chain.from_iterable(rows))
        codes = rec.item_ids_.require(items) if items else np.zeros(0, np.int64)
        users = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        return _histories(rec, users, codes, Ids(pa.array(range(len(rows)), pa.int64()), "user"))
    table, where = read_table(history)
    if table.num_rows == 0:
        raise DataError(f"{begun(where)} holds no rows; give at least one click.")
    columns = choose_columns(table.column_names, where, time="", like=rec.columns_)
    users, ids = encode(table[columns.user], "user", where, columns.user, from_text=is_text(history))
    return _histories(rec, users, rec.item_ids_.require(table[columns.item]), ids)


def _plain(row: Any) -> list[Any]:
    return row.to_pylist() if isinstance(row, pa.Array | pa.ChunkedArray) else list(row)


def _histories(rec: Recommender, users: np.ndarray, items: np.ndarray, ids: Ids) -> Histories:
    n_items = len(rec.item_ids_)
    keys = np.unique(users.astype(np.int64) * n_items + items)
    return Histories(ids, Interactions.from_pairs(keys // n_items, keys % n_items, len(ids), n_items))


def networks_for(rec: Recommender, clicks: Interactions) -> dict[str, nn.Module]:
    """The networks of a recommender by role, for newcomers with these clicks."""
    nobodys = torch.zeros_like(clicks.starts)
    made = {}
    for role, network in rec.networks_.items():
        known = (nobodys, clicks.items[:0]) if role.startswith(NOISE) else (clicks.starts, clicks.items)
        made[role] = _for_newcomers(network, *known)
    return made


def _for_newcomers(network: Any, starts: Tensor, clicked: Tensor) -> nn.Module:
    if hasattr(network, "for_newcomers"):
        return network.for_newcomers(starts, clicked)
    if not hasattr(network, "scores"):  # it knows no users
        return network
    raise AccordError(
        f"{type(network).__name__} answers for the users of its log alone: give it a method for_newcomers(starts, "
        "clicked) that returns a model of other users, or fit it again with their clicks."
    )


def scorer_for(rec: Recommender, clicks: Interactions) -> Scorer:
    """Scores for newcomers; those without a click get popularity, unless the model is to rank."""
    networks = networks_for(rec, clicks)
    target: Any = networks["target"] if "target" in networks else rec._method().target(networks)
    popularity = by_popularity(rec._training())

    def scores(users: Tensor) -> Tensor:
        found = target.scores(users)
        cold = clicks.degrees[users] == 0
        return torch.where(cold[:, None], popularity(users), found) if bool(cold.any()) else found

    return target.scores if rec.settings.cold_users == "model" else scores


@torch.no_grad()
def recommend_for(rec: Recommender, history: Any, k: int, exclude_seen: bool, items: Any) -> pa.Table:
    """The k best items for newcomers."""
    wanted, known = Wanted.of(rec, k, exclude_seen, items), histories_of(rec, history)
    everyone = torch.arange(len(known.user_ids))
    blocks = best_lists(scorer_for(rec, known.clicks), everyone, len(rec.item_ids_), wanted, known.clicks)
    return joined([found for _, found in blocks]).table(known.user_ids.values, rec.item_ids_)
