"""NeuMF's perceptron for every user and every item, without holding a hidden layer of any pair.

Ranking all items for all users sends every pair through three layers. Written as products of matrices that is
memory traffic: hundreds of numbers of every pair go out and come back between layers. Here a program of a Triton
kernel takes a block of users and items, keeps their layers in registers and writes one number for each pair.
Each product is the sum of three in TF32, which comes close to float32.
"""

# Triton may be missing, so that its types are variables:
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.kernels._triton import jit, kernels_work, tl, triton

USERS, ITEMS, STEP = 8, 16, 32
"""Users and items of a program, and how much of the first layer it reads at a time."""
SUPPORTED = frozenset((16, 32, 64))
"""Widths of the last layer; those before have two and four times as much."""


@jit
def _pairs_kernel(
    of_users, of_items, weight2, bias2, weight3, bias3, weight4, out, users, items, W: tl.constexpr,
    H: tl.constexpr, D: tl.constexpr, USERS: tl.constexpr, ITEMS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    pair = tl.arange(0, USERS * ITEMS)
    blocks = tl.cdiv(items, ITEMS)  # one dimension: the others hold no more than 65,535 programs
    user = (tl.program_id(0) // blocks).to(tl.int64) * USERS + pair // ITEMS
    item = (tl.program_id(0) % blocks).to(tl.int64) * ITEMS + pair % ITEMS
    known_user, known_item = (user < users)[:, None], (item < items)[:, None]
    h, d = tl.arange(0, H), tl.arange(0, D)
    second = tl.zeros((USERS * ITEMS, H), tl.float32)
    for k in range(0, W, STEP):
        at = k + tl.arange(0, STEP)
        first = tl.load(of_users + user[:, None] * W + at[None, :], mask=known_user, other=0.0)
        first += tl.load(of_items + item[:, None] * W + at[None, :], mask=known_item, other=0.0)
        part = tl.load(weight2 + h[None, :] * W + at[:, None])
        second += tl.dot(tl.maximum(first, 0.0), part, input_precision="tf32x3")
    second = tl.maximum(second + tl.load(bias2 + h)[None, :], 0.0)
    third = tl.dot(second, tl.load(weight3 + d[None, :] * H + h[:, None]), input_precision="tf32x3")
    third = tl.maximum(third + tl.load(bias3 + d)[None, :], 0.0)
    score = tl.sum(third * tl.load(weight4 + d)[None, :], 1)
    tl.store(out + user * items + item, score, mask=(user < users) & (item < items))


def can_score_pairs(of_users: Tensor, third: nn.Linear) -> bool:
    """Whether the kernel can score here."""
    return (
        of_users.dtype == torch.float32
        and third.out_features in SUPPORTED
        and (third.out_features < 64 or _is_roomy(of_users.device))
        and not torch.is_grad_enabled()
        and kernels_work(of_users.device)
    )


def _is_roomy(device: torch.device) -> bool:
    """Whether a block of the widest layers fits into the registers: before Hopper it does not."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (9, 0)


def score_pairs(of_users: Tensor, of_items: Tensor, second: nn.Linear, third: nn.Linear, weight: Tensor) -> Tensor:
    """What the perceptron adds to the score of every user (B, W) and item (I, W): (B, I).

    A pair's first layer is the ReLU of the sum of the two.
    """
    users, items, dims = len(of_users), len(of_items), third.out_features
    out = of_users.new_empty(users, items)
    if out.numel():
        grid = (triton.cdiv(items, ITEMS) * triton.cdiv(users, USERS),)
        parts = (second.weight, second.bias, third.weight, third.bias, weight)
        _pairs_kernel[grid](
            of_users.contiguous(), of_items.contiguous(), *(part.contiguous() for part in parts), out, users, items,
            4 * dims, 2 * dims, dims, USERS, ITEMS, STEP, num_warps=8, num_stages=1,
        )  # fmt: skip
    return out
