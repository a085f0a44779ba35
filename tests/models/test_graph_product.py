"""The Triton product against torch's; on the CPU, run with TRITON_INTERPRET=1."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

from accord.models.graph_product import graph_product, own_product

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or (DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"),
    reason="needs Triton, and CUDA or TRITON_INTERPRET=1",
)


def made(rows: int, columns: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(rows, columns, generator=generator)
    dense[torch.rand(rows, columns, generator=generator) < 0.7] = 0.0
    dense[0] = 0.0  # a user without a click
    other = torch.randn(columns, width, generator=generator)
    return dense.to_sparse_csr().to(DEVICE), other.to(DEVICE)


@needs_triton
@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("width", [1, 7, 64, 300])
def test_own_product_is_the_product(width: int) -> None:
    graph, other = made(9, 11, width)
    ours = own_product(graph, other)
    assert torch.allclose(ours, graph.to_dense() @ other, rtol=1e-5, atol=1e-5)
    assert torch.equal(ours, own_product(graph, other))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_without_a_gpu_torch_multiplies() -> None:
    graph, other = (tensor.cpu() for tensor in made(9, 11, 5))
    assert torch.equal(graph_product(graph, other), graph @ other)
