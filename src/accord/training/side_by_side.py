"""Several runs at once: each takes its turn, and on a GPU each has a stream of its own.

A small network leaves most of a GPU idle; the kernels of runs on different streams fill it together. A run's result
does not depend on who else is running: it has its own networks, data order, random streams and recorded steps.
(Dropout in a network of one's own is the exception on a GPU: it draws from the device's one stream.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from accord.errors import AccordError
from accord.methods.base import Phase
from accord.training.checkpoints import Checkpoint
from accord.training.forks import computes_here
from accord.training.loop import Data, EpochRecord, Hook, Progress, Run, TrainingOptions, Validate, training
from accord.training.stepping import own_stream

HOOK_SECONDS = 0.1


def train(
    phases: Iterable[Phase],
    data: Data,
    options: TrainingOptions,
    validate: Validate | None = None,
    hook: Hook | None = None,
    watch: Validate | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[EpochRecord]:
    """One run, from its first phase to its last; the history."""
    return drive([training(phases, data, options, validate, watch, checkpoint)], data.device, [hook])[0]


Ended = Callable[[int, list[EpochRecord]], None]
Failed = Callable[[int, AccordError], None]


def drive(
    runs: Sequence[Run],
    device: torch.device,
    hooks: Sequence[Hook | None] | None = None,
    ended: Ended = lambda k, history: None,
    failed: Failed | None = None,
) -> list[list[EpochRecord]]:
    """Bring all runs to their end, a step of each at a time; their histories in the order given.

    ``ended`` is told of each run as it ends. Where a run cannot go on, the others do; ``failed`` is told of it, or
    its error is raised at the end.
    """
    computes_here()
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):  # the same bytes every time
        return _drive(runs, device, hooks, ended, failed)


def _drive(
    runs: Sequence[Run],
    device: torch.device,
    hooks: Sequence[Hook | None] | None,
    ended: Ended,
    failed: Failed | None,
) -> list[list[EpochRecord]]:
    histories: list[list[EpochRecord]] = [[] for _ in runs]
    going = [_filling(run, history) for run, history in zip(runs, histories, strict=True)]
    turns = [own_stream(device) for _ in runs]
    told = [_Throttled(hook) for hook in hooks or [None] * len(runs)]
    active, errors = list(range(len(runs))), list[AccordError]()
    while active:
        for k in list(active):
            with turns[k]:
                try:
                    progress = next(going[k], None)
                    if progress is not None:
                        told[k](progress)
                        continue
                    ended(k, histories[k])
                except AccordError as error:
                    if failed is None:
                        errors.append(error)
                    else:
                        failed(k, error)
            active.remove(k)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if errors:
        raise errors[0]
    return histories


def _filling(run: Run, history: list[EpochRecord]) -> Iterator[Progress]:
    """A run whose history goes into a list when it ends."""
    history.extend((yield from run))


class _Throttled:
    """Calls a hook a few times a second, and at the end of every epoch."""

    def __init__(self, hook: Hook | None) -> None:
        self.hook, self.last = hook, 0.0

    def __call__(self, progress: Any) -> None:
        if self.hook is None:
            return
        if progress.fraction >= 1 or time.monotonic() - self.last > HOOK_SECONDS:
            self.last = time.monotonic()
            self.hook(progress)
