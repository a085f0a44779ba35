"""Runs on logs in files: trained, saved, loaded, judged and listed as those in memory are."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from safetensors import safe_open

from accord import Recommender, stored
from accord.data import merging, stored_interactions
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation
from accord.data.stored_interactions import StoredInteractions
from accord.errors import InterruptedRunError
from accord.estimators import issues
from accord.estimators.issues import flag_share, worst_order
from accord.evaluation import RankingTask
from accord.optim import rows
from accord.report import write_report
from accord.report.curves import quality_histogram
from accord.training import Checkpoint, tensor_files
from accord.training.checkpoints import digest_of
from stopping import StopsAfter


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, size in (
        (stored, "AT_ONCE", 512),
        (issues, "AT_ONCE", 300),
        (merging, "SORTED", 400),
        (stored_interactions, "PAGE", 100),
        (stored_interactions, "PAGES", 6),
        (rows, "LARGE", 1),
        (rows, "RELEASED", 2),
    ):
        monkeypatch.setattr(module, name, size)


def fitted(made: Simulation, model: str = "mf", method: str = "normal", **more: Any) -> Recommender:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 256, "dims": 4, "memory": 0, **more}
    checkpoint = settings.pop("checkpoint", None)
    return Recommender(model=model, method=method, **settings).fit(made.log(), checkpoint=checkpoint)


def in_memory(run: Path) -> Recommender:
    """The same run, loaded into memory."""
    config = json.loads((run / "config.json").read_text())
    config["settings"]["memory"] = 2.0
    (run / "config.json").write_text(json.dumps(config))
    return Recommender.load(run)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("mf", "normal"),
        ("gmf", "deca-p"),
        ("neumf", "wbpr"),
        ("cdae", "normal"),
        ("lightgcn", "normal"),
        ("ease", "normal"),
    ],
)
def test_a_run_in_files_is_the_run_in_memory(model: str, method: str, made: Simulation, tmp_path: Path) -> None:
    first = fitted(made, model, method)
    assert isinstance(first._training(), StoredInteractions)
    first.save(tmp_path / "run")
    loaded, other = Recommender.load(tmp_path / "run"), in_memory(tmp_path / "run")
    assert stored.is_stored(first.clicks_.users)
    assert stored.is_stored(loaded.clicks_.users)
    assert not stored.is_stored(other.clicks_.users)
    users = first.user_ids_.values[:5]
    for rec in (first, loaded):
        assert rec.metrics_ == other.metrics_
        assert rec.find_label_issues().equals(other.find_label_issues())
        assert rec.find_label_issues(share=0.13).equals(other.find_label_issues(share=0.13))
        assert rec.recommend(users).equals(other.recommend(users))
        assert rec.cleaned_log(log=made.log()).equals(other.cleaned_log(log=made.log()))


def test_it_learns_as_much_as_in_memory(made: Simulation) -> None:
    """The order of clicks differs, not what can be learnt."""
    found = [fitted(made, epochs=12, memory=memory).validation_["training"]["ndcg@20"] for memory in (0, 2)]
    assert found[0] > 0.85 * found[1] > 0


def test_it_is_resumed_in_the_middle_of_an_epoch(made: Simulation, tmp_path: Path) -> None:
    whole = fitted(made, "gmf", updates="rows")
    with pytest.raises(InterruptedRunError):
        fitted(made, "gmf", updates="rows", checkpoint=StopsAfter(tmp_path / "x", 9))
    resumed = fitted(made, "gmf", updates="rows", checkpoint=Checkpoint(tmp_path / "x"))
    assert np.array_equal(whole.quality_, resumed.quality_)


def test_moments_in_files_change_nothing(made: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    made_files: list[int] = []
    kept = rows.stored
    monkeypatch.setattr(rows, "stored", lambda *given: (made_files.append(1), kept(*given))[1])
    in_files = fitted(made, updates="rows")
    assert len(made_files) == 4  # two of each table
    monkeypatch.setattr(rows, "LARGE", 1 << 24)
    assert np.array_equal(in_files.quality_, fitted(made, updates="rows").quality_)
    assert len(made_files) == 4


@pytest.mark.parametrize("share", [0.0, 0.004, 0.31, 1.0])
def test_the_worst_first_by_buckets(share: float) -> None:
    rng = np.random.default_rng(0)
    quality = np.round(rng.random(3000) ** 4, 3).astype(np.float32)  # with ties
    quality[:50], quality[7] = 0.0, -0.0
    file = stored.Growing(np.float32)
    file.append(quality)
    parts = list(worst_order(file.array()))
    assert len(parts) > 4
    assert np.array_equal(np.concatenate(parts), np.argsort(quality, kind="stable"))
    assert np.array_equal(flag_share(file_of(quality), share), flag_share(quality, share))


def file_of(quality: np.ndarray) -> np.ndarray:
    file = stored.Growing(quality.dtype)
    file.append(quality)
    return file.array()


def test_the_list_of_issues_is_the_table(made: Simulation) -> None:
    rec = fitted(made)
    found, table = rec.issue_list(), rec.issues_table()
    flagged = table.filter(table["is_label_issue"])
    assert found.count == len(flagged) > 20
    assert found.num_rows == len(table)
    assert found.first_flagged(17).equals(flagged.slice(0, 17))
    assert found.slice(300, 250).equals(table.slice(300, 250).combine_chunks())
    for column in ("user", "item"):
        grouped = table.group_by(column).aggregate([("is_label_issue", "sum"), ("label_quality", "mean")])
        expected = {row[column]: row for row in grouped.to_pylist()}
        ids, flags, _, quality = found.most_flagged(column)
        assert len(ids) == len(expected)
        for name, count, mean in zip(ids.to_pylist(), flags, quality, strict=True):
            assert expected[name]["is_label_issue_sum"] == count
            assert expected[name]["label_quality_mean"] == pytest.approx(mean, rel=1e-6)


def test_the_report_is_that_of_the_run_in_memory(made: Simulation, tmp_path: Path) -> None:
    rec = fitted(made)
    rec.save(tmp_path / "run")
    pages = [
        write_report(one, tmp_path / f"{k}.html").read_text()
        for k, one in enumerate((rec, in_memory(tmp_path / "run")))
    ]
    worst = [page[page.index("<table") : page.index("</table>")] for page in pages]
    assert len(pages[0]) == pytest.approx(len(pages[1]), rel=0.01)
    assert worst[0].count("<tr") == worst[1].count("<tr")


def test_the_command_writes_the_same_table(made: Simulation, tmp_path: Path) -> None:
    from accord.cli.runs import run_audit

    rec = fitted(made)
    rec.save(tmp_path / "run")
    answer = run_audit(tmp_path / "run", 10, None, tmp_path / "issues.parquet", None, None)
    assert answer["judged"] == len(rec.clicks_)
    written = parquet.read_table(tmp_path / "issues.parquet")
    assert written.equals(rec.issues_table().replace_schema_metadata(None))
    run_audit(tmp_path / "run", 10, None, tmp_path / "issues.csv", None, None)
    assert len((tmp_path / "issues.csv").read_text().splitlines()) == len(written) + 1


def test_a_log_that_fits_stays_in_memory(made: Simulation) -> None:
    small = Recommender(model="mf", method="normal", epochs=1, dims=4).fit(made.log())
    assert not stored.is_stored(small.clicks_.users)
    assert type(small._training()).__name__ == "Interactions"


def test_validation_pairs_and_seen_pairs_join_a_log_in_files(made: Simulation) -> None:
    log: pa.Table = made.log()
    rec = [
        Recommender(model="mf", method="normal", epochs=1, dims=4, memory=memory).fit(
            log.slice(0, len(log) - 900), valid=log.slice(len(log) - 900, 500), seen=log.slice(len(log) - 400)
        )
        for memory in (0, 2)
    ]
    assert stored.is_stored(rec[0].clicks_.users)
    assert (rec[0].part_ == 3).sum() > 100
    for one in rec:  # each has learnt in an order of its own
        one.notes_.pop("by_chance")
    assert rec[0].notes_ == rec[1].notes_
    for name in ("counts", "times", "first_rows"):
        assert np.array_equal(getattr(rec[0].clicks_, name), getattr(rec[1].clicks_, name))
    assert np.array_equal(rec[0].part_, rec[1].part_)
    assert np.array_equal(rec[0].clicks_.keys, rec[1].clicks_.keys)


def most_held(call: Callable[[], object]) -> int:
    """Bytes that Python and NumPy hold at most, beyond what they held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_histogram_holds_no_copy_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "AT_ONCE", 1 << 12)
    values = np.random.default_rng(0).random(1 << 20).astype(np.float32)
    quality, flagged = file_of(values), file_of(values < 0.7)
    pictures: list[str] = []
    assert (
        most_held(lambda: pictures.append(quality_histogram(quality, flagged, "clicks", 0.7))) < values.nbytes / 4
    )
    assert pictures == [quality_histogram(values, values < 0.7, "clicks", 0.7)]


def test_validation_makes_pairs_of_the_users_it_ranks_for_alone() -> None:
    users = np.repeat(np.arange(1 << 12, dtype=np.int32), 1 << 8)
    items = np.tile(np.arange(1 << 8, dtype=np.int32), 1 << 12)
    seen = Interactions.from_pairs(users[:1], items[:1], 1 << 12, 1 << 8)
    tasks: list[RankingTask] = []
    held = most_held(lambda: tasks.append(RankingTask.from_pairs(users, items, [seen], max_users=9)))
    assert held < 3 * users.nbytes
    (task,) = tasks
    assert len(task.users) == 9
    assert task.relevant.degrees.nonzero().flatten().equal(task.users)
    assert task.relevant.degrees[task.users].unique().tolist() == [1 << 8]


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool])
def test_values_come_in_the_order_asked_for(kind: type) -> None:
    values = (np.arange(3000) % 7).astype(kind)
    rows = np.random.default_rng(1).integers(0, 3000, 900)
    there = stored.Positions(rows)
    for own in (file_of(values), values):
        assert np.array_equal(there.of(own), values[rows])
        assert there.of(own).dtype == kind


def test_a_checkpoint_knows_arrays_in_files_by_their_numbers() -> None:
    values = np.arange(3000, dtype=np.int32)
    assert digest_of("x", values) == digest_of("x", file_of(values)) != digest_of("x", values[::-1])
    assert digest_of(values[:0]) == digest_of(stored.stored(0, np.int32))


def test_tensors_are_written_as_the_library_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_files, "PIECE", 64)
    values = file_of(np.arange(999, dtype=np.float32))
    tensors = {
        "moments": torch.from_numpy(np.asarray(values)).view(27, 37),
        "turned": torch.arange(6.0, dtype=torch.float64).view(2, 3).T,
        "none": torch.empty(0, 4),
        "one": torch.tensor(True),
        "stream": torch.arange(5, dtype=torch.uint8),
        "order": torch.arange(7, dtype=torch.int32),
    }
    others = ("complex64", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
    tensors |= {name: torch.ones(3, dtype=getattr(torch, name)) for name in others}  # a model of one's own has
    given_back: list[int] = []
    real = tensor_files.release_all
    monkeypatch.setattr(tensor_files, "release_all", lambda: (given_back.append(1), real())[1])
    tensor_files.write_tensors(tmp_path / "x", tensors, {"a": "schön"})
    assert len(given_back) > 999 * 4 // 64
    with safe_open(tmp_path / "x", "pt") as file:
        assert file.metadata() == {"a": "schön"}
        assert set(file.keys()) == set(tensors)
        for name, tensor in tensors.items():
            found = file.get_tensor(name)
            assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
            own, its = (one.contiguous().view(-1).view(torch.uint8) for one in (found, tensor))
            assert own.equal(its)
    assert np.array_equal(values, np.arange(999))  # and what was given back is there
