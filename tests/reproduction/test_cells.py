"""Cells are files while they are made and rows of one table afterwards; nothing is lost on the way."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord import locks, memory
from accord.errors import DataError
from accord.experiments.study import Cell
from accord.reproduction import cells
from accord.reproduction.cells import LOCK, TABLE, VALUES, StudyCells

FIRST = Cell("gmf", "deca c0=0.1", 0)
COLUMNS = {"ndcg@20", "decision", "clean"}


def result(cell: Cell, **more: Any) -> dict[str, Any]:
    """As a comparison writes it: no key that another cell must have, too."""
    return {**cell._asdict(), "identity": "1a", "search_budget": "none", "metrics": {"ndcg@20": 0.1 + 0.2}, **more}


def keep(store: StudyCells, cell: Cell, users: Any = None, file: str = "", **more: Any) -> dict[str, Any]:
    store.write(cell, result(cell, **more))
    if users is not None:
        path = store.folder / ".".join(word for word in (cell.name, file, "parquet") if word)
        parquet.write_table(pa.table(users), path)
    return result(cell, **more)


def test_a_packed_cell_is_the_cell(tmp_path: Path) -> None:
    store = StudyCells(tmp_path / "noise-40")
    more = {"noise": None, "history": [{"loss": 1e-310, "epoch": 1, "valid": {}}], "protocol": {"data": "ä\n☃"}}
    more |= {"seconds": 1.5, "uses_knowledge": False, "epochs": 0, "detection": {"by_kind": {"all": 0.5}}}
    whole = keep(store, FIRST, {"user": ["u1", "u2"], "ndcg@20": [0.1, 1 / 3]}, **more)
    bare = keep(store, Cell("", "popularity", 1), {"clean": np.array([1, -1], np.int8)}, "test.decisions")
    assert store.pack(COLUMNS)
    assert not list(store.folder.iterdir())
    store = StudyCells(tmp_path / "noise-40")
    assert store.read(FIRST) == whole
    assert store.read(Cell("", "popularity", 1)) == bare
    assert store.read(FIRST._replace(seed=1)) is None
    assert StudyCells(tmp_path / "noise-50").read(FIRST) is None
    assert np.array_equal(store.values(FIRST, "ndcg@20"), [0.1, 1 / 3])  # pyright: ignore[reportArgumentType]
    assert store.values(FIRST, "user") is None  # no page and no test needs it
    clean = store.values(Cell("", "popularity", 1), "clean", "test.decisions")
    assert np.array_equal(clean, [1, -1])  # pyright: ignore[reportArgumentType]
    assert store.values(Cell("", "popularity", 1), "clean") is None


def test_the_same_cells_are_the_same_bytes(tmp_path: Path) -> None:
    names = [
        Cell(model, method, seed) for model in ("mf", "gmf") for method in ("normal", "deca") for seed in (1, 0)
    ]
    for place, order in (("a", names), ("b", names[::-1])):
        for cell in order:
            for part in ("y", "x"):
                store = StudyCells(tmp_path / place / part)
                keep(store, cell, {"ndcg@20": [0.5, float(cell.seed)]}, accord="0" if cell.seed else "1")
                assert store.pack(COLUMNS)
    for name in (TABLE, VALUES):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    table = parquet.read_table(tmp_path / "a" / TABLE).select(["part", "model", "method", "seed"]).to_pylist()
    assert [tuple(row.values()) for row in table] == sorted((part, *cell) for part in "xy" for cell in names)


def test_a_file_counts_before_the_table(tmp_path: Path) -> None:
    """Values of a cell that was trained anew are not those of the old one."""
    store = StudyCells(tmp_path / "x")
    keep(store, FIRST, {"ndcg@20": [0.5]})
    store.pack(COLUMNS)
    told = keep(store, FIRST, search_budget="4 trials")
    assert store.read(FIRST) == told
    assert store.values(FIRST, "ndcg@20") is not None
    store.pack(COLUMNS)
    assert store.values(FIRST, "ndcg@20") is not None
    new = keep(store, FIRST, identity="2b")
    assert store.values(FIRST, "ndcg@20") is None
    store.pack(COLUMNS)
    assert store.read(FIRST) == new
    assert store.values(FIRST, "ndcg@20") is None
    assert not (tmp_path / VALUES).exists()


def test_a_cell_written_while_it_is_packed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, write = StudyCells(tmp_path / "x"), cells.write_tables

    def meanwhile(*given: Any) -> None:
        write(*given)
        keep(store, FIRST, identity="2b")

    keep(store, FIRST)
    monkeypatch.setattr(cells, "write_tables", meanwhile)
    store.pack(COLUMNS)
    assert (store.read(FIRST) or {})["identity"] == "2b"


def test_parts_packed_at_once_are_all_there(tmp_path: Path) -> None:
    """Each packs what it has into the table that the others rewrite."""
    stores = [StudyCells(tmp_path / f"part-{k}") for k in range(6)]
    for seed in range(3):
        for store in stores:
            keep(store, FIRST._replace(seed=seed), {"ndcg@20": [float(seed)]})
        threads = [threading.Thread(target=store.pack, args=(COLUMNS,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert parquet.read_table(tmp_path / TABLE).num_rows == parquet.read_table(tmp_path / VALUES).num_rows == 18
    assert not list(tmp_path.glob("*/cells/*"))


def test_cells_stay_files_while_another_process_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "WAIT", 0.0)
    store = StudyCells(tmp_path / "x")
    done = keep(store, FIRST)
    with (tmp_path / LOCK).open("a+b") as other:
        locks._lock(other.fileno())
        assert not store.pack(COLUMNS)
    assert (store.folder / f"{FIRST.name}.json").is_file()
    assert not (tmp_path / TABLE).exists()
    assert store.read(FIRST) == done
    assert store.pack(COLUMNS)


def test_a_packed_cell_is_copied_with_its_values(tmp_path: Path) -> None:
    store, other = StudyCells(tmp_path / "a" / "x"), StudyCells(tmp_path / "b" / "y")
    keep(store, FIRST, {"ndcg@20": [0.1, 0.2]})
    keep(other, FIRST, {"ndcg@20": [9.0]}, identity="of old")
    other.pack(COLUMNS)
    store.pack(COLUMNS)
    other.copy_from(store, FIRST)
    assert other.read(FIRST) == store.read(FIRST)
    assert np.array_equal(other.values(FIRST, "ndcg@20"), [0.1, 0.2])  # pyright: ignore[reportArgumentType]
    bare = StudyCells(tmp_path / "c" / "z")
    keep(bare, FIRST, identity="bare")
    other.copy_from(bare, FIRST)
    assert other.values(FIRST, "ndcg@20") is None


def test_damaged_tables_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / TABLE).write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"cells\.parquet' is not a Parquet file"):
        StudyCells(tmp_path / "x").read(FIRST)


KEYS: dict[str, Any] = {"part": ["x"], "model": ["gmf"], "method": ["deca c0=0.1"], "seed": [0]}
OTHER: list[dict[str, Any]] = [
    {"user": ["a", "b"], "item": [1, 2]},
    {name: values for name, values in KEYS.items() if name != "seed"},
    KEYS | {"seed": ["zero"]},
    KEYS | {"model": pa.array([None], pa.string())},
    KEYS | {"part": [["x"]]},
    KEYS | {"metrics": ["{"]},
    KEYS | {"metrics": [5]},
    KEYS | {"seconds": ["long"]},
]


@pytest.mark.parametrize("columns", OTHER, ids=str)
def test_a_table_of_something_else_is_one_sentence(columns: dict[str, Any], tmp_path: Path) -> None:
    parquet.write_table(pa.table(columns), tmp_path / TABLE)
    with pytest.raises(DataError, match=r"cells\.parquet' holds no cells of a study \(.*remove it"):
        StudyCells(tmp_path / "x").read(FIRST)


@pytest.mark.parametrize("values", [None, "text", [None], [[0.5, None]], [["text"]]], ids=str)
def test_values_of_something_else_are_one_sentence(values: Any, tmp_path: Path) -> None:
    columns: dict[str, Any] = KEYS | {"file": [""], "column": ["ndcg@20"]}
    columns |= {} if values is None else {"values": [values] if values == "text" else values}
    parquet.write_table(pa.table(columns), tmp_path / VALUES)
    with pytest.raises(DataError, match=r"values\.parquet' holds no cells of a study"):
        StudyCells(tmp_path / "x").values(FIRST, "ndcg@20")


def test_a_packed_cell_that_would_be_much_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 20_000_000)
    parquet.write_table(pa.table(KEYS | {"metrics": ["[" + "[]," * 200_000 + "0]"]}), tmp_path / TABLE)
    with pytest.raises(DataError, match="A cell of .* needs up to 30.0 MB of memory"):
        StudyCells(tmp_path / "x").read(FIRST)


def test_a_file_that_is_not_of_a_cell_is_made_again(tmp_path: Path) -> None:
    store = StudyCells(tmp_path / "x")
    keep(store, FIRST)
    (store.folder / f"{FIRST.name}.json").write_text("[1]")
    assert store.read(FIRST) is None


def test_a_file_that_is_no_cell_is_left_alone(tmp_path: Path) -> None:
    store = StudyCells(tmp_path / "x")
    keep(store, FIRST)
    for name, words in (("notes", ["by hand"]), ("copy", result(FIRST))):
        (store.folder / f"{name}.json").write_text(json.dumps(words))
    assert store.pack(COLUMNS)
    assert {path.stem for path in store.folder.iterdir()} == {"notes", "copy"}
    assert parquet.read_table(tmp_path / TABLE).num_rows == 1
