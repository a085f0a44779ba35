"""A log as Parquet files of the same columns: read whole, or in a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from accord.data.parquet_files import head_of, read_parquet_file, rows_of_groups, stream_parquet_file
from accord.errors import DataError, first_line
from accord.memory import refuse_too_large


@dataclass
class Share:
    """Some groups of rows of a log, one after the other."""

    first: int
    """The number of their first row in the whole log."""
    groups: dict[Path, list[int]]
    """The numbers of groups in each file."""


@dataclass(frozen=True)
class ParquetParts:
    """Parquet files whose footers have been read and whose rows have not."""

    path: Path
    """The file, or the folder of the files."""
    files: tuple[Path, ...]
    schemas: tuple[pa.Schema, ...]
    rows: int
    """As the footers say."""

    @staticmethod
    def of(path: Path, files: list[Path]) -> ParquetParts:
        heads = [head_of(file) for file in files]
        for file, (schema, _) in zip(files, heads, strict=True):
            if set(schema.names) != set(heads[0][0].names):
                raise DataError(f"'{file}' has other columns than '{files[0]}'; give files of the same columns.")
        return ParquetParts(path, tuple(files), tuple(one for one, _ in heads), sum(rows for _, rows in heads))

    @property
    def column_names(self) -> list[str]:
        return self.schemas[0].names

    @cached_property
    def schema(self) -> pa.Schema:
        """One type for each column; types of several files are made one."""
        try:
            return pa.unify_schemas(list(self.schemas), promote_options="permissive")
        except pa.ArrowException as error:
            raise self._unlike(error) from error

    def read(self, names: list[str] | None = None) -> pa.Table:
        """All rows, of some columns or of all."""
        if len(self.files) == 1 and self.files[0] == self.path:
            return read_parquet_file(self.path, names)
        tables = [read_parquet_file(path, names) for path in self.files]  # each asks what the ones before have left
        if any(table.schema != tables[0].schema for table in tables):  # their types are made one
            refuse_too_large(sum(table.nbytes for table in tables), f"'{self.path}'", "give fewer files")
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise self._unlike(error) from error

    def stream(self, names: list[str], rows: int, share: Share | None = None) -> Iterator[pa.Table]:
        """Some columns of all rows, or of a share of them, at most so many at a time."""
        schema = pa.schema([self.schema.field(name) for name in names])
        every: dict[Path, list[int] | None] = dict.fromkeys(self.files)
        for path, groups in (every if share is None else share.groups).items():
            for table in stream_parquet_file(path, names, rows, groups=groups):
                try:
                    yield table.cast(schema)
                except (pa.ArrowException, ValueError) as error:
                    raise self._unlike(error) from error

    def shares(self, count: int) -> list[Share]:
        """The groups of rows, dealt out in their order; as evenly as whole groups can be."""
        made, first = [Share(0, {}) for _ in range(count)], 0
        for path in self.files:
            for group, rows in enumerate(rows_of_groups(path)):
                own = made[min(count - 1, (first + rows // 2) * count // max(1, self.rows))]
                own.first = own.first if own.groups else first
                own.groups.setdefault(path, []).append(group)
                first += rows
        return made

    def _unlike(self, error: Exception) -> DataError:
        return DataError(f"The files of '{self.path}' do not fit together: {first_line(error)}.")
