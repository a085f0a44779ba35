"""By which share of the learning rate a step is made."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.training import TrainingOptions

EPOCHS = 20


def share(schedule: str, done: float) -> float:
    return TrainingOptions(epochs=EPOCHS, schedule=schedule).share_at(done)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        ("constant", {0: 1.0, 7: 1.0, 20: 1.0}),
        ("cosine", {0: 1.0, 10: 0.5, 20: 0.0}),
        ("one-cycle", {0: 0.1, 1.5: 0.55, 3: 1.0, 11.5: 0.5, 20: 0.0, 21: 0.0}),
    ],
)
def test_each_schedule_is_at_these_points(schedule: str, at: dict[float, float]) -> None:
    assert {done: share(schedule, done) for done in at} == pytest.approx(at)


@given(st.floats(0, EPOCHS), st.floats(0, EPOCHS))
def test_one_cycle_rises_and_then_falls_without_a_jump(a: float, b: float) -> None:
    first, second = sorted((a, b))
    low, high = share("one-cycle", first), share("one-cycle", second)
    assert 0 <= low <= 1
    assert math.isclose(low, high, abs_tol=0.31 * (second - first) + 1e-9)  # 0.9 within three epochs
    if second <= 3:
        assert low <= high
    if first >= 3:
        assert low >= high
