"""A run that is not finished: what was asked for, and how far it got, in a folder beside its place."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.cli.places import cannot_write, quoted, topmost_new
from accord.errors import DataError, InterruptedRunError, Stopped
from accord.estimators.run_folder import read_json, write_json
from accord.training import Checkpoint
from accord.training.checkpoints import SECONDS

SUFFIX, WORDS, STATE = ".unfinished", "fit.json", "checkpoint.safetensors"
PATIENCE = 1.5
"""Seconds after which a person who asked to stop is not kept waiting for the step to end."""


def place_of(out: Path) -> Path:
    if not out.name:
        raise DataError(f"'{out}' is no place for a run; name a folder of its own.")
    return out.with_name(out.name + SUFFIX)


def words_of(out: Path) -> dict[str, Any]:
    """What was asked for when a run began."""
    place = place_of(out)
    if not (place / WORDS).is_file():
        raise DataError(
            f"There is no unfinished run at '{place}'; begin one with `accord fit … --out {quoted(out)}`."
        )
    words = read_json(place / WORDS)
    if not isinstance(words, dict):
        raise DataError(f"'{place / WORDS}' does not say what was asked for; remove '{place}' to begin anew.")
    return words


@dataclass(frozen=True)
class Keeping:
    """How a run is written down while it trains: the words that asked for it, and how often."""

    words: dict[str, Any] | None = None
    resume: bool = False
    seconds: float = SECONDS

    @contextmanager
    def on(self, out: Path, overwrite: bool) -> Iterator[Checkpoint | None]:
        if self.words is None:  # a run of seconds, as in the demo
            yield None
            return
        with kept(out, self.words, resume=self.resume, overwrite=overwrite, seconds=self.seconds) as checkpoint:
            yield checkpoint


@contextmanager
def kept(
    out: Path, words: dict[str, Any], *, resume: bool, overwrite: bool, seconds: float
) -> Iterator[Checkpoint]:
    """A checkpoint for a run on its way to ``out``; the folder goes when the run is done, or never came far."""
    place = place_of(out)
    aside = place.with_name(place.name + ".old")
    if place.exists() and not resume and not overwrite:
        raise DataError(
            f"An unfinished run is at '{place}': "
            f"go on with `accord fit --resume {quoted(out)}`, or pass --overwrite."
        )
    new = topmost_new(place)
    try:
        if place.exists() and not resume:
            shutil.rmtree(aside, ignore_errors=True)
            place.rename(aside)  # comes back where this one comes to nothing
        place.mkdir(parents=True, exist_ok=True)
        if not resume:
            write_json(place / WORDS, words)
    except OSError as error:
        raise cannot_write(out, error) from error
    checkpoint = Checkpoint(place / STATE, seconds)
    try:
        with stopping(checkpoint):
            yield checkpoint
    except InterruptedRunError as error:
        raise InterruptedRunError(f"{error}; go on with: accord fit --resume {quoted(out)}") from error
    except BaseException as error:
        if not checkpoint.path.exists():
            shutil.rmtree(place if new is None or out.exists() else new, ignore_errors=True)
            if aside.exists():
                aside.rename(place)
        elif isinstance(error, Stopped):
            raise InterruptedRunError(f"stopped; go on with: accord fit --resume {quoted(out)}") from error
        raise
    for done in (place, aside):
        shutil.rmtree(done, ignore_errors=True)


@contextmanager
def stopping(checkpoint: Checkpoint) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run at its next step, written down; or a moment later, as it was last written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise Stopped

    def asked(*_: object) -> None:
        if checkpoint.stop:
            raise Stopped
        checkpoint.stop = True
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    for number, handler in ((signal.SIGINT, asked), (signal.SIGTERM, asked), (signal.SIGALRM, late)):
        if before[number] is not signal.SIG_IGN:  # as in the background of a script
            signal.signal(number, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
