"""The trials of a search: an Optuna study that survives kills and is shared by processes and machines.

Grid and random searches are plans made beforehand; a trial's settings are those at its plan index. Who asks for a
trial records it as running, with its index and the process, in one transaction. Where two processes did so for
one index, the earlier trial keeps it. While a trial runs, its process sends heartbeats to the database. A trial
whose process is gone fails, and its index can be asked for again.

Optuna's own queue (``enqueue_trial`` and ``ask``) is not used: on SQLite, which cannot lock a row, two processes
are given the same waiting trial.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

from accord.errors import AccordError, DataError, SettingError, first_line
from accord.experiments.addresses import hide_secrets, is_wrong, without_secrets
from accord.experiments.spaces import plan
from accord.extras import missing, needed
from accord.methods import Space
from accord.training import derive

SAMPLERS = ("random", "grid", "tpe")
HEARTBEAT = 10
"""Seconds between two heartbeats of a trial."""
GRACE = 60
"""Seconds without a heartbeat after which a trial's process is taken for dead."""
OPENING_TRIES = 4
AWAY = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds to wait, again and again, for a server that is away, as while it is started again."""
DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError)
"""What rows that are damaged raise, besides errors of the database."""
INDEX, PROCESS, REASON = "place", "process", "reason"
"""Attributes of a trial. The first keeps the name it has in databases of earlier versions."""


F = TypeVar("F", bound=Callable[..., Any])


def _is_away(error: BaseException | None) -> bool:
    """Whether a server could not be reached, or a connection broke: in the error, or in what led to it."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, PendingRollbackError

    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OperationalError | InterfaceError | PendingRollbackError):
            return True
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        error = error.__cause__ or error.__context__
    return False


def _of_storage(method: F) -> F:
    """A method that asks the database: a server that is away is waited for, and what it raises is one sentence."""

    @wraps(method)
    def asked(self: Trials, *words: Any, **named: Any) -> Any:
        from sqlalchemy.exc import SQLAlchemyError

        waits = iter(() if self.address.startswith("sqlite") else AWAY)
        while True:
            try:
                return method(self, *words, **named)
            except AccordError:
                raise
            except (SQLAlchemyError, self.optuna.exceptions.OptunaError, *DAMAGE) as error:
                seconds = next(waits, None) if _is_away(error) and not is_wrong(error) else None
                if seconds is None:
                    raise self._unusable(error) from error
            time.sleep(seconds)

    return asked  # pyright: ignore[reportReturnType]


@dataclass(frozen=True)
class Asked:
    """A trial this process is working on."""

    trial_id: int
    index: int
    settings: dict[str, Any]


class Trials:
    """Asks for trials, keeps them alive and reports their results."""

    def __init__(
        self,
        storage: str,
        name: str,
        space: Space,
        sampler: str,
        trials: int,
        seed: int,
        identity: str,
        default_first: bool = False,
    ) -> None:
        """With ``default_first`` one trial more comes before all others: of no settings, the default ones."""
        optuna = needed("optuna", "A search for settings")
        if sampler not in SAMPLERS:
            raise SettingError(f"Unknown sampler '{sampler}': choose from {', '.join(SAMPLERS)}.")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)  # heartbeats
        self.optuna, self.space, self.seed, self.address = optuna, space, seed, storage
        self.default_first = default_first
        self.plan = None if sampler == "tpe" else [*[{}] * default_first, *plan(space, sampler, trials, seed)]
        self.count = trials + default_first if self.plan is None else len(self.plan)
        self.process = _name_process(os.getpid())
        self._own, self._seen = set[int](), set[int]()
        """Trials this process is working on, and those it has seen running."""
        self.study = self._open(storage, name)
        if self._known_identity(identity) != identity:
            raise SettingError(
                "This search was begun with other data, settings, space or seeds; choose another folder for it."
            )

    def _open(self, storage: str, name: str) -> Any:
        options = {} if storage.startswith("sqlite") else {"pool_pre_ping": True}
        for tries_left in reversed(range(OPENING_TRIES)):
            try:
                self._storage = self.optuna.storages.RDBStorage(
                    storage.replace("{", "{{").replace("}", "}}"),  # Optuna takes braces for its own
                    engine_kwargs=options,  # a server that was started again is found again
                    heartbeat_interval=HEARTBEAT,
                    grace_period=GRACE,
                )
                return self.optuna.create_study(
                    storage=self._storage, study_name=name, direction="maximize", load_if_exists=True
                )
            except ImportError as error:  # the driver of the database
                driver = getattr(error.__cause__ or error, "name", None) or "its driver"
                raise missing(driver, f"The storage '{without_secrets(storage)}'") from error
            except Exception as error:  # a driver may raise anything
                if tries_left and not is_wrong(
                    error
                ):  # perhaps another process is making the tables at this moment
                    time.sleep(0.5)
                    continue
                raise self._unusable(error) from error
        raise AssertionError("unreachable")

    @_of_storage
    def _known_identity(self, identity: str) -> Any:
        """That of the search in the database; this one's where there was none."""
        known = self.study.user_attrs.get("identity")
        if known is None:
            self.study.set_user_attr("identity", identity)
        return known or identity

    def _unusable(self, error: BaseException) -> DataError:
        """An error of the database, in one sentence that repeats no password."""
        shown, reason = without_secrets(self.address), hide_secrets(first_line(error), self.address)
        advice = "the same command resumes the search once it can be"
        if self.address.startswith("sqlite"):
            advice = "remove it, and the same command begins the search anew"
        elif is_wrong(error):
            advice = "correct the address"
        return DataError(f"The storage '{shown}' cannot be used: {reason}; {advice}.")

    # -- asking ----------------------------------------------------------------------------------------

    @_of_storage
    def ask(self, most: int) -> list[Asked]:
        """Up to ``most`` trials to work on; none when all are done or worked on."""
        asked: list[Asked] = []
        while len(asked) < most and (left := self.left()):
            one = self._ask(left[0])
            if one is not None:
                asked.append(one)
        return asked

    @_of_storage
    def left(self) -> list[int]:
        """Indices of the plan that are neither done nor worked on."""
        self._fail_dead()
        taken = {t.user_attrs[INDEX] for t in self._taken()}
        return [k for k in range(self.count) if k not in taken]

    def _ask(self, index: int) -> Asked | None:
        """The trial of an index; None where another process was quicker."""
        optuna, settings = self.optuna, {} if self.plan is None else self.plan[index]
        template = optuna.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=settings,
            distributions={n: optuna.distributions.CategoricalDistribution(self.space[n]) for n in settings},
            user_attrs={INDEX: index, PROCESS: self.process},
        )
        trial_id = self._storage.create_new_trial(self.study._study_id, template)
        self._own.add(trial_id)
        first = min((t._trial_id for t in self._taken() if t.user_attrs[INDEX] == index), default=None)
        if first == trial_id:
            with suppress(optuna.exceptions.UpdateFinishedTrialError):
                drawn = self.plan is None and not (self.default_first and index == 0)
                return Asked(trial_id, index, self._suggest(trial_id, index) if drawn else settings)
        self._finish(trial_id, "FAIL")  # an earlier one has it, or others have taken this process for dead
        return None

    def _suggest(self, trial_id: int, index: int) -> dict[str, Any]:
        """The draws depend on the seed, the index and the trials before it, not on the process that asks."""
        seed = derive(self.seed, "trial", str(index)) % 2**32
        self.study.sampler = self.optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        trial = self.optuna.trial.Trial(self.study, trial_id)
        return {name: trial.suggest_categorical(name, values) for name, values in self.space.items()}

    def _taken(self) -> list[Any]:
        """Trials that are done or being worked on; one that cannot be trained is done."""
        state = self.optuna.trial.TrialState
        return [
            t
            for t in self.study.get_trials(deepcopy=False)
            if INDEX in t.user_attrs and (t.state in (state.COMPLETE, state.RUNNING) or REASON in t.user_attrs)
        ]

    # -- heartbeats ------------------------------------------------------------------------------------

    @contextmanager
    def heartbeats(self) -> Iterator[None]:
        """Trials of this process are alive in here, however long a training says nothing."""
        stop = Event()

        def beat() -> None:
            while not stop.wait(HEARTBEAT):
                for trial_id in tuple(self._own):
                    with suppress(Exception):  # a database that is busy or away for a moment
                        self._storage.record_heartbeat(trial_id)

        thread = Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _fail_dead(self) -> None:
        """Optuna fails those whose heartbeat has stopped.

        Those of this machine need not wait for that: a search that is killed and started again begins with the
        trials it was at, as one stack, and resumes from their checkpoint. Optuna never fails a trial without any
        heartbeat, as of a process killed too early to send one: the first process that sees it sends one for it.
        """
        for t in self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,)):
            if _has_ended(t.user_attrs.get(PROCESS, ""), self.process):
                self._finish(t._trial_id, "FAIL")
            elif t._trial_id not in self._seen:
                self._seen.add(t._trial_id)
                self._storage.record_heartbeat(t._trial_id)
        self.optuna.storages.fail_stale_trials(self.study)

    # -- results ---------------------------------------------------------------------------------------

    @_of_storage
    def report(self, one: Asked, values: Sequence[float], seconds: float) -> None:
        """A trial is done."""
        self._finish(one.trial_id, "COMPLETE", sum(values) / len(values), values=list(values), seconds=seconds)

    @_of_storage
    def report_failure(self, one: Asked, reason: str) -> None:
        """Settings that cannot be trained, such as ones that diverge, are not tried again."""
        self._finish(one.trial_id, "FAIL", reason=reason)

    def _finish(self, trial_id: int, state: str, value: float | None = None, **attributes: Any) -> None:
        """Nothing is changed where others have finished it, who took its process for dead: it is tried again."""
        with suppress(self.optuna.exceptions.UpdateFinishedTrialError):
            for name, what in attributes.items():
                self._storage.set_trial_user_attr(trial_id, name, what)
            values = None if value is None else [value]
            self._storage.set_trial_state_values(trial_id, self.optuna.trial.TrialState[state], values)
        self._own.discard(trial_id)

    @_of_storage
    def finished(self) -> list[dict[str, Any]]:
        """Settings and results of every finished trial, by plan index."""
        state = self.optuna.trial.TrialState
        rows = [
            {
                "trial": t.user_attrs.get(INDEX, t.number),
                "settings": dict(t.params),
                "value": t.value,
                "values": t.user_attrs.get("values", []),
                "seconds": t.user_attrs.get("seconds", 0.0),
            }
            for t in self.study.get_trials(deepcopy=False, states=(state.COMPLETE,))
        ]
        return sorted(rows, key=lambda row: row["trial"])

    @_of_storage
    def first_reason(self) -> str:
        """Why the first of those that failed could not be trained."""
        failed = [t.user_attrs for t in self.study.get_trials(deepcopy=False) if REASON in t.user_attrs]
        return str(min(failed, key=lambda one: one.get(INDEX, 0))[REASON]) if failed else "none was begun."

    @_of_storage
    def complete(self) -> bool:
        """Whether every trial of the plan is done."""
        taken = self._taken()
        running = any(t.state == self.optuna.trial.TrialState.RUNNING for t in taken)
        return not running and len({t.user_attrs[INDEX] for t in taken}) >= self.count

    def close(self) -> None:
        """Let go of the database. Trials that are not done, as work was interrupted, can be asked for again."""
        with suppress(Exception):  # of a database that is gone: its trials fail when their heartbeat has stopped
            for trial_id in tuple(self._own):
                self._finish(trial_id, "FAIL")
        with suppress(Exception):
            self._storage.remove_session()
        self._storage.engine.dispose()


def _name_process(pid: int | str) -> str:
    """The machine (or container), the process and when it began; empty where it is gone, and off Linux."""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        container = os.stat("/proc/self/ns/pid").st_ino
        began = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""
    return f"{machine}-{container}:{pid}:{began}"


def _has_ended(process: str, own: str) -> bool:
    """Whether a process of this machine is gone; of other machines heartbeats tell."""
    here, there = own.split(":"), process.split(":")
    return len(there) == 3 and there[0] == here[0] and _name_process(there[1]) != process
