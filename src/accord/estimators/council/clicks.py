"""A council of recommenders: who its members are, how they answer together, and what they say of every click."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from accord.data.interactions import Interactions
from accord.errors import SettingError
from accord.estimators.base import Cache, Prepared
from accord.estimators.council.meant import Meant, fit_meant, scale_of
from accord.estimators.council.members import Asked, Member, all_lost, told_of
from accord.estimators.council.weights import KAPPAS, Choice, bagged, choices, likelihood_weights
from accord.estimators.log_split import SEEN, TRAIN, SplitLog, over_pairs, refuse_other_ids
from accord.estimators.naming import spelled
from accord.evaluation.ranking import RankingTask, stacked_metrics
from accord.methods.assembly import FARTHEST, HEAD, CouncilHead, Taught, Together
from accord.models import is_solved
from accord.models.recommenders.solved import logistic_fit
from accord.training import Callback, CheckpointPath, stream

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

FOLDS, MOST_CLICKS = 5, 2_000_000
"""Folds by default, and the largest log that is cross-fitted without being asked to."""
SEEDS_APART = 1009
"""Between the first seeds of the members of councils of neighbouring seeds."""
NON_CLICKS = 100_000
"""Non-clicks that are judged."""
FITTED_USERS = 1_000
"""Users over whom an item's mean is taken."""
SCORES = 1 << 22
"""Scores computed at a time."""
CLICKED = 0.5
"""How much the log-odds of a click count beside those of having been meant, in a click's quality."""
COST = 0.075
"""The share of the NDCG of held-out clicks that caution may cost: they are as noisy as the rest."""
LEAST = 500
"""Fewest unseen clicks from which it is learnt what is meant."""
JUDGED_USERS = 2_000
"""Most validation users by whom weights are chosen."""
INHERITED = (
    *("device", "split", "valid_share", "valid_users", "cold_users", "epochs", "patience", "restore"),
    *("batch_size", "updates"),
)
"""Settings that members have in common with the estimator."""


@dataclass
class Convened:
    """A council that has been fitted."""

    teacher: Together
    networks: dict[str, nn.Module]
    """By role, what answers when the council serves."""
    architectures: dict[str, str]
    notes: dict[str, Any]
    """What the run says of it."""
    sizes: tuple[int, int]
    device: torch.device
    quality: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    """P(meant) of every click of the log."""
    threshold: float = 0.5
    votes: dict[str, np.ndarray] = field(default_factory=dict)
    """Of every click: members that believe it (``votes``), those asked (``voters``), and ``agreement``."""

    role: ClassVar[str] = "council"

    def identity(self) -> list[Any]:
        """Words by which a checkpoint knows it."""
        return [json.dumps(self.architectures)]

    def taught(self) -> Taught:
        return Taught(self.teacher, *self.sizes, self.device)


def convene(
    rec: Recommender,
    prepared: Prepared,
    source: Mapping[str, Any],
    cache: Cache,
    callback: Callback | None,
    where: CheckpointPath | None,
) -> Generator[Asked, list[Member], Convened]:
    """Have the members fitted, weigh them by noisy validation, and judge every click."""
    split, device = rec._split(source, cache), prepared.run.data.device
    folds = _folds(rec, split)
    members = _members(rec, split, source, folds)
    if rec.settings.serve == "council":
        for member in members:
            spelled(member.estimator)  # what cannot be saved is refused before it is fitted
    key = ("council", split.part.tobytes(), *(repr(m.estimator.settings) + str(m.fold) for m in members))
    if not any(m.fitted for m in members) and key in cache.lasting:
        ready = cache.lasting[key]
    else:
        ready = yield Asked(members, callback)
        all_lost(members)
        if not any(m.fitted for m in members):
            cache.lasting.clear()  # one council at a time is held for others
            cache.lasting[key] = ready
    for member in ready:
        member.network.to(device)
    return _Weighing(rec, prepared, split, ready, folds, len(members)).convened()


def _folds(rec: Recommender, split: SplitLog) -> list[np.ndarray]:
    """Rows of the training clicks, cut at random into parts of one size; a few may be left over."""
    settings, rows = rec.settings, np.flatnonzero(split.part == TRAIN)
    count = settings.folds
    if count is None:
        count = FOLDS if len(rows) <= MOST_CLICKS else 0
    if count < 2:
        return []
    if len(rows) < 4 * count:
        raise SettingError(f"{len(rows)} training clicks are too few for {count} folds; give folds=0.")
    np.random.default_rng([settings.seed, 0xF01D]).shuffle(rows)
    size = len(rows) // count
    return [np.sort(rows[k * size : (k + 1) * size]) for k in range(count)]


def _members(
    rec: Recommender, split: SplitLog, source: Mapping[str, Any], folds: Sequence[np.ndarray]
) -> list[Member]:
    from accord.estimators.recommender import Recommender

    settings = rec.settings
    common = {name: getattr(settings, name) for name in INHERITED}
    whole = {"log": source["log"], "divided": split}
    made: list[Member] = []
    for number, name in enumerate(settings.members):
        given = rec.objects().get(name, name)
        if isinstance(given, Recommender) and hasattr(given, "networks_"):
            refuse_other_ids(given.user_ids_, split.user_ids, "member", "users")
            refuse_other_ids(given.item_ids_, split.item_ids, "member", "items")
            made.append(Member(given.settings.model, given, whole, fitted=True))
            continue
        own: dict[str, Any] = {}
        model: Any = given
        if isinstance(given, Recommender):  # not fitted: its settings are what is wanted
            own, model = given.changed_settings(), given._factory or given.settings.model
        own = {"method": "normal"} | {k: v for k, v in own.items() if k not in (*INHERITED, "model", "seed")}

        def one(seed: int, model: Any = model, own: dict[str, Any] = own) -> Recommender:
            return Recommender(model=model, seed=seed, **common, **own)

        label = model if isinstance(model, str) else getattr(model, "__name__", f"own {number + 1}")
        seeds = 1 if is_solved(model) else settings.member_seeds
        first = settings.seed * SEEDS_APART
        made += [Member(label, one(first + k), whole) for k in range(seeds)]
        for k, rows in enumerate(folds):
            part = split.part.copy()
            part[rows] = SEEN
            divided = cut_again(split, part)
            made.append(Member(label, one(first + seeds + k), {"log": source["log"], "divided": divided}, fold=k))
    return made


def cut_again(split: SplitLog, part: np.ndarray) -> SplitLog:
    """The same log with other uses of its clicks."""
    return replace(split, part=part)


@dataclass
class Judged:
    """What members say of clicks and of non-clicks."""

    weights: dict[str, float]
    """Of each kind, for judging."""
    clicks: np.ndarray
    """Log-odds of every click."""
    others: np.ndarray
    """Of non-clicks of the same users."""
    said: dict[str, list[np.ndarray]] = field(default_factory=dict)
    of_others: dict[str, list[np.ndarray]] = field(default_factory=dict)
    meant: Meant | None = None
    noise_share: float | None = None
    """The estimated share of clicks that were not meant."""


class _Weighing:
    """Members that are ready, and how much each counts."""

    def __init__(
        self,
        rec: Recommender,
        prepared: Prepared,
        split: SplitLog,
        ready: Sequence[Member],
        folds: Sequence[np.ndarray],
        wanted: int,
    ) -> None:
        self.rec, self.split, self.folds, self.wanted = rec, split, folds, wanted
        self.data: Interactions = prepared.run.data
        self.device = self.data.device
        self.task: RankingTask | None = prepared.run.valid
        self.ready = list(ready)
        self.full = [m for m in ready if m.fold is None]
        if not self.full:
            raise next(m.error for m in ready if m.error is not None)
        self.kinds = list(dict.fromkeys(m.kind for m in self.full))
        self.scales = {id(m): one for m, one in zip(self.ready, self._scales(), strict=True)}

    @torch.no_grad()
    def convened(self) -> Convened:
        judged = self._judged()
        choice, heard = self._chosen()
        head = self._head(choice, judged)
        teacher = Together([m.network for m in self.full], head)
        self._temper(teacher)
        roles = [f"member {k + 1}" for k in range(len(self.full))]
        networks: dict[str, nn.Module] = {r: m.network for r, m in zip(roles, self.full, strict=True)}
        architectures: dict[str, str] = {}
        if self.rec.settings.serve == "council":
            names = [spelled(m.estimator) for m in self.full]
            architectures = dict(zip(roles, names, strict=True)) | {"head": HEAD}
        metric = self.rec.metric
        notes = {
            "members": told_of(self.ready, metric),
            "lost": self.wanted - len(self.ready),
            "weights": {kind: round(w, 4) for kind, w in zip(self.kinds, choice.weights, strict=True)},
            "kappa": round(choice.kappa, 4),
            "caution": float(head.caution),
            "judged": "by members that never saw it" if self.folds else "by members that have seen it",
            **heard,
        }
        sizes = self.data.n_users, self.data.n_items
        made = Convened(teacher, networks | {"head": head}, architectures, notes, sizes, self.device)
        self._keep(made, judged)
        return made

    # -- one scale ---------------------------------------------------------------------------------------

    def _scales(self) -> list[tuple[float, float]]:
        """Scale and offset of each member: held-out noisy clicks against non-clicks of the same users."""
        users, items, others = self._held_out()
        made = []
        for member in self.ready:
            clicked, unclicked = (
                torch.from_numpy(over_pairs(self._raw(member), u, i)).double()
                for u, i in ((users, items), (users, others))
            )
            scale, offset, _ = logistic_fit(clicked, unclicked)
            made.append((scale, offset))
        return made

    def _held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of warm users that no member has learnt from, and non-clicks; without validation, training ones."""
        clicks, part = self.split.clicks, self.split.part
        warm = self.data.degrees.cpu().numpy() > 0
        rows = np.flatnonzero((part != TRAIN) & (part != SEEN) & warm[clicks.users])
        rows = rows if len(rows) else np.flatnonzero(part == TRAIN)
        if len(rows) > NON_CLICKS:
            rows = np.sort(np.random.default_rng([self.rec.settings.seed, 0x5CA1]).choice(rows, NON_CLICKS, False))
        users, items = clicks.users[rows].astype(np.int64), clicks.items[rows].astype(np.int64)
        generator = stream(self.device, self.rec.settings.seed, "council scales")
        asked = torch.from_numpy(users).to(self.device)
        return users, items, self.data.sample_negatives(asked, generator).cpu().numpy()

    def _raw(self, member: Member) -> Callable[[Tensor, Tensor], Tensor]:
        network: Any = member.network
        return lambda users, items: network.logits(users.to(self.device), items.to(self.device)).flatten().cpu()

    def _logits(self, member: Member, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        scale, offset = self.scales[id(member)]
        return over_pairs(self._raw(member), users, items) * np.float32(scale) + np.float32(offset)

    # -- weights -----------------------------------------------------------------------------------------

    def _head(self, choice: Choice, judged: Judged) -> CouncilHead:
        caution = self.rec.settings.caution if judged.meant is not None else 0.0
        head = CouncilHead(len(self.full), self.data.n_items if caution else 0).to(self.device)
        head.kappa.fill_(choice.kappa)
        counts = {kind: sum(m.kind == kind for m in self.full) for kind in self.kinds}
        share = dict(zip(self.kinds, choice.weights, strict=True))
        for k, member in enumerate(self.full):
            head.scale[k], head.offset[k] = self.scales[id(member)]
            head.weight[k] = share[member.kind] / counts[member.kind]
            head.judging[k] = judged.weights.get(member.kind, 0.0) / counts[member.kind]
        if caution and judged.meant is not None:
            head.caution.fill_(caution)
            slope, doubt = judged.meant.of_items(self.data.popularity.cpu())
            fits = self._fits(self.full, judged.weights)
            head.item_mean.copy_(fits.mean(0))
            head.item_slope.copy_(slope)
            head.item_doubt.copy_(doubt)
            head.item_scale.copy_(scale_of(fits - fits.mean(0), slope.to(fits)))
        return head

    def _temper(self, teacher: Together) -> None:
        """Halve the caution until it costs no more than a little of the ranking of held-out, noisy clicks."""
        head, caution = teacher.head, float(teacher.head.caution)
        if not caution or self.task is None or not len(self.task.users):
            return
        task = self._some_users()
        tried = (0.0, caution, caution / 2, caution / 4)
        found = []
        for value in tried:
            head.caution.fill_(value)
            found.append(
                float(stacked_metrics(lambda users: teacher.scores(users)[None], task, [20], 1)["ndcg@20"].mean())
            )
        kept = (value for value, own in zip(tried[1:], found[1:], strict=True) if own >= (1 - COST) * found[0])
        head.caution.fill_(next(kept, 0.0))

    def _some_users(self) -> RankingTask:
        """The users of noisy validation, or a sample of them."""
        task = self.task
        assert task is not None
        if len(task.users) <= JUDGED_USERS:
            return task
        drawn = np.random.default_rng([self.rec.settings.seed, 0x305E]).choice(len(task.users), JUDGED_USERS, False)
        return replace(task, users=task.users[torch.from_numpy(np.sort(drawn)).to(self.device)])

    def _fits(self, members: Sequence[Member], weights: Mapping[str, float]) -> Tensor:
        """What members say of a sample of users, weighed as for judging: (users, items)."""
        warm = (self.data.degrees > 0).nonzero().squeeze(1).cpu().numpy()
        if len(warm) > FITTED_USERS:
            warm = np.sort(np.random.default_rng([self.rec.settings.seed, 0xF17]).choice(warm, FITTED_USERS, False))
        counts = Counter(m.kind for m in members)
        total = torch.zeros(len(warm), self.data.n_items, device=self.device)
        step = max(1, SCORES // self.data.n_items)
        for member in members:
            weight = weights.get(member.kind, 0.0) / counts[member.kind]
            scale, offset = self.scales[id(member)]
            network: Any = member.network
            for start in range(0, len(warm) if weight else 0, step):
                users = torch.from_numpy(warm[start : start + step]).to(self.device)
                total[start : start + step] += weight * (network.scores(users) * scale + offset)
        return total

    def _chosen(self) -> tuple[Choice, dict[str, Any]]:
        """Weights and κ by noisy validation, shrunk to equal; equal where nothing is held out."""
        kappa = self.rec.settings.kappa
        equal = Choice(tuple([1 / len(self.kinds)] * len(self.kinds)), 0.5 if kappa is None else kappa)
        if self.task is None or not len(self.task.users):
            return equal, {}
        tried = choices(len(self.kinds), KAPPAS if kappa is None else (kappa,))
        task = self._some_users()
        values = stacked_metrics(lambda users: self._mixed(users, tried), task, [20], len(tried))["ndcg@20"]
        choice = bagged(values.cpu().double().numpy(), tried, self.rec.settings.seed)
        if kappa is not None:
            choice = choice._replace(kappa=kappa)
        return choice, {}

    def _mixed(self, users: Tensor, tried: Sequence[Choice]) -> Tensor:
        """What each way to answer says: (choices, B, items)."""
        kinds = self._by_kind(users)
        weights = torch.tensor([one.weights for one in tried], device=self.device)
        mean = torch.einsum("ck,kbi->cbi", weights, kinds)
        square = torch.einsum("ck,kbi->cbi", weights, kinds**2)
        kappas = torch.tensor([one.kappa for one in tried], device=self.device)[:, None, None]
        return mean - kappas * (square - mean**2).clamp_(min=0).sqrt_()

    def _by_kind(self, users: Tensor) -> Tensor:
        """The mean log-odds of each kind's members: (kinds, B, items)."""
        each: dict[str, list[Tensor]] = {kind: [] for kind in self.kinds}
        for member in self.full:
            scale, offset = self.scales[id(member)]
            network: Any = member.network
            each[member.kind].append(network.scores(users) * scale + offset)
        return torch.stack([torch.stack(own).mean(0) for own in each.values()])

    # -- every click -------------------------------------------------------------------------------------

    def _judged(self) -> Judged:
        """Weights by how well members tell clicks that they never saw from non-clicks, and what then is meant."""
        clicks, seed, part = self.split.clicks, self.rec.settings.seed, self.split.part
        own = clicks.users.astype(np.int64), clicks.items.astype(np.int64)
        users, items = self.data.sample_pairs(NON_CLICKS, stream(self.device, seed, "non-clicks"))
        learnt = np.flatnonzero(part == TRAIN)
        # Out of sample: the clicks of all folds, or where there are none, those held out.
        unseen = learnt if self.folds else np.flatnonzero((part != TRAIN) & (part != SEEN))
        asked, matched = _matched(clicks, learnt, unseen, seed)
        others = tuple(
            np.concatenate([far.cpu().numpy(), near]) for far, near in zip((users, items), matched, strict=True)
        )
        said, of_others = self._said(own, (others[0], others[1]))
        every = np.stack([np.mean(each, 0) for each in said.values()], 1)
        gaps = np.isnan(every)
        if gaps.any():  # of a kind that lost its member of a fold, the others speak
            every = np.where(gaps, np.nanmean(every, 1, keepdims=True), every)
        away = np.stack([np.mean(each, 0) for each in of_others.values()], 1)
        far, near = away[: len(users)], away[len(users) :]
        weights, offset = likelihood_weights(torch.from_numpy(every[learnt]), torch.from_numpy(far))
        mass = weights.numpy()
        judged = Judged(dict(zip(said, map(float, mass), strict=True)), every @ mass + offset, far @ mass + offset)
        judged.said, judged.of_others = (
            said,
            {k: [one[: len(users)] for one in each] for k, each in of_others.items()},
        )
        if len(asked) < LEAST or len(near) < LEAST:
            return judged
        mean = self._item_means(judged.weights) + offset
        popularity = self.data.popularity.cpu()
        fit = torch.from_numpy(judged.clicks[asked]) - mean[own[1][asked]]
        other = torch.from_numpy(near @ mass + offset) - mean[matched[1]]
        judged.meant = fit_meant(fit, other, popularity[own[1][asked]], popularity[matched[1]])
        slope, doubt = (one.float() for one in judged.meant.of_items(popularity))
        fits = self._fits(self.full, judged.weights)
        scale = scale_of(fits - fits.mean(0), slope.to(fits)).cpu()

        def odds(logits: np.ndarray, at: np.ndarray) -> np.ndarray:
            fit = torch.from_numpy(logits).float() - mean[at].float()
            return ((slope[at] * fit).clamp(-FARTHEST, FARTHEST) - scale[at] - doubt[at]).numpy()

        of_clicks, of_far = odds(judged.clicks, own[1]), odds(judged.others, others[1][: len(users)])
        judged.noise_share = float(1 - _sigmoid(of_clicks[learnt]).mean(dtype=np.float64))
        judged.clicks = of_clicks + CLICKED * judged.clicks
        judged.others = of_far + CLICKED * judged.others
        shift = _shift(judged.clicks[learnt], 1 - judged.noise_share)
        judged.clicks, judged.others = judged.clicks + shift, judged.others + shift
        return judged

    def _item_means(self, weights: Mapping[str, float]) -> Tensor:
        """The mean over users of what those say who judge: the members of each fold, or all."""
        folds = sorted({m.fold for m in self.ready if m.fold is not None})
        groups = [[m for m in self.ready if m.fold == fold] for fold in folds] or [self.full]
        return torch.stack([self._fits(group, weights).mean(0) for group in groups]).mean(0).cpu().double()

    def _keep(self, made: Convened, judged: Judged) -> None:
        """Quality, votes and agreement of every click, and the mean quality of non-clicks as the threshold."""
        made.quality = _sigmoid(judged.clicks).astype(np.float32)
        made.threshold = float(_sigmoid(judged.others).mean(dtype=np.float64))
        made.notes["quality_weights"] = {kind: round(weight, 4) for kind, weight in judged.weights.items()}
        if judged.noise_share is not None:
            made.notes["noise_share"] = round(judged.noise_share, 4)
        count = len(self.split.clicks)
        chances, believed, heard = [], np.zeros(count, np.int16), np.zeros(count, np.int16)
        for kind, each in judged.said.items():
            for answers, far in zip(each, judged.of_others[kind], strict=True):
                chance = _sigmoid(answers)
                spoke = np.isfinite(answers)
                believed += spoke & (chance >= _sigmoid(far).mean())
                heard += spoke
                chances.append(np.where(spoke, chance, np.nan))
        agreement = np.clip(1 - 2 * np.nanstd(np.stack(chances), 0), 0, 1).astype(np.float32)
        made.votes = {"votes": believed, "voters": heard, "agreement": agreement}

    def _said(
        self, own: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
    ) -> tuple[dict[str, list[np.ndarray]], dict[str, list[np.ndarray]]]:
        """Each member's log-odds of all clicks, NaN where it does not speak, and of non-clicks.

        With folds, those judge that never saw a click: of a fold, its own members; of validation, all of them. The
        few training clicks that are in no fold are judged by all.
        """
        part = self.split.part
        said: dict[str, list[np.ndarray]] = {}
        away: dict[str, list[np.ndarray]] = {}
        if not self.folds or all(m.fold is None for m in self.ready):
            for member in self.full:
                said.setdefault(member.kind, []).append(self._logits(member, *own))
                away.setdefault(member.kind, []).append(self._logits(member, *others))
            return said, away
        in_fold = np.full(len(part), -1)
        for k, rows in enumerate(self.folds):
            in_fold[rows] = k
        for kind in dict.fromkeys(m.kind for m in self.ready if m.fold is not None):
            answers = np.full(len(part), np.nan, np.float32)
            count = np.zeros(len(part), np.float32)
            far = []
            for member in (m for m in self.ready if m.kind == kind and m.fold is not None):
                rows = np.flatnonzero((in_fold == member.fold) | (in_fold < 0))
                heard = self._logits(member, own[0][rows], own[1][rows])
                answers[rows] = np.where(count[rows] > 0, np.nan_to_num(answers[rows]) + heard, heard)
                count[rows] += 1
                far.append(self._logits(member, *others))
            said[kind] = [answers / np.maximum(count, 1)]
            away[kind] = [np.mean(far, 0)]
        return said, away


def _matched(
    clicks: Any, learnt: np.ndarray, unseen: np.ndarray, seed: int
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Clicks to learn from, and non-clicks of the same items by users who are drawn as often as they click."""
    rng = np.random.default_rng([seed, 0x3A7])
    asked = unseen if len(unseen) <= NON_CLICKS else np.sort(rng.choice(unseen, NON_CLICKS, False))
    users = clicks.users[learnt][rng.integers(0, len(learnt), 2 * len(asked))].astype(np.int64)
    items = np.tile(clicks.items[asked], 2).astype(np.int64)
    keys = users * len(clicks.item_ids) + items
    at = np.searchsorted(clicks.keys, keys).clip(max=len(clicks.keys) - 1)
    free = clicks.keys[at] != keys
    return asked, (users[free], items[free])


def _shift(logits: np.ndarray, wanted: float) -> float:
    """What to add to log-odds so that their mean chance is as wanted."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(logits + middle).mean() < wanted else (low, middle)
    return (low + high) / 2


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -60, 60)))


__all__ = ["Convened", "convene"]
