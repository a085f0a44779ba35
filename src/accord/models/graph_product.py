"""A sparse matrix times a dense one, with sums in one order: the same bytes every time.

On a GPU cuSPARSE divides the rows among its threads as it sees fit, and its sums come out differently from run to
run. Here a program of a Triton kernel takes one row and a block of columns, and adds up the row's entries in their
order. Elsewhere, and without Triton, torch's own product serves.
"""

# Triton may be missing, and what it makes of a function, pyright cannot see:
# pyright: reportPossiblyUnboundVariable=false, reportIndexIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import torch
from torch import Tensor

from accord.scatter import kernels_work

try:
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]
except ImportError:  # as on a machine without CUDA
    triton = None

BLOCK = 256
"""Columns of the dense matrix that a program takes."""

if triton is not None:

    @triton.jit
    def _product_kernel(starts, columns, values, dense, out, width, BLOCK: tl.constexpr):  # pyright: ignore
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = at < width
        total = tl.zeros((BLOCK,), tl.float32)
        first = tl.load(starts + row)
        last = tl.load(starts + row + 1)
        for k in range(first, last):
            column = tl.load(columns + k).to(tl.int64)
            total += tl.load(values + k) * tl.load(dense + column * width + at, mask=inside, other=0.0)
        tl.store(out + row * width + at, total, mask=inside)


def graph_product(graph: Tensor, dense: Tensor) -> Tensor:
    """``graph @ dense`` of a CSR matrix and a dense one."""
    if dense.dtype != torch.float32 or not kernels_work(graph.device):
        return graph @ dense
    return own_product(graph, dense)


def own_product(graph: Tensor, dense: Tensor) -> Tensor:
    """The same by our own kernel."""
    rows, width = graph.shape[0], dense.shape[1]
    out = torch.empty(rows, width, dtype=dense.dtype, device=dense.device)
    block = min(BLOCK, triton.next_power_of_2(width))
    grid = (rows, triton.cdiv(width, block))
    _product_kernel[grid](
        graph.crow_indices(), graph.col_indices(), graph.values(), dense.contiguous(), out, width, BLOCK=block
    )
    return out
