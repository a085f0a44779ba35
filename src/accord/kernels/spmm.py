"""A sparse matrix times dense ones, added to others, with sums in one order: the same bytes every time.

On a GPU cuSPARSE divides the rows among its threads as it sees fit, and its sums come out differently from run to
run. Here every row is cut into pieces of a few entries, once for a matrix: a popular item has thousands of times
as many clicks as another. A program of a Triton kernel adds up one piece for a block of columns, of one run or
several. If a row has several pieces, a second kernel adds these up, always in the same order. Without a GPU or
without Triton, torch's own product is used.
"""

# Triton may be missing, so that its types are variables:
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from accord.kernels._triton import jit, kernels_work, tl, triton
from accord.kernels.segment_sum import cached_on

COLUMNS = 256
"""Columns of the dense matrices that a program takes, at most."""
PIECE = 64
"""Most entries of a row that a program adds up."""
AT_ONCE = 8
"""Rows that a program reads at a time."""


@jit
def _offsets(at, rows, WIDTH: tl.constexpr):
    """Where each column of the runs, side by side, begins: they lie one run after another."""
    return (at // WIDTH).to(tl.int64) * rows * WIDTH + at % WIDTH


@jit
def _finish(base, out, total, offset, inside, scale):
    tl.store(out + offset, (tl.load(base + offset, mask=inside, other=0.0) + total) * scale, mask=inside)


@jit
def _pieces_kernel(
    begin, end, to, columns, values, dense, read_rows, base, out, rows, parts, width, scale,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The sum over one piece, into its row where that has no other, else into the parts."""
    piece = tl.program_id(0)
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    source = _offsets(at, read_rows, WIDTH)
    first, last = tl.load(begin + piece), tl.load(end + piece)
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in range(first, last, AT_ONCE):
        entry = k + tl.arange(0, AT_ONCE)
        column = tl.load(columns + entry, mask=entry < last, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=entry < last, other=0.0)
        there = (entry < last)[:, None] & (at < width)[None, :]
        read = tl.load(dense + column[:, None] * WIDTH + source[None, :], mask=there, other=0.0)
        total += tl.sum(read * value[:, None], 0)
    row = tl.load(to + piece).to(tl.int64)
    if row >= 0:
        _finish(base, out, total, row * WIDTH + _offsets(at, rows, WIDTH), at < width, scale)
    else:
        tl.store(parts + (-1 - row) * width + at, total, mask=at < width)


@jit
def _joined_kernel(
    which, begin, end, parts, base, out, rows, width, scale,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """A row that was cut into several pieces."""
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first, last = tl.load(begin + tl.program_id(0)), tl.load(end + tl.program_id(0))
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in range(first, last, AT_ONCE):
        part = k + tl.arange(0, AT_ONCE)
        there = (part < last)[:, None] & (at < width)[None, :]
        total += tl.sum(tl.load(parts + part.to(tl.int64)[:, None] * width + at[None, :], mask=there, other=0.0), 0)
    row = tl.load(which + tl.program_id(0)).to(tl.int64)
    _finish(base, out, total, row * WIDTH + _offsets(at, rows, WIDTH), at < width, scale)


class Pieces(NamedTuple):
    """A matrix's rows, cut up."""

    begin: Tensor
    end: Tensor
    """The entries of each piece."""
    to: Tensor
    """The row of a piece that is its row's only one; else −1 − its index among the parts."""
    rows: Tensor
    """Rows of several pieces."""
    first: Tensor
    last: Tensor
    """The parts of each of these."""
    parts: int


def cut(starts: Tensor) -> Pieces:
    """The pieces of rows whose entries begin at ``starts`` (rows + 1); a row without entries is one empty piece."""
    starts = starts.long()
    counts = starts.diff()
    pieces = ((counts + PIECE - 1) // PIECE).clamp(min=1)
    row = torch.arange(len(counts), device=starts.device).repeat_interleave(pieces)
    first = pieces.cumsum(0) - pieces
    begin = starts[row] + (torch.arange(len(row), device=starts.device) - first[row]) * PIECE
    end = torch.minimum(begin + PIECE, starts[row + 1])
    is_part = (pieces > 1)[row]
    part = is_part.cumsum(0) - 1
    rows = (pieces > 1).nonzero().squeeze(1)
    first_part = part[first[rows]]
    numbers = (
        begin,
        end,
        torch.where(is_part, -1 - part, row),
        rows,
        first_part,
        first_part + pieces[rows],
    )
    return Pieces(*(each.int() for each in numbers), parts=int(is_part.sum()))


def spmm(graph: Tensor, dense: Tensor, base: Tensor, scale: float = 1.0) -> Tensor:
    """``scale * (base + graph @ dense)`` of a CSR matrix and several runs' dense ones (R, rows, width)."""
    if dense.dtype == torch.float32 and kernels_work(graph.device):
        return triton_spmm(graph, dense, base, scale)
    out = torch.empty_like(base, memory_format=torch.contiguous_format)
    for run, own in enumerate(out):
        torch.addmm(base[run], graph, dense[run], beta=scale, alpha=scale, out=own)
    return out


def triton_spmm(graph: Tensor, dense: Tensor, base: Tensor, scale: float = 1.0) -> Tensor:
    """The same by the kernels."""
    dense, base = dense.contiguous(), base.contiguous()
    out = torch.empty_like(base)
    if not out.numel():
        return out
    pieces: Pieces = cached_on(graph, "pieces", lambda: cut(graph.crow_indices()))
    runs, rows, width = out.shape
    whole = runs * width
    parts = dense.new_empty(pieces.parts, whole)
    columns = min(COLUMNS, triton.next_power_of_2(whole))
    blocks = triton.cdiv(whole, columns)
    sizes = {"WIDTH": width, "COLUMNS": columns, "AT_ONCE": AT_ONCE}
    given = graph.col_indices(), graph.values(), dense, dense.shape[1], base, out, rows, parts, whole, scale
    _pieces_kernel[len(pieces.begin), blocks](*pieces[:3], *given, **sizes)
    if pieces.parts:
        joined = pieces.rows, pieces.first, pieces.last, parts, base, out, rows, whole, scale
        _joined_kernel[len(pieces.rows), blocks](*joined, **sizes)
    return out
