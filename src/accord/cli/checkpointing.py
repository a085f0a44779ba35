"""A run that is not finished: what was asked for, and its checkpoint, in a folder next to the run's."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.cli.paths import cannot_write, quoted, topmost_new
from accord.cli.process import signal_handlers
from accord.errors import DataError, InterruptedRunError, Stopped
from accord.estimators.run_folder import read_json, write_json
from accord.training import Checkpoint
from accord.training.checkpoints import SECONDS

SUFFIX, ARGUMENTS, STATE = ".checkpoint", "fit.json", "checkpoint.safetensors"
PATIENCE = 1.5
"""Seconds to wait for the end of a step after a person asked to stop."""


def folder_of(out: Path) -> Path:
    if not out.name:
        raise DataError(f"'{out}' cannot be a run's folder; name one of its own.")
    return out.with_name(out.name + SUFFIX)


def arguments_of(out: Path) -> dict[str, Any]:
    """What was asked for when a run began."""
    folder = folder_of(out)
    if not (folder / ARGUMENTS).is_file():
        raise DataError(
            f"There is no checkpoint of a run at '{folder}'; begin one with `accord fit … --out {quoted(out)}`."
        )
    arguments = read_json(folder / ARGUMENTS)
    if not isinstance(arguments, dict):
        raise DataError(f"'{folder / ARGUMENTS}' does not say what was asked for; remove '{folder}' to begin anew.")
    return arguments


@dataclass(frozen=True)
class Checkpointing:
    """How a run is saved while it trains: the arguments that asked for it, and how often."""

    arguments: dict[str, Any] | None = None
    resume: bool = False
    seconds: float = SECONDS

    @contextmanager
    def on(self, out: Path, overwrite: bool) -> Iterator[Checkpoint | None]:
        if self.arguments is None:  # a run of seconds, as in the demo
            yield None
            return
        options = {"resume": self.resume, "overwrite": overwrite, "seconds": self.seconds}
        with checkpointed(out, self.arguments, **options) as checkpoint:
            yield checkpoint


@contextmanager
def checkpointed(
    out: Path, arguments: dict[str, Any], *, resume: bool, overwrite: bool, seconds: float
) -> Iterator[Checkpoint]:
    """A checkpoint for a run that will be at ``out``; its folder goes when the run is done, or never came far."""
    folder = folder_of(out)
    aside = folder.with_name(folder.name + ".old")
    if folder.exists() and not resume and not overwrite:
        raise DataError(
            f"A run that was interrupted is at '{folder}': "
            f"resume it with `accord fit --resume {quoted(out)}`, or pass --overwrite."
        )
    new = topmost_new(folder)
    try:
        if folder.exists() and not resume:
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)  # comes back where this one fails early
        folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            write_json(folder / ARGUMENTS, arguments)
    except OSError as error:
        raise cannot_write(out, error) from error
    checkpoint = Checkpoint(folder / STATE, seconds)
    try:
        with stopping(checkpoint):
            yield checkpoint
    except InterruptedRunError as error:
        raise InterruptedRunError(f"{error}; resume with: accord fit --resume {quoted(out)}") from error
    except BaseException as error:
        if not checkpoint.path.exists():
            shutil.rmtree(folder if new is None or out.exists() else new, ignore_errors=True)
            if aside.exists():
                aside.rename(folder)
        elif isinstance(error, Stopped):
            raise InterruptedRunError(f"stopped; resume with: accord fit --resume {quoted(out)}") from error
        raise
    for done in (folder, aside):
        shutil.rmtree(done, ignore_errors=True)


@contextmanager
def stopping(checkpoint: Checkpoint) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run at its next step, saved; or a moment later, as it was last saved."""

    def late(*_: object) -> None:
        raise Stopped

    def asked(*_: object) -> None:
        if checkpoint.stop:
            raise Stopped
        checkpoint.stop = True
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    with signal_handlers({signal.SIGINT: asked, signal.SIGTERM: asked, signal.SIGALRM: late}):
        try:
            yield
        finally:  # while its handler is still there
            if checkpoint.stop:
                signal.setitimer(signal.ITIMER_REAL, 0)
