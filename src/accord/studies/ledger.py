"""The record of a search: an Optuna study that survives kills and is shared by processes and machines.

A trial belongs to the process that asked for it. Grid and random searches are plans made beforehand: a process
takes the first place of the plan that nobody holds, writes its claim down, and looks again, once all earlier
trials have said which place they take; where two took one, the earlier trial keeps it. A trial whose process is
gone is given up, and its place is free again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.errors import DataError, SettingError, first_line
from accord.studies.spaces import Space, plan
from accord.training import derive

SAMPLERS = ("random", "grid", "tpe")
GRACE = 120.0
"""Seconds without a sign of life after which a trial on another machine is given up."""
MOMENT = 20.0
"""Seconds after which one is given up that was asked for by a process that has not said who it is."""
OPENING_TRIES = 4
LOOK_SECONDS = 0.05
"""Between two looks at what another process is about to write."""
PLACE, OWNER, ALIVE, REASON = "place", "owner", "alive", "reason"


@dataclass
class Held:
    """A trial this process is working on."""

    trial: Any
    settings: dict[str, Any]
    last_sign: float = 0.0


class Ledger:
    """Claims trials, keeps them alive and writes down their results."""

    def __init__(
        self, storage: str, name: str, space: Space, sampler: str, trials: int, seed: int, identity: str
    ) -> None:
        import optuna

        if sampler not in SAMPLERS:
            raise SettingError(f"Unknown sampler '{sampler}': choose from {', '.join(SAMPLERS)}.")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna, self.space, self.seed = optuna, space, seed
        self.plan = None if sampler == "tpe" else plan(space, sampler, trials, seed)
        self.trials = trials if self.plan is None else len(self.plan)
        self._places: dict[int, int] = {}
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_born(os.getpid())}"
        self.study = self._open(storage, name)
        self._check(identity)

    def _open(self, storage: str, name: str) -> Any:
        for tries_left in reversed(range(OPENING_TRIES)):
            try:
                return self._try_to_open(storage, name)
            except Exception as error:  # drivers raise what they like
                if tries_left:  # perhaps another process is making the tables at this moment
                    time.sleep(0.5)
                    continue
                words = f"The storage '{_without_password(storage)}' cannot be used: {first_line(error)}."
                raise DataError(words) from error
        raise AssertionError("unreachable")

    def _try_to_open(self, storage: str, name: str) -> Any:
        optuna = self.optuna
        self._storage = optuna.storages.RDBStorage(storage)
        return optuna.create_study(
            storage=self._storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            sampler=self._make_sampler(),
        )

    def _make_sampler(self) -> Any:
        if self.plan is None:
            return self._tpe(0)
        return _planned(self.optuna, self)

    def _tpe(self, place: int) -> Any:
        """A trial's draws depend on the seed, its place and the trials before it, not on the process that asks."""
        own = derive(self.seed, "trial", str(place)) % 2**32
        return self.optuna.samplers.TPESampler(seed=own, constant_liar=True)

    def _check(self, identity: str) -> None:
        known = self.study.user_attrs.get("identity")
        if known is None:
            self.study.set_user_attr("identity", identity)
        elif known != identity:
            raise SettingError(
                "This search was begun with other data, settings, space or seeds; choose another --out."
            )

    # -- claiming --------------------------------------------------------------------------------------

    def claim(self, count: int) -> list[Held]:
        """Up to ``count`` trials to work on; none when nothing is left that nobody holds."""
        self._give_up_the_dead()
        held: list[Held] = []
        while len(held) < count:
            one = self._claim_one()
            if one is None:
                break
            held.append(one)
        return held

    def _claim_one(self) -> Held | None:
        while True:
            place = self._free_place()
            if place is None:
                return None
            trial = self.study.ask()
            try:
                trial.set_user_attr(OWNER, self.owner)
                trial.set_user_attr(ALIVE, time.time())
                trial.set_user_attr(PLACE, place)
                is_mine = self._is_mine(trial.number, place)
            except self.optuna.exceptions.UpdateFinishedTrialError:  # given up by others: we were too slow
                continue
            except BaseException:  # whoever goes on in this process must not wait for it
                self._tell_failed(trial)
                raise
            if is_mine:
                self._places[trial.number] = place
                if self.plan is None:
                    self.study.sampler = self._tpe(place)
                settings = {n: trial.suggest_categorical(n, values) for n, values in self.space.items()}
                return Held(trial, settings, time.time())
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def free_places(self) -> list[int]:
        """Places of the search that nobody is at."""
        self._give_up_the_dead()
        return self._left()

    def _left(self) -> list[int]:
        taken = {t.user_attrs.get(PLACE) for t in self._standing()}
        return [k for k in range(self.trials) if k not in taken]

    def _free_place(self) -> int | None:
        return next(iter(self._left()), None)

    def _is_mine(self, number: int, place: int) -> bool:
        """No earlier trial holds the place, nor is about to: of two that took it at once, both see this alike."""
        while True:
            earlier = [t.user_attrs.get(PLACE) for t in self._standing() if t.number < number]
            if place in earlier:
                return False
            if None not in earlier:
                return True
            time.sleep(LOOK_SECONDS)  # one that was asked for before has not said yet which place it takes
            self._give_up_the_dead()

    def _standing(self) -> list[Any]:
        """Trials that are done or being worked on; those that failed for good count as done."""
        state = self.optuna.trial.TrialState
        return [
            t
            for t in self.study.get_trials(deepcopy=False)
            if t.state in (state.COMPLETE, state.RUNNING) or (t.state == state.FAIL and REASON in t.user_attrs)
        ]

    def _give_up_the_dead(self) -> None:
        state = self.optuna.trial.TrialState
        for t in self.study.get_trials(deepcopy=False, states=(state.RUNNING,)):
            if not _lives(t.user_attrs.get(OWNER), t.user_attrs.get(ALIVE), self.owner, t.datetime_start):
                try:
                    self.study.tell(t.number, state=state.FAIL)
                except ValueError:
                    continue  # another process was quicker

    # -- results ---------------------------------------------------------------------------------------

    def sign(self, held: Held) -> None:
        """A sign of life, a few times a minute."""
        if time.time() - held.last_sign > GRACE / 8:
            held.last_sign = time.time()
            held.trial.set_user_attr(ALIVE, held.last_sign)

    def done(self, held: Held, values: Sequence[float], seconds: float) -> None:
        held.trial.set_user_attr("values", list(values))
        held.trial.set_user_attr("seconds", seconds)
        self.study.tell(held.trial, sum(values) / len(values))

    def failed(self, held: Held, reason: str) -> None:
        """A setting that cannot be trained, such as one that diverges, is not tried again."""
        held.trial.set_user_attr(REASON, reason)
        self.study.tell(held.trial, state=self.optuna.trial.TrialState.FAIL)

    def give_up(self, held: Sequence[Held]) -> None:
        """Work on these was broken off: their places are free again."""
        for one in held:
            self._tell_failed(one.trial)

    def _tell_failed(self, trial: Any) -> None:
        with suppress(ValueError, RuntimeError):  # it was done before
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def finished(self) -> list[dict[str, Any]]:
        """Settings and results of every finished trial, by place."""
        state = self.optuna.trial.TrialState
        rows = [
            {
                "trial": t.user_attrs.get(PLACE, t.number),
                "settings": dict(t.params),
                "value": t.value,
                "values": t.user_attrs.get("values", []),
                "seconds": t.user_attrs.get("seconds", 0.0),
            }
            for t in self.study.get_trials(deepcopy=False, states=(state.COMPLETE,))
        ]
        return sorted(rows, key=lambda row: row["trial"])

    def first_reason(self) -> str:
        """Why the first of those that failed could not be trained."""
        told = [t.user_attrs for t in self.study.get_trials(deepcopy=False) if REASON in t.user_attrs]
        return str(min(told, key=lambda one: one.get(PLACE, 0))[REASON]) if told else "none was begun."

    def close(self) -> None:
        """Let go of the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def complete(self) -> bool:
        """Whether every place is done; a trial whose process died before it took a place is not waited for."""
        state = self.optuna.trial.TrialState
        standing = [t for t in self._standing() if PLACE in t.user_attrs]
        places = {t.user_attrs[PLACE] for t in standing}
        return len(places) >= self.trials and all(t.state != state.RUNNING for t in standing)


def _planned(optuna: Any, ledger: Ledger) -> Any:
    """A sampler that reads the plan: a trial's settings depend on its place alone."""

    class Planned(optuna.samplers.BaseSampler):
        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            return {}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return ledger.plan[ledger._places[trial.number]][param_name]  # pyright: ignore[reportOptionalSubscript]

    return Planned()


def _born(pid: int) -> str:
    """When a process began, so that a number used again is not taken for it; empty where that is not told."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def _lives(owner: Any, alive: Any, own: str, started: Any) -> bool:
    if owner is None:  # asked for, and its process has not said who it is: give it a moment
        return started is not None and time.time() - started.timestamp() < MOMENT
    host, pid, born = str(owner).split(":")
    if host == own.split(":")[0]:
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not born or _born(int(pid)) == born
    return alive is not None and time.time() - float(alive) < GRACE


def _without_password(storage: str) -> str:
    head, at, tail = storage.rpartition("@")
    return f"{head.split('://')[0]}://…@{tail}" if at else storage
