"""What a student of a council of recommenders learns, beside a loop over pairs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from council_models import Table
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from accord import Recommender
from accord.batches.clicks import ClickBatch
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation
from accord.estimators import fitting
from accord.estimators.settings import make_settings
from accord.methods import Phase, Setup, StepInfo, method_of
from accord.methods.assembly import LOWEST, CouncilHead, Taught, Together
from accord.objectives import binary

USERS, ITEMS = 6, 9


def teacher(seed: int = 1) -> Together:
    head = CouncilHead(2)
    head.weight[:], head.kappa = torch.tensor([0.6, 0.4]), torch.tensor(0.5)
    return Together([Table.drawn(USERS, ITEMS, one, 6.0) for one in (seed, seed + 1)], head)


def answer(of: Together, user: int, item: int) -> float:
    one, two = (float(member.table[user, item]) for member in of.members)
    mean = 0.6 * one + 0.4 * two
    return mean - 0.5 * math.sqrt(0.6 * (one - mean) ** 2 + 0.4 * (two - mean) ** 2)


class Heard:
    def __init__(self, of: Together) -> None:
        self.of = of

    def taught(self) -> Taught:
        return Taught(self.of, USERS, ITEMS, torch.device("cpu"))


def phase_of(of: Together, student: nn.Module, **changed: Any) -> Phase:
    asked = make_settings("clicks", {"method": "council", **changed})
    setup = Setup("clicks", binary, asked, council=Heard(of))

    def build(role: str, architecture: Any = None) -> nn.Module:
        assert (role, architecture) == ("target", None)
        return student

    (phase,) = method_of("council", "clicks")().bound(setup).phases(build)
    return phase


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7), st.sampled_from([0.0, 0.1, 1.0]), st.booleans())
def test_it_learns_the_councils_log_odds(seed: int, size: int, given: float, has_bias: bool) -> None:
    """A network without a bias learns them but for one number that all pairs of a batch share."""
    generator = torch.Generator().manual_seed(seed)
    users = torch.randint(USERS, (1, size), generator=generator)
    items = torch.randint(ITEMS, (2, 1, size), generator=generator)
    batch = ClickBatch(users, items, torch.tensor([1.0, 0.0]).view(2, 1, 1))
    of, student = teacher(seed % 1000), Table.drawn(USERS, ITEMS, seed, 1.0).requires_grad_(True)
    if has_bias:
        student.item_bias = nn.Parameter(torch.zeros(ITEMS))
    found = phase_of(of, student, given=given).loss(batch, StepInfo(0))
    apart, entropy = [], 0.0
    for label, row in zip((1, 0), items[:, 0].tolist(), strict=True):
        for user, item in zip(users[0].tolist(), row, strict=True):
            own = float(student.table[user, item].detach())
            apart.append(own - max(LOWEST, answer(of, user, item)))
            entropy += math.log1p(math.exp(-own if label else own)) / size
    shared = 0.0 if has_bias else sum(apart) / len(apart)
    matched = sum((one - shared) ** 2 for one in apart) / size
    assert found.tolist() == pytest.approx([(1 - given) * matched + given * entropy], rel=1e-4, abs=1e-5)
    found.sum().backward()
    assert student.table.grad is not None
    assert all(member.table.grad is None for member in of.members)


@pytest.mark.parametrize("largest", [USERS * ITEMS, USERS * ITEMS - 1])
def test_pairs_that_do_not_fit_into_a_table_are_computed(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(Taught, "LARGEST", largest)
    monkeypatch.setattr(Taught, "BLOCK", 2 * ITEMS + 1)
    of = teacher()
    taught = Heard(of).taught()
    assert (taught.table is None) == (largest < USERS * ITEMS)
    users, items = torch.arange(USERS).repeat_interleave(ITEMS), torch.arange(ITEMS).repeat(USERS)
    wanted = [max(LOWEST, answer(of, u, i)) for u, i in zip(users.tolist(), items.tolist(), strict=True)]
    assert min(wanted) == LOWEST
    assert taught.logits(users, items).tolist() == pytest.approx(wanted, abs=1e-4)
    table = taught.logits(users.view(USERS, ITEMS), items.view(USERS, ITEMS))
    assert table.flatten().tolist() == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("fits", [True, False])
def test_a_step_that_asks_the_members_is_not_captured(
    made: Simulation, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    """On a GPU: EASE and its like look clicks up, which cannot be replayed."""
    options: list[bool] = []
    monkeypatch.setattr(Taught, "LARGEST", 1 << 28 if fits else 0)
    rec = Recommender(method="council", members=("gmf", "ease"), folds=0, epochs=1, dims=4, batch_size=1024)
    begun = fitting._Training.steps

    def seen(training: Any) -> Any:
        options.extend(one.run.options.capture for one in training.prepared)
        return begun(training)

    monkeypatch.setattr(fitting._Training, "steps", seen)
    rec.fit(made.log())
    assert options.pop() is fits  # the student is the last
    assert options[:2] == [True, True]  # of GMF; EASE has no step


def test_a_student_meets_some_of_the_likeliest_items_and_as_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Taught, "LIKELIEST", 3)
    monkeypatch.setattr(Taught, "EACH", 3)
    monkeypatch.setattr(Taught, "BLOCK", 2 * ITEMS + 1)
    of = teacher()
    clicked = torch.tensor([0, 0, 1, 2, 3, 4, 5]), torch.tensor([2, 7, 0, 1, 4, 8, 3])
    seen = Interactions.from_pairs(*(one.numpy() for one in clicked), USERS, ITEMS)
    taught = Taught(of, USERS, ITEMS, torch.device("cpu"), seen=seen)
    users, items = torch.arange(USERS).repeat(4)[None], torch.arange(4 * USERS)[None, None] % ITEMS
    found = taught.others(users, items)
    assert found.shape == (6, 1, 4 * USERS)
    for at, (user, item) in enumerate(zip(users[0].tolist(), items[0, 0].tolist(), strict=True)):
        own = {i for u, i in zip(*(one.tolist() for one in clicked), strict=True) if u == user}
        free = sorted(set(range(ITEMS)) - own, key=lambda i: -max(LOWEST, answer(of, user, i)))
        assert found[:3, 0, at].tolist() == [(item + k * ITEMS // 3) % ITEMS for k in range(3)]
        assert found[3:, 0, at].tolist() == [free[(item + k) % 3] for k in range(3)]
    monkeypatch.setattr(Taught, "LARGEST", USERS * ITEMS - 1)  # then every pair is computed in every step
    slow = Taught(of, USERS, ITEMS, torch.device("cpu"), seen=seen).others(users, items)
    assert torch.equal(slow, found[[0, 3]])
    monkeypatch.setattr(Taught, "MOST", USERS * ITEMS - 1)
    without = Taught(of, USERS, ITEMS, torch.device("cpu"), seen=seen)
    assert torch.equal(without.others(users, items), items)


def test_every_item_that_it_meets_is_learnt() -> None:
    """A click counts as much as all other items together, however many these are."""
    of, student = teacher(), Table.drawn(USERS, ITEMS, 5, 1.0).requires_grad_(True)
    student.item_bias = nn.Parameter(torch.zeros(ITEMS))
    seen = Interactions.from_pairs(torch.arange(USERS).numpy(), torch.zeros(USERS).numpy(), USERS, ITEMS)
    users, items = torch.tensor([[0, 4]]), torch.tensor([[[0, 0]], [[1, 5]]])
    taught = Taught(of, USERS, ITEMS, torch.device("cpu"), seen=seen)
    others = taught.others(users, items[1:])
    assert len(others) == 2 * Taught.EACH

    def apart(user: int, item: int) -> float:
        return (float(student.table[user, item].detach()) - max(LOWEST, answer(of, user, item))) ** 2

    wanted = 0.0
    for at, user in enumerate(users[0].tolist()):
        each = [apart(user, int(one)) for one in others[:, 0, at]]
        wanted += (apart(user, 0) + sum(each) / len(each)) / 2

    class Seeing(Heard):
        def taught(self) -> Taught:
            return taught

    setup = Setup("clicks", binary, make_settings("clicks", {"method": "council"}), council=Seeing(of))
    (phase,) = method_of("council", "clicks")().bound(setup).phases(lambda role, architecture=None: student)
    batch = ClickBatch(users, items, torch.tensor([1.0, 0.0]).view(2, 1, 1))
    assert phase.loss(batch, StepInfo(0)).tolist() == pytest.approx([wanted], rel=1e-4)


def test_the_clicks_as_given_are_learnt_with_the_sampled_non_clicks() -> None:
    """A likely item that nobody clicked is no sign of dislike."""
    of, student = teacher(), Table.drawn(USERS, ITEMS, 5, 1.0)
    seen = Interactions.from_pairs(torch.arange(USERS).numpy(), torch.zeros(USERS).numpy(), USERS, ITEMS)
    items = torch.tensor([[[0, 0]], [[1, 2]]])
    batch = ClickBatch(torch.tensor([[0, 1]]), items, torch.tensor([1.0, 0.0]).view(2, 1, 1))

    class Seeing(Heard):
        def taught(self) -> Taught:
            return Taught(self.of, USERS, ITEMS, torch.device("cpu"), seen=seen)

    chosen = make_settings("clicks", {"method": "council", "given": 1.0})
    setup = Setup("clicks", binary, chosen, council=Seeing(of))
    (phase,) = method_of("council", "clicks")().bound(setup).phases(lambda role, architecture=None: student)
    wanted = batch.mean(binary.cross_entropy(batch.logits(student), batch.labels))
    assert torch.allclose(phase.loss(batch, StepInfo(0)), wanted)


def test_a_student_of_clicks_keeps_its_best_epoch_and_one_of_labels_its_last() -> None:
    kept = [make_settings(task, {"method": "council"}).kept_epoch for task in ("clicks", "labels")]
    assert kept == ["best", "last"]
    assert make_settings("clicks", {"method": "council", "restore": "last"}).kept_epoch == "last"


def test_the_student_alone_is_kept_and_validated() -> None:
    student = Table.drawn(USERS, ITEMS, 0, 1.0)
    phase = phase_of(teacher(), student)
    assert (phase.name, phase.target, phase.kept) == ("student", "target", ("target",))
    assert phase.networks == {"target": student}
