"""Soft targets, pairs that are mixed, and images that are strongly augmented, in the batches of labels."""

from __future__ import annotations

import pytest
import torch

from accord.batches.label_batches import mixed
from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation
from accord.objectives.multiclass import cross_entropy


def taught(count: int = 11, runs: int = 2, mixup: float = 0.0) -> LabelFeed:
    """Runs on the same inputs, each with targets of its own; feature k of example i is i, to see who was mixed."""
    values = torch.arange(count, dtype=torch.float32)[:, None].expand(count, 3).contiguous()
    plain = Scaling(torch.zeros(3), torch.ones(3))
    each = []
    for r in range(runs):
        targets = torch.softmax(torch.randn(count, 4, generator=torch.Generator().manual_seed(r)), 1)
        labels, rows = torch.zeros(count, dtype=torch.int64), torch.arange(count)
        each.append(LabelData(values, labels, rows, plain, targets=targets, mixup=mixup))
    return LabelFeed(each, 4)


def streams(runs: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(r) for r in range(runs)]


def test_targets_go_with_their_examples_and_take_the_place_of_labels() -> None:
    feed = taught()
    for batch in feed.epoch(streams(2)):
        assert batch.targets is not None
        for r, data in enumerate(feed.each):
            assert data.targets is not None
            assert torch.equal(batch.targets[r], data.targets[batch.rows[r]])
        assert batch.taught is batch.targets


def test_mixing_takes_the_same_share_of_partner_and_partners_target_and_leaves_padding_alone() -> None:
    feed, seen = taught(mixup=1.0), 0
    for batch in feed.epoch(streams(2)):
        assert batch.targets is not None
        for r, data in enumerate(feed.each):
            assert data.targets is not None
            own = batch.rows[r].float()
            partner = own.flip(0)
            told = batch.inputs[r][:, 0]
            apart = partner != own
            shares = ((told - own) / (partner - own))[apart]
            assert shares.numel() == 0 or (shares - shares[0]).abs().max() < 1e-5  # one share for the batch
            share = float(shares[0]) if shares.numel() else 0.0
            assert -1e-6 <= share <= 0.5 + 1e-6
            seen += share > 0.01
            want = data.targets[batch.rows[r]].lerp(data.targets[batch.rows[r].flip(0)], share)
            assert torch.allclose(batch.targets[r][apart], want[apart], atol=1e-5)
        assert torch.allclose(batch.targets.sum(2), torch.ones(1))
    assert seen >= 3  # something was mixed


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_partners_are_the_first_and_the_last_of_what_counts(last: int) -> None:
    values = torch.arange(16.0).view(2, 2, 4)
    shares = torch.tensor([[0.5, 0.25], [0.1, 0.0]])
    told = mixed(values, shares, last)
    for b in range(2):
        size = 4 if b == 0 else last
        for r in range(2):
            for i in range(size):
                share = float(shares[b, r])
                want = (1 - share) * values[b, r, i] + share * values[b, r, size - 1 - i]
                assert float(told[b, r, i]) == pytest.approx(float(want))


def test_soft_cross_entropy_is_the_mean_over_the_target() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 5, 3), torch.softmax(torch.randn(2, 5, 3), 2)
    found = cross_entropy(logits, targets)
    for r in range(2):
        for i in range(5):
            p = torch.softmax(logits[r, i], 0)
            want = -sum(float(targets[r, i, c]) * float(p[c].log()) for c in range(3))
            assert float(found[r, i]) == pytest.approx(want, rel=1e-5)


def test_strong_augmentation_changes_colours_and_cuts_a_square_out() -> None:
    augmentation = Augmentation(strong=True)
    draws = augmentation.draw(6, torch.Generator().manual_seed(3))
    images = torch.rand(6, 12, 12, 3, generator=torch.Generator().manual_seed(4)) + 0.1
    told = augmentation.disturb(images, draws)
    for k in range(6):
        row, column = float(draws.row[k]) * 12, float(draws.column[k]) * 12
        for y in range(12):
            for x in range(12):
                one = images[k, y, x]
                if abs(y + 0.5 - row) <= 2 and abs(x + 0.5 - column) <= 2:
                    assert (told[k, y, x] == 0).all()
                    continue
                grey = one.mean()
                want = grey + (one - grey) * (1 + 0.4 * draws.saturation[k])
                want = want * (1 + 0.4 * draws.contrast[k]) + 0.4 * draws.brightness[k]
                assert torch.allclose(told[k, y, x], want, atol=1e-5)
    weak = Augmentation()
    assert weak.disturb(images, weak.draw(6, torch.Generator().manual_seed(3))) is images
