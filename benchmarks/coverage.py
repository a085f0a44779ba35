"""How often a 95 % interval for the difference of two methods holds the true difference, by simulation.

    python benchmarks/coverage.py

prints the share of intervals, per cent, that hold it. Every cell of the table is of many made comparisons of two
methods of known difference. A user's metric is like NDCG: zero for most users, one of twenty values for the others
(log 2 / log(1 + rank)). Who has a hit is the same for all seeds, in part (--same). Each training of a method has
luck of its own, the effect of the seed: its part of the variance of the difference is --effects times as large as
all else.

The ways: `accord` is accord.evaluation.difference, `unpaired` the same with paired=False. The others are what it is
better than: `satterthwaite` has all components as they are estimated, `plain` is the crossed bootstrap over seeds
and users as it is (its variance has a closed form), `users` is over users alone, and `seeds` is Welch's over seeds
alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from accord.evaluation import significance
from accord.evaluation.significance import difference, over_seeds

HITS, SAME, TASTE = 0.35, 0.6, 0.5
"""Share of users with a hit; how much of who has one is the same for all seeds, and of that for both methods."""
VALUES = np.log(2) / np.log(1 + np.arange(1, 21))
GAIN = 0.02
"""The share of users with a hit that one of the methods has more."""
Interval = tuple[float, float]


def thresholds(hits: float) -> float:
    return float(norm.ppf(hits))


def sample(rng: np.random.Generator, seeds: int, users: int, effect: float, same: float = SAME) -> list[np.ndarray]:
    """Metrics of two methods, seeds × users, of which the first has a hit for GAIN more of the users.

    A user has a hit where a normal number is below a threshold. It is made of the user's part, of the user's with
    this method, and of the user's with this training. The seed's luck is a factor of all values, with mean one.
    """
    both = rng.normal(size=users)
    made = []
    for hits in (HITS + GAIN, HITS):
        own = np.sqrt(TASTE) * both + np.sqrt(1 - TASTE) * rng.normal(size=users)
        chance = np.sqrt(same) * own + np.sqrt(1 - same) * rng.normal(size=(seeds, users))
        value = rng.choice(VALUES, (seeds, users))
        luck = 1 + effect * rng.normal(size=(seeds, 1))
        made.append(luck * np.where(chance < thresholds(hits), value, 0.0))
    return made


TRUTH = GAIN * float(VALUES.mean())


def effect_of(times: float, users: int, seeds: int, same: float = SAME) -> float:
    """The luck whose part of the variance is ``times`` as large as all else; measured once, without luck."""
    rng = np.random.default_rng(7)
    ours, theirs = sample(rng, seeds, 200_000, 0.0, same)
    noise = float((ours - theirs).mean(0).var()) / users
    level = HITS * float(VALUES.mean())
    return float(np.sqrt(times * noise * seeds / 2)) / level


def plain(ours: np.ndarray, theirs: np.ndarray) -> Interval:
    """Of all resamples of the rows and of the columns: their standard deviation, which has a closed form."""
    gain = ours - theirs
    parts = significance._parts([gain], gain.mean(0))
    seeds, users = gain.shape
    few, many = 1 - 1 / seeds, 1 - 1 / users
    reach = 1.96 * np.sqrt(few * parts.seeds + many * parts.users + few * many * parts.both)
    return gain.mean() - reach, gain.mean() + reach


def satterthwaite(ours: np.ndarray, theirs: np.ndarray) -> Interval:
    gain = ours - theirs
    parts = significance._parts([gain], gain.mean(0))
    variance = max(parts.seeds + parts.users - parts.both, parts.users)
    squares = parts.seeds**2 / parts.seeds_freedom + parts.users**2 / parts.users_freedom
    reach = student.ppf(0.975, variance**2 / squares) * np.sqrt(variance)
    return gain.mean() - reach, gain.mean() + reach


def users_alone(ours: np.ndarray, theirs: np.ndarray) -> Interval:
    return difference(ours.mean(0), theirs.mean(0))[1:3]


def seeds_alone(ours: np.ndarray, theirs: np.ndarray) -> Interval:
    one, other = ({"mean": float(x.mean()), "std": float(x.mean(1).std(ddof=1))} for x in (ours, theirs))
    found = over_seeds(one, other, len(ours))
    assert found is not None
    return found.low, found.high


WAYS: dict[str, Callable[[np.ndarray, np.ndarray], Interval]] = {
    "accord": lambda ours, theirs: difference(ours, theirs)[1:3],
    "unpaired": lambda ours, theirs: difference(ours, theirs, paired=False)[1:3],
    "satterthwaite": satterthwaite,
    "plain": plain,
    "users": users_alone,
    "seeds": seeds_alone,
}


def coverage(
    seeds: int, users: int, times: float, repeats: int, ways: Sequence[str], same: float = SAME, seed: int = 0
) -> dict[str, float]:
    """The share of intervals that hold the true difference, by way."""
    rng = np.random.default_rng([seed, seeds, users])
    effect = effect_of(times, users, seeds, same)
    held = dict.fromkeys(ways, 0)
    for _ in range(repeats):
        ours, theirs = sample(rng, seeds, users, effect, same)
        for name in ways:
            low, high = WAYS[name](ours, theirs)
            held[name] += low <= TRUTH <= high
    return {name: count / repeats for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--users", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.0, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--same", type=float, nargs="+", default=[SAME, 0.2], help="of who is hit, over seeds")
    parser.add_argument("--repeats", type=int, default=2000)
    asked = parser.parse_args()
    print("| seeds | users | same | seed effect | " + " | ".join(WAYS) + " |")
    print("|" + "---|" * (4 + len(WAYS)))
    for seeds in asked.seeds:
        for users in asked.users:
            for same in asked.same:
                for times in asked.effects:
                    found = coverage(seeds, users, times, asked.repeats, list(WAYS), same)
                    cells = " | ".join(f"{100 * found[name]:.1f}" for name in WAYS)
                    print(f"| {seeds} | {users} | {same:g} | {times:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
