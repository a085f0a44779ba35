"""The recommender: fit on a click log, recommend, and say which clicks are noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from accord.data.clicks import Clicks, OnMissing, match_pairs
from accord.data.ids import Ids
from accord.data.interactions import NO_NEGATIVE, Interactions
from accord.data.marks import RIGHT, WRONG
from accord.data.reading import Columns
from accord.decisions.tables import Subject
from accord.errors import DataError, SettingError
from accord.estimators import (
    recommender_folder,
    recommender_judging,
    recommender_networks,
    recommender_serving,
    recommender_stacks,
    recommender_training,
    run_folder,
)
from accord.estimators.base import CUSTOM, Cache, Convening, Estimator, Prepared, Trained
from accord.estimators.deciding import Decided, Undecided, check_undecided
from accord.estimators.issue_list import IssueList
from accord.estimators.issues import flag_share
from accord.estimators.keywords import RecommenderKeywords
from accord.estimators.log_split import TRAIN, VALID, whole_k
from accord.estimators.measuring import Ranked, measure_issues, measure_ranking
from accord.estimators.naming import OWN, is_scorer, named_objects, with_objects
from accord.estimators.originals import JudgedLog, Source, original
from accord.estimators.recommender_data import interactions_of, split_of
from accord.estimators.scorers import WANTED, is_function
from accord.estimators.serving.served import Served
from accord.estimators.setting_rules import (
    check_metric,
    check_prior,
    refuse_item_bias,
    refuse_negatives,
    refuse_solved,
    takes_item_bias,
    usual_method,
)
from accord.models import check_model, is_solved
from accord.models.recommenders import PairModel
from accord.ranks.group import ALONE, Ranks
from accord.stored import chosen, where_true
from accord.training import Callback, CheckpointPath


class Recommender(Served, Estimator):
    """Learns preferences from clicks that cannot all be trusted.

    >>> rec = Recommender(model="gmf", method="deca-p", epochs=1, seed=0)
    >>> clicks = {"user": ["u1", "u1", "u2", "u2"], "item": ["i1", "i2", "i1", "i3"]}
    >>> rec.fit(clicks).recommend("u1", k=1).column_names
    ['user', 'rank', 'item', 'score']
    """

    kind = "recommender"
    task = "clicks"
    metric, metric_words, what = "ndcg@20", "NDCG@20", "clicks"

    source_: Source | None
    columns_: Columns
    user_ids_: Ids
    item_ids_: Ids
    clicks_: Clicks
    part_: np.ndarray
    """The use of each click: 0 trained on, 1 held out, 2 from a validation file, 3 only seen."""
    quality_: np.ndarray
    _decided: Decided | None
    _sharing: Ranks = ALONE
    """While it is trained, the ranks that have the clicks of other users."""
    threshold_: float
    """Clicks of a lower quality are issues."""

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
        """The settings, checked."""
        return self._settings

    @classmethod
    def check_settings(cls, values: dict[str, Any]) -> Any:
        """Settings from keywords, refused in one sentence where they are wrong."""
        usual = usual_method(values.get("model", "gmf"), cls.task)
        settings = super().check_settings({"method": usual, **values})
        check_model(settings.model, cls.task, CUSTOM)
        check_prior(settings, cls.task)
        refuse_solved(settings, cls.task)
        refuse_negatives(settings)
        check_metric(settings.metric)
        refuse_item_bias(settings)
        for name in ("auxiliary", "noise_model"):
            value = getattr(settings, name)
            if value != OWN[name]:
                check_model(value, cls.task, what=name)
            if is_solved(value):
                raise SettingError(f"The {name} learns by gradients, and '{value}' has none; take mf.")
        return settings

    def objects(self) -> dict[str, Any]:
        """What was given as an object in place of a name, by the names that settings have for it."""
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
        """An estimator that is not fitted, of the same settings but for these."""
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
        query: str | None = None,
        weight: str | None = None,
        trusted: Any = None,
        decisions: Any = None,
        on_missing: OnMissing = "drop",
        valid: Any = None,
        known: Any = None,
        seen: Any = None,
        warm_start: Any = None,
        eval_set: Any = None,
        callback: Callback | None = None,
        checkpoint: CheckpointPath | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train on a log: a file, a pandas, polars or pyarrow table, or a SciPy CSR matrix.

        The log may also be a folder of Parquet files, or a SQLite or DuckDB file or the address of a database, with
        the ``query`` that gives the rows. Rows without a user or an item are dropped with a warning; with
        ``on_missing="refuse"`` they are an error. ``weight`` names a column of numbers of at least 0: the loss of a
        click is multiplied by the mean weight of its rows, divided by the mean of all training clicks. ``trusted``
        is a column that says which clicks are right (true) or wrong (false) for sure, or a table of pairs with a
        column ``trusted``: right ones are never flagged, wrong ones are flagged and never trained on.
        ``decisions``, a table or a file of what people decided about these clicks, mark them in the same way; how
        many clicks are flagged then agrees with the decisions.
        A part of the log, or the pairs of ``valid``, is held out to choose the epoch; it is as noisy as the rest.
        Ids of the pairs in ``known`` join the catalogue without a click; pairs in ``seen`` are never recommended.
        ``warm_start`` is a fitted recommender, or the folder of one, whose weights of known users and items this
        one begins with; those of new ones are drawn as usual. ``log`` then holds all clicks, old and new. What was
        held out stays held out.
        ``eval_set`` holds pairs whose metrics are written into the history and decide nothing. ``callback``
        receives the progress. ``checkpoint`` is a file in which the training is saved now and then. If it exists,
        the training is resumed from it; when all is done, it is removed. Progress is shown on a terminal and in a
        notebook; ``verbose`` True shows it anywhere, False nowhere.
        """
        source = {"log": log, "user": user, "item": item, "time": time, "valid": valid, "known": known}
        source |= {"query": query, "weight": weight, "trusted": trusted, "on_missing": on_missing}
        source |= {"decisions": decisions, "seen": seen, "warm_start": warm_start, "eval_set": eval_set}
        return self._fit(source, callback, checkpoint, verbose)

    def _prepare(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
        return recommender_training.prepare(self, source, device, cache)

    def _divided(self, source: Mapping[str, Any], cache: Cache) -> dict[str, Any]:
        return {"log": source["log"], "divided": split_of(self, source, cache)}

    def _as_prior(self, given: Any) -> nn.Module:
        return recommender_networks.as_prior(self, given)

    def _refuse_stack(self, model: type[nn.Module], prepared: Sequence[Prepared]) -> None:
        recommender_stacks.refuse_stack(self, model, prepared)

    def _stackable(self, settings: Any) -> bool:
        return recommender_stacks.stackable(self, settings)

    def _join(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        if not all(one.run.data.drawn_in_an_epoch for one in prepared):
            raise DataError(NO_NEGATIVE)
        return {}

    def _room(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
        return recommender_stacks.room(self, source, device, cache)

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        from accord.estimators.council.clicks.convening import convene

        return convene(self, prepared, source, cache, callback)

    def _finish(self, trained: Trained, judge: bool) -> None:
        recommender_judging.finish(self, trained, judge)

    # -- noise -----------------------------------------------------------------------------------------

    def find_label_issues(self, share: float | None = None) -> Any:
        """Every click of the log, worst first: user, item, label_quality (1 = clean) and is_label_issue.

        ``row`` is the first row of the click in the log, counted from 0, and ``rows`` how many rows it has there.
        A click is an issue when its quality is below the mean quality of non-clicks drawn for the same users (the
        rule of confident learning); ``share`` flags that share of the log instead. A council adds how many members
        believe the click (``votes``, of so many ``voters``) and how far they agree (``agreement``: 1 where all say
        the same, 0 where half of them are sure of either).
        """
        return self._shown(self.issues_table(share))

    def issues_table(self, share: float | None = None) -> pa.Table:
        """What `find_label_issues` says, as an Arrow table."""
        self._require_fit()
        return recommender_judging.issues_table(self, share)

    def issue_list(self, share: float | None = None) -> IssueList:
        """What `find_label_issues` says, some rows at a time: for logs that are larger than memory."""
        self._require_fit()
        return recommender_judging.issue_list(self, share)

    def cleaned_log(self, share: float | None = None, *, log: Any = None) -> Any:
        """The log without the rows whose click is flagged: all columns, all repeats, in their order and types.

        Rows without a user or an item stay. A run that was loaded reads the log where it was, or takes ``log``;
        another log than the one it was fitted on is refused.
        """
        return self._shown(self.with_original(log).cleaned(share))

    def log_with_issues(self, share: float | None = None, *, log: Any = None) -> Any:
        """The log with further columns: label_quality, is_label_issue, and those of a council."""
        return self._shown(self.with_original(log).with_issues(share))

    def decided_log(self, undecided: Undecided = "keep", *, log: Any = None) -> Any:
        """The log with people's decisions in it: rows of clicks that they dropped are gone, all others are as they
        were. With ``undecided="drop"`` rows of flagged clicks that nobody decided are gone too."""
        return self._shown(self.with_decisions(undecided, log=log).cleaned())

    def with_decisions(self, undecided: Undecided = "keep", *, log: Any = None) -> JudgedLog:
        """The log of this run, read again, and what people decided of it."""
        check_undecided(undecided)
        return replace(self.with_original(log), decided=undecided)

    def with_original(self, log: Any = None) -> JudgedLog:
        """The log of this run, read again, row by row beside what was judged."""
        self._require_fit()
        return JudgedLog(self, original(self, log))

    @property
    def _of_log(self) -> np.ndarray:
        """True for the clicks of the log itself, which are judged."""
        own = where_true(self.part_, lambda some: some <= VALID)
        return own if self.clicks_.marks is None else own | (self.clicks_.marks == WRONG)

    def _subject(self) -> Subject:
        return recommender_judging.subject(self)

    def _judged(self, share: float | None) -> tuple[Clicks, np.ndarray, np.ndarray]:
        """The clicks of the log, their quality, and which are flagged."""
        own = self._of_log
        pairs, quality = self.clicks_.subset(own), chosen(self.quality_, own)
        if pairs.marks is not None:
            quality = np.where(pairs.marks == RIGHT, 1, np.where(pairs.marks == WRONG, 0, quality)).astype(
                np.float32
            )
        low = self.threshold_
        flagged = where_true(quality, lambda some: some < low) if share is None else flag_share(quality, share)
        if pairs.marks is not None:
            flagged = (flagged | (pairs.marks == WRONG)) & (pairs.marks != RIGHT)
        return pairs, quality, flagged

    def judged_clicks(self, share: float | None = None) -> dict[str, np.ndarray]:
        """What is said of each of the run's clicks, in the order of `clicks_`; nothing of those that are not the
        log's own."""
        own = self._of_log
        _, quality, flagged = self._judged(share)
        judged: dict[str, np.ndarray] = {"label_quality": np.ones(len(own), np.float32)}
        judged["is_label_issue"] = np.zeros(len(own), bool)
        judged["label_quality"][own], judged["is_label_issue"][own] = quality, flagged
        return judged | (self.votes_ or {})

    # -- measuring -------------------------------------------------------------------------------------

    def evaluate(self, truth: Any, k: Sequence[int] = (5, 20), **columns: str | None) -> dict[str, float]:
        """Ranking metrics against clean test pairs, over all items the user has not clicked in the log.

        Users without a training click are ranked for by popularity, known or not; where there are any, the
        metrics of the others alone are given as ``warm …``. Unknown items stay in as misses.
        """
        return self.evaluate_users(truth, k, **columns).means()

    def evaluate_users(self, truth: Any, k: Sequence[int] = (5, 20), **columns: Any) -> Ranked:
        """What `evaluate` averages: the metrics of each user."""
        self._require_fit()
        depths = [whole_k(depth) for depth in (k if np.iterable(k) else [k])]
        if not depths:
            raise SettingError("No k was given; ask for the metrics of at least one length of list.")
        pairs = match_pairs(truth, self.user_ids_, self.item_ids_, self.columns_, **columns)
        unknown_users = self.settings.cold_users == "popularity"
        device = self._networks_device
        seen, training = self._seen().to(device), self._training().to(device)
        scorer = recommender_serving.scorer_of(self, training)
        return measure_ranking(scorer, pairs, self.user_ids_, seen, training, depths, unknown_users)

    def evaluate_issues(self, truth: Any, share: float | None = None, **columns: Any) -> dict[str, Any]:
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
            if not takes_item_bias(settings["model"], values.get("item_bias")):
                del values["item_bias"]  # it was ignored
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
        return lambda role, architecture: recommender_networks.build(self, role, architecture, training)

    @property
    def metrics_(self) -> dict[str, Any]:
        """Noisy validation metrics of the epoch that was kept, for each phase, and how many clicks are flagged."""
        return recommender_folder.metrics_of(self)

    def _move(self, device: torch.device | str) -> None:
        """Move the networks to a device; between calls they are on the CPU, where several threads may use them."""
        for network in self.networks_.values():
            network.to(device).eval()  # and forget what was computed on another device

    def _seen(self) -> Interactions:
        return self._cached("seen", lambda: interactions_of(self, np.ones(len(self.clicks_), bool)))

    def _training(self) -> Interactions:
        return self._cached("training", lambda: interactions_of(self, TRAIN))

    def _cached(self, name: str, make: Callable[[], Interactions]) -> Interactions:
        cache: dict[str, Interactions] = self.__dict__.setdefault("_cache", {})
        if name not in cache:
            cache[name] = make()
        return cache[name]

    def __repr__(self) -> str:
        shown = {"model": self._factory or self.settings.model, "method": self.settings.method}
        shown |= with_objects(self.changed_settings(), self._objects) | shown
        return f"Recommender({', '.join(f'{k}={v!r}' for k, v in shown.items())})"
