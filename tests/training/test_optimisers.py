"""Adam by rows: what it shares with dense Adam, and where it differs by design."""

from __future__ import annotations

import pytest
import torch
from accord.training.optimisers import Adam, touched
from torch import nn

from accord.models import CDAE, GMF, MF, NeuMF

USERS, ITEMS = 9, 7


def losses(model: nn.Module, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(model.logits(users, items)).sum()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF])
def test_when_every_row_is_touched_rows_are_dense(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    start = kind(USERS, ITEMS, 4)
    models = [kind(USERS, ITEMS, 4) for _ in range(2)]
    users, items = torch.arange(USERS).repeat(3), torch.arange(27) % ITEMS
    for model, updates in zip(models, ("dense", "rows"), strict=True):
        model.load_state_dict(start.state_dict())
        optimiser = Adam([(model, 0.01)], 0.05, 4, updates)  # pyright: ignore[reportArgumentType]
        assert (optimiser.rows is not None) == (updates == "rows")
        for _ in range(6):
            optimiser.clear()
            losses(model, users, items).backward()
            optimiser.step()
    for dense, rows in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(dense, rows, rtol=1e-4, atol=1e-6)


def test_untouched_rows_rest() -> None:
    model = MF(USERS, ITEMS, 4)
    before = model.users.detach().clone()
    optimiser = Adam([(model, 0.5)], 0.05, 4, "rows")
    for users in ([1, 2], [2, 3]):
        optimiser.clear()
        losses(model, torch.tensor(users), torch.tensor([0, 1])).backward()
        optimiser.step()
    moved = (model.users != before).any(1).tolist()
    assert moved == [user in (1, 2, 3) for user in range(USERS)]


def test_large_tables_alone_are_updated_by_rows() -> None:
    model = CDAE(1000, ITEMS, 4)
    optimiser = Adam([(model, 0.0)], 0.01, batch_size=32, updates="auto")
    assert optimiser.rows is not None
    assert [table.shape for table, _ in optimiser.rows.tables] == [(1000, 4)]


def test_repeated_rows_are_summed() -> None:
    grad = torch.sparse_coo_tensor(
        torch.tensor([[3, 1, 3]]), torch.tensor([[1.0], [2.0], [4.0]]), (5, 1), check_invariants=True
    )
    rows, values = touched(grad)
    assert rows.tolist() == [1, 3]
    assert values.flatten().tolist() == [2.0, 5.0]
