"""The recommender: fit on a click log, recommend, and say which clicks are noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.batches.clicks import ClickFeed, RowCuts, positives
from accord.data.clicks import Clicks, load_clicks, match_pairs
from accord.data.interactions import NO_NEGATIVE, Interactions
from accord.data.tables_out import kind_of_table
from accord.errors import AccordError, DataError, SettingError
from accord.estimators import recommender_folder, run_folder
from accord.estimators.base import CUSTOM, Cache, Convening, Estimator, Prepared, Trained, place_of
from accord.estimators.handed import ByIds, copied, told_of
from accord.estimators.issues import flag_share, worst_first
from accord.estimators.keywords import RecommenderKeywords
from accord.estimators.limits import require_memory
from accord.estimators.log_split import (
    SEEN,
    TRAIN,
    VALID,
    SplitLog,
    by_popularity,
    over_pairs,
    refuse_other_ids,
    split_log,
    whole_k,
    with_popularity_for_cold_users,
)
from accord.estimators.measuring import Ranked, measure_issues, measure_ranking
from accord.estimators.naming import OWN, is_scorer, named_objects, object_of, unspelled, with_objects
from accord.estimators.scorers import WANTED, ScoredPairs, gives_scores, is_function
from accord.estimators.settings import check_prior, not_taken, refuse_solved, usual_method
from accord.evaluation import RankingTask, mean_metrics
from accord.evaluation.ranking import BLOCK, Scorer
from accord.methods.assembly import HEAD, CouncilHead
from accord.models import check_model, is_solved, model_of, recommender_factory, trait
from accord.models.recommenders import PairModel
from accord.models.stack import stack_kind
from accord.optim import MANY_ROWS
from accord.training import Callback, CheckpointPath, Run, seeded, stream

NON_CLICKS = 100_000
"""Non-clicks whose mean quality is the threshold for flagging clicks."""
MOST = {"cpu": 16, "cuda": 256}
"""Most runs of a stack: beyond them nothing is gained."""


class Recommender(Estimator):
    """Learns preferences from clicks that cannot all be trusted.

    >>> rec = Recommender(model="gmf", method="deca-p", epochs=1, seed=0)
    >>> clicks = {"user": ["u1", "u1", "u2", "u2"], "item": ["i1", "i2", "i1", "i3"]}
    >>> rec.fit(clicks).recommend("u1", k=1).column_names
    ['user', 'rank', 'item', 'score']
    """

    kind = "recommender"
    task = "clicks"
    metric, metric_words, what = "ndcg@20", "NDCG@20", "clicks"

    def __init__(self, model: Any = "gmf", method: Any = None, **given: Unpack[RecommenderKeywords]) -> None:
        """Without a ``method`` it is deca-p, or normal for a model that is solved, as ease, or comes fitted."""
        self._factory: Any = None if isinstance(model, str) else model
        if self._factory is not None and not (callable(model) or is_scorer(model)):
            raise SettingError(f"A {type(model).__name__} cannot recommend: {WANTED}.")
        self._open = method is None and is_function(model)  # which may be a factory, or score pairs
        settings, self._objects = named_objects(given)
        method = usual_method(model, self.task) if method is None else method
        name, settings = self._named_method(method, settings)
        chosen = model if isinstance(model, str) else CUSTOM
        self._settings = self.check_settings({"model": chosen, "method": name, **settings})
        if chosen == CUSTOM and self._factory is None:
            raise SettingError("Model 'custom' needs the model itself: pass Recommender(model=factory).")

    @property
    def settings(self) -> Any:
        return self._settings

    @classmethod
    def check_settings(cls, values: dict[str, Any]) -> Any:
        usual = usual_method(values.get("model", "gmf"), cls.task)
        settings = super().check_settings({"method": usual, **values})
        check_model(settings.model, cls.task, CUSTOM)
        check_prior(settings, cls.task)
        refuse_solved(settings, cls.task)
        for name in ("auxiliary", "noise_model"):
            value = getattr(settings, name)
            if value != OWN[name]:
                check_model(value, cls.task, what=name)
            if is_solved(value):
                raise SettingError(f"The {name} learns by gradients, and '{value}' has none; take mf.")
        return settings

    def objects(self) -> dict[str, Any]:
        return self._objects

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by its name, as scikit-learn's estimators give them."""
        settings = {name: getattr(self.settings, name) for name in type(self.settings).model_fields}
        return with_objects(settings, self._objects) | {"model": self._chosen}

    def set_params(self, **changes: Any) -> Self:
        """Change settings; what was fitted stays as it is until the next fit."""
        made = self.renewed(**changes)
        self._factory, self._objects, self._settings = made._factory, made._objects, made._settings
        self._open = made._open
        return self

    @property
    def _chosen(self) -> Any:
        """The model as it was given."""
        return self.settings.model if self._factory is None else self._factory

    def __sklearn_clone__(self) -> Self:
        return self.renewed()

    def renewed(self, **changes: Any) -> Self:
        own = with_objects(self.changed_settings(), self._objects)
        method = None if self._open else self.settings.method
        own |= {"model": self._chosen, "method": method, **changes}
        return type(self)(**own)

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
        eval_set: Any = None,
        callback: Callback | None = None,
        checkpoint: CheckpointPath | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train on a log: a file, a pandas, polars or pyarrow table, or a SciPy CSR matrix.

        A part of the log, or the pairs of ``valid``, is held out to choose the epoch; it is as noisy as the rest.
        Ids of the pairs in ``known`` join the catalogue without a click; pairs in ``seen`` are never recommended.
        ``eval_set`` holds pairs whose metrics are written into the history and decide nothing. ``callback``
        receives the progress. ``checkpoint`` is a file in which the training is saved now and then. If it exists,
        the training is resumed from it; when all is done, it is removed. Progress is shown on a terminal and in a
        notebook; ``verbose`` True shows it anywhere, False nowhere.
        """
        source = {"log": log, "user": user, "item": item, "time": time, "valid": valid, "known": known}
        return self._fit({**source, "seen": seen, "eval_set": eval_set}, callback, checkpoint, verbose)

    def _prepare(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
        split = self._split(source, cache)
        self._take(split)
        self._came_as = kind_of_table(source.get("log"))
        if self._open and gives_scores(self._factory, split.user_ids, split.item_ids):
            self._open, self._settings = False, self._settings.model_copy(update={"method": "normal"})
        settings = self.settings
        if isinstance(self._factory, nn.Module):
            self.notes_["weights"] = told_of(self._factory, settings.pretrained)
        need = settings.memory_need(len(self.user_ids_), len(self.item_ids_), len(self.clicks_))
        usual = "use fewer dims, a smaller batch size, or a machine with more"
        what = f"Model '{settings.model}' of {len(self.item_ids_):,} items"
        advice = trait(settings.model, "too_large", None)
        require_memory(need, device, what if advice else "Training this log", advice or usual)
        rows = np.packbits(self.part_ == TRAIN).tobytes()
        made = cache.get(("train", rows, str(device)), [split.clicks], lambda: self._interactions(TRAIN, device))
        drawn = settings.seed if split.held_users > settings.valid_users else None  # which are ranked is drawn
        key = ("valid", rows, settings.valid_users, drawn, settings.cold_users)
        valid = cache.get(key, [split.clicks], lambda: self._validation_task(made))
        watched = source.get("eval_set")
        key = ("eval_set", rows, settings.valid_users, settings.cold_users)
        eval_set = cache.get(key, [split.clicks, watched], lambda: self._eval_task(watched, made))
        capture = stack_kind(type_of(settings.model)) is not None
        options = settings.training_options(len(self.user_ids_), capture)
        return Prepared(
            Run(options, made, ClickFeed, valid, eval_set),
            lambda role, architecture=None: self._build(role, architecture, made),
            settings.model if self._factory is None else CUSTOM,
            [
                *((split.clicks, split.clicks.keys), (split.part, split.part)),
                *((split.user_ids, len(split.user_ids)), *place_of(source)),
            ],
            self._shared_by_stack(made, split),
            bytes_needed=need,
        )

    def _split(self, source: Mapping[str, Any], cache: Cache) -> SplitLog:
        """The log, read and divided; once for all that divide it alike."""
        if source.get("divided") is not None:  # of a member of a council, or a prior
            return source["divided"]
        log, known = source["log"], source.get("known")
        columns = {name: source.get(name) for name in ("user", "item", "time")}
        clicks = cache.get(
            ("log", *columns.items()), [log, known], lambda: load_clicks(log, known=known, **columns)
        )
        settings, valid, seen = self.settings, source.get("valid"), source.get("seen")
        drawn = (settings.seed, settings.valid_share, settings.split) if valid is None else ()
        return cache.get(("split", *drawn), [clicks, valid, seen], lambda: split_log(clicks, valid, seen, settings))

    def _divided(self, source: Mapping[str, Any], cache: Cache) -> dict[str, Any]:
        return {"log": source["log"], "divided": self._split(source, cache)}

    def _as_prior(self, given: Any) -> nn.Module:
        for own, ids, what in (
            (given.user_ids_, self.user_ids_, "users"),
            (given.item_ids_, self.item_ids_, "items"),
        ):
            refuse_other_ids(own, ids, "prior", what)
        return given._target

    def _take(self, split: SplitLog) -> None:
        self.columns_, self.user_ids_, self.item_ids_ = split.clicks.columns, split.user_ids, split.item_ids
        self.clicks_, self.part_, self.notes_ = split.clicks, split.part, dict(split.notes)
        self.__dict__.pop("_cache", None)

    def _shared_by_stack(self, data: Interactions, split: SplitLog) -> dict[str, Any]:
        """What the runs of a stack must have in common."""
        by_rows = self._by_rows(split, data.device)
        return {
            "numbers of training clicks, users and items": (data.drawn_in_an_epoch, data.n_users, data.n_items),
            "tables, which are too large to be updated whole; give updates=dense": by_rows,
        }

    def _refuse_stack(self, model: type[nn.Module], prepared: Sequence[Prepared]) -> None:
        from accord.estimators.fitting import StackError

        each = [one.run.data for one in prepared]
        if getattr(model, "one_graph", False) and any(data is not each[0] for data in each):
            raise StackError("These runs hold out different clicks, but share one graph in a stack.")
        if getattr(model, "reads_rows", False):
            cuts = [RowCuts.of(data, self.settings.batch_size) for data in each]
            if not all(own.even and own.batches == cuts[0].batches for own in cuts):
                raise StackError("A user has more clicks than a batch holds, so the runs' passes differ in length.")

    def _by_rows(self, split: SplitLog, device: torch.device) -> Any:
        """Something of its own where the run would update its tables by rows, which a stack does not."""
        settings, rows = self.settings, max(len(split.user_ids), len(split.item_ids))
        if device.type != "cpu" or settings.updates == "dense":
            return None
        large = settings.updates == "rows" or rows > MANY_ROWS * settings.batch_size
        return id(self) if large else None

    def _stackable(self, settings: Any) -> bool:
        return self._factory is None and not self._objects and stack_kind(type_of(settings.model)) is not None

    def _join(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        if not all(one.run.data.drawn_in_an_epoch for one in prepared):
            raise DataError(NO_NEGATIVE)
        return {}

    def _room(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
        from accord.estimators.fitting import room_for

        split = self._split(source, cache)
        if self._by_rows(split, device) is not None:
            return 1
        need = self.settings.memory_need(len(split.user_ids), len(split.item_ids), self.settings.batch_size)
        return room_for(need, MOST[device.type], device)

    def _interactions(self, part: int | np.ndarray, device: torch.device | str = "cpu") -> Interactions:
        clicks, rows = self.clicks_, self.part_ == part if isinstance(part, int) else part
        users, items = clicks.users[rows], clicks.items[rows]
        return Interactions.from_pairs(users, items, len(self.user_ids_), len(self.item_ids_), device)

    def _validation_task(self, training: Interactions) -> RankingTask | None:
        held = (self.part_ != TRAIN) & (self.part_ != SEEN)
        if not held.any():
            return None
        seen = [] if (self.part_ < SEEN).all() else [self._interactions(SEEN, training.device)]
        users, items, settings = self.clicks_.users[held], self.clicks_.items[held], self.settings
        masked = [training, *seen]
        task = RankingTask.from_pairs(users, items, masked, max_users=settings.valid_users, seed=settings.seed)
        task = self._as_served(task, training)
        if not len(task.users):
            raise DataError("No user of the validation clicks has a training click, so that they decide nothing.")
        return task

    def _as_served(self, task: RankingTask, training: Interactions) -> RankingTask:
        """Users without a training click are ranked as in use: by popularity, unless the model is to rank them."""
        if self.settings.cold_users == "model":
            return task
        return task.with_settled(training.degrees[task.users] == 0, by_popularity(training))

    def _eval_task(self, eval_set: Any, training: Interactions) -> RankingTask | None:
        """Pairs to rank high, among all that the log does not hold."""
        if eval_set is None:
            return None
        pairs = match_pairs(eval_set, self.user_ids_, self.item_ids_, self.columns_)
        seen = [training, self._interactions(self.part_ != TRAIN, training.device)]
        users, items = pairs.users[pairs.known], pairs.items[pairs.known]
        if not len(users):
            raise DataError(
                "No pair of the eval_set has a known user and item; are these the same ids as in the log?"
            )
        task = RankingTask.from_pairs(users, items, seen, max_users=self.settings.valid_users)
        return self._as_served(task, training)

    def _build(self, role: str, architecture: Any, training: Interactions) -> nn.Module:
        """The network of a role, seeded for that role alone, on the device of the training clicks."""
        chosen: Any = object_of(architecture, self._objects) if architecture else self._chosen
        if chosen == HEAD:
            return CouncilHead().to(training.device)
        if chosen == CUSTOM:
            chosen = self._factory
        settings = self.settings
        if isinstance(chosen, str) and role.startswith("member "):  # of a council: its settings are its own
            settings = self.check_settings(unspelled(chosen))
            chosen = settings.model
        factory = recommender_factory(
            chosen, settings, dims=settings.dims, item_bias=settings.item_bias, init_std=settings.init_std
        )
        with seeded(settings.seed, "network", role):
            network = self._made(factory)
        if not isinstance(network, nn.Module) or not isinstance(network, PairModel):
            raise SettingError(
                f"{type(network).__name__} cannot be trained: a model is a torch.nn.Module with the methods "
                "logits(users, items) and scores(users)."
            )
        takes_it = architecture is not None or settings.method_class.takes_solved
        if isinstance(network, ScoredPairs) and not takes_it:
            raise SettingError(
                f"Method '{settings.method}' learns by gradients, and the {network.scorer.name} comes fitted: take "
                "method='normal', or let it be a prior (prior=…) or a member of a council (members=[…])."
            )
        if is_solved(network) and not takes_it:
            raise SettingError(not_taken(settings.method, type(network).__name__, self.task))
        network.to(training.device)
        if hasattr(network, "bind"):
            network.bind(training.starts, training.items)  # pyright: ignore[reportCallIssue]
        return network

    def _made(self, factory: Any) -> Any:
        """A network of the log's users and items, by a factory, or of what was handed over."""
        ids, sizes = (self.user_ids_, self.item_ids_), (len(self.user_ids_), len(self.item_ids_))
        if isinstance(factory, nn.Module):
            own = copied(factory, self.settings.pretrained)
            return ByIds(own, *ids) if isinstance(own, PairModel) else own
        if is_scorer(factory):
            return ScoredPairs(factory, *ids)
        try:
            made = factory(*sizes)
        except Exception:
            if is_function(factory) and gives_scores(factory, *ids):
                return ScoredPairs(factory, *ids)
            raise
        scores = not isinstance(made, nn.Module) and is_function(factory) and gives_scores(factory, *ids)
        return ScoredPairs(factory, *ids) if scores else made

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        from accord.estimators.council.clicks.convening import convene

        return convene(self, prepared, source, cache, callback)

    def _finish(self, trained: Trained, judge: bool) -> None:
        self.history_, self.architectures_ = trained.history, trained.architectures
        self.networks_ = {role: network for role, network in trained.kept.items() if role != "prior"}
        self.votes_ = None
        self.notes_ |= {} if trained.prior is None else {"prior": trained.prior.notes}
        if trained.council is not None:
            self._hear(trained.council)
        elif judge:
            self._judge_clicks()
        if judge and trained.run is not None:
            self._measure_lowest(trained.run)
        self._move("cpu")

    def _measure_lowest(self, run: Run) -> None:
        """What ranking by popularity reaches on the held-out clicks: a model should beat it."""
        if run.valid is not None and len(run.valid.users):
            value = mean_metrics(by_popularity(run.data), run.valid, [20])[self.metric]
            self.notes_["lowest"] = {"item popularity": value}

    def _hear(self, council: Any) -> None:
        """Keep what a council said of every click."""
        self.notes_["council"] = council.notes
        self.quality_, self.threshold_, self.votes_ = council.quality, council.threshold, council.votes
        if not np.isfinite(self.quality_).all():
            raise AccordError("A member diverged: some clicks have no quality; lower the learning rate.")

    # -- noise -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def _judge_clicks(self) -> None:
        method, device = self._method(), self._networks_device

        def quality(users: Tensor, items: Tensor) -> Tensor:
            return (
                method.label_quality(self.networks_, positives(users.to(device), items.to(device))).flatten().cpu()
            )

        self.quality_ = over_pairs(quality, self.clicks_.users, self.clicks_.items)
        own = self.quality_[self.part_ == TRAIN]
        if not np.isfinite(own).all():
            raise AccordError("Training diverged: some clicks have no quality; lower the learning rate.")
        training = self._training()
        users, items = training.sample_pairs(NON_CLICKS, stream(training.device, self.settings.seed, "non-clicks"))
        self.threshold_ = float(over_pairs(quality, users.numpy(), items.numpy()).mean(dtype=np.float64))

    def find_label_issues(self, share: float | None = None) -> Any:
        """Every click of the log, worst first: user, item, label_quality (1 = clean) and is_label_issue.

        A click is an issue when its quality is below the mean quality of non-clicks drawn for the same users (the
        rule of confident learning); ``share`` flags that share of the log instead. A council adds how many members
        believe the click (``votes``, of so many ``voters``) and how far they agree (``agreement``: 1 where all say
        the same, 0 where half of them are sure of either).
        """
        return self._shown(self.issues_table(share))

    def issues_table(self, share: float | None = None) -> pa.Table:
        """What `find_label_issues` says, as an Arrow table."""
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
        if self.votes_ is not None:
            for name, values in self.votes_.items():
                table = table.append_column(name, pa.array(values[self.part_ <= VALID]))
        return worst_first(table)

    def cleaned_log(self, share: float | None = None) -> Any:
        """The log without the flagged clicks: one row for each distinct click, columns named as they came."""
        return self._shown(self.cleaned_table(share))

    def cleaned_table(self, share: float | None = None) -> pa.Table:
        """What `cleaned_log` gives, as an Arrow table."""
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
    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True, items: Any = None) -> Any:
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
        parts = [_top(scorer, block, k, seen, allowed) for block in blocks]
        row, rank, item, score = (torch.cat([part[n] for part in parts]).numpy() for n in range(4))
        offsets = np.repeat(np.cumsum([0] + [len(b) for b in blocks[:-1]]), [len(p[0]) for p in parts])
        return self._shown(
            pa.table(
                {
                    "user": self.user_ids_.take(codes[row + offsets]),
                    "rank": pa.array(rank + 1),
                    "item": self.item_ids_.take(item),
                    "score": score,
                }
            )
        )

    def _scorer(self, training: Interactions) -> Scorer:
        """Scores of users' items; users without a training click get popularity, unless the model is to rank."""
        if self.settings.cold_users == "model":
            return self._target.scores
        return with_popularity_for_cold_users(self._target.scores, training)

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
    def similar_items(self, items: Any, k: int = 10) -> Any:
        """The k closest items: item, rank, similar_item, score.

        They are closest by the angle between their vectors; in a model from items to items, by its weights. There
        an item may have fewer than k.
        """
        self._require_fit()
        k = whole_k(k)
        codes = self.item_ids_.require(items)
        own = torch.from_numpy(codes)
        scores = self._similarities(own)
        scores[torch.arange(len(own)), own] = -torch.inf
        top = scores.topk(min(k, scores.shape[1] - 1))
        row, rank = (top.values > -torch.inf).nonzero(as_tuple=True)
        return self._shown(
            pa.table(
                {
                    "item": self.item_ids_.take(codes[row.numpy()]),
                    "rank": rank.numpy() + 1,
                    "similar_item": self.item_ids_.take(top.indices[row, rank].numpy()),
                    "score": top.values[row, rank].numpy(),
                }
            )
        )

    def _similarities(self, items: Tensor) -> Tensor:
        """How close every item is to each of these: (B, number of items)."""
        target = self._target
        if hasattr(target, "similarities"):
            return target.similarities(items)
        if not hasattr(target, "item_vectors"):
            raise AccordError("This model has no item vectors: give it a method item_vectors().")
        vectors = nn.functional.normalize(target.item_vectors(), dim=1)
        return vectors[items] @ vectors.T

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
        unknown_users = self.settings.cold_users == "popularity"
        device = self._networks_device
        seen, training = self._seen().to(device), self._training().to(device)
        scorer = self._scorer(training)
        return measure_ranking(scorer, pairs, self.user_ids_, seen, training, depths, unknown_users)

    def evaluate_issues(self, truth: Any, share: float | None = None, **columns: str | None) -> dict[str, Any]:
        """How well the quality finds known noise: a table with is_noise, and kind if there are kinds."""
        self._require_fit()
        pairs = match_pairs(truth, self.user_ids_, self.item_ids_, self.columns_, **columns)
        return measure_issues(pairs, *self._judged(share))

    # -- keeping ---------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, model: Any = None) -> Self:
        """Read a run folder; a run of your own model needs ``model``, as it was given."""

        def make(settings: dict[str, Any]) -> Self:
            own = model if settings["model"] == CUSTOM and model is not None else settings["model"]
            values: dict[str, Any] = {**settings, "model": own}
            return cls(**values)

        return run_folder.load(Path(path), cls.kind, model is not None, make)

    def _save_files(self, draft: Path) -> dict[str, Any]:
        return recommender_folder.save_files(self, draft)

    def _check_loaded(self, run: Path) -> None:
        if not isinstance(self._target, PairModel):
            raise DataError(f"'{run}' names no network that answers; the folder is damaged, fit it again.")

    def _load_files(self, run: Path, config: dict[str, Any]) -> Callable[..., nn.Module]:
        recommender_folder.load_files(self, run, config)
        training = self._training()
        return lambda role, architecture: self._build(role, architecture, training)

    @property
    def metrics_(self) -> dict[str, Any]:
        return recommender_folder.metrics_of(self)

    def _move(self, device: torch.device | str) -> None:
        """Move the networks to a device; between calls they are on the CPU, where several threads may use them."""
        for network in self.networks_.values():
            network.to(device).eval()  # and forget what was computed on another device

    def _seen(self) -> Interactions:
        return self._cached("seen", lambda: self._interactions(np.ones(len(self.clicks_), bool)))

    def _training(self) -> Interactions:
        return self._cached("training", lambda: self._interactions(TRAIN))

    def _cached(self, name: str, make: Callable[[], Interactions]) -> Interactions:
        cache: dict[str, Interactions] = self.__dict__.setdefault("_cache", {})
        if name not in cache:
            cache[name] = make()
        return cache[name]

    def __repr__(self) -> str:
        shown = {"model": self._factory or self.settings.model, "method": self.settings.method}
        shown |= with_objects(self.changed_settings(), self._objects) | shown
        return f"Recommender({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


def type_of(model: str) -> Any:
    """The class of a named model; nothing for a user's own model."""
    return None if model == CUSTOM else model_of(model, "clicks")


def _top(
    scorer: Scorer, users: Tensor, k: int, seen: Interactions | None, allowed: Tensor | None
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
