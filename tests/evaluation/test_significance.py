"""Intervals against every resample of tiny tables, closed forms, simulated coverage, and Holm's correction."""

from __future__ import annotations

import importlib.util
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_ind, ttest_rel

from accord.errors import AccordError
from accord.evaluation import Difference, difference
from accord.evaluation.significance import REMOVED, WEIGHT, holm, holm_by_family, over_seeds

# -- over seeds and users ---------------------------------------------------------------------------------


def of_every_resample(table: np.ndarray, rows: bool, columns: bool) -> float:
    """The variance of the mean over all resamples of the rows, of the columns, or of both by themselves."""
    seeds, users = (range(n) for n in table.shape)
    of_rows = itertools.product(seeds, repeat=len(seeds)) if rows else [tuple(seeds)]
    of_columns = list(itertools.product(users, repeat=len(users)) if columns else [tuple(users)])
    return float(np.var([table[list(r)][:, list(c)].mean() for r in of_rows for c in of_columns]))


def interval_of_every_resample(table: np.ndarray) -> tuple[float, float]:
    """The corrected crossed bootstrap, its parts taken from all resamples one by one."""
    few, many = (1 - 1 / n for n in table.shape)
    rows, columns, crossed = (of_every_resample(table, *both) for both in ((1, 0), (0, 1), (1, 1)))
    both = (crossed - rows - columns) / (few * many)
    seeds, users = max(rows / few - REMOVED * both, 0.0), columns / many
    share = WEIGHT * seeds / (WEIGHT * seeds + users)
    freedom = min(1 / (share**2 / (len(table) - 1) + (1 - share) ** 2 / (table.shape[1] - 1)), table.shape[1] - 1)
    reach = student.ppf(0.975, freedom) * math.sqrt(seeds + users)
    return table.mean() - reach, table.mean() + reach


@given(
    st.sampled_from([(2, 3), (3, 2), (3, 3), (2, 4)]).flatmap(
        lambda shape: st.lists(st.integers(-3, 3), min_size=math.prod(shape), max_size=math.prod(shape)).map(
            lambda values: np.array(values, float).reshape(shape)
        )
    )
)
def test_the_interval_is_that_of_all_resamples_corrected_for_few_seeds(table: np.ndarray) -> None:
    if np.ptp(table.mean(0)) < 1e-9:
        table[:, 0] += 1  # what users are alike in is another test
    found = difference(table, 0 * table)
    assert (found.low, found.high) == pytest.approx(interval_of_every_resample(table), abs=1e-9)
    assert found.over == "seeds and users"


TABLES = st.tuples(st.integers(1, 4), st.integers(1, 6)).filter(lambda shape: shape != (1, 1))


@given(TABLES, st.integers(0, 10_000), st.booleans())
def test_what_the_interval_does_not_depend_on(shape: tuple[int, int], seed: int, paired: bool) -> None:
    """On who is called ours but for the sign; on the order of users; on the order of seeds, of both alike; on how
    good a user's lists are; nor on the unit."""
    rng = np.random.default_rng(seed)
    ours, theirs = rng.integers(0, 4, (2, *shape)).astype(float)
    found = difference(ours, theirs, paired=paired)
    swapped = difference(theirs, ours, paired=paired)
    assert swapped == Difference(-found.difference, -found.high, -found.low, found.p, found.over)
    users, seeds = rng.permutation(shape[1]), rng.permutation(shape[0])
    for one, other, factor in (
        (ours[:, users], theirs[:, users], 1),
        (ours[seeds], theirs[seeds], 1),
        (4 * ours, 4 * theirs, 4),
        (ours + np.arange(shape[1]), theirs + np.arange(shape[1]), 1),
    ):
        again = difference(one, other, paired=paired)
        assert again[:3] == pytest.approx([factor * value for value in found[:3]], abs=1e-9)
        assert again.p == pytest.approx(found.p, abs=1e-6)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.9, 0.95]))
@example(1090, 0.9)
def test_p_is_small_where_zero_is_outside_and_the_interval_is_never_narrower_than_over_users_alone(
    seed: int, level: float
) -> None:
    rng = np.random.default_rng(seed)
    ours, theirs = rng.normal(rng.normal(), 1, (3, 20)) + rng.normal(0, rng.random(), (3, 1)), np.zeros((3, 20))
    found, alone = (difference(one, theirs[: len(one)], level=level) for one in (ours, ours.mean(0, keepdims=True)))
    assert (found.p < 1 - level) == (not found.low <= 0 <= found.high)
    assert found.low <= alone.low + 1e-12
    assert found.high >= alone.high - 1e-12


def test_one_seed_is_over_users_alone_and_one_user_over_seeds_alone() -> None:
    """Student's paired test, and for seeds that are not the same Welch's."""
    rng = np.random.default_rng(3)
    ours, theirs = rng.random((2, 9))
    found = difference(ours, theirs, units="images")
    exact = ttest_rel(ours, theirs)
    assert found.over == "images"
    assert found.p == pytest.approx(exact.pvalue)
    assert found[1:3] == pytest.approx(tuple(exact.confidence_interval()))
    of_seeds = difference(ours[:, None], theirs[:, None])
    assert of_seeds[:4] == pytest.approx(found[:4])
    assert of_seeds.over == "seeds"
    welch = ttest_ind(ours[:4], theirs, equal_var=False)
    others = difference(ours[:4, None], theirs[:, None], paired=False)
    assert others.p == pytest.approx(welch.pvalue)
    assert others[1:3] == pytest.approx(tuple(welch.confidence_interval()))


def test_seeds_that_are_the_same_are_compared_with_one_another() -> None:
    """A split that is hard for both hides nothing where they share it, and much where they do not."""
    rng = np.random.default_rng(5)
    hard = rng.normal(0, 1, (4, 1)) + rng.random((4, 50))
    ours = hard + 0.1 + 0.05 * rng.normal(size=hard.shape)
    assert difference(ours, hard).p < 0.001
    assert difference(ours, hard, paired=False).p > 0.5


def test_luck_of_one_training_is_no_gain() -> None:
    """All users of one seed gain: over users alone that were certain."""
    rng = np.random.default_rng(6)
    base = rng.random((3, 500))
    ours = base + np.array([[0.2], [0.0], [0.0]]) + 0.01 * rng.normal(size=base.shape)
    assert difference(ours.mean(0), base.mean(0)).p < 1e-6
    assert difference(ours, base).p > 0.1


def test_where_nothing_varies_the_interval_has_no_width() -> None:
    same = np.ones((3, 4))
    assert difference(same, same) == Difference(0, 0, 0, 1, "seeds and users")
    assert difference(same + 0.5, same) == Difference(0.5, 0.5, 0.5, 0, "seeds and users")
    users = np.array([[1.0, 2.0, 4.0]] * 3)  # all seeds alike: users alone
    assert difference(users, 0 * users)[:4] == pytest.approx(difference(users[0], 0 * users[0])[:4])


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "words"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), {}, "3 users and 'theirs' has 4; give both for the same users"),
        (np.ones((2, 3)), np.ones((3, 3)), {}, "2 seeds and 'theirs' has 3.*paired=False"),
        (np.ones((1, 3)), np.ones((3, 3)), {"paired": False}, "at least two of each"),
        ([[1.0]], [[2.0]], {"units": "images"}, "One seed and one of the images say nothing"),
        ([1.0, np.nan], [2.0, 1.0], {}, "'ours' holds values that are no finite numbers"),
        ([1.0, 1.0], [2.0, np.inf], {}, "'theirs' holds"),
        ([], [], {}, "'ours' has the shape"),
        (np.ones((2, 2, 2)), np.ones((2, 2, 2)), {}, "'ours' has the shape"),
        ([1.0, 2.0], [1.0, 1.0], {"level": 95}, "level 95 makes no sense"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(
    ours: Any, theirs: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(AccordError, match=words):
        difference(ours, theirs, **more)


@pytest.fixture(scope="module")
def simulation() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("seeds", "effect"), [(3, 0.0), (3, 3.0), (5, 1.0)])
def test_the_interval_holds_the_truth_as_often_as_it_says(simulation: Any, seeds: int, effect: float) -> None:
    """With zeros and ties as NDCG has them. Over users alone, and by the bootstrap as it is, it does not."""
    held = simulation.coverage(seeds, 200, effect, 500, ["accord", "plain", "users"])
    assert 0.925 <= held["accord"] <= 0.98
    if effect:
        assert held["users"] < 0.87
    if effect > 1:
        assert held["plain"] < 0.93


# -- over seeds -------------------------------------------------------------------------------------------


def test_over_seeds_is_welchs_test() -> None:
    """Where one of the two does not vary, Welch's degrees of freedom are n - 1: for two, p = 1 - t / √(2 + t²)."""
    one, other = {"mean": 0.85, "std": 0.02}, {"mean": 0.83, "std": 0.0}
    t = 0.02 / (0.02 / math.sqrt(3))
    exact = pytest.approx(1 - t / math.sqrt(2 + t * t))
    for found, sign in ((over_seeds(one, other, 3), 1), (over_seeds(other, one, 3), -1)):
        assert found is not None
        assert (found.p, found.difference, found.over) == (exact, pytest.approx(sign * 0.02), "seeds")
        reach = student.ppf(0.975, 2) * 0.02 / math.sqrt(3)
        assert (found.low, found.high) == pytest.approx((sign * 0.02 - reach, sign * 0.02 + reach))
    t = 0.02 / (0.02 / math.sqrt(2))  # one degree of freedom: Cauchy's distribution
    cauchy = over_seeds(one, other, 2)
    assert cauchy is not None
    assert cauchy.p == pytest.approx(1 - 2 / math.pi * math.atan(t))


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.lists(st.integers(10, 19), min_size=3, max_size=3))
def test_over_seeds_is_what_scipy_has(ours: list[int], theirs: list[int]) -> None:
    one, other = ({"mean": float(np.mean(x)), "std": float(np.std(x, ddof=1))} for x in (ours, theirs))
    found = over_seeds(one, other, 3)
    assert (found is None) == (len(set(ours)) == len(set(theirs)) == 1)
    if len(set(ours)) > 1 < len(set(theirs)):  # scipy warns of a sample that does not vary
        assert found is not None
        exact = ttest_ind(ours, theirs, equal_var=False)
        assert found.p == pytest.approx(exact.pvalue)
        assert found[1:3] == pytest.approx(tuple(exact.confidence_interval()))


def test_over_seeds_needs_two_seeds_and_something_that_varies() -> None:
    still, moving = {"mean": 0.8, "std": 0.0}, {"mean": 0.9, "std": 0.1}
    assert over_seeds(moving, moving, 1) is None
    assert over_seeds(still, {"mean": 0.9, "std": 0.0}, 3) is None
    assert over_seeds(still, moving, 1) is None
    found = over_seeds(moving, moving, 2)
    assert found is not None
    assert found.p == pytest.approx(1.0)


# -- Holm -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.001, 0.02, 0.5, 0.011], [0.004, 0.04, 0.5, 0.033]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.3, 0.4, 0.2], [0.6, 0.6, 0.6]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected, abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.05, 0.3, 1.0]), min_size=1, max_size=5))
def test_holm_is_bonferroni_over_all_sets_of_hypotheses(p_values: list[float]) -> None:
    """A hypothesis falls where each set that holds it falls by Bonferroni: the closure principle."""
    numbers = range(len(p_values))
    sets = [chosen for size in numbers for chosen in itertools.combinations(numbers, size + 1)]

    def by_sets(k: int) -> float:
        return max(min(1.0, len(s) * min(p_values[n] for n in s)) for s in sets if k in s)

    assert holm(p_values) == pytest.approx([by_sets(k) for k in numbers], abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.03, 0.5]), st.sampled_from("ab")), max_size=6))
def test_what_is_over_other_things_is_another_family(found: list[tuple[float, str]]) -> None:
    corrected = holm_by_family([Difference(0, 0, 0, p, over) for p, over in found])
    for family in "ab":
        members = [k for k, (_, over) in enumerate(found) if over == family]
        assert [corrected[k] for k in members] == holm([found[k][0] for k in members])
