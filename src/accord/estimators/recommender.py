"""The recommender: fit on a click log, recommend, and say which clicks are noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from torch import Tensor, nn

from accord.data.clicks import Clicks, load_clicks, match_pairs
from accord.data.interactions import Interactions, PairBatch
from accord.data.splits import holdout_mask
from accord.errors import AccordError, DataError, SettingError
from accord.estimators import recommender_folder
from accord.estimators.issues import flag_share, worst_first
from accord.estimators.limits import require_disk, require_memory
from accord.estimators.measuring import Ranked, measure_issues, measure_ranking
from accord.estimators.parts import (
    SEEN,
    TRAIN,
    VALID,
    VALID_FILE,
    by_popularity,
    over_pairs,
    whole_k,
    with_popularity_for_cold_users,
    with_seen,
    with_validation,
)
from accord.estimators.refit import all_or_nothing
from accord.estimators.settings import RecommenderSettings, make_settings, with_settings_in_signature
from accord.evaluation import RankingTask, mean_metrics
from accord.evaluation.ranking import BLOCK, Scorer
from accord.models import ModelFactory, PairModel, recommender_factory
from accord.training import (
    EpochRecord,
    Hook,
    Validate,
    Where,
    checkpoint_of,
    computes_here,
    resolve_device,
    seeded,
    stream,
    train,
)


def _metrics_on(task: RankingTask | None) -> Validate | None:
    return None if task is None else lambda net: mean_metrics(net.scores, task, [20])  # pyright: ignore


NON_CLICKS = 100_000
"""Non-clicks whose mean quality is the threshold for flagging clicks."""


@with_settings_in_signature(RecommenderSettings)
class Recommender:
    """Learns preferences from clicks that cannot all be trusted.

    >>> rec = Recommender(model="gmf", method="deca-p", epochs=1, seed=0)
    >>> clicks = {"user": ["u1", "u1", "u2", "u2"], "item": ["i1", "i2", "i1", "i3"]}
    >>> rec.fit(clicks).recommend("u1", k=1).column_names
    ['user', 'rank', 'item', 'score']
    """

    def __init__(self, model: str | ModelFactory = "gmf", method: str = "deca-p", **settings: Any) -> None:
        self._factory = model if callable(model) else None
        name = "custom" if callable(model) else model
        self.settings: RecommenderSettings = make_settings({"model": name, "method": method, **settings})
        if self.settings.model == "custom" and self._factory is None:
            raise SettingError("Model 'custom' needs the model itself: pass Recommender(model=factory).")

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        log: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        time: str | None = None,
        valid: Any = None,
        known: Any = None,
        seen: Any = None,
        watch: Any = None,
        hook: Hook | None = None,
        checkpoint: Where | None = None,
    ) -> Self:
        """Train on a log: a file, a pandas, polars or pyarrow table, or a SciPy CSR matrix.

        A part of the log, or the pairs of ``valid``, is held out to choose the epoch; it is as noisy as the
        rest. Ids of the pairs in ``known`` join the catalogue without a click; pairs in ``seen`` are never
        recommended. ``watch`` are pairs whose metrics are written into the history and decide nothing. ``hook`` is
        told of the progress. ``checkpoint`` is a file in which the training is written down now and then; where
        it is there already, the training goes on from it, and when all is done it is removed.
        """
        with all_or_nothing(self):
            clicks = load_clicks(log, user=user, item=item, time=time, known=known)
            pa.default_memory_pool().release_unused()
            self._take_log(clicks, valid, seen)
            self.__dict__.pop("_cache", None)
            device = resolve_device(self.settings.device)
            need = self.settings.memory_need(len(self.user_ids_), len(self.item_ids_), len(self.clicks_))
            advice = "use fewer dims, a smaller batch size, or a machine with more"
            require_memory(need, device, "Training this log", advice)
            training = self._interactions(self.part_ == TRAIN, device)
            task, watched = self._validation_task(training), self._watched_task(watch, training)
            kept_in = checkpoint_of(
                checkpoint,
                device.type,
                self.settings.model_dump_json(),
                self.clicks_.keys,
                self.part_,
                len(self.user_ids_),
            )
            if kept_in is not None and not kept_in.optional:
                require_disk(need, kept_in.path, "A checkpoint of this training")
            phases = self.settings.make_method().phases(lambda role, model=None: self._build(role, model, training))
            self.history_: list[EpochRecord] = train(
                phases,
                training,
                self.settings.training_options(len(self.user_ids_)),
                _metrics_on(task),
                hook,
                _metrics_on(watched),
                kept_in,
            )
            kept = {role: phase.networks[role] for phase in phases for role in phase.kept}
            self.networks_ = {role: net for role, net in kept.items() if role != "prior"}
            self._judge_clicks()
            self._move("cpu")
            if kept_in is not None and isinstance(checkpoint, str | Path):
                kept_in.remove()
        return self

    def _take_log(self, clicks: Clicks, valid: Any, seen: Any) -> None:
        if len(clicks.user_ids) < 2 or len(clicks.item_ids) < 2:
            raise DataError(
                f"The log has {len(clicks.user_ids)} user(s) and {len(clicks.item_ids)} item(s); "
                "a recommender needs at least two of each."
            )
        settings = self.settings
        self.columns_, self.user_ids_, self.item_ids_ = clicks.columns, clicks.user_ids, clicks.item_ids
        part = np.zeros(len(clicks), np.int8)
        self.notes_: dict[str, Any] = {"clicks": len(clicks), "merged": clicks.merged}
        if valid is None:
            by_time = settings.split == "time" or (settings.split == "auto" and clicks.times is not None)
            part[holdout_mask(clicks, settings.valid_share, seed=settings.seed, by_time=by_time)] = VALID
            self.notes_["split"] = "each user's latest clicks" if by_time else "random clicks"
        else:
            clicks, part = with_validation(clicks, part, valid, self.notes_)
        if seen is not None:
            clicks, part = with_seen(clicks, part, seen)
        self.clicks_, self.part_ = clicks, part
        self.notes_ |= {
            "users": len(self.user_ids_),
            "items": len(self.item_ids_),
            "train": int((part == TRAIN).sum()),
            "valid": int(((part == VALID) | (part == VALID_FILE)).sum()),
        }

    def _share_log(self, other: Recommender) -> None:
        """Take in what another has read and divided."""
        self.columns_, self.user_ids_, self.item_ids_ = other.columns_, other.user_ids_, other.item_ids_
        self.clicks_, self.part_, self.notes_ = other.clicks_, other.part_, dict(other.notes_)

    def _interactions(self, rows: np.ndarray, device: torch.device | str = "cpu") -> Interactions:
        clicks = self.clicks_
        users, items = clicks.users[rows], clicks.items[rows]
        return Interactions.from_pairs(users, items, len(self.user_ids_), len(self.item_ids_), device)

    def _validation_task(self, training: Interactions) -> RankingTask | None:
        held = (self.part_ == VALID) | (self.part_ == VALID_FILE)
        if not held.any():
            return None
        masked = (
            [training]
            if (self.part_ < SEEN).all()
            else [training, self._interactions(self.part_ == SEEN, training.device)]
        )
        task = RankingTask.from_pairs(
            self.clicks_.users[held],
            self.clicks_.items[held],
            masked,
            max_users=self.settings.valid_users,
            seed=self.settings.seed,
        )
        task = self._as_served(task, training)
        if not len(task.users):
            raise DataError("No user of the validation clicks has a training click, so that they decide nothing.")
        return task

    def _as_served(self, task: RankingTask, training: Interactions) -> RankingTask:
        """Users without a training click are ranked for as they will be: by popularity, unless the model is to."""
        if self.settings.cold_users == "model":
            return task
        return task.with_settled(training.degrees[task.users] == 0, by_popularity(training))

    def _watched_task(self, watch: Any, training: Interactions) -> RankingTask | None:
        """Pairs to rank high, among all that the log does not hold."""
        if watch is None:
            return None
        pairs = match_pairs(watch, self.user_ids_, self.item_ids_, self.columns_)
        seen = [training, self._interactions(self.part_ != TRAIN, training.device)]
        users, items = pairs.users[pairs.known], pairs.items[pairs.known]
        if not len(users):
            raise DataError("No pair to watch has a known user and item; are these the same ids as in the log?")
        task = RankingTask.from_pairs(users, items, seen, max_users=self.settings.valid_users)
        return self._as_served(task, training)

    def _build(self, role: str, model: str | None, training: Interactions) -> nn.Module:
        """The network of a role, seeded for that role alone, on the device of the training clicks."""
        chosen = model or self._factory or self.settings.model
        settings = self.settings
        factory = recommender_factory(
            chosen, dims=settings.dims, item_bias=settings.item_bias, spread=settings.spread
        )
        with seeded(settings.seed, "network", role):
            network = factory(len(self.user_ids_), len(self.item_ids_))
        if not isinstance(network, nn.Module) or not isinstance(network, PairModel):
            raise SettingError(
                f"{type(network).__name__} cannot be trained: a model is a torch.nn.Module with the methods "
                "logits(users, items) and scores(users)."
            )
        network.to(training.device)
        if hasattr(network, "bind"):
            network.bind(training.starts, training.items)  # pyright: ignore[reportCallIssue]
        return network

    # -- noise -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def _judge_clicks(self) -> None:
        method, device = self.settings.make_method(), self._device
        one = torch.ones(1, device=device)

        def quality(users: Tensor, items: Tensor) -> Tensor:
            return method.label_quality(self.networks_, PairBatch(users.to(device), items.to(device), one)).cpu()

        self.quality_ = over_pairs(quality, self.clicks_.users, self.clicks_.items)
        own = self.quality_[self.part_ == TRAIN]
        if not np.isfinite(own).all():
            raise AccordError("Training diverged: some clicks have no quality; lower the learning rate.")
        training = self._training()
        users, items = training.sample_pairs(NON_CLICKS, stream(training.device, self.settings.seed, "non-clicks"))
        self.threshold_ = float(over_pairs(quality, users.numpy(), items.numpy()).mean(dtype=np.float64))

    def find_label_issues(self, share: float | None = None) -> pa.Table:
        """Every click of the log, worst first: user, item, label_quality (1 = clean) and is_label_issue.

        A click is an issue when its quality is below the mean quality of items that its like never clicked
        (the rule of confident learning); ``share`` flags that share of the log instead.
        """
        self._require_fit()
        pairs, quality, flagged = self._judged(share)
        table = pa.table(
            {
                "user": pairs.user_ids.take(pairs.users),
                "item": pairs.item_ids.take(pairs.items),
                "label_quality": quality,
                "is_label_issue": flagged,
            }
        )
        return worst_first(table)

    def cleaned_log(self, share: float | None = None) -> pa.Table:
        """The log without the flagged clicks: one row for each distinct click, columns named as they came."""
        self._require_fit()
        pairs, _, flagged = self._judged(share)
        return pairs.subset(~flagged).to_table()

    def _judged(self, share: float | None) -> tuple[Clicks, np.ndarray, np.ndarray]:
        """The clicks of the log, their quality, and which are flagged."""
        own = self.part_ <= VALID
        quality = self.quality_[own]
        flagged = quality < self.threshold_ if share is None else flag_share(quality, share)
        return self.clicks_.subset(own), quality, flagged

    # -- serving ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True, items: Any = None) -> pa.Table:
        """The k best items of each user as a table: user, rank, item, score (log-odds of a like).

        Users without a training click get the items with most clicks, scored log(1 + clicks).
        ``items`` narrows the choice to a subset of the catalogue.
        """
        self._require_fit()
        k = whole_k(k)
        codes = self.user_ids_.require(users)
        allowed = None if items is None else torch.from_numpy(self.item_ids_.require(items))
        seen = self._seen() if exclude_seen else None
        blocks = torch.from_numpy(codes).split(max(1, BLOCK // len(self.item_ids_)))
        scorer = self._scorer(self._training())
        parts = [self._top(scorer, block, k, seen, allowed) for block in blocks]
        row, rank, item, score = (torch.cat([part[n] for part in parts]).numpy() for n in range(4))
        offsets = np.repeat(np.cumsum([0] + [len(b) for b in blocks[:-1]]), [len(p[0]) for p in parts])
        return pa.table(
            {
                "user": self.user_ids_.take(codes[row + offsets]),
                "rank": pa.array(rank + 1),
                "item": self.item_ids_.take(item),
                "score": score,
            }
        )

    def _scorer(self, training: Interactions) -> Scorer:
        """Scores of users' items; users without a training click get popularity, unless the model is to rank."""
        if self.settings.cold_users == "model":
            return self._target.scores
        return with_popularity_for_cold_users(self._target.scores, training)

    def _top(
        self, scorer: Scorer, users: Tensor, k: int, seen: Interactions | None, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        scores = scorer(users)
        if seen is not None:
            seen.mask_seen(scores, users)
        if allowed is not None:
            forbidden = torch.ones(scores.shape[1], dtype=torch.bool)
            forbidden[allowed] = False
            scores.masked_fill_(forbidden, -torch.inf)
        top = scores.topk(min(k, scores.shape[1]))
        row, rank = (top.values > -torch.inf).nonzero(as_tuple=True)
        return row, rank, top.indices[row, rank], top.values[row, rank]

    @torch.no_grad()
    def predict(self, users: Any, items: Any) -> np.ndarray:
        """Scores (log-odds of a like) of pairs: two sequences of one length."""
        self._require_fit()
        user_codes, item_codes = self.user_ids_.require(users), self.item_ids_.require(items)
        if len(user_codes) != len(item_codes):
            raise DataError(
                f"{len(user_codes)} users and {len(item_codes)} items do not pair up; give as many of each."
            )
        return over_pairs(self._target.logits, user_codes, item_codes)

    @torch.no_grad()
    def similar_items(self, items: Any, k: int = 10) -> pa.Table:
        """The k items with the closest vectors (cosine): item, rank, similar_item, score."""
        self._require_fit()
        k = whole_k(k)
        codes = self.item_ids_.require(items)
        if not hasattr(self._target, "item_vectors"):
            raise AccordError("This model has no item vectors: give it a method item_vectors().")
        vectors = nn.functional.normalize(self._target.item_vectors(), dim=1)  # pyright: ignore
        own = torch.from_numpy(codes)
        scores = vectors[own] @ vectors.T
        scores[torch.arange(len(own)), own] = -torch.inf
        top = scores.topk(min(k, len(vectors) - 1))
        count = top.values.shape[1]
        return pa.table(
            {
                "item": self.item_ids_.take(np.repeat(codes, count)),
                "rank": np.tile(np.arange(1, count + 1), len(codes)),
                "similar_item": self.item_ids_.take(top.indices.flatten().numpy()),
                "score": top.values.flatten().numpy(),
            }
        )

    # -- measuring -------------------------------------------------------------------------------------

    def evaluate(self, truth: Any, k: Sequence[int] = (5, 20), **columns: str | None) -> dict[str, float]:
        """Ranking metrics against clean test pairs, over all items the user has not clicked in the log.

        Users without a training click are ranked for by popularity, known or not; where there are any, the
        metrics of the others alone are given as ``warm …``. Unknown items stay in as misses.
        """
        return self.evaluate_users(truth, k, **columns).means()

    def evaluate_users(self, truth: Any, k: Sequence[int] = (5, 20), **columns: str | None) -> Ranked:
        """What `evaluate` averages: the metrics of each user."""
        self._require_fit()
        depths = [whole_k(depth) for depth in (k if np.iterable(k) else [k])]
        if not depths:
            raise SettingError("No k was given; ask for the metrics of at least one length of list.")
        pairs = match_pairs(truth, self.user_ids_, self.item_ids_, self.columns_, **columns)
        strangers = self.settings.cold_users == "popularity"
        seen, training = self._seen().to(self._device), self._training().to(self._device)
        return measure_ranking(self._scorer(training), pairs, self.user_ids_, seen, training, depths, strangers)

    def evaluate_issues(self, truth: Any, share: float | None = None, **columns: str | None) -> dict[str, Any]:
        """How well the quality finds known noise: a table with is_noise, and kind if there are kinds."""
        self._require_fit()
        pairs = match_pairs(truth, self.user_ids_, self.item_ids_, self.columns_, **columns)
        return measure_issues(pairs, *self._judged(share))

    # -- keeping ---------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = True, also: Callable[[Path], None] | None = None) -> None:
        """Write the run folder, whole or not at all; ``also`` may add files before it appears."""
        self._require_fit()
        recommender_folder.save(self, Path(path), overwrite=overwrite, also=also)

    @classmethod
    def load(cls, path: str | Path, model: ModelFactory | None = None) -> Self:
        """Read a run folder; a run of your own model needs ``model``, its factory."""
        return recommender_folder.load(cls, Path(path), model)

    @property
    def metrics_(self) -> dict[str, Any]:
        """Noisy validation metrics of the epoch that was kept, for each phase, and the noise that was found."""
        return recommender_folder.metrics_of(self)

    @property
    def _target(self) -> Any:
        computes_here()
        return self.settings.make_method().target(self.networks_)

    @property
    def _device(self) -> torch.device:
        tensors = (t for net in self.networks_.values() for t in (*net.parameters(), *net.buffers()))
        return next(tensors, torch.empty(0)).device

    def _move(self, device: torch.device | str) -> None:
        """Take the networks to a device; between calls they are on the CPU, where several threads may use them."""
        for network in self.networks_.values():
            network.to(device).eval()  # and forget what was computed elsewhere

    def _seen(self) -> Interactions:
        return self._cached("seen", lambda: self._interactions(np.ones(len(self.clicks_), bool)))

    def _training(self) -> Interactions:
        return self._cached("training", lambda: self._interactions(self.part_ == TRAIN))

    def _cached(self, name: str, make: Callable[[], Interactions]) -> Interactions:
        cache: dict[str, Interactions] = self.__dict__.setdefault("_cache", {})
        if name not in cache:
            cache[name] = make()
        return cache[name]

    def _require_fit(self) -> None:
        if not hasattr(self, "networks_"):
            raise AccordError("This recommender is not trained yet; call fit first.")

    def __repr__(self) -> str:
        changed = {
            k: v for k, v in self.settings.model_dump().items() if v != RecommenderSettings.model_fields[k].default
        }
        shown = {"model": self.settings.model, "method": self.settings.method} | changed
        return f"Recommender({', '.join(f'{k}={v!r}' for k, v in shown.items())})"
