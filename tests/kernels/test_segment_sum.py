"""Sums by index against plain ones, by the kernel and without it."""

from __future__ import annotations

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.kernels._triton import triton
from accord.kernels.segment_sum import flattened, gather, segment_sum, segments, triton_segment_sum

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(triton is None, reason="needs Triton")


def plain(index: torch.Tensor, values: torch.Tensor, rows: int) -> torch.Tensor:
    total = torch.zeros(rows, *values.shape[1:], dtype=torch.float64, device=values.device)
    for row, value in zip(index.tolist(), values.double(), strict=True):
        total[row] += value
    return total


def drawn(entries: int, rows: int, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(entries)
    index = torch.randint(0, rows, (entries,), generator=generator).to(DEVICE)
    return index, torch.randn(entries, *shape, generator=generator).to(DEVICE)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 9), st.sampled_from([(), (1,), (3,), (2, 2)]))
def test_sums_are_the_plain_ones(entries: int, rows: int, shape: tuple[int, ...]) -> None:
    index, values = drawn(entries, rows, shape)
    expected = plain(index, values, rows)
    torch.testing.assert_close(segment_sum(index, values, rows).double(), expected, atol=1e-5, rtol=1e-5)


@needs_triton
@pytest.mark.parametrize(("shape", "many"), [((), 600), ((1,), 600), ((32,), 50), ((33,), 25), ((200,), 13)])
def test_our_kernel_gives_the_plain_sums(shape: tuple[int, ...], many: int) -> None:
    """Of so many rows that they take several programs, the last of which is not full, too."""
    for entries, rows in [(0, 5), (1, 1), (100, 7), (many // 4, many)]:
        index, values = drawn(entries, rows, shape)
        found = triton_segment_sum(index, values, rows)
        torch.testing.assert_close(found.double(), plain(index, values, rows), atol=1e-5, rtol=1e-5)
        assert torch.equal(found, triton_segment_sum(index.clone(), values, rows))


def test_segments_are_sorted_once_for_an_index() -> None:
    index = torch.tensor([2, 0, 2, 1])
    starts, order = segments(index, 4)
    assert starts.tolist() == [0, 1, 2, 4, 4]
    assert order.tolist() == [1, 3, 0, 2]
    assert segments(index, 4)[0] is starts
    both = torch.tensor([[2, 0], [2, 1]])
    assert flattened(both) is flattened(both)


def test_an_index_is_not_kept_alive_by_what_was_made_of_it() -> None:
    index = torch.zeros(2, 3, dtype=torch.int64)
    gone = weakref.ref(index)
    flat = flattened(index)
    segments(flat, 2)
    assert torch.equal(flat, index.reshape(-1))
    del index, flat
    assert gone() is None


def test_what_was_made_of_an_index_is_made_anew_when_it_changes() -> None:
    index = torch.zeros(2, 2, dtype=torch.int64)
    assert flattened(index).tolist() == [0, 0, 0, 0]
    starts, _ = segments(flattened(index), 3)
    assert starts.tolist() == [0, 4, 4, 4]
    index.fill_(2)
    assert segments(flattened(index), 3)[0].tolist() == [0, 0, 0, 4]


def test_gradients_of_gather_and_sum() -> None:
    table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([4, 0, 4, 2])
    assert torch.autograd.gradcheck(lambda t: gather(t, index), table)
    assert torch.autograd.gradcheck(lambda v: segment_sum(index, v, 5), values)
