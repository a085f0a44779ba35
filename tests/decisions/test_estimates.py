"""What a few decisions say of all labels: exact where all is known; intervals hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from accord.decisions.design import Design
from accord.decisions.estimates import (
    DRAWS,
    FEWEST_AGAIN,
    LEVEL,
    Sample,
    answers_of,
    estimate,
    precision,
    wrong_by_rank,
)
from accord.decisions.journal import Decision
from accord.decisions.suggesting import AGAIN_AFTER, Suggesting


def word(item: int, wrong: bool, why: str = "check", reviewer: str = "r1", number: int = 0) -> Decision:
    return Decision(item, "drop" if wrong else "keep", None, reviewer, "", why, number)


def world(seed: int, size: int = 400, noise: float = 0.4) -> tuple[Design, np.ndarray]:
    """Labels, their quality, and which of them are wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(size) < noise
    quality = np.where(wrong, rng.beta(1, 4, size), rng.beta(4, 1.5, size))
    return Design.of(quality, quality < 0.5), wrong


def test_parts_are_worst_first_and_hold_every_label_once() -> None:
    design, _ = world(0)
    assert [part.name for part in design.parts] == ["flagged", "next", "rest"]
    every = np.concatenate([part.items for part in design.parts])
    assert np.array_equal(np.sort(every), np.arange(400))
    assert np.array_equal(every, design.asked)
    for part in design.parts:
        assert (np.diff(design.quality[part.items]) >= 0).all()
        assert np.array_equal(np.sort(part.drawn), np.sort(part.items))
        assert not np.array_equal(part.drawn, part.items)
    assert design.flagged[design.part("flagged").items].all()
    assert not design.flagged[design.part("next").items].any()
    assert len(design.part("next").items) == max(50, len(design.part("flagged").items))


def test_the_random_order_is_that_of_the_run_and_no_other() -> None:
    first, again, other = world(0)[0], world(0)[0], world(1)[0]
    assert first.identity == again.identity != other.identity
    assert np.array_equal(first.part("flagged").drawn, again.part("flagged").drawn)
    quality = first.quality.copy()
    quality[0] += 1e-9
    assert Design.of(quality, first.flagged).identity != first.identity


def test_labels_that_are_not_asked_about_are_in_no_part() -> None:
    own = np.arange(10) % 2 == 0
    design = Design.of(np.linspace(0, 1, 10), np.linspace(0, 1, 10) < 0.5, own=own)
    assert np.array_equal(np.sort(design.asked), np.flatnonzero(own))


def test_where_all_is_decided_the_numbers_are_exact() -> None:
    design, wrong = world(0, 60)
    found = estimate(design, [word(item, bool(wrong[item])) for item in range(60)]).would
    flagged = design.flagged
    assert found.flagged is not None
    assert found.below is not None
    assert found.precision is not None
    for value, exact in (
        (found.flagged, wrong[flagged].sum()),
        (found.below, wrong[~flagged].sum()),
        (found.every, wrong.sum()),
    ):
        assert value is not None
        assert value.low == value.value == value.high == exact
    assert found.precision.value == pytest.approx(wrong[flagged].mean())


def test_what_is_picked_says_nothing_of_what_is_not() -> None:
    """Fifty wrong labels, picked by hand from all over the list, leave the estimate without a number."""
    design, wrong = world(0)
    part = design.part("flagged")
    picked = [item for item in part.drawn[10:].tolist() if wrong[item]][:50]
    assert estimate(design, [word(item, True, "chosen") for item in picked]).would.precision is None


def test_labels_decided_worst_first_are_counted_and_the_sample_is_one_of_the_rest() -> None:
    design, _ = world(0)
    part = design.part("flagged")
    answers: dict[int, bool | None] = dict.fromkeys(part.items[:30].tolist(), True)
    answers |= dict.fromkeys(part.drawn[:20].tolist(), False)
    sample = Sample.of(part, answers)
    begun = next(place for place, item in enumerate(part.items.tolist()) if item not in answers)
    own = [item for item in part.drawn[:20].tolist() if item not in set(part.items[:begun].tolist())]
    assert len(sample.counted) == begun >= 30
    assert sample.rest == len(part.items) - begun
    assert [part.items[place] for place, _ in sample.drawn][: len(own)] == own
    assert sample.wrong == 0


def test_a_gap_in_the_random_order_ends_the_sample() -> None:
    design, _ = world(0)
    part = design.part("next")
    answers: dict[int, bool | None] = dict.fromkeys([*part.drawn[:6].tolist(), *part.drawn[7:30].tolist()], True)
    answers.pop(int(part.items[0]), None)
    places = {int(item): place for place, item in enumerate(part.items)}
    expected = [places[item] for item in part.drawn[:6].tolist() if item in answers]
    assert [place for place, _ in Sample.of(part, answers).drawn] == expected


def test_who_is_unsure_is_not_counted() -> None:
    design, _ = world(0)
    part = design.part("flagged")
    some = [word(item, True) for item in part.drawn[:10].tolist()]
    unsure = Decision(int(part.drawn[10]), "unsure", None, "r1", "", "check", 0)
    assert estimate(design, [*some, unsure]).checks == 10
    assert answers_of(design, [unsure])[0] == {int(part.drawn[10]): None}


def test_a_label_that_is_fixed_to_what_it_was_is_right() -> None:
    given = np.array([0, 1, 1])
    design = Design.of(np.array([0.1, 0.2, 0.9]), np.array([True, True, False]), given)
    fixed = [Decision(item, "fix", 1, "r1", "", "check", 0) for item in (0, 1)]
    assert answers_of(design, fixed)[0] == {0: True, 1: False}


def test_answers_of_several_people_are_those_of_most() -> None:
    design, _ = world(0)
    said = [word(5, True, reviewer="r1"), word(5, False, reviewer="r2"), word(5, False, reviewer="r3")]
    answers, again, differ = answers_of(design, said)
    assert answers == {5: False}
    assert (again, differ) == (2, 2)


def test_asking_again_tells_slips_and_leaves_the_first_answer() -> None:
    design, _ = world(0)
    said = [word(item, True) for item in range(40)]
    said += [word(item, item >= 8, "again") for item in range(40)]
    answers, again, differ = answers_of(design, said)
    assert answers[0] is True
    assert (again, differ) == (40, 8)
    error = estimate(design, said).error
    # 2e(1 − e) = 8 / 40
    assert error is not None
    assert error.low < 0.1127 < error.high
    assert abs(error.value - 0.1127) < 0.02


def test_without_answers_twice_only_what_people_would_decide_is_known() -> None:
    design, _ = world(0)
    said = [word(item, True) for item in range(40)]
    few = said + [word(item, True, "again") for item in range(FEWEST_AGAIN - 1)]
    assert estimate(design, few).truly is None
    assert "would" in estimate(design, few).to_show()["words"]
    enough = [*few, word(FEWEST_AGAIN, True, "again")]
    assert estimate(design, enough).truly is not None
    assert "truly" in estimate(design, enough).to_show()["words"]


@pytest.mark.parametrize("slips", [0.0, 0.05])
def test_intervals_hold_as_often_as_they_say(slips: float) -> None:
    """150 worlds, 80 random checks and 40 answers twice in each; 90 % of the intervals are to hold."""
    held = {"would": 0, "truly": 0, "below": 0}
    for seed in range(150):
        design, wrong = world(seed)
        rng = np.random.default_rng([seed, 1])
        says = wrong ^ (rng.random(len(wrong)) < slips)
        asked = [item for part in design.parts for item in part.drawn[:40].tolist()]
        said = [word(item, bool(says[item])) for item in asked]
        said += [word(item, bool(wrong[item] ^ (rng.random() < slips)), "again") for item in asked[:40]]
        found = estimate(design, said)
        assert found.truly is not None
        assert found.truly.precision is not None
        assert found.would.precision is not None
        assert found.would.below is not None
        would, truly = says[design.flagged].mean(), wrong[design.flagged].mean()
        held["would"] += found.would.precision.low <= would <= found.would.precision.high
        held["truly"] += found.truly.precision.low <= truly <= found.truly.precision.high
        held["below"] += found.would.below.low <= says[~design.flagged].sum() <= found.would.below.high
    assert all(count >= (LEVEL - 0.06) * 150 for count in held.values()), held


def test_the_same_decisions_give_the_same_numbers() -> None:
    design, wrong = world(3)
    said = [word(item, bool(wrong[item])) for item in design.part("flagged").drawn[:30].tolist()]
    assert estimate(design, said) == estimate(design, said)
    assert DRAWS >= 1000


def test_the_precision_alone_is_that_of_the_whole_estimate() -> None:
    design, wrong = world(3)
    for count in (0, 3, 30, 90):
        said = [word(item, bool(wrong[item])) for item in design.part("flagged").drawn[:count].tolist()]
        assert precision(design, said) == estimate(design, said).would.precision


def test_chances_fall_with_the_rank_and_looking_stops_where_few_are_wrong() -> None:
    design, wrong = world(0)
    said = [word(item, bool(wrong[item])) for part in design.parts for item in part.drawn[:40].tolist()]
    chances = wrong_by_rank(design, answers_of(design, said)[0])
    assert chances is not None
    assert (np.diff(chances) <= 0).all()
    assert chances[0] > 0.5 > chances[-1]
    found = estimate(design, said)
    assert found.stop is not None
    assert found.left is not None
    assert found.stop == (chances >= 0.1).sum()
    assert found.left == pytest.approx(chances[found.stop :].sum())


# -- what comes next -------------------------------------------------------------------------------------


def test_random_checks_come_in_the_order_of_the_design() -> None:
    design, _ = world(0)
    part = design.part("flagged")
    assert Suggesting(design, []).checks(5) == [(item, "check") for item in part.drawn[:5].tolist()]
    said = [word(int(part.drawn[1]), True)]
    assert [item for item, _ in Suggesting(design, said).checks(3)] == part.drawn[[0, 2, 3]].tolist()


def test_suggestions_are_checks_until_the_precision_is_known_and_then_the_worst() -> None:
    design, _wrong = world(0)
    first = Suggesting(design, []).next(9)
    assert all(why == "check" for _, why in first)
    assert len({item for item, _ in first}) == 9
    said = [word(item, True) for item in design.part("flagged").drawn[:90].tolist()]
    later = [why for _, why in Suggesting(design, said).next(10)]
    assert later.count("worst") >= 6
    worst = [item for item, why in Suggesting(design, said).next(10) if why == "worst"]
    decided = {one.item for one in said}
    assert worst[:2] == [item for item in design.part("flagged").items.tolist() if item not in decided][:2]


def test_some_are_asked_again_once_and_not_at_once() -> None:
    design, wrong = world(0)
    said: list[Decision] = []
    for number in range(120):
        ((item, why),) = Suggesting(design, said).next(1)
        if why == "again":
            before = [one for one in said if one.item == item]
            assert len(before) == 1
            assert number - before[0].number >= AGAIN_AFTER
        else:
            assert item not in {one.item for one in said}
        said.append(word(item, bool(wrong[item]), why, number=number))
    assert sum(one.why == "again" for one in said) >= 6


def test_suggestions_end_when_all_is_decided() -> None:
    design, _ = world(0, 20)
    said = [word(item, True) for item in range(20)] + [word(item, True, "again") for item in range(20)]
    assert Suggesting(design, said).next(5) == []
    assert Suggesting(design, [], taken=set(range(20))).next(5) == []
