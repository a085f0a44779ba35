"""A run that is not finished: what was asked for, and its checkpoint, in a folder next to the run's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.cli.checkpoint_folder import STATE, CheckpointFolder
from accord.cli.paths import cannot_write, quoted, remove_empty, topmost_new
from accord.cli.process import signal_handlers
from accord.cli.stopping_in_time import answered, resumed_by
from accord.errors import InterruptedRunError, Stopped
from accord.ranks.group import here
from accord.training import Checkpoint
from accord.training.checkpoints import SECONDS

PATIENCE = 1.2
"""Seconds to wait for the end of a step after a person asked to stop."""


@dataclass(frozen=True)
class Checkpointing:
    """How a run is saved while it trains: the arguments that asked for it, and how often."""

    arguments: dict[str, Any] | None = None
    resume: bool = False
    seconds: float = SECONDS

    def refuse_taken(self, out: Path, overwrite: bool) -> None:
        """Before anything is read: a place where another run is, or was interrupted."""
        if self.arguments is not None:
            CheckpointFolder(out).refuse_taken(resume=self.resume, overwrite=overwrite)

    @contextmanager
    def on(self, out: Path, overwrite: bool) -> Iterator[Checkpoint | None]:
        if self.arguments is None:  # a run of seconds, as in the demo
            yield None
            return
        if not here().leads:  # the first rank has made the folder, or makes it
            checkpoint = Checkpoint(CheckpointFolder(out).folder / STATE, self.seconds)
            with stopping(checkpoint):
                yield checkpoint
            return
        options = {"resume": self.resume, "overwrite": overwrite, "seconds": self.seconds}
        with checkpointed(out, self.arguments, **options) as checkpoint:
            yield checkpoint


@contextmanager
def checkpointed(
    out: Path, arguments: dict[str, Any], *, resume: bool, overwrite: bool, seconds: float
) -> Iterator[Checkpoint]:
    """A checkpoint for a run that will be at ``out``; its folder goes when the run is done, or never came far.

    The folder is locked meanwhile. What an earlier run left there comes back where this one does not come far.
    """
    place = CheckpointFolder(out)
    new = topmost_new(place.folder)
    with ExitStack() as locks:
        try:
            place.take(locks, arguments, resume=resume, overwrite=overwrite)
        except OSError as error:
            raise cannot_write(out, error) from error
        checkpoint = Checkpoint(place.folder / STATE, seconds)
        try:
            with resumed_by(f"; resume with: {_resume(out)}"), stopping(checkpoint):
                yield checkpoint
        except InterruptedRunError as error:
            raise InterruptedRunError(f"{error}; resume with: {_resume(out)}") from error
        except BaseException as error:
            if not place.came_far and not resume:
                place.give_back()
                if new is not None and not out.exists():
                    remove_empty(place.folder.parent, new)
            elif isinstance(error, Stopped) and place.begun:
                raise InterruptedRunError(f"stopped; resume with: {_resume(out)}") from error
            raise
        place.remove()


def _resume(out: Path) -> str:
    """How a training is resumed."""
    many = f"torchrun --nproc-per-node {here().size} -m " if here().many else ""
    return f"{many}accord fit --resume {quoted(out)}"


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
            answered()  # it was done all the same
        finally:  # while its handler is still there
            if checkpoint.stop:
                signal.setitimer(signal.ITIMER_REAL, 0)
