"""One run of a training: its data, its options and its history."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from accord.errors import AccordError
from accord.optim import Updates
from accord.ranks.group import ALONE, Ranks

RISE, FIRST = 0.15, 0.1
"""One cycle: the share of the epochs in which the step size rises, and the share of itself that it begins with."""
EpochRecord = dict[str, Any]
"""One line of the history: phase, epoch, loss, validation metrics, seconds."""


@dataclass(frozen=True)
class TrainingOptions:
    """How to train, apart from what is trained."""

    epochs: int = 100
    batch_size: int = 2048
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    """Factor of ½‖θ‖² of the target: for recommenders λ divided by the number of users."""
    patience: int = 10
    """Epochs without a better validation metric before a phase stops; 0 never stops early."""
    patient_steps: int = 0
    """And no fewer than so many steps without one: on a small log ten epochs are few steps."""
    metric: str = "ndcg@20"
    restore: Literal["best", "last"] = "best"
    updates: Updates = "auto"
    """Whether large tables are updated by the rows a batch touched, or whole."""
    optimiser: Literal["adam", "sgd"] = "adam"
    schedule: Literal["constant", "cosine", "one-cycle"] = "constant"
    """Whether the step size stays, falls to zero over the epochs of a phase, or first rises and then falls."""
    clip: float | None = None
    """SGD: the longest gradient a step takes."""
    capture: bool = False
    """On a GPU, capture a step once and replay it."""
    in_files: bool = False
    """Whether the clicks lie in files; then so do the moments of very large tables."""
    seed: int = 0

    def share_at(self, epochs_done: float) -> float:
        """The share of the learning rate by which a step is made after so many epochs of a phase."""
        done = min(1.0, epochs_done / self.epochs)
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        return FIRST + (1 - FIRST) * done / RISE if done < RISE else (1 - done) / (1 - RISE)


@dataclass(frozen=True)
class Progress:
    """Where training stands; handed to a callback a few times a second."""

    phase: str
    phase_number: int
    phases: int
    epoch: int
    epochs: int
    fraction: float
    """Share of the current epoch that is done."""
    metric: str
    value: float | None
    best: float | None


Callback = Callable[[Progress], None]


@dataclass(eq=False)
class Run:
    """A run: its training set, what it is measured on, and its history."""

    options: TrainingOptions
    data: Any
    feed: Callable[[list[Any], int, bool, bool], Any]
    """Batches of the training sets of several runs: (sets, batch size, whole rows, captured steps)."""
    valid: Any = None
    """The noisy validation set; runs may share it."""
    eval_set: Any = None
    """A set whose metrics are written into the history and decide nothing."""
    callback: Callback | None = None
    ranks: Ranks = ALONE
    """The processes that train it together."""
    history: list[EpochRecord] = field(default_factory=list)
    best: float | None = None
    best_epoch: int = 0
    value: float | None = None
    stopped: bool = False
    kept: bool = False
    """Whether weights of this phase are restored when it leaves."""
    error: AccordError | None = None
    """Why it could not continue, where it diverged."""
    followers: list[Run] = field(default_factory=list)
    """Runs for which it trains in a shared phase."""

    def start_phase(self) -> None:
        self.best, self.best_epoch, self.value = None, 0, None
        self.stopped, self.kept = self.error is not None, False

    @property
    def everyone(self) -> list[Run]:
        """This run and those for which it trains in a shared phase."""
        return [self, *self.followers]

    def exhausted(self, epoch: int, steps: float) -> bool:
        """No better epoch within the patience, where an epoch has so many steps."""
        waited, options = epoch - self.best_epoch, self.options
        return 0 < options.patience <= waited and waited * steps >= options.patient_steps

    def state_dict(self) -> dict[str, Any]:
        """All of it that a checkpoint needs."""
        error = None if self.error is None else str(self.error)
        own = {name: getattr(self, name) for name in ("history", "best", "best_epoch", "stopped", "kept")}
        return own | {"error": error}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not all(isinstance(record, dict) for record in state["history"]):
            raise ValueError("its history")
        self.history = list(state["history"])
        self.best = None if state["best"] is None else float(state["best"])
        self.best_epoch = int(state["best_epoch"])
        self.stopped, self.kept = bool(state["stopped"]), bool(state["kept"])
        self.error = None if state["error"] is None else AccordError(str(state["error"]))


def diverged(loss: float, finite: bool, epoch: int, phase: str, options: TrainingOptions) -> AccordError | None:
    """The error of a run whose loss or weights are not finite any more; None where all is well."""
    if math.isfinite(loss) and finite:
        return None
    what = "some weights are not finite" if math.isfinite(loss) else f"the loss is {loss}"
    return AccordError(
        f"Training diverged: {what} in epoch {epoch} of phase '{phase}' (learning rate {options.learning_rate:g}, "
        f"batch size {options.batch_size}, seed {options.seed}); lower the learning rate or c0, c1 and c2."
    )
