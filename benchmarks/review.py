"""How many decisions a list of issues takes to be known, how often its intervals hold, what decisions are worth.

    python benchmarks/review.py [precision] [learning] [--repeats 200] [--slips 0.05] [--seeds 5] [--out FILE]

A made-up reviewer is right in 95 of 100 answers, on digits with 40 % wrong labels and on simulated clicks. What
this reviewer would say of each label is drawn once for every repeat; asked again, the answer is drawn anew.

- `precision`: the reviewer takes what is suggested, one label after the other. Decisions until the 90 % interval
  of the share of wrong ones among the flagged is within 5 points to either side; how often that interval holds,
  then and after 200 decisions, for what is truly wrong and for what this reviewer would decide.
- `learning`: the method is fitted again with 50, 200 and 1,000 decisions, on labels worst first, at random, or as
  they are suggested: accuracy on clean test digits, NDCG@20 of what users truly like.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord import Classifier, Recommender
from accord.data.noise import add_noise
from accord.data.simulator import SimulatorSettings, simulate
from accord.decisions.design import Design
from accord.decisions.estimates import Value, estimate
from accord.decisions.journal import Decision
from accord.decisions.suggesting import Suggesting
from accord.files import write_whole

BUDGETS = (50, 200, 1000)
MOST = 500
"""Decisions of a reviewer who is not yet sure."""
ORDERS = ("worst", "suggested", "random")


@dataclass
class World:
    """A fitted run, what is wrong of it, and how to fit it again."""

    name: str
    estimator: Any
    wrong: np.ndarray
    truth: np.ndarray | None
    """The true classes."""
    fit: Any
    """Fits anew, with decisions."""
    measure: Any
    """Against the clean truth."""

    @property
    def design(self) -> Design:
        return self.estimator._subject().design


def digits(seed: int) -> World:
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    train, test = order[:1297], order[1297:]
    X, truth = data.images[train], data.target[train]
    noisy = add_noise(truth, 10, 0.4, kind="uniform", seed=seed)

    def fit(decisions: Any = None) -> Classifier:
        return Classifier(seed=seed).fit(X, noisy.labels, decisions=decisions, verbose=False)

    def measure(clf: Classifier) -> float:
        return float((clf.predict(data.images[test]) == data.target[test]).mean())

    return World("digits, 40 % wrong", fit(), np.asarray(noisy.is_noise), truth, fit, measure)


def clicks(seed: int) -> World:
    made = simulate(SimulatorSettings(users=800, items=500, interactions=20_000, seed=seed))
    log, known, truth = made.log(), made.clicks(), made.truth()

    def fit(decisions: Any = None) -> Recommender:
        # With a patience of 10 epochs DeCA(p) stops on a plateau in many of the runs, whatever was decided.
        return Recommender(seed=seed, patience=30).fit(log, decisions=decisions, verbose=False)

    def measure(rec: Recommender) -> float:
        return rec.evaluate(truth, k=[20])["ndcg@20"]

    rec = fit()
    noise = {(r["user"], r["item"]): r["is_noise"] for r in known.to_pylist()}
    subject = rec._subject()
    pairs = zip(subject.columns["user"].to_pylist(), subject.columns["item"].to_pylist(), strict=True)
    wrong = np.array([bool(noise.get(pair, False)) for pair in pairs])
    return World("simulated clicks", rec, wrong, None, fit, measure)


WORLDS = {"digits": digits, "clicks": clicks}


def says(world: World, item: int, answer: bool, why: str, number: int) -> Decision:
    """A label taken for wrong is given its true class, where it has one; a slip gives another one."""
    if not answer:
        return Decision(item, "keep", None, "reviewer", "", why, number)
    if world.truth is None:
        return Decision(item, "drop", None, "reviewer", "", why, number)
    given = world.estimator.labels_[item]
    label = int(world.truth[item]) if world.wrong[item] else int((given + 1) % 10)
    return Decision(item, "fix", label, "reviewer", "", why, number)


def walk(world: World, design: Design, count: int, slips: float, rng: np.random.Generator) -> Any:
    """Decisions as they are suggested, one after the other; gives what was decided after each."""
    would = world.wrong ^ (rng.random(len(world.wrong)) < slips)
    done: list[Decision] = []
    while len(done) < count:
        for item, why in Suggesting(design, done).next(min(10, count - len(done))):
            answer = bool(world.wrong[item] ^ (rng.random() < slips)) if why == "again" else bool(would[item])
            done.append(says(world, item, answer, why, len(done)))
            yield done, would


def precision(name: str, repeats: int, slips: float) -> dict[str, Any]:
    world = WORLDS[name](0)
    flagged = world.design.flagged
    truth = float(world.wrong[flagged].mean())
    needed, held = [], {key: list[bool]() for key in ("would", "truly", "would at 200", "truly at 200", "below")}
    for repeat in range(repeats):
        rng = np.random.default_rng([7, repeat])
        # Another draw of which labels come up at random, as another run would have.
        own = Design.of(world.design.quality, flagged, world.design.given, names=str(repeat).encode())
        reached = None
        for done, would in walk(world, own, MOST, slips, rng):
            at_end = len(done) == 200
            if len(done) > 200 and reached is not None:
                break
            if not at_end and (reached is not None or len(done) % 5):
                continue
            found = estimate(own, done)
            exact = float(would[flagged].mean())
            known = found.would.precision
            if reached is None and known is not None and known.half_width <= 0.05:
                reached = len(done)
                held["would"].append(holds(known, exact))
                if found.truly is not None:
                    held["truly"].append(holds(found.truly.precision, truth))
            if at_end:
                held["would at 200"].append(holds(known, exact))
                if found.truly is not None:
                    held["truly at 200"].append(holds(found.truly.precision, truth))
                    held["below"].append(holds(found.truly.below, float(world.wrong[~flagged].sum())))
        needed.append(MOST if reached is None else reached)
    return {
        "world": world.name,
        "flagged": int(flagged.sum()),
        "labels": len(flagged),
        "truly wrong of the flagged": round(truth, 4),
        "wrong among the others": int(world.wrong[~flagged].sum()),
        "decisions until within 5 points: median": float(np.median(needed)),
        "90 % of repeats": float(np.quantile(needed, 0.9)),
        f"not within {MOST}": int(sum(n >= MOST for n in needed)),
        "interval holds": {key: (round(float(np.mean(own)), 3), len(own)) for key, own in held.items() if own},
    }


def holds(value: Value | None, exact: float) -> bool:
    return value is not None and value.low - 1e-9 <= exact <= value.high + 1e-9


def learning(name: str, seeds: int, slips: float) -> list[dict[str, Any]]:
    rows = []
    for seed in range(seeds):
        world = WORLDS[name](seed)
        base = world.measure(world.estimator)
        rows.append({"world": world.name, "seed": seed, "order": "none", "decisions": 0, "value": base})
        rng = np.random.default_rng([11, seed])
        would = world.wrong ^ (rng.random(len(world.wrong)) < slips)
        design = world.design
        every = {"worst": design.asked, "random": rng.permutation(design.asked)}
        for order in ORDERS:
            if order == "suggested":
                *_, (done, _) = walk(world, design, BUDGETS[-1], slips, rng)
            else:
                done = [says(world, int(i), bool(would[i]), "chosen", k) for k, i in enumerate(every[order])]
            for budget in BUDGETS:
                world.estimator.decisions_ = done[:budget]
                value = world.measure(world.fit(world.estimator.decisions()))
                rows.append(
                    {"world": world.name, "seed": seed, "order": order, "decisions": budget, "value": value}
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=["precision", "learning", []], default=["precision", "learning"]
    )
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--slips", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    for name in asked.worlds:
        if "precision" in asked.parts:
            found[f"{name} precision"] = precision(name, asked.repeats, asked.slips)
            print(json.dumps(found[f"{name} precision"], indent=1), flush=True)
        if "learning" in asked.parts:
            rows = found[f"{name} learning"] = learning(name, asked.seeds, asked.slips)
            for order in ("none", *ORDERS):
                for budget in (0, *BUDGETS):
                    own = [row["value"] for row in rows if (row["order"], row["decisions"]) == (order, budget)]
                    if own:
                        spread = np.std(own, ddof=1) if len(own) > 1 else 0.0
                        print(f"{name} {order} {budget}: {np.mean(own):.4f} ± {spread:.4f}", flush=True)
    if asked.out is not None:
        write_whole(asked.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
