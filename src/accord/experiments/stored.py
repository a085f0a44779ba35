"""What is read back of a study: a file that is damaged, or not of a study, counts as one that is not there."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import FiniteFloat, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # as pydantic asks for

from accord.errors import DataError
from accord.estimators.run_folder import read_json

Kind = Literal["cell", "findings", "summary", "outcome"]


class _Detection(TypedDict, total=False):
    by_kind: dict[str, float]
    popularity_by_kind: dict[str, float]


class _Must(TypedDict):
    model: str
    method: str
    seed: int
    identity: str
    search_budget: str
    settings: dict[str, Any]
    metrics: dict[str, float]
    seconds: FiniteFloat
    uses_knowledge: bool
    selection: str


class _Cell(_Must, total=False):
    machine: dict[str, Any]
    detection: _Detection


class _Trial(TypedDict):
    trial: int
    settings: dict[str, Any]
    value: FiniteFloat
    values: list[FiniteFloat]
    seconds: FiniteFloat


class _Findings(TypedDict):
    model: str
    method: str
    best: dict[str, Any]
    value: FiniteFloat
    metric: str
    trials: int
    planned: int
    identity: str
    seeds: int
    sampler: str
    space: dict[str, list[Any]]
    fixed: dict[str, Any]
    rows: list[_Trial]


class _Mean(TypedDict):
    mean: float
    std: float


class _Verdict(TypedDict):
    metric: str
    difference: FiniteFloat
    p: FiniteFloat
    over: str


class _Interval(_Verdict, total=False):
    low: FiniteFloat
    high: FiniteFloat


class _Named(TypedDict):
    method: str
    metrics: dict[str, _Mean]
    seeds: int


class _Row(_Named, total=False):
    model: str
    against_normal: _Interval


class _Summary(TypedDict):
    rows: list[_Row]


class _Part(TypedDict, total=False):
    rows: list[_Named]
    missing: str


class _Outcome(TypedDict):
    parts: dict[str, _Part]


@cache
def _adapter(kind: Kind) -> TypeAdapter[Any]:
    return TypeAdapter({"cell": _Cell, "findings": _Findings, "summary": _Summary, "outcome": _Outcome}[kind])


def is_sound(value: Any, kind: Kind) -> bool:
    """Whether a value has all that is read of it later, each of its own type."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except (ValidationError, RecursionError):
        return False
    return True


def read_stored(path: Path, kind: Kind) -> dict[str, Any] | None:
    """A file of a study; None where there is none, or where it is damaged."""
    try:
        value = read_json(path) if path.is_file() else None
    except DataError:
        return None
    return value if is_sound(value, kind) else None
