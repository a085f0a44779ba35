"""A trained model as a folder of plain data: JSON, safetensors and Parquet; whole, or not there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from accord.data.ids import Ids
from accord.errors import DataError

FORMAT = 1
CONFIG, WEIGHTS, IDS, CLICKS = "config.json", "weights.safetensors", "ids.parquet", "clicks.parquet"
HISTORY, METRICS, REPORT = "history.jsonl", "metrics.json", "report.html"


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A fresh folder beside ``path`` that takes its place when the block succeeds, and vanishes if not."""
    check_free(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
        if path.exists():
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(old)
            draft.rename(path)
            shutil.rmtree(old)
        else:
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_free(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a place that is taken; with ``overwrite`` only another run folder may be replaced."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise DataError(f"'{path}' exists already; choose another place or pass --overwrite.")
    if not (path / CONFIG).is_file():
        raise DataError(f"'{path}' exists and is no run folder, so it is left alone; choose another place.")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def read_config(folder: Path, kind: str) -> dict[str, Any]:
    """The settings of a run, checked to be one of ours."""
    if not (folder / CONFIG).is_file():
        raise DataError(f"'{folder}' is no run folder: it has no {CONFIG}; make one with `accord fit`.")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("format") != FORMAT or config.get("kind") != kind:
        raise DataError(f"'{folder / CONFIG}' is not a {kind} of format {FORMAT}; fit it again with this version.")
    return config


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read as JSON: {error}.") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read as JSON lines: {error}.") from error


def kept_epochs(history: list[dict[str, Any]], restore: str) -> dict[str, dict[str, Any]]:
    """Epoch, loss and noisy validation metrics of what was kept of each phase."""
    phases: dict[str, dict[str, Any]] = {}
    for record in history:
        if restore == "last" or record.get("is_best", True):
            phases[record["phase"]] = {"epoch": record["epoch"], "loss": record["loss"], **record.get("valid", {})}
    return phases


def write_ids(path: Path, users: Ids, items: Ids) -> None:
    """Both id lists in one row, so that each keeps its own type."""
    table = pa.table(
        {
            name: pa.array([ids.values], pa.list_(ids.values.type))
            for name, ids in (("users", users), ("items", items))
        }
    )
    pyarrow.parquet.write_table(table, path)


def read_ids(path: Path) -> tuple[Ids, Ids]:
    table = read_parquet(path, ["users", "items"])
    return Ids(table["users"].combine_chunks().flatten(), "user"), Ids(
        table["items"].combine_chunks().flatten(), "item"
    )


def read_parquet(path: Path, names: list[str]) -> pa.Table:
    try:
        return pyarrow.parquet.read_table(path, columns=names)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"'{path}' cannot be read as a table with {', '.join(names)}; fit the run again."
        ) from error


def write_weights(path: Path, networks: dict[str, nn.Module]) -> None:
    tensors: dict[str, Tensor] = {
        f"{role}.{name}": tensor.detach().cpu().contiguous()
        for role, network in networks.items()
        for name, tensor in network.state_dict().items()
    }
    save_file(tensors, path)


def read_weights(path: Path, networks: dict[str, nn.Module]) -> None:
    """Fill networks from a file; every tensor must be there, in shape."""
    try:
        tensors = load_file(path)
        for role, network in networks.items():
            prefix = f"{role}."
            network.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"'{path}' does not hold the weights of this run ({reason}); fit it again.") from error
