"""Adam by rows: what it shares with dense Adam, and where it differs by design."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from accord.models.recommenders import CDAE, GMF, MF, NeuMF
from accord.optim import MANY_ROWS, Adam, updated_by_rows
from accord.optim.rows import touched

USERS, ITEMS = 9, 7


def losses(model: nn.Module, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(model.logits(users, items)).sum()  # pyright: ignore[reportCallIssue]


def adam(model: nn.Module, decay: float, rate: float, by_rows: Sequence[nn.Parameter]) -> Adam:
    parameters = list(model.parameters())
    return Adam(parameters, parameters, [rate], [decay], by_rows=by_rows)


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF])
def test_when_every_row_is_touched_rows_are_dense(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    start = kind(USERS, ITEMS, 4)
    models = [kind(USERS, ITEMS, 4) for _ in range(2)]
    users, items = torch.arange(USERS).repeat(3), torch.arange(27) % ITEMS
    for model, updates in zip(models, ("dense", "rows"), strict=True):
        model.load_state_dict(start.state_dict())
        tables = updated_by_rows(model, 4, updates)
        assert bool(tables) == (updates == "rows")
        optimiser = adam(model, 0.01, 0.05, tables)
        assert (optimiser.rows is not None) == (updates == "rows")
        for _ in range(6):
            optimiser.clear()
            losses(model, users, items).backward()
            optimiser.step()
    for dense, rows in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(dense, rows, rtol=1e-4, atol=1e-6)


def test_untouched_rows_stay() -> None:
    model = MF(USERS, ITEMS, 4)
    before = model.users.detach().clone()
    optimiser = adam(model, 0.5, 0.05, updated_by_rows(model, 4, "rows"))
    for users in ([1, 2], [2, 3]):
        optimiser.clear()
        losses(model, torch.tensor(users), torch.tensor([0, 1])).backward()
        optimiser.step()
    moved = (model.users != before).any(1).tolist()
    assert moved == [user in (1, 2, 3) for user in range(USERS)]


def test_the_step_size_of_now_is_that_of_rows_too() -> None:
    model = MF(USERS, ITEMS, 4)
    before = model.users.detach().clone()
    optimiser = adam(model, 0.0, 0.05, updated_by_rows(model, 4, "rows"))
    optimiser.set_share(0.0)
    losses(model, torch.tensor([1, 2]), torch.tensor([0, 1])).backward()
    optimiser.step()
    assert torch.equal(model.users, before)
    optimiser.set_share(0.5)
    optimiser.step()
    assert float((model.users.detach() - before)[1].abs().max()) == pytest.approx(
        0.025, rel=0.2
    )  # Adam steps by its rate


def test_large_tables_alone_are_updated_by_rows() -> None:
    model = CDAE(MANY_ROWS * 32 + 1, ITEMS, 4)
    assert [id(table) for table in updated_by_rows(model, 32, "auto")] == [id(model.users)]
    assert not updated_by_rows(model, 33, "auto")
    assert not updated_by_rows(nn.Linear(500, 500), 1, "rows")  # it has no tables


def test_a_state_is_loaded() -> None:
    torch.manual_seed(0)
    one, other = MF(USERS, ITEMS, 4), MF(USERS, ITEMS, 4)
    made = [adam(model, 0.1, 0.05, [model.users]) for model in (one, other)]
    users, items = torch.tensor([1, 2]), torch.tensor([0, 1])

    def step(model: nn.Module, optimiser: Adam) -> None:
        optimiser.clear()
        losses(model, users, items).backward()
        optimiser.step()

    for _ in range(2):
        step(one, made[0])
    other.load_state_dict(one.state_dict())
    made[1].load_state_dict({name: tensor.clone() for name, tensor in made[0].state_dict().items()})
    for model, optimiser in zip((one, other), made, strict=True):
        step(model, optimiser)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_repeated_rows_are_summed() -> None:
    grad = torch.sparse_coo_tensor(
        torch.tensor([[3, 1, 3]]), torch.tensor([[1.0], [2.0], [4.0]]), (5, 1), check_invariants=True
    )
    rows, values = touched(grad)
    assert rows.tolist() == [1, 3]
    assert values.flatten().tolist() == [2.0, 5.0]
