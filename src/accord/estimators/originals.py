"""The way back: from judged pairs to the rows of the log they came from, all columns, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import locate
from accord.data.databases import is_address
from accord.data.log_rows import Origin, read_rows, with_query
from accord.data.merging import pair_keys
from accord.data.reading import NAME_KEY, TEXT_KEY, filtered, is_text, read_table
from accord.data.rewriting import same_form, text_file, write_rows
from accord.errors import DataError
from accord.estimators.deciding import Undecided, gone

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

NO_CLICK = -1
DIGITS = 6
"""Of qualities that are written into text."""


@dataclass(frozen=True)
class Source:
    """Where a log came from, as `fit` was given it."""

    log: Any = None
    query: str | None = None
    recorded: bool = field(default=False, compare=False)
    """Whether a run folder says so, which may be somebody else's."""

    @staticmethod
    def of(given: Mapping[str, Any]) -> Source:
        return Source(given.get("log"), given.get("query"))

    def to_save(self) -> dict[str, Any]:
        """Its path, if it has one; an address may hold a password, and is not kept."""
        named = isinstance(self.log, str | Path) and not is_address(self.log) and str(self.log) != "-"
        return {"path": str(Path(self.log).absolute()) if named else None, "query": self.query}

    @staticmethod
    def saved(stored: Any) -> tuple[Source, Origin] | tuple[None, None]:
        """What `to_save` wrote, and by what the log is known; nothing in runs of older versions."""
        if stored is None:
            return None, None
        path, query, rows, dropped = (stored[name] for name in ("path", "query", "rows", "dropped"))
        sound = all(isinstance(one, str | None) for one in (path, query)) and isinstance(stored["fingerprint"], str)
        if not sound or not all(type(one) is int and one >= 0 for one in (rows, dropped)):
            raise ValueError("nothing sound is said of where the log came from")
        return Source(None if path is None else Path(path), query, True), Origin(
            rows, dropped, stored["fingerprint"]
        )


@dataclass(frozen=True)
class Original:
    """The rows of a log, and the click that each of them is."""

    source: Any
    clicks: np.ndarray
    """Of each row, the position of its pair among the run's clicks; −1 of rows without an id."""
    names: dict[str, Any]
    """Columns whose integers were recognised in text, as they are in the run."""

    def table(self) -> pa.Table:
        """All columns, as they came."""
        table, _ = read_table(self.source)
        for name, ids in self.names.items():
            table = table.set_column(table.column_names.index(name), name, ids)
        metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k not in (NAME_KEY, TEXT_KEY)}
        return table.replace_schema_metadata(metadata or None)

    def of_rows(self, values: np.ndarray) -> pa.Array:
        """What is said of each click, for each row; nothing for rows that are none."""
        return pa.array(values[self.clicks], mask=self.clicks == NO_CLICK)

    def kept(self, flagged: np.ndarray) -> np.ndarray:
        """True for the rows whose click is not flagged, and for rows that are none."""
        return ~(flagged[self.clicks] & (self.clicks != NO_CLICK))


def original(rec: Recommender, log: Any = None) -> Original:
    """The log that a recommender was fitted on: as it was given, found again where it was, or given anew."""
    source, origin = rec.source_, rec.clicks_.origin
    if origin is None:
        raise DataError("This run was made by an older version, which did not count its log's rows; fit it again.")
    if log is None and (source is None or source.log is None):
        raise DataError("This run does not hold the log that it was fitted on; give it with log=FILE.")
    if log is not None or source is None:
        return _matched(rec, origin, with_query(log, source.query if source and _is_database(log) else None))
    place = with_query(source.log, source.query)
    if not source.recorded:
        return _matched(rec, origin, place)
    sentence = f"'{source.log}', where this run's log was, is not that log any more; give it with log=FILE."
    if not (Path(source.log).is_file() or Path(source.log).is_dir()):
        raise DataError(sentence)
    try:
        return _matched(rec, origin, place)
    except DataError as error:  # whoever made the folder chose the path, so nothing of the file is told
        raise DataError(sentence) from error


def _is_database(log: Any) -> bool:
    return isinstance(log, str | Path) and (is_address(log) or Path(log).suffix.lower() not in (".csv", ".parquet"))


def _matched(rec: Recommender, origin: Origin, source: Any) -> Original:
    columns = rec.columns_
    rows = read_rows(source, user=columns.user, item=columns.item, time="")
    if rows.origin != origin:
        raise DataError(
            f"The log has {rows.origin.rows:,} rows, and the run was fitted on {origin.rows:,} rows with other "
            "pairs or another order; give the same log."
        )
    clicks = rec.clicks_
    wanted = pair_keys(rows.users, rows.items, len(clicks.item_ids))
    at, found = locate(clicks.keys, wanted, np.ones(len(wanted), bool))
    if not found.all():
        raise DataError("The log has pairs that the run does not know; the folder is damaged, fit it again.")
    which = slice(None) if rows.rows is None else rows.rows
    positions = np.full(origin.rows, NO_CLICK, np.int64)
    positions[which] = at
    names: dict[str, Any] = {}
    for name, ids, codes in ((columns.user, rows.user_ids, rows.users), (columns.item, rows.item_ids, rows.items)):
        if is_text(source) and pa.types.is_integer(ids.values.type):
            every = np.full(origin.rows, NO_CLICK, np.int64)
            every[which] = codes
            names[name] = ids.values.take(pa.array(every, mask=every == NO_CLICK))
    return Original(source, positions, names)


@dataclass(frozen=True)
class JudgedLog:
    """The rows of a log beside what a recommender says of them."""

    rec: Recommender
    found: Original
    decided: Undecided | None = None
    """Where people's decisions alone say what goes: what becomes of flagged clicks that nobody decided."""

    def cleaned(self, share: float | None = None) -> pa.Table:
        return filtered(self.found.table(), self._kept(share))

    def with_issues(self, share: float | None = None) -> pa.Table:
        return with_columns(self.found.table(), self._columns(share))

    @property
    def place(self) -> Path | None:
        """Where the log is, if it is a file or a folder."""
        source = self.found.source
        return Path(source) if isinstance(source, str | Path) and not is_address(source) else None

    def count(self, share: float | None = None) -> int:
        """How many rows the cleaned log has."""
        return int(self._kept(share).sum())

    def counted(self, share: float | None = None) -> str:
        """How many rows the cleaned log has, and how many of them nobody judged, in words."""
        kept, dropped = self.count(share), int((self.found.clicks == NO_CLICK).sum())
        return f"{kept} rows" + (f" ({dropped} of them without a user or an item)" if dropped else "")

    def write_clean(self, draft: Path, target: Path, share: float | None = None) -> bool:
        """The cleaned log in the log's own form, where the target has that form; says whether it was written."""
        return rewrite(self.found, draft, target, self._kept(share), {})

    def write_issues(self, draft: Path, target: Path, share: float | None = None) -> bool:
        every = np.ones(len(self.found.clicks), bool)
        return rewrite(self.found, draft, target, every, self._columns(share))

    def _kept(self, share: float | None) -> np.ndarray:
        flagged = self.rec.judged_clicks(share)["is_label_issue"]
        if self.decided is not None:
            flagged = gone(self.rec.decisions_, flagged, self.decided)
        return self.found.kept(flagged)

    def _columns(self, share: float | None) -> dict[str, pa.Array]:
        judged = self.rec.judged_clicks(share)
        return {name: self.found.of_rows(values) for name, values in judged.items()}


def with_columns(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """A table with more columns; a name that is taken gets a word before it."""
    for name, values in columns.items():
        table = table.append_column(free_name(name, table.column_names), values)
    return table


def free_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name = f"accord_{name}"
    return name


def rewrite(found: Original, draft: Path, target: Path, kept: np.ndarray, columns: Mapping[str, pa.Array]) -> bool:
    """Write text as it was, byte by byte, where the target has the form of the source; says whether it did."""
    if not isinstance(found.source, str | Path) or not same_form(Path(found.source), target):
        return False
    file = text_file(Path(found.source))
    names = [free_name(name, file.column_names) for name in columns]
    texts = [[_word(value) for value in column.to_pylist()] for column in columns.values()]
    write_rows(file, draft, target, kept, dict(zip(names, texts, strict=True)))
    return True


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
