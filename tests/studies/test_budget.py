"""What a search may spend, row by row, and the words by which cells tell it."""

from __future__ import annotations

import pytest

from accord.studies.budget import Budget
from accord.studies.spaces import size

THREE = {"l2": (0.1, 1.0, 10.0)}
SIX = {"l2": (0.1, 1.0), "c0": (1.0, 10.0, 100.0)}


@pytest.mark.parametrize(
    ("trials", "settings", "expected"),
    [
        (24, 3, (3, 8)),
        (25, 3, (3, 8)),  # what is left over is not spent
        (26, 3, (3, 8)),
        (27, 3, (3, 9)),
        (6, 3, (3, 2)),  # twice as many trials as settings: from here on
        (5, 3, (5, 1)),
        (3, 3, (3, 1)),
        (2, 3, (2, 1)),
        (24, 24, (24, 1)),
        (24, 1, (1, 24)),
    ],
)
@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_a_row_of_few_settings_tries_each_with_more_seeds(
    trials: int, settings: int, expected: tuple[int, int], sampler: str
) -> None:
    budget = Budget(trials, sampler=sampler, where="noise-40")
    own = budget.of({"l2": tuple(range(settings))})
    assert (own.trials, own.seeds) == expected
    assert own.trials * own.seeds <= trials  # as many trainings as the others at most
    assert (own.sampler, own.where) == (sampler, "noise-40")
    assert (own is budget) == (expected == (trials, 1))


def test_seeds_that_were_asked_for_are_multiplied() -> None:
    assert Budget(12, seeds=2).of(THREE) == Budget(3, seeds=8)
    assert Budget(12, seeds=2).of(SIX) == Budget(6, seeds=4)


@pytest.mark.parametrize("sampler", ["rounds", "tpe"])
def test_searches_that_may_come_back_to_settings_keep_their_trials(sampler: str) -> None:
    budget = Budget(24, sampler=sampler)
    assert budget.of(THREE) is budget


def test_nothing_to_search_spends_as_the_others() -> None:
    budget = Budget(24)
    assert budget.of({}) is budget
    assert size({}) == 1


def test_words() -> None:
    assert Budget(24).words() == "24 trials of 1 seed(s) for each row, random search"
    assert Budget(4, 2, "grid").words("this row") == "4 trials of 2 seed(s) for this row, grid search"
    rounds = Budget(36, sampler="rounds", where="fashion-mnist 40")
    assert rounds.words() == "36 trials of 1 seed(s) for each row, in two rounds at fashion-mnist 40"


def test_a_row_says_its_own_budget_where_it_has_one() -> None:
    assert Budget(24).words_of(THREE) == "3 trials of 8 seed(s) for this row, random search"
    assert Budget(5).words_of(THREE) == "5 trials of 1 seed(s) for each row, random search"
    assert Budget(24).words_of({}) == Budget(24).words()


def test_cells_tell_a_budget_wherever_it_was_spent() -> None:
    """Those made by a search in another part count; those of another number of trials or seeds do not."""
    here, there = Budget(24), Budget(24, where="noise-40")
    told = there.words_of(THREE)
    assert told.endswith("for this row, random search at noise-40")
    assert here.is_told(told, THREE)
    assert there.is_told(here.words_of(THREE), THREE)
    assert not here.is_told(told, SIX)
    for other in (Budget(48), Budget(24, seeds=2), Budget(24, sampler="grid")):
        assert not other.is_told(told, THREE)
    assert not here.is_told("", THREE)
