"""Several ranks learn what one process learns that draws the same batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from spawned import WORKER, ended, start
from worker import learnt

from accord.data.simulator import Simulation
from accord.ranks.group import drawing_as

USUAL = {"epochs": 2, "batch_size": 128, "dims": 4, "seed": 3}
JOBS: list[dict[str, Any]] = [
    {"model": "gmf", "method": "normal", "updates": "rows"},
    {"model": "mf", "method": "deca", "item_bias": True},
    {"model": "gmf", "method": "deca-p", "valid_users": 20},
    {"model": "neumf", "method": "r-ce", "item_bias": True},
    {"model": "mf", "method": "t-ce", "ramp_epochs": 1, "drop_rate": 0.2},
    {"model": "mf", "method": "wbpr", "cold_users": "model"},
    {"model": "mf", "method": "t-ce", "negatives": 3, "metric": "recall@5"},
    {"model": "mf", "method": "normal", "negatives": 3, "loss": "bpr", "metric": "mrr@9", "split": "leave-one-out"},
    {"model": "mf", "method": "wbpr", "negatives": 2, "loss": "softmax", "split": "global-time"},
    {"model": "gmf", "method": "deca", "stage_one_epochs": 1, "negatives": 2},
    {"model": "ease", "method": "normal"},
    {"model": "ials", "method": "normal", "dims": 8, "epochs": 3},
]
FOUR = [JOBS[2] | {"updates": "rows"}, JOBS[-1]]
IN_PARTS = [JOBS[0] | {"valid_users": 50}, JOBS[-1] | {"split": "random"}]
"""Of these, each rank reads its own parts of the log."""
REFUSED = [{"model": "lightgcn", "method": "normal"}, {"model": "mf", "method": "ensemble"}]


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    parquet.write_table(made.log(), path)
    parquet.write_table(made.truth(), path.with_name("truth.parquet"))
    return path


def asked(job: dict[str, Any], log: Path) -> dict[str, Any]:
    truth = {} if log.is_dir() else {"eval_set": str(log.with_name("truth.parquet"))}
    return USUAL | job | truth


def fitted(log: Path, jobs: list[dict[str, Any]], size: int, *more: str) -> list[list[dict[str, Any]]]:
    """What every rank says of every job."""
    words = [WORKER, log, json.dumps([asked(job, log) for job in jobs]), *more]
    said = ended(start(size, words))
    assert [code for code, _, _ in said] == [0] * size, said
    return [[json.loads(line) for line in out.splitlines()] for _, out, _ in said]


@pytest.fixture(scope="module")
def by_two(log: Path) -> list[list[dict[str, Any]]]:
    return fitted(log, JOBS + REFUSED, 2)


def assert_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert [row[0] for row in one["history"]] == [row[0] for row in other["history"]]
    for own, its in zip(one["history"], other["history"], strict=True):
        np.testing.assert_allclose(own[1:], its[1:], rtol=1e-6)  # metrics are of single precision
    assert one["weights"].keys() == other["weights"].keys()
    for name, values in one["weights"].items():
        np.testing.assert_allclose(values, other["weights"][name], rtol=0, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(one["quality"], other["quality"], atol=1e-6)
    assert one["notes"]["lowest"] == pytest.approx(other["notes"]["lowest"])
    assert one["threshold"] == pytest.approx(other["threshold"], abs=1e-6)


@pytest.mark.parametrize("k", range(len(JOBS)), ids=[f"{job['model']} {job['method']}" for job in JOBS])
def test_two_ranks_learn_what_one_process_learns(k: int, by_two: list[list[dict[str, Any]]], log: Path) -> None:
    with drawing_as(2):
        alone = learnt(str(log), asked(JOBS[k], log))
    assert_alike(by_two[0][k], alone)
    assert by_two[1][k] == {}  # the first rank keeps the run


def test_four_ranks_learn_what_one_process_learns(log: Path) -> None:
    found = fitted(log, FOUR, 4, "met")
    for job, own in zip(FOUR, found[0], strict=True):
        with drawing_as(4):
            assert_alike(own, learnt(str(log), asked(job, log)))


def test_ranks_that_read_their_own_parts_learn_the_same(log: Path, tmp_path: Path) -> None:
    """Of uneven parts, with several groups of rows."""
    table, folder = parquet.read_table(log), tmp_path / "parts"
    folder.mkdir()
    for k, (first, last) in enumerate([(0, 300), (300, 4100), (4100, len(table))]):
        parquet.write_table(table.slice(first, last - first), folder / f"{k}.parquet", row_group_size=1000)
    found = fitted(folder, IN_PARTS, 3)
    for job, own in zip(IN_PARTS, found[0], strict=True):
        with drawing_as(3):
            alone = learnt(str(folder), asked(job, folder))
        assert_alike(own, alone)
        for name in ("clicks", "merged", "train", "valid", "users", "items"):
            assert own["notes"][name] == alone["notes"][name]


def test_what_is_sent_is_counted(by_two: list[list[dict[str, Any]]]) -> None:
    notes = by_two[0][0]["notes"]["ranks"]
    assert notes["count"] == 2
    rows = 128 * 4 * 4 * 2  # 64 clicks and as many others of each rank, of 4 numbers, there and back
    assert 0 < notes["bytes_per_step"] < rows * 2
    assert notes["bytes_per_validation"] > 0


def test_what_cannot_be_divided_is_one_sentence(by_two: list[list[dict[str, Any]]]) -> None:
    for rank in (0, 1):
        model, method = (found["error"] for found in by_two[rank][len(JOBS) :])
        assert model.startswith(
            "Model 'lightgcn' cannot be divided over 2 ranks: take mf, gmf, neumf, ease, ials, or train"
        )
        assert method.startswith("Method 'ensemble' cannot be divided over 2 ranks")
