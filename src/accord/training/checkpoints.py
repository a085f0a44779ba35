"""A training's whole state in one file, written while it goes on, so that a run that dies can go on.

The state is the networks, the optimiser's moments, every random stream, the place in the epoch, the best weights
so far and the history. An epoch is taken up in its middle by drawing its batches again from the stream's state at
its start and passing over those that are done. One file, renamed into place, is whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from accord.errors import DataError

SECONDS = 30.0
"""Between two checkpoints of a run."""
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

    def __init__(self, path: str | Path, seconds: float = SECONDS) -> None:
        """Whoever makes one removes its file when what was trained is safe; estimators do so for a mere path."""
        self.path, self.seconds = Path(path), seconds
        self.identity = ""
        self.stop = False
        """Set when the person asks to stop: the run is written down and ends at its next step."""
        self._last = time.monotonic()

    def due(self) -> bool:
        return self.stop or time.monotonic() - self._last >= self.seconds

    def write(self, state: State) -> None:
        facts = {"format": FORMAT, "identity": self.identity, "facts": json.dumps(state.facts)}
        tensors = {name: _plain(tensor) for name, tensor in state.tensors.items()}
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            save_file(tensors, draft, metadata=facts)
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.replace(self.path)
        except (OSError, SafetensorError) as error:
            raise DataError(f"The checkpoint '{self.path}' cannot be written: {error}.") from error
        finally:
            draft.unlink(missing_ok=True)
        self._last = time.monotonic()

    def read(self) -> State | None:
        """What was written last; None where nothing was."""
        if not self.path.is_file():
            return None
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
            reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise DataError(f"'{self.path}' is damaged ({reason[0]}); remove it to begin anew.") from error

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def checkpoint_of(where: str | Path | Checkpoint | None, *identity: Any) -> Checkpoint | None:
    """A checkpoint for the run that these words and arrays tell apart from all others."""
    if where is None:
        return None
    checkpoint = where if isinstance(where, Checkpoint) else Checkpoint(where)
    digest = hashlib.blake2b(digest_size=16)
    for one in (torch.__version__, *identity):
        digest.update(np.ascontiguousarray(one).tobytes() if isinstance(one, np.ndarray) else str(one).encode())
    checkpoint.identity = digest.hexdigest()
    return checkpoint


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
