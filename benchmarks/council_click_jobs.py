"""What is measured of councils of recommenders: the jobs of every part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from accord.experiments.spaces import FIRST_ROUND, SECOND_ROUND, plan, size
from accord.methods import METHODS
from accord.methods.council import DEFAULT_MEMBERS
from accord.models import space_of
from council_click_logs import DATA, searched_before
from job_pool import Job

MODELS = ("gmf", "neumf", "cdae", "lightgcn")
SOLVED = ("ease", "ials", "rp3beta", "itemknn")
SLOW = ("lightgcn", "ials", "cdae")
"""Kinds that are fitted side by side, before their council is convened."""
CAUTIONS, CLICKED = (0.0, 1.0, 2.0, 8.0), (0.0, 1.0, 4.0)
"""Tried on the simulator, besides the default ones."""
N = 9
"""Members of one kind that a council of one kind has: as many as the default council."""
SECONDS = {"movielens": 130.0, "random": 150.0, "liked": 100.0, "simulator": 80.0, "modcloth": 300.0}
"""Roughly, of a council on one thread."""
ABLATION: dict[str, dict[str, Any]] = {
    **{f"{kind} x{N}": {"members": (kind,), "member_seeds": N} for kind in ("gmf", "lightgcn")},
    **{f"without {kind}": {"members": tuple(m for m in DEFAULT_MEMBERS if m != kind)} for kind in DEFAULT_MEMBERS},
    **{
        "+".join(kinds): {"members": kinds}
        for kinds in (
            ("ease", "rp3beta"),
            ("ease", "rp3beta", "ials"),
            ("gmf", "ease", "rp3beta"),
            ("gmf", "ease", "rp3beta", "ials"),
            ("cdae", "gmf", "ease", "rp3beta"),
            ("lightgcn", "ease"),
            ("lightgcn", "ease", "rp3beta"),
            ("lightgcn", "gmf", "ease", "rp3beta"),
        )
    },
    "with neumf": {"members": (*DEFAULT_MEMBERS, "neumf")},
    **{f"folds {folds}": {"folds": folds} for folds in (3, 0)},
    **{f"kappa {kappa:g}": {"kappa": kappa} for kappa in (0.0, 0.5, 1.0)},
    **{f"member_seeds {seeds}": {"member_seeds": seeds} for seeds in (1, 3)},
    "caution 0": {"caution": 0.0},
}
COST = {"default": {}} | {
    name: ABLATION[name] for name in ("folds 3", "folds 0", "ease+rp3beta", "ease+rp3beta+ials", "gmf+ease+rp3beta")
}


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    data: Path
    parts: tuple[str, ...]
    only: tuple[str, ...] = tuple(DATA)
    seeds: int | None = None
    trials: int = 36
    workers: int = 1
    tiny: bool = False
    device: str = "cpu"


# -- which jobs there are --------------------------------------------------------------------------------


def jobs_of(asked: Asked) -> list[Job]:
    """The jobs of the parts that were asked for; parts share what they have in common."""
    made: dict[str, Job] = {}
    for part in asked.parts:
        for job in PARTS[part](asked):
            made.setdefault(job.name, job)
    return list(made.values())


def _seeds(asked: Asked, usual: int) -> range:
    return range(usual if asked.seeds is None else asked.seeds)


def _council(log: str, seed: int, name: str = "default", base: bool = True, **more: Any) -> Job:
    """A council that is measured itself, and its student; ``base`` comes first, and leaves members for others."""
    given = {"log": log, "seed": seed, "settings": more.pop("settings", {}), **more}
    after = () if name == "default" or not base else (f"{log} {seed} council default",)
    if name == "default":
        after = tuple(f"{log} {seed} members {kind}" for kind in SLOW)
    seconds = SECONDS.get(log, 600.0) * (0.5 if name == "default" else 0.3)
    return Job(f"{log} {seed} council {name}", "council", given, after, name == "default", seconds)


def _base(log: str, seed: int) -> Iterator[Job]:
    """The default council, its slow members first."""
    for kind in SLOW:
        given = {"log": log, "seed": seed, "settings": {"members": (kind,)}, "students": {}}
        seconds = SECONDS.get(log, 600.0) * {"lightgcn": 0.6, "ials": 0.3, "cdae": 0.2}[kind]
        yield Job(f"{log} {seed} members {kind}", "council", given, (), True, seconds)
    yield _council(log, seed)


def _plain(log: str, seed: int, method: str, model: str = "gmf", name: str = "", **more: Any) -> Job:
    given = {"log": log, "seed": seed, "settings": {"model": model, "method": method} | more}
    return Job(f"{log} {seed} {name or method}", "train", given)


def _simulator(asked: Asked) -> Iterator[Job]:
    for seed in _seeds(asked, 10):
        yield from _base("simulator", seed)
        yield from (_plain("simulator", seed, method) for method in ("normal", "deca-p", "popularity"))
        for caution in CAUTIONS:
            yield _council("simulator", seed, f"caution {caution:g}", settings={"caution": caution}, students={})
        for clicked in CLICKED:
            yield _council("simulator", seed, f"clicked {clicked:g}", settings={"clicked": clicked}, students={})


def _noise(asked: Asked) -> Iterator[Job]:
    for log, seed in product(("random", "movielens"), _seeds(asked, 5)):
        yield from _base(log, seed)
        yield from (_plain(log, seed, method) for method in ("normal", "deca-p", "popularity"))
        yield _council(log, seed, "folds 0", settings={"folds": 0})
        for clicked in CLICKED:
            yield _council(log, seed, f"clicked {clicked:g}", settings={"clicked": clicked}, students={})


def _ablation(asked: Asked) -> Iterator[Job]:
    for seed in _seeds(asked, 2):
        yield from _base("movielens", seed)
        yield from (_council("movielens", seed, name, settings=own) for name, own in ABLATION.items())


def _clean(asked: Asked) -> Iterator[Job]:
    for seed in _seeds(asked, 5):
        yield from _base("liked", seed)
        yield _plain("liked", seed, "normal")
        yield _council("liked", seed, "caution 0", settings={"caution": 0.0})


def _cost(asked: Asked) -> Iterator[Job]:
    threads = sorted({1, asked.workers})
    for number, (name, own) in product(threads, COST.items()):
        if number == 1 or name == "default":
            given = {"log": "movielens", "seed": 0, "settings": {"method": "council"} | own, "threads": number}
            yield Job(f"cost {number} threads council {name}", "cost", given, alone=True, seconds=200)
    for model, method in (("gmf", "normal"), ("gmf", "deca-p"), ("lightgcn", "normal")):
        given = {"log": "movielens", "seed": 0, "settings": {"model": model, "method": method}, "threads": 1}
        yield Job(f"cost 1 threads {model} {method}", "cost", given, alone=True)


def _recommend(asked: Asked) -> Iterator[Job]:
    for data in asked.only:
        every = _seeds(asked, 5)
        for seed in every:
            yield from _base(data, seed)
            yield _plain(data, seed, "popularity")
        searches: dict[str, list[Job]] = {model: list(_solved_search(asked, data, model)) for model in SOLVED}
        searches |= {f"student {m}": list(_student_search(asked, data, m)) for m in MODELS}
        for jobs in searches.values():
            yield from jobs
        for model, seed in product(MODELS, every):
            for method in ("normal", "ensemble"):
                found = searched_before(data, model, method)
                yield _plain(data, seed, method, model, f"tuned {model} {method}", **found)
            trials = tuple(job.name for job in searches[f"student {model}"])
            given = {"log": data, "seed": seed, "settings": {}, "students": {model: {}}, "trials": trials}
            base = f"{data} {seed} council default"
            yield Job(f"{data} {seed} tuned {model} student", "council", given, (base, *trials), seconds=60)
        for model, seed in product(SOLVED, every):
            trials = tuple(job.name for job in searches[model])
            given = {"log": data, "seed": seed, "settings": {"model": model, "method": "normal"}, "trials": trials}
            yield Job(f"{data} {seed} tuned {model}", "train", given, trials)


def _solved_search(asked: Asked, data: str, model: str) -> Iterator[Job]:
    found = plan(space_of(model), "random", asked.trials, 0)
    yield from _searches(data, f"{model} trials", {"model": model, "method": "normal"}, found, 6, ())


def _student_search(asked: Asked, data: str, model: str) -> Iterator[Job]:
    """The two rounds of the fair study: common settings, then further ones with the method's own."""
    first = plan(FIRST_ROUND, "random", min(size(FIRST_ROUND), max(1, asked.trials // 3)), 0)
    further = METHODS.find("council").space_of("clicks") | SECOND_ROUND
    found = first + plan(further, "random", asked.trials - len(first), 0)
    base = (f"{data} 0 council default",)
    each = 6 if model == "gmf" else 3
    yield from _searches(data, f"{model} student trials", {"model": model, "method": "council"}, found, each, base)


def _students(asked: Asked) -> Iterator[Job]:
    for data, seed in product(asked.only, _seeds(asked, 5)):
        yield from _base(data, seed)
        given = {"log": data, "seed": seed, "settings": {}, "students": {model: {} for model in MODELS}}
        yield Job(f"{data} {seed} students", "council", given, (f"{data} {seed} council default",), seconds=150)
        for model, method in product(MODELS, ("normal", "ensemble")):
            found = searched_before(data, model, method)
            yield _plain(data, seed, method, model, f"tuned {model} {method}", **found)


def _searches(
    data: str, name: str, fixed: dict[str, Any], found: list[dict[str, Any]], each: int, after: tuple[str, ...]
) -> Iterator[Job]:
    for k in range(0, len(found), each):
        given = {"log": data, "seed": 0, "settings": fixed, "tried": found[k : k + each]}
        yield Job(f"{data} {name} {k}-{k + each - 1}", "trials", given, after, seconds=100)


PARTS = {
    "simulator": _simulator,
    "noise": _noise,
    "ablation": _ablation,
    "cost": _cost,
    "recommend": _recommend,
    "students": _students,
    "clean": _clean,
}
