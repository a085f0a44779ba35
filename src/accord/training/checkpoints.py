"""A training's whole state in one file, saved while it runs, so that a training that dies can be resumed.

The state is the networks of all runs, the optimiser's moments, every random stream, the step in the epoch, the best
weights so far and the histories. To resume in the middle of an epoch, its batches are drawn again from the streams'
states at its start, and those that are done are skipped. One file, renamed into place, is whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from accord.errors import DataError, InterruptedRunError, first_line
from accord.files import remove_files, whole_file
from accord.memory import free_disk
from accord.methods.base import Phase
from accord.models.stack import as_stack
from accord.plain import tensor_shapes
from accord.stored import bytes_of
from accord.training.run import Run
from accord.training.tensor_files import write_tensors

SECONDS = 30.0
"""Seconds between two checkpoints of a training."""
LEAST_BETWEEN = 20
"""Least time between two checkpoints that nobody asked for, as a multiple of the time the last one took."""
LARGEST = 4 * 2**30
"""Bytes of a state; a larger one is saved only if somebody asked for it."""
LARGE_TENSOR = 1 << 26
"""Bytes of a tensor that is written from where it lies."""
FORMAT = "accord checkpoint 2"
NAMED = re.compile(r"[0-9a-f]{32}\.safetensors")
"""Files in a folder of checkpoints."""


class State(NamedTuple):
    """JSON values and tensors, by name."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, by the rest of their names."""
        own = f"{prefix}/"
        return {name.removeprefix(own): t for name, t in self.tensors.items() if name.startswith(own)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


class Checkpoint:
    """The file of a training's state. The training sets its ``identity``, a hash of data, settings and versions."""

    def __init__(
        self, path: str | Path, seconds: float = SECONDS, optional: bool = False, follows: Checkpoint | None = None
    ) -> None:
        """Whoever makes one removes its file when the trained networks are safe; estimators do so if given a path.

        Nobody asked for an ``optional`` one: if it cannot be read or written, the training continues without it.
        It stops when the one that it ``follows`` does.
        """
        self.path, self.seconds, self.optional = Path(path), seconds, optional
        self.identity = ""
        self.follows, self._stop = follows, False
        self._last, self._took = time.monotonic(), 0.0

    @property
    def stop(self) -> bool:
        """Set when the person asks to stop: the training is saved and ends at its next step."""
        return self._stop or (self.follows is not None and self.follows.stop)

    @stop.setter
    def stop(self, value: bool) -> None:
        self._stop = value

    def due(self) -> bool:
        least = LEAST_BETWEEN * self._took if self.optional else 0.0
        return self.stop or time.monotonic() - self._last >= max(self.seconds, least)

    def write(self, state: State) -> None:
        started = time.monotonic()
        metadata = {"format": FORMAT, "identity": self.identity, "metadata": json.dumps(state.metadata)}
        tensors = _plain(state.tensors)
        try:
            with whole_file(self.path, flush=True) as draft:
                write_tensors(draft, tensors, metadata)
        except OSError as error:
            raise DataError(f"The checkpoint '{self.path}' cannot be written: {error}.") from error
        self._last = time.monotonic()
        self._took = self._last - started

    def read(self) -> State | None:
        """What was saved last; None where nothing was."""
        try:
            return self._read() if self.path.is_file() else None
        except DataError:
            if self.optional:
                return None
            raise

    def _read(self) -> State:
        try:
            tensor_shapes(self.path)
            with safe_open(self.path, "pt") as file:
                notes = file.metadata() or {}
                if notes.get("format") != FORMAT:
                    raise DataError(f"'{self.path}' is no checkpoint of this version; remove it to begin anew.")
                if notes.get("identity") != self.identity:
                    raise DataError(
                        f"'{self.path}' belongs to another run: the data, the settings or the versions differ; "
                        "remove it to begin anew."
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = json.loads(notes["metadata"])
                if not isinstance(metadata, dict):
                    raise ValueError("its metadata have no names")
                return State(metadata, tensors)
        except DataError:
            raise
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise DataError(f"'{self.path}' is damaged ({first_line(error)}); remove it to begin anew.") from error

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


class Checkpoints:
    """A folder for the checkpoints of many trainings, each in a file named by its identity."""

    def __init__(self, folder: str | Path, follows: Checkpoint | None = None) -> None:
        self.folder, self._follows = Path(folder), follows
        self.folder.mkdir(parents=True, exist_ok=True)
        self._made: list[Checkpoint] = []

    def named(self, name: str) -> Checkpoint:
        seconds = SECONDS if self._follows is None else self._follows.seconds
        path = self.folder / f"{name}.safetensors"
        self._made.append(Checkpoint(path, seconds, optional=True, follows=self._follows))
        return self._made[-1]

    def forget(self) -> None:
        """Remove the files: the trained networks are safe."""
        for checkpoint in self._made:
            checkpoint.remove()
        self._made.clear()


def clear_checkpoints(folder: Path) -> None:
    """Remove a folder of checkpoints, with what others left there; what is no checkpoint stays."""
    remove_files(folder, NAMED)


CheckpointPath = str | Path | Checkpoint | Checkpoints
"""Where a training is saved: a file, or a folder for many."""


def checkpoint_of(where: CheckpointPath | None, *identity: Any) -> Checkpoint | None:
    """A checkpoint for the training that these words and arrays identify."""
    if where is None:
        return None
    name = digest_of(*identity)
    if isinstance(where, Checkpoints):
        where = where.named(name)
    elif not isinstance(where, Checkpoint):
        where = Checkpoint(where)
    where.identity = name
    return where


def digest_of(*identity: Any) -> str:
    """A hash of words and arrays, and of torch's version."""
    digest = hashlib.blake2b(digest_size=16)
    for one in (torch.__version__, *identity):
        array = isinstance(one, np.ndarray)
        digest.update(f"\0{one.dtype}{one.shape}\0".encode() if array else b"\0")
        for some in bytes_of(one) if array else [str(one).encode()]:
            digest.update(some)
    return digest.hexdigest()


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as they can be written: each with memory of its own. Large ones that have it are not copied."""
    found: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        alone = tensor.untyped_storage().nbytes() == size and tensor.data_ptr() not in taken
        if size >= LARGE_TENSOR and alone and tensor.device.type == "cpu" and tensor.is_contiguous():
            taken.add(tensor.data_ptr())
            found[name] = tensor.detach()
        else:
            found[name] = tensor.detach().to("cpu", copy=True).contiguous()
    return found


def fill(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Copy tensors into place; they must be the same ones."""
    if set(target) != set(source):
        raise DataError("The checkpoint does not fit this run; remove it to begin anew.")
    with torch.no_grad():
        for name, tensor in target.items():
            if tensor.shape != source[name].shape:
                raise DataError(f"The checkpoint's '{name}' does not fit this run; remove it to begin anew.")
            tensor.copy_(source[name])


class Trainer(Protocol):
    """A phase in training."""

    phase: Phase
    epoch: int

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Checkpointer:
    """Saves a training when it is time to, and resumes it from what was saved."""

    def __init__(self, phases: Sequence[Phase], runs: Sequence[Run], checkpoint: Checkpoint | None) -> None:
        self.phases, self.runs, self.checkpoint = list(phases), runs, checkpoint
        self.phase = 1
        self.saved = None if checkpoint is None else checkpoint.read()
        if self.saved is not None:
            with self._damage_named():
                self.phase = int(self.saved.metadata["phase"])
                if not 1 <= self.phase <= len(self.phases):
                    raise ValueError("its phase")
                self._load_runs(self.saved)
                fill(self._weights(), self.saved.under("network"))

    def _load_runs(self, saved: State) -> None:
        for run, state in zip(self.runs, saved.metadata["runs"], strict=True):
            run.load_state_dict(state)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Every error that a damaged checkpoint causes becomes one sentence."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            path = None if self.checkpoint is None else self.checkpoint.path
            raise DataError(f"'{path}' is damaged ({error}); remove it to begin anew.") from error

    def _weights(self) -> dict[str, Tensor]:
        """Every network of every run, of this phase and of those before it, in its stack or not."""
        return {
            f"{phase.name}/{role}/{number}/{name}": tensor
            for phase in self.phases[: self.phase]
            for role, stack in (
                *phase.networks.items(),
                *((f"last {role}", one) for role, one in phase.last.items()),
            )
            for number, network in enumerate(as_stack(stack).networks)
            for name, tensor in network.state_dict().items()
        }

    def begin(self, number: int, trainer: Trainer) -> None:
        """A phase begins, or is resumed."""
        self.phase = number
        if self.saved is not None:
            with self._damage_named():
                trainer.load_state_dict(self.saved)
                self._load_runs(self.saved)  # again: the beginning of a phase resets them
            self.saved = None

    def between_steps(self, trainer: Trainer) -> None:
        """Save the training if it is time to, and stop it if it was asked to."""
        checkpoint = self.checkpoint
        if checkpoint is None or not checkpoint.due():
            return
        metadata, tensors = trainer.state_dict()
        metadata = metadata | {"phase": self.phase, "runs": [run.state_dict() for run in self.runs]}
        self._save(checkpoint, State(metadata, tensors | prefixed("network", self._weights())))
        if checkpoint.stop:
            raise InterruptedRunError(f"stopped in epoch {trainer.epoch + 1} of phase '{trainer.phase.name}'")

    def _save(self, checkpoint: Checkpoint, state: State) -> None:
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.tensors.values())
        if checkpoint.optional and size > min(LARGEST, free_disk(checkpoint.path)[0] // 2):
            self.checkpoint = None
            return
        try:
            checkpoint.write(state)
        except DataError:
            if not checkpoint.optional:
                raise
            self.checkpoint = None
