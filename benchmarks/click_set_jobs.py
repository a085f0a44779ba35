"""Seven click sets × methods: which rows there are, and the jobs that make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.experiments.spaces import FIRST_ROUND, SECOND_ROUND, plan, second_round, size
from accord.methods import METHODS
from accord.models import space_of
from job_pool import Job

SETS = ("movielens-100k", "modcloth", "epinions", "amazon-music", "kuairand", "adressa", "kuairec")
"""In the order of proof."""
NOT_COUNTED = ("kuairec",)
"""What learns from all clicks is below chance there: `benchmarks/first_look.py`."""
MODELS = ("gmf", "neumf", "cdae", "lightgcn")
METHODS_OF = ("normal", "ensemble", "t-ce", "deca-p")
ORACLE, STUDENT = "oracle", "council"
SOLVED = ("ease", "ials", "rp3beta")
DRAWN = ("ials",)
"""Of those, what begins with random numbers; the others are the same for every seed."""
PATIENCE, VALID_USERS = 30, 2000
SMALL = ("movielens-100k", "modcloth", "amazon-music")
EPOCHS, BATCH = (100, 60), (2048, 8192)
"""On small sets, and on the others: an epoch has some 40 steps on each, so that none is trained shorter."""
QUICK = {
    "movielens-100k": ("gmf", "cdae"),
    "amazon-music": ("gmf", "cdae", "lightgcn"),
    "modcloth": ("gmf", "cdae"),
}
"""Whose rows a core makes as well, where there is a GPU."""
COUNCILS = ("movielens-100k", "amazon-music")
"""Whose councils the cores convene, where there is a GPU."""
SHORT = ("movielens-100k", "amazon-music", "modcloth", "kuairec")
"""Whose solved models are left to the cores."""
EPOCH = {
    "movielens-100k": (0.05, 1.4, 0.06, 0.3),
    "modcloth": (0.15, 0.8, 0.15, 0.8),
    "epinions": (0.3, 11.0, 0.4, 1.9),
    "amazon-music": (0.05, 0.8, 0.06, 0.12),
    "kuairand": (0.2, 3.5, 0.2, 0.8),
    "adressa": (0.6, 7.0, 0.8, 4.0),
    "kuairec": (0.1, 3.0, 0.1, 0.4),
}
"""Roughly, CPU seconds of a normal epoch of each model on one core, with its validation."""
ON_GPU = (0.15, 0.02, 0.15, 0.04)
"""Roughly, how much of these a GPU takes for a run of a stack."""
UNITS = {"normal": 1.0, "ensemble": 2.0, "t-ce": 1.1, "deca-p": 2.6, ORACLE: 0.7, STUDENT: 1.5}
"""Trainings' length, in normal ones."""


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    data: Path
    sets: tuple[str, ...] = SETS
    stages: tuple[str, ...] = ("defaults", "tuned")
    models: tuple[str, ...] = MODELS
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    trials: int = 12
    gpu: bool = False
    tiny: bool = False

    def epochs(self, name: str) -> int:
        return 2 if self.tiny else EPOCHS[name not in SMALL]


def jobs_of(asked: Asked) -> list[Job]:
    """First every row with default settings, then searches and tuned rows; sets in the order of proof."""
    jobs: list[Job] = []
    for k, name in enumerate(SETS):
        if name not in asked.sets:
            continue
        if "defaults" in asked.stages:
            jobs += _defaults(asked, name, k)
        if "tuned" in asked.stages:
            jobs += _tuned(asked, name, len(SETS) + k)
    return sorted(jobs, key=lambda job: job.rank)


def _defaults(asked: Asked, name: str, rank: int) -> Iterator[Job]:
    for model in asked.models:
        seconds = sum(UNITS[m] for m in (*METHODS_OF, ORACLE)) * len(asked.seeds) * _run(asked, name, model)
        yield _job(asked, name, f"{model} defaults", "defaults", rank, seconds, model=model)
    for model in ("popularity", *SOLVED):
        yield _job(asked, name, f"{model} defaults", "solved", rank, 40.0, model=model)
    for seed in asked.seeds:
        yield _job(asked, name, f"{seed} council", "council", rank, _council(asked, name), leaves=True, seed=seed)


def _tuned(asked: Asked, name: str, rank: int) -> Iterator[Job]:
    for model in asked.models:
        each = sum(UNITS[m] * (asked.trials + len(asked.seeds)) for m in ("normal", "t-ce", "deca-p"))
        after = (f"{name} {model} defaults",)
        seconds = each * _run(asked, name, model)
        yield _job(asked, name, f"{model} search", "search", rank, seconds, after, model=model)
    for model in SOLVED:
        after = (f"{name} {model} defaults",)
        yield _job(asked, name, f"{model} search", "solved search", rank, 40.0 * asked.trials, after, model=model)
    searches = []
    for model in asked.models:
        after, seconds = (f"{name} 0 council",), asked.trials * UNITS[STUDENT] * _run(asked, name, model)
        searches.append(
            _job(
                asked, name, f"{model} student search", "student search", rank, seconds, after, model=model, seed=0
            )
        )
    yield from searches
    for seed in asked.seeds:
        after = (f"{name} {seed} council", *(job.name for job in searches))
        seconds = sum(UNITS[STUDENT] * _run(asked, name, model) for model in asked.models)
        yield _job(asked, name, f"{seed} students tuned", "students tuned", rank, seconds, after, seed=seed)


def _job(
    asked: Asked,
    name: str,
    row: str,
    work: str,
    rank: int,
    seconds: float,
    after: tuple[str, ...] = (),
    leaves: bool = False,
    **given: Any,
) -> Job:
    here = tuple(one for one in after if "defaults" in asked.stages or " search" in one)
    lanes = ("cpu",)
    if asked.gpu:
        model = given.get("model", "")
        quick = model in QUICK.get(name, ()) and work in ("defaults", "search")
        solved = work.startswith("solved") and (name in SHORT or model in ("popularity", "rp3beta"))
        convened = work == "council" and name in COUNCILS
        lanes = ("cpu",) if solved else ("cpu", "gpu") if quick or convened else ("gpu",)
    own = {"set": name, **given}
    return Job(f"{name} {row}", work, own, here, leaves, seconds, rank=rank, lanes=lanes)


def _run(asked: Asked, name: str, model: str) -> float:
    """Seconds of a normal training, by the epochs that it may have."""
    which = MODELS.index(model)
    return 0.7 * asked.epochs(name) * EPOCH[name][which] * (ON_GPU[which] if asked.gpu else 1.0)


def _council(asked: Asked, name: str) -> float:
    """Two members of each network that see all clicks and five that miss a fold, solved ones, and four students."""
    members = 7 * sum(_run(asked, name, model) for model in ("lightgcn", "cdae", "gmf") if model in MODELS)
    students = UNITS[STUDENT] * sum(_run(asked, name, model) for model in asked.models)
    return members + students + 60.0


# -- names of rows ---------------------------------------------------------------------------------------


def row_of(name: str, model: str, method: str, stage: str, seeds: Sequence[int]) -> str:
    """The cell of a row: all its seeds."""
    return f"{name} {model} {method} {stage} {seeds[0]}-{seeds[-1]}"


def trials_of(name: str, model: str, method: str, number: int) -> str:
    """The cell of a round of a search."""
    return f"{name} {model} {method} round {number}"


# -- what is searched ------------------------------------------------------------------------------------


def first_trials(trials: int) -> list[dict[str, Any]]:
    """Common settings. The default ones are a trial too: the row with default settings is it."""
    return plan(FIRST_ROUND, "random", min(size(FIRST_ROUND), max(1, trials // 2 - 1)), 0)


def second_trials(method: str, trials: int, best: dict[str, Any]) -> list[dict[str, Any]]:
    """A method's own settings, and further common ones where it has few, from the best common ones on."""
    left = max(1, trials - 1 - len(first_trials(trials)))
    space = second_round(METHODS.find(method).space_of("clicks"), SECOND_ROUND, left)
    return [{**best, **one} for one in plan(space, "random", left, 0)]


def solved_trials(model: str, trials: int) -> list[dict[str, Any]]:
    return plan(space_of(model), "random", max(1, trials - 1), 0)
