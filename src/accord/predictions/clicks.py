"""Clicks that were not meant, from the log and scores of one recommender or several; nothing is trained.

A recommender's scores become log-odds of a click by non-clicks: pairs of users and items that are not in the log.
Recommenders are weighed by how well they tell clicks from non-clicks, and a mixture then says how likely each click
was meant, as in a council of recommenders (`accord.estimators.council.clicks`). Without non-clicks nobody can say
what a low score is. Then recommenders count by how far each agrees with the others, and clicks are put in an order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.clicks import pair_keys
from accord.data.columns import Columns, begun, choose_columns, listed
from accord.data.ids import Ids, encode
from accord.data.reading import is_text, read_table
from accord.data.tables_out import as_kind, kind_of_table
from accord.errors import DataError, nearest
from accord.estimators.issues import flag_share, worst_first
from accord.predictions.labels import NOTES

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
CLICKED = 0.5
"""What the log-odds of a click count beside those of having been meant."""
LEAST = 500
"""Fewest non-clicks from which it is learned what is meant."""
ITEM_PRIOR = 5.0
"""Non-clicks that the mean of all items is worth, in the mean of each."""
PRIOR = 100.0
"""Clicks that equal weights of the recommenders are worth."""
STRATA = 12
"""Groups of items of like popularity, in each of which fit is measured against its non-clicks."""
FARTHEST = 30.0


@dataclass(frozen=True)
class Pairs:
    """Users and items by number, and what each recommender says of them: (n, recommenders), NaN for nothing."""

    users: np.ndarray
    items: np.ndarray
    scores: np.ndarray


def find_click_issues(
    clicks: Any,
    scores: Any = None,
    *,
    non_clicks: Any = None,
    non_click_scores: Any = None,
    user: str | None = None,
    item: str | None = None,
    share: float | None = None,
) -> Any:
    """Every click, worst first, judged by scores of recommenders that have not learned it; nothing is trained.

    Parameters
    ----------
    clicks
        A log: a file or table with a user and an item in each row, and perhaps scores.
    scores
        What recommenders say of each click; higher is likelier. Names of columns of ``clicks`` (by default all
        columns of numbers but user, item and time), or numbers by row: an array (clicks,) or (clicks,
        recommenders), or a mapping of arrays by name. NaN where a recommender says nothing.
    non_clicks
        Pairs of users and items that are not in the log, with scores in columns of the same names. A few for each
        user or click, drawn at random, are enough. Without them there is an order, but no rule that flags.
    non_click_scores
        The scores of ``non_clicks``, where ``scores`` are numbers by row.
    user, item
        Names of the columns; found by themselves if they have usual names.
    share
        Flag this share of the clicks instead of those that look no more meant than non-clicks.

    Returns
    -------
    table
        Of the kind that clicks are, pandas, polars or else pyarrow: index (the row number), user,
        item, label_quality (1 = meant) and is_label_issue; of several recommenders
        also ``votes`` (those that score the click above a non-click on average), ``voters`` and ``agreement``.

    Examples
    --------
    >>> log = {"user": ["u1", "u1", "u2"], "item": ["i1", "i2", "i1"], "als": [0.9, -0.2, 0.7]}
    >>> find_click_issues(log, share=0.34)["item"].to_pylist()
    ['i2', 'i1', 'i1']
    """
    table, where = _read(clicks)
    columns = choose_columns(table.column_names, where, user=user, item=item)
    users, user_ids = _codes(table, columns.user, "user", where, is_text(clicks))
    items, item_ids = _codes(table, columns.item, "item", where, is_text(clicks))
    names, values = _scores(table, columns, scores, where)
    own = Pairs(users, items, values)
    others = None
    if non_clicks is not None:
        others = _non_clicks(non_clicks, non_click_scores, scores, columns, names, user_ids, item_ids, own)
    quality, threshold, weights = _judged(own, others, len(item_ids))
    if share is not None:
        flagged = flag_share(quality, share)
    else:
        flagged = np.zeros(len(quality), bool) if threshold is None else quality < threshold
    found: dict[str, Any] = {
        "index": np.arange(len(quality)),
        "user": user_ids.take(users),
        "item": item_ids.take(items),
        "label_quality": quality,
        "is_label_issue": flagged,
    }
    if len(names) > 1:
        found |= _votes(own, others)
    notes = {"weights": dict(zip(names, map(float, weights.round(4)), strict=True)), "rule": threshold is not None}
    issues = worst_first(pa.table(found)).replace_schema_metadata({NOTES: json.dumps(notes)})
    return as_kind(issues, kind_of_table(clicks))


# -- reading -----------------------------------------------------------------------------------------------


def _read(source: Any) -> tuple[pa.Table, str]:
    table, where = read_table(source)
    if not table.num_rows:
        raise DataError(f"{begun(where)} holds no rows; give at least a few clicks.")
    return table, where


def _codes(table: pa.Table, name: str, kind: str, where: str, from_text: bool) -> tuple[np.ndarray, Ids]:
    return encode(table[name], kind, where, name, from_text=from_text)


def _scores(table: pa.Table, columns: Columns, scores: Any, where: str) -> tuple[list[str], np.ndarray]:
    if scores is None or _are_names(scores):
        taken = (columns.user, columns.item, columns.time)
        names = [scores] if isinstance(scores, str) else list(scores or [])
        names = names or [n for n in table.column_names if n not in taken and _numbers(table[n]) is not None]
        if not names:
            raise DataError(
                f"No column of {where} holds scores (it has {listed(table.column_names)}); give what recommenders "
                "say of each click, in columns or as an array."
            )
        return names, np.stack([_column(table, name, where) for name in names], 1)
    return _given(scores, table.num_rows, "clicks")


def _given(scores: Any, count: int, what: str) -> tuple[list[str], np.ndarray]:
    """Numbers by row, of one recommender or several."""
    names = [str(name) for name in scores] if isinstance(scores, Mapping) else None
    try:
        each = [
            np.asarray(one, np.float64) for one in (scores.values() if isinstance(scores, Mapping) else [scores])
        ]
        array = each[0] if names is None else np.stack(each, 1)
    except (ValueError, TypeError) as error:
        raise DataError(f"Scores are numbers, one for each of the {what} and recommender.") from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != count or not array.shape[1]:
        shape = "×".join(map(str, array.shape))
        raise DataError(f"There are {count} {what} and scores of shape {shape}; give a row of scores for each.")
    return names or [str(k + 1) for k in range(array.shape[1])], _checked(array, what)


def _checked(array: np.ndarray, what: str) -> np.ndarray:
    if np.isinf(array).any():
        raise DataError(f"There are infinite scores of {what}; give NaN where a recommender says nothing.")
    if np.isnan(array).all(1).any():
        row = int(np.isnan(array).all(1).argmax())
        raise DataError(f"No recommender scores row {row} of the {what}; leave such rows out.")
    return array


def _are_names(scores: Any) -> bool:
    return isinstance(scores, str) or (
        isinstance(scores, list | tuple) and bool(scores) and all(isinstance(one, str) for one in scores)
    )


def _numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    """A column as numbers, NaN where it is empty; nothing where it holds anything else."""
    if pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        return np.asarray(column.cast(pa.float64()), np.float64)
    except pa.ArrowException:
        return None


def _column(table: pa.Table, name: str, where: str) -> np.ndarray:
    if name not in table.column_names:
        raise DataError(f"No column '{name}' in {where} for scores: {nearest(name, table.column_names)}")
    values = _numbers(table[name])
    if values is None:
        raise DataError(f"Column '{name}' of {where} holds no numbers; scores are numbers.")
    if np.isinf(values).any():
        raise DataError(f"Column '{name}' of {where} has infinite scores; leave empty what is not scored.")
    return values


def _non_clicks(
    source: Any,
    numbers: Any,
    scores: Any,
    columns: Columns,
    names: list[str],
    user_ids: Ids,
    item_ids: Ids,
    own: Pairs,
) -> Pairs:
    """Non-clicks of known items, less pairs that are clicks."""
    table, where = _read(source)
    like = choose_columns(table.column_names, where, like=columns)
    users, items = user_ids.find(table[like.user]), item_ids.find(table[like.item])
    if scores is None or _are_names(scores):
        values = np.stack([_column(table, name, where) for name in names], 1)
    else:
        if numbers is None:
            raise DataError("Give non_click_scores too: what the recommenders say of the non-clicks, row by row.")
        theirs, values = _given(numbers, table.num_rows, "non-clicks")
        if len(theirs) != len(names):
            raise DataError(f"Clicks have scores of {len(names)} recommenders and non-clicks of {len(theirs)}.")
    clicked = pair_keys(own.users, own.items, len(item_ids))
    kept = ~np.isin(pair_keys(users, items, len(item_ids)), clicked) | (users < 0) | (items < 0)
    kept &= ~np.isnan(values).all(1)
    if not kept.any():
        raise DataError(f"All pairs of {where} are clicks of the log; give pairs that are not in it.")
    return Pairs(users[kept], items[kept], values[kept])


# -- judging -----------------------------------------------------------------------------------------------


def _judged(own: Pairs, others: Pairs | None, items: int) -> tuple[np.ndarray, float | None, np.ndarray]:
    """The quality of every click, below which it is an issue, and the recommenders' weights."""
    if others is None:
        ranks = np.stack([_normal_scores(column) for column in own.scores.T], 1)
        weights = _by_agreement(ranks)
        return _sigmoid(_filled(ranks) @ weights), None, weights
    import torch

    from accord.estimators.council.clicks.weights import PULL, likelihood_weights
    from accord.models.recommenders.solved import logistic_fit

    clicks, far = np.empty_like(own.scores), np.empty_like(others.scores)
    for k in range(clicks.shape[1]):
        said = [torch.from_numpy(one[:, k][np.isfinite(one[:, k])]) for one in (own.scores, others.scores)]
        scale, offset, _ = logistic_fit(*said) if all(map(len, said)) else (0.0, 0.0, 0.0)
        clicks[:, k], far[:, k] = own.scores[:, k] * scale + offset, others.scores[:, k] * scale + offset
    clicks, far = _filled(clicks), _filled(far)
    weights, offset = likelihood_weights(torch.tensor(clicks), torch.tensor(far), min(PULL, PRIOR / len(clicks)))
    mass = weights.numpy().astype(np.float64)
    odds, away = clicks @ mass + offset, far @ mass + offset
    known = others.items >= 0
    if min(len(odds), int(known.sum())) >= LEAST:
        odds, away = _meant(odds, away[known], own.items, others.items[known], items)
    share = mass * clicks.std(0)  # of a recommender that says the same of all, a weight moves nothing
    return _sigmoid(odds), float(_sigmoid(away).mean()), share / max(share.sum(), 1e-12)


def _meant(
    odds: np.ndarray, away: np.ndarray, items: np.ndarray, far_items: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of clicks and of non-clicks that they were meant, and a part of those of a click."""
    import torch

    from accord.estimators.council.clicks.meant import fit_meant

    popularity = torch.from_numpy(np.bincount(items, minlength=count))
    heard = np.bincount(far_items, minlength=count)
    mean = (np.bincount(far_items, away, count) + ITEM_PRIOR * away.mean()) / (heard + ITEM_PRIOR)
    fit, far = odds - mean[items], away - mean[far_items]
    at, at_far = (popularity[torch.tensor(each, dtype=torch.int64)] for each in (items, far_items))
    meant = fit_meant(torch.from_numpy(fit), torch.from_numpy(far), at, at_far)
    (slope, doubt), (far_slope, far_doubt) = (
        (one.numpy() for one in meant.of_items(popular)) for popular in (at, at_far)
    )
    steep = np.clip(slope * fit, -FARTHEST, FARTHEST)
    far_steep = np.clip(far_slope * far, -FARTHEST, FARTHEST)
    edges = np.quantile(at.numpy(), np.linspace(0, 1, STRATA + 1)[1:-1])
    group, far_group = (np.searchsorted(edges, popular.numpy(), side="left") for popular in (at, at_far))
    total = np.bincount(far_group, np.exp(far_steep), STRATA)
    scale = np.log(np.maximum(total / np.maximum(np.bincount(far_group, minlength=STRATA), 1), 1e-30))
    scale = np.where(np.bincount(far_group, minlength=STRATA) > 0, scale, 0.0)
    own = steep - scale[group] - doubt + CLICKED * odds
    return own, far_steep - scale[far_group] - far_doubt + CLICKED * away


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Scores by their rank, as a standard normal: how recommenders spread their scores says nothing."""
    from statistics import NormalDist

    heard = np.flatnonzero(np.isfinite(values))
    result = np.full(len(values), np.nan)
    distinct, at, count = np.unique(values[heard], return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - count / 2) / max(1, len(heard))
    grid = np.linspace(0, 1, 1001)[1:-1]
    normal = np.array([NormalDist().inv_cdf(p) for p in grid])
    result[heard] = np.interp(middle, grid, normal)[at] if len(distinct) > 1 else 0.0
    return result


def _by_agreement(ranks: np.ndarray) -> np.ndarray:
    """Weights by how far each agrees with the mean of the others; with two or fewer there is no telling."""
    members = ranks.shape[1]
    if members < 3:
        return np.full(members, 1 / members)
    filled = _filled(ranks)
    total = filled.sum(1)
    alike = np.array([_correlation(filled[:, k], total - filled[:, k]) for k in range(members)]).clip(min=0.0)
    alike = alike**2 / (1 - alike**2).clip(min=0.05)
    return alike / alike.sum() if alike.sum() > 0 else np.full(members, 1 / members)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    return float((one @ other) / max((one @ one * (other @ other)) ** 0.5, 1e-12))


def _filled(values: np.ndarray) -> np.ndarray:
    """Where one says nothing, the mean of the others."""
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    heard = (~gaps).sum(1, keepdims=True)
    return np.where(gaps, np.nansum(values, 1, keepdims=True) / np.maximum(heard, 1), values)


def _votes(own: Pairs, others: Pairs | None) -> dict[str, np.ndarray]:
    """Recommenders that score a click above a non-click on average (without any, above the middle click)."""
    spoke = np.isfinite(own.scores)
    middle = np.nanmedian(own.scores, 0) if others is None else np.nanmean(others.scores, 0)
    believed = spoke & (np.where(spoke, own.scores, -np.inf) >= middle)
    votes, voters = believed.sum(1), spoke.sum(1)
    share = votes / np.maximum(voters, 1)
    return {
        "votes": votes.astype(np.int16),
        "voters": voters.astype(np.int16),
        "agreement": np.abs(2 * share - 1),
    }


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -60, 60)))
