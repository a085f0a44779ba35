"""A training's whole state in one file, written while it goes on, so that a run that dies can go on.

The state is the networks, the optimiser's moments, every random stream, the place in the epoch, the best weights
so far and the history. An epoch is taken up in its middle by drawing its batches again from the stream's state at
its start and passing over those that are done. A stack of runs is written down between two epochs, with those that
have left it. One file, renamed into place, is whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from accord.errors import DataError, InterruptedRunError, first_line
from accord.files import whole_file
from accord.memory import free_disk
from accord.methods.base import Phase

if TYPE_CHECKING:
    from accord.models.stack import Stack
    from accord.training.stacking import StackedRun

SECONDS = 30.0
"""Between two checkpoints of a run."""
LEAST_BETWEEN = 20
"""Time between two that nobody asked for, in times of what writing the last took."""
LARGEST = 4 * 2**30
"""Bytes of a stack's state, beyond which it is not written down."""
FORMAT = "accord checkpoint 1"


class State(NamedTuple):
    """Numbers and words, and tensors by name."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, by the rest of their names."""
        own = f"{prefix}/"
        return {name.removeprefix(own): t for name, t in self.tensors.items() if name.startswith(own)}


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


class Checkpoint:
    """The file of a run's state. Its ``identity``, given by who trains, tells the run: data, settings, versions."""

    def __init__(self, path: str | Path, seconds: float = SECONDS, optional: bool = False) -> None:
        """Whoever makes one removes its file when what was trained is safe; estimators do so for a mere path.

        One that is ``optional`` nobody asked for: where it cannot be read or written, the run goes on without.
        """
        self.path, self.seconds, self.optional = Path(path), seconds, optional
        self.identity = ""
        self.stop = False
        """Set when the person asks to stop: the run is written down and ends at its next step."""
        self._last, self._took = time.monotonic(), 0.0

    def due(self) -> bool:
        least = LEAST_BETWEEN * self._took if self.optional else 0.0
        return self.stop or time.monotonic() - self._last >= max(self.seconds, least)

    def write(self, state: State) -> None:
        started = time.monotonic()
        facts = {"format": FORMAT, "identity": self.identity, "facts": json.dumps(state.facts)}
        tensors = {name: _plain(tensor) for name, tensor in state.tensors.items()}
        try:
            with whole_file(self.path, flush=True) as draft:
                save_file(tensors, draft, metadata=facts)
        except (OSError, SafetensorError) as error:
            raise DataError(f"The checkpoint '{self.path}' cannot be written: {error}.") from error
        self._last = time.monotonic()
        self._took = self._last - started

    def read(self) -> State | None:
        """What was written last; None where nothing was."""
        try:
            return self._read() if self.path.is_file() else None
        except DataError:
            if self.optional:
                return None
            raise

    def _read(self) -> State:
        try:
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
                facts = json.loads(notes["facts"])
                if not isinstance(facts, dict):
                    raise ValueError("its facts have no names")
                return State(facts, tensors)
        except DataError:
            raise
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise DataError(f"'{self.path}' is damaged ({first_line(error)}); remove it to begin anew.") from error

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


class Checkpoints:
    """A folder for the checkpoints of many runs, each in a file named by what tells it from all others."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._made: list[Checkpoint] = []

    def named(self, name: str) -> Checkpoint:
        self._made.append(Checkpoint(self.folder / f"{name}.safetensors", optional=True))
        return self._made[-1]

    def forget(self) -> None:
        """What was trained is safe."""
        for checkpoint in self._made:
            checkpoint.remove()
        self._made.clear()


Where = str | Path | Checkpoint | Checkpoints
"""Where a run is written down: a file, or a folder for many."""


def checkpoint_of(where: Where | None, *identity: Any) -> Checkpoint | None:
    """A checkpoint for the run that these words and arrays tell apart from all others."""
    if where is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for one in (torch.__version__, *identity):
        array = isinstance(one, np.ndarray)
        digest.update(f"\0{one.dtype}{one.shape}\0".encode() if array else b"\0")
        digest.update(np.ascontiguousarray(one).tobytes() if array else str(one).encode())
    name = digest.hexdigest()
    if isinstance(where, Checkpoints):
        where = where.named(name)
    elif not isinstance(where, Checkpoint):
        where = Checkpoint(where)
    where.identity = name
    return where


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def fill(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Tensors put back in place; they must be the same ones."""
    if set(target) != set(source):
        raise DataError("The checkpoint does not fit this run; remove it to begin anew.")
    with torch.no_grad():
        for name, tensor in target.items():
            if tensor.shape != source[name].shape:
                raise DataError(f"The checkpoint's '{name}' does not fit this run; remove it to begin anew.")
            tensor.copy_(source[name])


class Going(Protocol):
    """A phase in training, of one run or of a stack."""

    phase: Phase
    epoch: int

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


class Keeper:
    """A run's history, and its checkpoint where it has one."""

    def __init__(self, phases: list[Phase], checkpoint: Checkpoint | None) -> None:
        self.phases, self.checkpoint = phases, checkpoint
        self.history: list[dict[str, Any]] = []
        self.phase = 1
        self.saved = None if checkpoint is None else checkpoint.read()
        if self.saved is not None:
            with self._sound():
                self.phase = int(self.saved.facts["phase"])
                if not 1 <= self.phase <= len(phases):
                    raise ValueError("its phase")
                self._take(self.saved)
                fill(self._weights(), self.saved.under("network"))

    def _take(self, saved: State) -> None:
        """What is known of the run so far."""
        self.history = sound_history(saved.facts["history"])

    def _facts(self) -> dict[str, Any]:
        return {"phase": self.phase, "history": self.history}

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Whatever a checkpoint that was tampered with gives rise to is one sentence."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            path = None if self.checkpoint is None else self.checkpoint.path
            raise DataError(f"'{path}' is damaged ({error}); remove it to begin anew.") from error

    def _weights(self) -> dict[str, Tensor]:
        """Every network of this phase and of those before it."""
        return {
            f"{phase.name}/{role}/{name}": tensor
            for phase in self.phases[: self.phase]
            for role, network in (*phase.networks.items(), *((f"last {role}", n) for role, n in phase.last.items()))
            for name, tensor in network.state_dict().items()
        }

    def begin(self, number: int, trainer: Going) -> None:
        self.phase = number
        if self.saved is not None:
            with self._sound():
                trainer.restore(self.saved)
            self.saved = None

    def between_steps(self, trainer: Going) -> None:
        """Write the run down if it is time to, and stop it if it was asked to."""
        checkpoint = self.checkpoint
        if checkpoint is None or not checkpoint.due():
            return
        facts, tensors = trainer.state()
        self._write(checkpoint, State(facts | self._facts(), tensors | named("network", self._weights())))
        if checkpoint.stop:
            raise InterruptedRunError(f"stopped in epoch {trainer.epoch + 1} of phase '{trainer.phase.name}'")

    def _write(self, checkpoint: Checkpoint, state: State) -> None:
        try:
            checkpoint.write(state)
        except DataError:
            if not checkpoint.optional:
                raise
            self.checkpoint = None


def sound_history(history: Any) -> list[dict[str, Any]]:
    """A history as it was written down; refused where it is none."""
    if not all(isinstance(one, dict) for one in history):
        raise ValueError("its history")
    return list(history)


class StackKeeper(Keeper):
    """The same of a stack: the stories of all its runs. A stack too large for it goes on without a checkpoint."""

    def __init__(
        self,
        phases: list[Phase],
        stacks: Sequence[Stack],
        runs: Sequence[StackedRun],
        checkpoint: Checkpoint | None,
    ) -> None:
        self.stacks, self.runs = stacks, runs
        super().__init__(phases, checkpoint)

    def _take(self, saved: State) -> None:
        for run, story in zip(self.runs, saved.facts["runs"], strict=True):
            run.take(story)

    def _facts(self) -> dict[str, Any]:
        return {"phase": self.phase, "runs": [run.story() for run in self.runs]}

    def _weights(self) -> dict[str, Tensor]:
        """Every network of every run, whether it is still in its stack or not."""
        return {
            f"{k}/{place}/{name}": tensor
            for k, stack in enumerate(self.stacks)
            for place, member in enumerate(stack.everyone)
            for name, tensor in member.state_dict().items()
        }

    def begin(self, number: int, trainer: Going) -> None:
        saved = self.saved
        super().begin(number, trainer)
        if saved is not None:
            self._take(saved)  # again: a phase begins with a clean slate

    def _write(self, checkpoint: Checkpoint, state: State) -> None:
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.tensors.values())
        if size <= min(LARGEST, free_disk(checkpoint.path)[0] // 2):
            super()._write(checkpoint, state)
        else:
            self.checkpoint = None
