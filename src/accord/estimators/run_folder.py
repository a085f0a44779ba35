"""A trained model as a folder of plain data: JSON, safetensors and Parquet; whole, or not there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import accord
from accord.data.ids import Ids
from accord.data.parquet_files import read_parquet_file
from accord.data.reading import Columns
from accord.decisions.journal import FOLDER, reviewers
from accord.errors import AccordError, DataError, first_line
from accord.estimators import deciding
from accord.estimators.allocations import no_larger_than
from accord.estimators.naming import is_own
from accord.estimators.notes import sound_notes
from accord.estimators.settings import RENAMED
from accord.files import behind_links, clear_dead, flush_folder, standing, whole_folder, write_whole
from accord.methods import METHODS
from accord.models import MODELS
from accord.models.stack import all_finite
from accord.plain import read_json, read_plain, refuse_links, size_of, tensor_shapes

SCHEMA_VERSION = 2
"""The format that is written; version 0.1 wrote 1, which is still read."""
LONGEST_VERSION = 40
"""Letters of a version's name that are repeated in words."""
if TYPE_CHECKING:
    from accord.estimators.base import Estimator

E = TypeVar("E", bound="Estimator")
KINDS = ("recommender", "classifier", "simulation", "split", "recommender export")
CONFIG, WEIGHTS, IDS, CLICKS = "config.json", "weights.safetensors", "ids.parquet", "clicks.parquet"
HISTORY, METRICS, REPORT = "history.jsonl", "metrics.json", "report.html"
VOTES = {"votes": pa.int16(), "voters": pa.int16(), "agreement": pa.float32()}
"""What a council says of a click, besides its quality."""
BUILT_BY_ESTIMATORS = ("auto", "custom", "scikit-learn", "noise-model", "weight-net", "council-head", "label-head")
"""Names of models that are in no registry."""
ROUNDING = 1e-5
"""By which a probability in float32 may be above 1."""
DAMAGE = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, OSError, OverflowError),
    *(MemoryError, AssertionError, pa.ArrowException, SafetensorError),
)
"""What reading a damaged run folder can raise."""


@contextmanager
def new_folder(
    path: Path, kind: str, *, overwrite: bool = False, decided_by: Collection[str] = ()
) -> Iterator[Path]:
    """A fresh folder that takes the place of ``path`` when the block succeeds, and vanishes if not.

    One that holds decisions of people is only replaced by one that holds theirs too.
    """
    path = behind_links(path)
    clear_dead(path)
    check_free(path, kind, overwrite=overwrite, decided_by=decided_by)
    try:
        with whole_folder(path) as draft:
            yield draft
            _alike_readable(draft)
            flush_folder(draft)
    except (OSError, SafetensorError, pa.ArrowException) as error:
        raise DataError(f"'{path}' cannot be written: {error}; nothing was changed.") from error


def _alike_readable(folder: Path) -> None:
    """The files of a folder can be read by those who can read its settings; weights are written for their owner."""
    mode = (folder / CONFIG).stat().st_mode if (folder / CONFIG).exists() else None
    for path in folder.iterdir():
        if mode is not None and path.is_file():
            path.chmod(mode)


def check_free(path: Path, kind: str, *, overwrite: bool = False, decided_by: Collection[str] = ()) -> None:
    """Refuse a place that is taken; with ``overwrite`` only a folder of ours of the same kind may be replaced."""
    there = standing(path)
    if not there.exists() or (there.is_dir() and not any(there.iterdir())):
        return
    found = kind_of(there)
    if found is None:
        raise DataError(f"'{path}' exists and is no run folder, so it is left alone; choose another path.")
    if found != kind:
        raise DataError(f"'{path}' holds a {found}, not a {kind}, so it is left alone; choose another path.")
    if not overwrite:
        raise DataError(f"'{path}' exists already; choose another path or pass overwrite=True.")
    lost = reviewers(there) - set(decided_by)
    if lost:
        raise DataError(
            f"'{path}' holds decisions of '{min(lost)}', which would be lost; choose another path, or move the "
            f"folder '{FOLDER}' in it away."
        )


def kind_of(path: Path) -> str | None:
    """What a folder of ours holds, such as a recommender or a simulation; None for any other place."""
    try:
        config = read_json(path / CONFIG)
    except DataError:
        return None
    return config["kind"] if isinstance(config, dict) and config.get("kind") in KINDS else None


@contextmanager
def damage_named(run: Path, *, own_model: bool) -> Iterator[None]:
    """Every error that a damaged folder causes becomes one sentence that names the folder.

    An error of a user's own model is shown as it is.
    """
    try:
        yield
    except AccordError as error:
        if own_model or str(run) in str(error):
            raise
        raise DataError(f"'{run}' is damaged ({str(error).rstrip('.')}); fit it again.") from error
    except DAMAGE as error:
        raise DataError(f"'{run}' is damaged ({first_line(error)}); fit it again.") from error


def save(estimator: Estimator, path: Path, *, overwrite: bool, also: Callable[[Path], None] | None) -> None:
    """A trained estimator as a run folder, whole or not at all."""
    built = {role: name for role, name in estimator.architectures_.items() if not is_own(name)}
    networks = {role: network for role, network in estimator.networks_.items() if role in built}
    decided_by = {one.reviewer for one in estimator.decisions_}
    with new_folder(path, estimator.kind, overwrite=overwrite, decided_by=decided_by) as draft:
        own = estimator._save_files(draft)
        deciding.save(estimator, draft)
        config = {
            "format": SCHEMA_VERSION,
            "kind": estimator.kind,
            "accord": accord.__version__,
            "torch": torch.__version__,
            "settings": estimator.settings_to_save(),
            "networks": {role: built[role] for role in networks},
        }
        write_json(draft / CONFIG, config | own)
        write_weights(draft / WEIGHTS, networks)
        write_lines(draft / HISTORY, estimator.history_)
        write_json(draft / METRICS, estimator.metrics_)
        if also is not None:
            also(draft)


def load(run: Path, kind: str, own_model: bool, make: Callable[[dict[str, Any]], E]) -> E:
    """An estimator as it was saved; ``make`` builds it from its settings."""
    run = standing(run)
    config = read_config(run, kind)
    with damage_named(run, own_model=own_model):
        settings = dict(config["settings"])
        if config["format"] == 1:
            settings = _renamed(settings)
        if settings["model"] == "custom" and not own_model:
            words = "holds a model of your own; pass it: load(path, model=…) as it was given to the estimator"
            raise DataError(f"'{run}' {words}.")
        _refuse_unknown(run, settings, config["networks"])
        estimator = make(settings)
        build = estimator._load_files(run, config)
        roles = config["networks"]
        if not isinstance(roles, dict):
            roles = {role: _architecture_of(role, settings, config) for role in roles}
        estimator.architectures_ = {str(role): str(name) for role, name in roles.items()}
        estimator.networks_ = _built(estimator, run, build, own_model)
        read_weights(run / WEIGHTS, estimator.networks_)
        for network in estimator.networks_.values():
            network.requires_grad_(False).eval()
        estimator.history_ = read_history(run / HISTORY, estimator.metric)
        estimator._check_loaded(run)
    estimator.decisions_ = deciding.load(estimator, run)
    return estimator


def _built(
    estimator: Estimator, run: Path, build: Callable[..., nn.Module], own_model: bool
) -> dict[str, nn.Module]:
    """The networks of a run, which are no larger than its weights; of a user's own model nothing is known."""
    tensor_shapes(run / WEIGHTS)
    limit = nullcontext() if own_model else no_larger_than(size_of(run / WEIGHTS) + estimator.bytes_to_look)
    with limit:
        return {role: build(role, name) for role, name in estimator.architectures_.items()}


def _refuse_unknown(run: Path, settings: dict[str, Any], networks: Any) -> None:
    """A method or a model that was registered where the run was made, and is not here."""
    architectures = networks.values() if isinstance(networks, dict) else ()
    named = [("method", settings["method"], METHODS)]
    named += [("model", str(name).split(" ")[0], MODELS) for name in (settings["model"], *architectures)]
    for kind, name, registry in named:
        if name not in registry and name not in BUILT_BY_ESTIMATORS:
            raise DataError(
                f"'{run}' was trained with the {kind} '{name}', which is not known here: import the module that "
                f"registers it, or install its package, then load the run; or fit it again."
            )


def _renamed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of version 0.1 under their present names."""
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def _architecture_of(role: str, settings: dict[str, Any], config: dict[str, Any]) -> str:
    """The architecture of a role in a run of version 0.1, which did not say it."""
    if role in ("noise_dp", "noise_dn"):
        return settings["noise_model"]
    named = {"noise": "noise-model", "weight": "weight-net"}
    if settings["method"] == "popularity":
        return "popularity"
    return named.get(role) or config.get("model") or settings["model"]


def write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    write_whole(path, "".join(json.dumps(record) + "\n" for record in records))


def read_config(folder: Path, kind: str) -> dict[str, Any]:
    """The settings of a run, checked to be one of ours."""
    if not (folder / CONFIG).is_file():
        raise DataError(f"'{folder}' is no run folder: it has no {CONFIG}; make one with `accord fit`.")
    refuse_links(folder, leave=(REPORT,))  # the report is only written
    config = read_json(folder / CONFIG)
    found = kind_of(folder)
    if found not in (None, kind):
        raise DataError(f"'{folder}' holds a {found}, not a {kind}; name another folder.")
    if not isinstance(config, dict) or config.get("kind") != kind:
        raise DataError(f"'{folder / CONFIG}' is not that of a {kind}; fit it again.")
    _refuse_unknown_format(folder / CONFIG, config)
    return config


def _refuse_unknown_format(path: Path, config: dict[str, Any]) -> None:
    written = config.get("format")
    if type(written) is int and 1 <= written <= SCHEMA_VERSION:
        return
    reads = f"this version reads formats {', '.join(map(str, range(1, SCHEMA_VERSION)))} and {SCHEMA_VERSION}"
    if type(written) is int and written > SCHEMA_VERSION:
        by = str(config.get("accord"))
        by = f"accord {by}" if by.isprintable() and len(by) < LONGEST_VERSION else "a newer version"
        words = f"has format {written}, written by {by}, but {reads}"
        raise DataError(f"'{path}' {words}; install that one, or fit it again.")
    raise DataError(f"'{path}' has no format that is known, and {reads}; fit it again.")


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [_record(line) for line in read_plain(path, kind="json", inside=True).splitlines() if line]
    except DataError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' cannot be read as JSON lines: {error}.") from error


def _record(line: str) -> dict[str, Any]:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("a line is no record with names")
    return record


def read_history(path: Path, metric: str) -> list[dict[str, Any]]:
    """The records of a training, each with what is read of it later; where it was validated, by this metric."""
    history = read_lines(path)
    for k, record in enumerate(history):
        measured = record.get("valid", {metric: 0.0})
        sound = (
            isinstance(record.get("phase"), str)
            and type(record.get("epoch")) is int
            and 0 <= record["epoch"] <= 1 << 32
            and all(_is_number(record.get(name)) for name in ("loss", "train_seconds", "valid_seconds"))
            and isinstance(measured, dict)
            and metric in measured
            and all(_is_number(value) for value in measured.values())
        )
        if not sound:
            raise DataError(f"'{path}' has no sound record of an epoch in line {k + 1}; fit the run again.")
    if not history:
        raise DataError(f"'{path}' holds no record of the training; fit the run again.")
    return history


def _is_number(value: Any) -> bool:
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 1 << 53)


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
    users, items = (_id_list(table[name], path) for name in ("users", "items"))
    return Ids(users, "user"), Ids(items, "item")


def _id_list(column: pa.ChunkedArray, path: Path) -> pa.Array:
    kind = column.type
    sound = len(column) == 1 and pa.types.is_list(kind) and kind.value_type in (pa.string(), pa.int64())
    ids = column.chunk(0).flatten() if sound else pa.nulls(1)
    if ids.null_count or not len(ids):
        raise DataError(f"'{path}' does not hold the ids of this run; fit it again.")
    return ids


def read_parquet(path: Path, names: list[str]) -> pa.Table:
    try:
        return read_parquet_file(path, names, inside=True)
    except DataError as error:
        raise DataError(
            f"'{path}' cannot be read as a table with {', '.join(names)}; fit the run again."
        ) from error


def column(table: pa.Table, name: str, kind: pa.DataType, path: Path) -> np.ndarray:
    """A column without gaps, as an array of one type."""
    try:
        if not table[name].null_count:
            return np.asarray(table[name].cast(kind))
    except pa.ArrowException as error:
        raise DataError(f"Column '{name}' of '{path}' is of type {table[name].type}; fit the run again.") from error
    raise DataError(f"Column '{name}' of '{path}' has gaps; fit the run again.")


def sound_quality(quality: np.ndarray, path: Path) -> np.ndarray:
    """Label qualities as they were judged: probabilities, up to rounding."""
    if not ((quality >= 0) & (quality <= 1 + ROUNDING)).all():
        raise DataError(f"Column 'label_quality' of '{path}' does not hold probabilities; fit the run again.")
    return quality


def read_columns(stored: Any) -> Columns:
    """The names of the log's columns, as a run's settings hold them."""
    columns = Columns(**stored)
    names = [columns.user, columns.item, *([] if columns.time is None else [columns.time])]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("the columns are not two or three names")
    return columns


def read_notes(stored: Any) -> dict[str, Any]:
    """What was counted when the log was read."""
    if not isinstance(stored, dict) or not isinstance(stored.get("split"), str):
        raise ValueError("nothing is said of the log")
    counts = ("clicks", "merged", "users", "items", "train", "valid")
    if not all(type(stored.get(name)) is int for name in counts):
        raise ValueError("the counts of the log are not whole numbers")
    return sound_notes(stored, "clicks")


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
        tensor_shapes(path)
        tensors = load_file(path)
        for role, network in networks.items():
            prefix = f"{role}."
            network.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
            if not all(all_finite(tensor.reshape(1, -1)).all() for tensor in network.state_dict().values()):
                raise ValueError(f"some of {role} are not finite")
            if hasattr(network, "check_loaded"):
                network.check_loaded()  # pyright: ignore[reportCallIssue]
    except DAMAGE as error:
        raise DataError(
            f"'{path}' does not hold the weights of this run ({first_line(error)}); fit it again."
        ) from error


def seconds_of_members(notes: dict[str, Any]) -> float:
    """What the members of a council took, or a prior, where there was one."""
    rows = [*notes.get("council", {}).get("members", []), *([notes["prior"]] if "prior" in notes else [])]
    return sum(row["seconds"] for row in rows)
