"""The log of a recommender that several ranks train: each has the clicks of its own users, until the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from accord.data.log_rows import PER_ROW
from accord.data.own_clicks import description, in_groups, places_of, read_own_clicks
from accord.data.reading import OpenLog, open_log
from accord.estimators.log_split import SplitLog, split_log
from accord.estimators.settings import GIGABYTE
from accord.ranks.group import ALONE, Ranks
from accord.stored import AT_ONCE, Growing, trim, where_true
from accord.training import digest_of

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

WHOLE = ("query", "known", "trusted", "decisions", "valid", "seen", "warm_start", "eval_set", "weight")
"""What is matched with the whole log, so that every rank reads all of it."""
COUNTED = ("clicks", "merged", "train", "valid")
"""Numbers of clicks in the notes of a log."""
COLUMNS = ("users", "items", "counts", "times", "first_rows", "weights", "marks")


def most_in_memory(rec: Recommender) -> float:
    """Bytes that the rows of a whole log may take on one of several ranks; what takes more is kept in files."""
    return min(rec.settings.memory * GIGABYTE, AT_ONCE * PER_ROW)


def own_split(rec: Recommender, source: Mapping[str, Any], whole: Callable[[], SplitLog], ranks: Ranks) -> SplitLog:
    """The clicks of this rank's users, divided.

    Of Parquet files each rank reads its own groups of rows. Any other log, and one that is matched with further
    data, is read by every rank.
    """
    log = ranks.agreed(lambda: _opened(rec, source))
    on_missing = source.get("on_missing") or "drop"  # which decides what ranks say to each other
    ranks.refuse_unlike("" if log is None else f"{on_missing} {description(log)}")
    clicks = None if log is None else read_own_clicks(log, on_missing == "drop", ranks)
    if clicks is None:
        return _own_part(ranks.agreed(whole), ranks)
    assert clicks.origin is not None
    places = places_of(clicks.users, len(clicks.user_ids), ranks)
    split = ranks.agreed(lambda: split_log(clicks, None, None, rec.settings, places=places))
    own = {name: sum(ranks.numbers(split.notes[name])) for name in COUNTED}
    digest = digest_of(clicks.origin.fingerprint, *ranks.texts(digest_of(split.part)))  # times decide over the use
    return replace(split, notes=split.notes | own, ranks=ranks, digest=digest)


def _opened(rec: Recommender, source: Mapping[str, Any]) -> OpenLog | None:
    """A log that the ranks can read together, if it is one."""
    if rec._factory is not None or any(source.get(name) is not None for name in WHOLE):
        return None
    if rec.settings.split == "global-time":  # which asks for the times of all clicks
        return None
    given = source["log"]
    if not isinstance(given, str | Path) or not (Path(given).suffix == ".parquet" or Path(given).is_dir()):
        return None
    log = open_log(given, **{name: source.get(name) for name in ("user", "item", "time")})
    return log if in_groups(log) else None


def _own_part(split: SplitLog, ranks: Ranks) -> SplitLog:
    """What a rank keeps of a log that it has read whole."""
    clicks = split.clicks
    words = [clicks.identity, split.part] + ([] if clicks.weights is None else [clicks.weights])
    digest = digest_of(*words)
    own = np.flatnonzero(where_true(clicks.users, lambda some: some % ranks.size == ranks.rank))
    kept = {name: np.array(values[own]) for name in COLUMNS if (values := getattr(clicks, name)) is not None}
    made = replace(
        split, clicks=replace(clicks, **kept), part=np.array(split.part[own]), ranks=ranks, digest=digest
    )
    trim()
    return made


def together(rec: Recommender, quality: np.ndarray | None, ranks: Ranks) -> np.ndarray | None:
    """Bring the clicks of all ranks to the first one, sorted as one process has them; gives their quality.

    They come some users after the other. Where there are many, they are put into files.
    """
    clicks = rec.clicks_
    columns = {name: values for name in COLUMNS if (values := getattr(clicks, name)) is not None}
    columns |= {"part": rec.part_} | ({} if quality is None else {"quality": quality})
    total = sum(ranks.numbers(len(clicks)))
    in_files = total * PER_ROW > most_in_memory(rec)
    made: dict[str, Any] = {name: Growing(values.dtype) if in_files else [] for name, values in columns.items()}
    n_users = len(rec.user_ids_)
    at_once = max(1, AT_ONCE // 4 * n_users // max(1, total))
    for first in range(0, n_users, at_once):
        rows = slice(*np.searchsorted(clicks.users, [first, first + at_once]))
        found = {name: _at_first(values[rows], ranks) for name, values in columns.items()}
        if ranks.leads:
            order = np.argsort(found["users"], kind="stable")
            for name, values in found.items():
                made[name].append(values[order])
    if not ranks.leads:
        return None
    kept = {name: own.array() if in_files else np.concatenate(own) for name, own in made.items()}
    rec.part_, quality = kept.pop("part"), kept.pop("quality", None)
    rec.clicks_, rec._sharing = replace(clicks, **kept), ALONE
    rec.__dict__.pop("_cache", None)
    return quality


def _at_first(values: np.ndarray, ranks: Ranks) -> np.ndarray:
    """Values of all ranks at the first one, whatever their type."""
    own = np.ascontiguousarray(values)
    parts = ranks.at_first(torch.from_numpy(own.view(np.uint8).reshape(len(own), own.itemsize).copy()))
    return np.concatenate([one.numpy().reshape(-1) for one in parts]).view(own.dtype) if parts else own[:0]
