"""Decisions of people, from wherever they lie: a file of them, or a run that was reviewed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from accord.data.reading import read_table
from accord.decisions.tables import checked, merged
from accord.errors import DataError
from accord.tasks.runs import open_run


def decisions_at(place: Path) -> pa.Table:
    """The decisions of a file, or of the run of a folder."""
    if place.is_dir():
        run = open_run(place)
        if not run.estimator.decisions_:
            raise DataError(f"Nobody has decided anything in '{place}' yet; review it first.")
        return run.estimator.decisions_table()
    table, where = read_table(place)
    return checked(table, f"the decisions of {where}")


def joined(places: list[Path]) -> tuple[pa.Table, pa.Table]:
    """All decisions of several places, and those on which people differ."""
    return merged([decisions_at(place) for place in places], [str(place) for place in places])
