"""The numbers that the paper prints (Wang et al., ACM TORS)."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


@cache
def paper_numbers(name: str) -> tuple[dict[str, str], ...]:
    """A file of the paper's numbers, row by row."""
    text = resources.files("accord.reproduction").joinpath("paper", f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def paper_value(name: str, **wanted: str) -> float | None:
    """The paper's mean for a cell, where it has one."""
    for row in paper_numbers(name):
        if all(row.get(key) == value for key, value in wanted.items()):
            return float(row["mean"])
    return None
