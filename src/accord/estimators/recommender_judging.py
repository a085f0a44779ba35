"""What a trained recommender says of every click of its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.batches.clicks import positives
from accord.data.marks import UNKNOWN
from accord.decisions.design import Design
from accord.decisions.resolving import verdicts
from accord.decisions.tables import Subject
from accord.errors import AccordError
from accord.estimators.base import Trained
from accord.estimators.deciding import Decided, note, shown
from accord.estimators.issue_list import IssueList
from accord.estimators.log_split import TRAIN, by_popularity, over_pairs
from accord.estimators.originals import with_columns
from accord.estimators.recommender_data import names_of
from accord.estimators.recommender_ranks import gather
from accord.estimators.trust import reach_of_chance
from accord.evaluation import mean_metrics, ranking_metrics
from accord.ranks.group import here
from accord.stored import blocks, chosen, taken
from accord.training import Run, stream

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

POPULARITY = "item popularity"
"""What a sentence of doubt calls it."""
NON_CLICKS = 100_000
"""Non-clicks whose mean quality is the threshold for flagging clicks."""


def finish(rec: Recommender, trained: Trained, judges: bool) -> None:
    """Keep what was learned and judge every given click; of several ranks, the first one keeps it."""
    ranks, quality = here(), None
    if ranks.many:
        trained, quality = gather(rec, trained, judges, ranks)
        if not ranks.leads:
            return
    rec._keep(trained)
    if trained.council is not None:
        _hear(rec, trained.council)
    elif judges:
        judge_clicks(rec, quality)
    if judges and trained.run is not None:
        _measure_lowest(rec, trained.run)
    if judges and rec._decided is not None:
        _apply_decisions(rec, rec._decided)
    rec._move("cpu")


def _apply_decisions(rec: Recommender, found: Decided) -> None:
    """Set the threshold so that as many clicks are flagged as the decisions tell are wrong."""
    rec.decisions_ = found.decisions
    open_ = rec._of_log & (rec.clicks_.marks == UNKNOWN)
    flagged = rec.quality_ < rec.threshold_
    before = int((flagged & open_).sum())
    anew, moved = found.flag(rec.quality_, flagged, open_)
    if moved:
        kept = rec.quality_[open_ & ~anew]
        rec.threshold_ = float(kept.min()) if len(kept) else 1.0
    after = int(((rec.quality_ < rec.threshold_) & open_).sum())
    rec.notes_["decisions"] = note(found, before, after, moved)


def subject(rec: Recommender) -> Subject:
    """The clicks as decisions speak of them."""
    clicks, judged = rec.clicks_, rec.judged_clicks()
    quality, flagged = judged["label_quality"], judged["is_label_issue"]
    design = Design.of(quality, flagged, own=rec._of_log, names=clicks.keys.tobytes())
    columns = {"user": clicks.user_ids.take(clicks.users), "item": clicks.item_ids.take(clicks.items)}
    return Subject(names_of(clicks), design, columns)


def _hear(rec: Recommender, council: Any) -> None:
    """Keep what a council said of every click."""
    rec.notes_["council"] = council.notes
    rec.quality_, rec.threshold_, rec.votes_ = council.quality, council.threshold, council.votes
    if not np.isfinite(rec.quality_).all():
        raise AccordError("A member diverged: some clicks have no quality; lower the learning rate.")


@torch.no_grad()
def judge_clicks(rec: Recommender, known: np.ndarray | None = None) -> None:
    """The quality of every click, unless it is known, and the threshold below which one is an issue."""
    clicks = rec.clicks_
    if known is None:
        known = over_pairs(quality_by(rec, rec.networks_), clicks.users, clicks.items)
    rec.quality_ = known
    finite = (np.isfinite(some).all(where=part == TRAIN) for some, part in blocks(rec.quality_, rec.part_))
    if not all(finite):
        raise AccordError("Training diverged: some clicks have no quality; lower the learning rate.")
    rec.threshold_ = non_click_quality(rec)


def quality_by(rec: Recommender, networks: dict[str, nn.Module]) -> Callable[[Tensor, Tensor], Tensor]:
    """The quality of clicks, pair by pair, by these networks in place of the recommender's own."""
    method, device = rec._method(), rec._networks_device

    def quality(users: Tensor, items: Tensor) -> Tensor:
        return method.label_quality(networks, positives(users.to(device), items.to(device))).flatten().cpu()

    return quality


def non_click_quality(rec: Recommender) -> float:
    """The mean quality of non-clicks, drawn for users as often as they click."""
    training = rec._training()
    users, items = training.sample_pairs(NON_CLICKS, stream(training.device, rec.settings.seed, "non-clicks"))
    quality = over_pairs(quality_by(rec, rec.networks_), users.numpy(), items.numpy())
    return float(quality.mean(dtype=np.float64))


def _measure_lowest(rec: Recommender, run: Run) -> None:
    """What ranking by popularity reaches on held-out clicks: a model should beat it, and by more than chance."""
    if run.valid is not None and len(run.valid.users):
        popular = by_popularity(run.data)
        rec.notes_["lowest"] = {POPULARITY: mean_metrics(popular, run.valid, [20])[rec.metric]}
        scorers = rec._target.scores, popular
        ours, theirs = (ranking_metrics(one, run.valid, [20])[rec.metric].cpu().numpy() for one in scorers)
        rec.notes_["by_chance"] = {POPULARITY: reach_of_chance(ours - theirs)}


def issues_table(rec: Recommender, share: float | None) -> pa.Table:
    """Every click of the log and what is said of it, worst first."""
    return pa.concat_tables(issue_list(rec, share).parts())


def issue_list(rec: Recommender, share: float | None) -> IssueList:
    """The same, some rows at a time."""
    own = rec._of_log
    pairs, quality, flagged = rec._judged(share)
    votes = {name: chosen(values, own) for name, values in (rec.votes_ or {}).items()}
    places = None if not rec.decisions_ else np.flatnonzero(own)
    decided = verdicts(rec.decisions_)

    def rows_at(at: np.ndarray) -> pa.Table:
        table = pa.table(
            {
                "user": pairs.user_ids.take(taken(pairs.users, at)),
                "item": pairs.item_ids.take(taken(pairs.items, at)),
                "label_quality": taken(quality, at),
                "is_label_issue": taken(flagged, at),
            }
        )
        for name, values in votes.items():
            table = table.append_column(name, pa.array(taken(values, at)))
        if pairs.first_rows is not None:
            rows = {
                "row": taken(pairs.first_rows, at).astype(np.int64),
                "rows": taken(pairs.counts, at).astype(np.int64),
            }
            table = with_columns(table, {name: pa.array(values) for name, values in rows.items()})
        return table if places is None else shown(table, decided, places[at], None)

    return IssueList(pairs, quality, flagged, rows_at)
