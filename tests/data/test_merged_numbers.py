"""Whole numbers that float32 cannot tell apart are spoken of, whatever form they come in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from accord import Classifier
from accord.data.merged_numbers import APART, merged
from accord.errors import DataWarning

QUICK: dict[str, Any] = {"method": "normal", "model": "mlp", "epochs": 1, "batch_size": 32}
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-APART - 3, APART + 3) | st.integers(2**62, 2**62 + 9)
FORMS: dict[str, Callable[[list[int]], pa.Array]] = {
    "integers": lambda numbers: pa.array(numbers, pa.int64()),
    "text": lambda numbers: pa.array(map(str, numbers)),
    "decimals": lambda numbers: pa.array(map(Decimal, numbers), pa.decimal128(20, 0)),
}


@pytest.mark.parametrize("form", FORMS)
@given(numbers=st.lists(NUMBERS, min_size=1, max_size=12))
def test_two_are_found_exactly_where_there_are_two(form: str, numbers: list[int]) -> None:
    expected = len({np.float32(float(one)) for one in numbers}) < len(set(numbers))
    found = merged(pa.chunked_array([FORMS[form](numbers)]))
    assert (found is not None) == expected
    if found is not None:
        one, other = map(int, found)
        assert one != other
        assert {one, other} <= set(numbers)
        assert np.float32(float(one)) == np.float32(float(other))


@pytest.mark.parametrize(
    "column", [[1.5e30, 1.6e30], [None, None], ["a", "123456789", "0123456788"], [True, False], [[1], [2]]], ids=str
)
def test_what_is_no_whole_number_is_left_alone(column: list[Any]) -> None:
    assert merged(pa.chunked_array([pa.array(column)])) is None


STAMPS = 2**62 + np.arange(60) % 7
KIND = np.where(np.arange(60) % 7 > 3, "late", "early")
TABLE = {"stamp": STAMPS, "few": np.arange(60) % 5}
SOURCES: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda folder: pd.DataFrame(TABLE),
    "polars": lambda folder: pl.DataFrame(TABLE),
    "Arrow": lambda folder: pa.table(TABLE),
    "an array": lambda folder: np.column_stack(list(TABLE.values())),
    "a tensor": lambda folder: torch.from_numpy(np.column_stack(list(TABLE.values()))),
    "lists": lambda folder: np.column_stack(list(TABLE.values())).tolist(),
    "a file": lambda folder: write(folder / "table.csv"),
}


def write(path: Path) -> Path:
    pd.DataFrame(TABLE).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("source", SOURCES)
def test_a_fit_says_so(source: str, tmp_path: Path) -> None:
    words = rf"Column (0 \(counted from 0\)|'stamp') holds whole numbers that differ.*such as {2**62}\d* and "
    words = words.replace(str(2**62), str(2**62)[:-1])
    with pytest.warns(DataWarning, match=words) as told:
        Classifier(**QUICK).fit(SOURCES[source](tmp_path), KIND)
    assert len(told) == 1


def test_numbers_that_stay_apart_need_no_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Classifier(**QUICK).fit(pd.DataFrame(TABLE | {"stamp": STAMPS - 2**62}), KIND)
        Classifier(**QUICK).fit(pd.DataFrame(TABLE | {"stamp": (STAMPS - 2**62) << 50}), KIND)


def test_a_model_that_takes_integers_gets_them_whole() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.table(x[:, 0] % 7)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = Classifier(model=Apart(), method="normal", epochs=20, learning_rate=1.0).fit(STAMPS[:, None], KIND)
    assert clf.score(STAMPS[:, None], KIND) == 1.0
