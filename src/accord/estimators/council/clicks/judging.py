"""What a council of recommenders says of every click: how likely it was meant, and who believes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from accord.data.clicks import Clicks
from accord.estimators.council.clicks.meant import Meant, fit_meant, scale_of
from accord.estimators.council.clicks.voices import Voices
from accord.estimators.council.clicks.weights import likelihood_weights
from accord.estimators.log_split import SEEN, TRAIN
from accord.methods.assembly import FARTHEST
from accord.training import stream

NON_CLICKS = 100_000
"""Non-clicks that are judged."""
LEAST = 500
"""Fewest unseen clicks from which it is learnt what is meant."""
Said = dict[str, list[np.ndarray]]
"""Log-odds of pairs by those asked of each kind; NaN where one does not speak."""
Pairs = tuple[np.ndarray, np.ndarray]
"""Users and items."""


@dataclass
class Judged:
    """What members say of clicks and of non-clicks."""

    weights: dict[str, float]
    """Of each kind, for judging."""
    clicks: np.ndarray
    """Log-odds of every click."""
    others: np.ndarray
    """Of non-clicks of the same users."""
    said: Said = field(default_factory=dict)
    of_others: Said = field(default_factory=dict)
    meant: Meant | None = None
    noise_share: float | None = None
    """The estimated share of clicks that were not meant."""

    def quality(self) -> np.ndarray:
        """P(meant) of every click."""
        return _sigmoid(self.clicks).astype(np.float32)

    def threshold(self) -> float:
        """The mean quality of non-clicks."""
        return float(_sigmoid(self.others).mean(dtype=np.float64))


def judged(voices: Voices, folds: Sequence[np.ndarray], clicked: float) -> Judged:
    """Weights by how well members tell clicks that they never saw from non-clicks, and what then is meant.

    In the quality the log-odds of a click count ``clicked`` times beside those of having been meant. They are those
    of the members that see all clicks, who know more, less the standard deviation of the kinds.
    """
    clicks, seed, part = voices.split.clicks, voices.seed, voices.split.part
    own = clicks.users.astype(np.int64), clicks.items.astype(np.int64)
    drawn = voices.data.sample_pairs(NON_CLICKS, stream(voices.device, seed, "non-clicks"))
    users, items = (codes.cpu().numpy() for codes in drawn)
    learnt = np.flatnonzero(part == TRAIN)
    # Out of sample: the clicks of all folds, or where there are none, those held out.
    unseen = learnt if folds else np.flatnonzero((part != TRAIN) & (part != SEEN))
    asked, matched = matched_non_clicks(clicks, learnt, unseen, seed)
    others = np.concatenate([users, matched[0]]), np.concatenate([items, matched[1]])
    said, of_others = _said(voices, folds, own, others)
    every = np.stack([np.mean(each, 0) for each in said.values()], 1)
    gaps = np.isnan(every)
    if gaps.any():  # of a kind that lost its member of a fold, the others speak
        every = np.where(gaps, np.nanmean(every, 1, keepdims=True), every)
    away = np.stack([np.mean(each, 0) for each in of_others.values()], 1)
    far, near = away[: len(users)], away[len(users) :]
    weights, offset = likelihood_weights(torch.from_numpy(every[learnt]), torch.from_numpy(far))
    mass = weights.numpy()
    made = Judged(dict(zip(said, map(float, mass), strict=True)), every @ mass + offset, far @ mass + offset)
    made.said, made.of_others = said, {k: [one[: len(users)] for one in each] for k, each in of_others.items()}
    if len(asked) < LEAST or len(near) < LEAST:
        return made
    popularity = voices.data.popularity.cpu()
    mean = _item_means(voices, made.weights) + offset
    fit = torch.from_numpy(made.clicks[asked]) - mean[own[1][asked]]
    other = torch.from_numpy(near @ mass + offset) - mean[matched[1]]
    made.meant = fit_meant(fit, other, popularity[own[1][asked]], popularity[matched[1]])
    likely = (
        _likely(voices, made.weights, own, every, offset),
        _likely(voices, made.weights, (users, items), far, offset),
    )
    added = clicked * likely[0], clicked * likely[1]
    _take_what_is_meant(made, made.meant, voices, mean, (own[1], items), learnt, added)
    return made


def _likely(
    voices: Voices, weights: Mapping[str, float], pairs: Pairs, unseen: np.ndarray, offset: float
) -> np.ndarray:
    """Log-odds of a click by the members that see all clicks, less the deviation of their kinds. For a kind that
    lost these, those speak that have not seen the pair (``unseen``)."""
    each = []
    for k, kind in enumerate(weights):
        own = [voices.logits(member, *pairs) for member in voices.full if member.kind == kind]
        each.append(np.mean(own, 0) if own else unseen[:, k])
    kinds = np.stack(each, 1)
    return kinds @ np.array(list(weights.values()), kinds.dtype) + offset - kinds.std(1)


def _take_what_is_meant(
    made: Judged, meant: Meant, voices: Voices, mean: Tensor, items: Pairs, learnt: np.ndarray, likely: Pairs
) -> None:
    """Judge clicks and non-clicks, of these ``items``, by log P(meant) and a part of the log-odds of a click."""
    slope, doubt = (one.float() for one in meant.of_items(voices.data.popularity.cpu()))
    fits = voices.weighed(voices.full, made.weights)
    scale = scale_of(fits - fits.mean(0), slope.to(fits)).cpu()

    def odds(logits: np.ndarray, at: np.ndarray) -> np.ndarray:
        fit = torch.from_numpy(logits).float() - mean[at].float()
        return ((slope[at] * fit).clamp(-FARTHEST, FARTHEST) - scale[at] - doubt[at]).numpy()

    of_clicks, of_far = odds(made.clicks, items[0]), odds(made.others, items[1])
    made.noise_share = float(1 - _sigmoid(of_clicks[learnt]).mean(dtype=np.float64))
    made.clicks, made.others = of_clicks + likely[0], of_far + likely[1]
    shift = _shift(made.clicks[learnt], 1 - made.noise_share)
    made.clicks, made.others = made.clicks + shift, made.others + shift


def votes(said: Said, of_others: Said) -> dict[str, np.ndarray]:
    """Of every click: members that believe it (``votes``), those asked (``voters``), and ``agreement``.

    A member believes a click to which it gives no lower a chance than to non-clicks on average.
    """
    count = len(next(iter(said.values()))[0])
    chances, believed, heard = [], np.zeros(count, np.int16), np.zeros(count, np.int16)
    for kind, each in said.items():
        for answers, far in zip(each, of_others[kind], strict=True):
            chance = _sigmoid(answers)
            spoke = np.isfinite(answers)
            believed += spoke & (chance >= _sigmoid(far).mean())
            heard += spoke
            chances.append(np.where(spoke, chance, np.nan))
    agreement = np.clip(1 - 2 * np.nanstd(np.stack(chances), 0), 0, 1).astype(np.float32)
    return {"votes": believed, "voters": heard, "agreement": agreement}


def matched_non_clicks(
    clicks: Clicks, learnt: np.ndarray, unseen: np.ndarray, seed: int
) -> tuple[np.ndarray, Pairs]:
    """Clicks to learn from, and non-clicks of the same items by users who are drawn as often as they click."""
    rng = np.random.default_rng([seed, 0x3A7])
    asked = unseen if len(unseen) <= NON_CLICKS else np.sort(rng.choice(unseen, NON_CLICKS, False))
    users = clicks.users[learnt][rng.integers(0, len(learnt), 2 * len(asked))].astype(np.int64)
    items = np.tile(clicks.items[asked], 2).astype(np.int64)
    keys = users * len(clicks.item_ids) + items
    at = np.searchsorted(clicks.keys, keys).clip(max=len(clicks.keys) - 1)
    free = clicks.keys[at] != keys
    return asked, (users[free], items[free])


def _item_means(voices: Voices, weights: Mapping[str, float]) -> Tensor:
    """The mean over users of what those say who judge: the members of each fold, or all."""
    folds = sorted({m.fold for m in voices.ready if m.fold is not None})
    groups = [[m for m in voices.ready if m.fold == fold] for fold in folds] or [voices.full]
    return torch.stack([voices.weighed(group, weights).mean(0) for group in groups]).mean(0).cpu().double()


def _said(voices: Voices, folds: Sequence[np.ndarray], own: Pairs, others: Pairs) -> tuple[Said, Said]:
    """Each member's log-odds of all clicks, NaN where it does not speak, and of non-clicks.

    With folds, those judge that never saw a click: of a fold, its own members; of validation, all of them. The
    few training clicks that are in no fold are judged by all.
    """
    said: Said = {}
    away: Said = {}
    if not folds:
        for member in voices.full:
            said.setdefault(member.kind, []).append(voices.logits(member, *own))
            away.setdefault(member.kind, []).append(voices.logits(member, *others))
        return said, away
    in_fold = np.full(len(own[0]), -1)
    for k, rows in enumerate(folds):
        in_fold[rows] = k
    for kind in dict.fromkeys(m.kind for m in voices.ready if m.fold is not None):
        answers = np.full(len(in_fold), np.nan, np.float32)
        count = np.zeros(len(in_fold), np.float32)
        far = []
        for member in (m for m in voices.ready if m.kind == kind and m.fold is not None):
            rows = np.flatnonzero((in_fold == member.fold) | (in_fold < 0))
            heard = voices.logits(member, own[0][rows], own[1][rows])
            answers[rows] = np.where(count[rows] > 0, np.nan_to_num(answers[rows]) + heard, heard)
            count[rows] += 1
            far.append(voices.logits(member, *others))
        said[kind] = [answers / np.maximum(count, 1)]
        away[kind] = [np.mean(far, 0)]
    return said, away


def _shift(logits: np.ndarray, wanted: float) -> float:
    """What to add to log-odds so that their mean chance is as wanted."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(logits + middle).mean() < wanted else (low, middle)
    return (low + high) / 2


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -60, 60)))
