"""Whole rows of runs that learn from clicks of their own, as one batch."""

from __future__ import annotations

import numpy as np
import torch

from accord.batches.clicks import ClickFeed
from accord.data.interactions import Interactions


def clicks(seed: int) -> Interactions:
    pairs = np.random.default_rng(seed).permutation(30 * 20)[:120]
    return Interactions.from_pairs(pairs // 20, pairs % 20, 30, 20)


def test_each_run_has_the_batches_it_would_have_alone() -> None:
    each = [clicks(seed) for seed in range(3)]
    generators = [torch.Generator().manual_seed(k) for k in range(3)]
    batches = list(ClickFeed(each, 40, True, False).epoch(generators))
    assert len(batches) == 3
    for k, data in enumerate(each):
        alone = list(ClickFeed([data], 40, True, False).epoch([torch.Generator().manual_seed(k)]))
        assert len(alone) == len(batches)
        for batch, own in zip(batches, alone, strict=True):
            assert batch.items.shape[:2] == (2, 3)
            assert batch.inside is not None
            assert int(batch.inside[k].sum()) == len(own)
            assert torch.equal(batch.users[k, : len(own)], own.users[0])
            assert torch.equal(batch.items[:, k, : len(own)], own.items[:, 0])
