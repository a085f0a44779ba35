"""The Triton product against torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord.kernels import spmm as module
from accord.kernels._triton import triton
from accord.kernels.spmm import cut, spmm, triton_spmm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(triton is None, reason="needs Triton")


def made(rows: int, columns: int, width: int, runs: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A graph, what it is multiplied by and what that is added to."""
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(rows, columns, generator=generator)
    dense[torch.rand(rows, columns, generator=generator) < 0.7] = 0.0
    dense[0] = 0.0  # a user without a click
    each = (torch.randn(runs, n, width, generator=generator).to(DEVICE) for n in (columns, rows))
    return dense.to_sparse_csr().to(DEVICE), *each


@needs_triton
@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize(("runs", "width"), [(1, 1), (1, 7), (1, 300), (3, 1), (3, 7), (5, 64)])
@pytest.mark.parametrize("piece", [1, 3, 64])
def test_own_product_is_the_product(runs: int, width: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    graph, other, base = made(9, 11, width, runs)
    ours = triton_spmm(graph, other, base, 0.25)
    assert torch.allclose(ours, 0.25 * (base + graph.to_dense() @ other), rtol=1e-5, atol=1e-5)
    assert torch.equal(ours, triton_spmm(graph, other, base, 0.25))
    beside = other.transpose(0, 1).contiguous().transpose(0, 1)  # in another order of memory
    assert torch.equal(ours, triton_spmm(graph, beside, base, 0.25))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 4))
def test_the_pieces_are_the_rows(counts: list[int], piece: int) -> None:
    """Each entry is in one piece of its row, and the parts of a row stand in its order."""
    starts = torch.tensor([0, *counts]).cumsum(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        pieces = cut(starts)
    found: dict[int, list[int]] = {row: [] for row in range(len(counts))}
    parts: dict[int, range] = {}
    for begin, end, to in zip(*(each.tolist() for each in pieces[:3]), strict=True):
        assert end - begin <= piece
        if to >= 0:
            found[to] += range(begin, end)
        else:
            parts[-1 - to] = range(begin, end)
    assert sorted(parts) == list(range(pieces.parts))
    for row, first, last in zip(*(each.tolist() for each in pieces[3:6]), strict=True):
        assert last - first > 1
        for part in range(first, last):
            found[row] += parts[part]
    assert found == {row: list(range(starts[row], starts[row + 1])) for row in found}


@needs_triton
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_an_empty_graph() -> None:
    graph = torch.zeros(4, 3).to_sparse_csr().to(DEVICE)
    base = torch.full((1, 4, 2), 5.0, device=DEVICE)
    assert torch.equal(triton_spmm(graph, torch.ones(1, 3, 2, device=DEVICE), base), base)
    nothing = triton_spmm(graph, torch.ones(1, 3, 0, device=DEVICE), torch.ones(1, 4, 0, device=DEVICE))
    assert nothing.shape == (1, 4, 0)


@needs_triton
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_what_is_multiplied_may_be_what_is_added_to() -> None:
    graph, other, _ = made(9, 9, 5, 3)
    expected = 0.25 * (other + graph.to_dense() @ other)
    assert torch.allclose(triton_spmm(graph, other, other, 0.25), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("runs", [1, 3])
def test_without_a_gpu_torch_multiplies(runs: int) -> None:
    graph, other, base = (tensor.cpu() for tensor in made(9, 11, 5, runs))
    expected = 0.5 * (base + graph.to_dense() @ other)
    assert torch.allclose(spmm(graph, other, base, 0.5), expected, rtol=1e-5, atol=1e-5)
