"""Labelled examples on a device: batches, crops and flips, scaling, and frozen networks' logits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from accord.data.labelled import LabelledData, Scaling

from accord.data import labelled
from accord.data.augmentation import Augmentation
from accord.models import MLP


def images(count: int = 30) -> torch.Tensor:
    return torch.randint(0, 256, (count, 6, 5, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def whole(values: torch.Tensor, rows: torch.Tensor | None = None, **more: object) -> LabelledData:
    labels = torch.arange(len(values))
    rows = torch.arange(len(values)) if rows is None else rows
    return LabelledData(values, labels, rows, Scaling.of(values), **more)  # pyright: ignore


def test_crops_and_flips_are_the_plain_ones() -> None:
    pad, values = 2, images()
    augmentation = Augmentation(pad=pad)
    draws = augmentation.draw(len(values), torch.Generator().manual_seed(1))
    rows = torch.randperm(len(values), generator=torch.Generator().manual_seed(2))
    fast = augmentation.take(values, rows, draws)
    assert 5 < int(draws.flip.sum()) < 25
    for k, row in enumerate(rows.tolist()):
        padded = F.pad(values[row].permute(2, 0, 1), (pad, pad, pad, pad))
        top, left = int(draws.down[k]) + pad, int(draws.right[k]) + pad
        crop = padded[:, top : top + 6, left : left + 5]
        plain = crop.flip(2) if draws.flip[k] else crop
        assert torch.equal(fast[k].permute(2, 0, 1), plain)


@pytest.mark.parametrize("flip", [True, False])
def test_without_flips_none_is_flipped(flip: bool) -> None:
    draws = Augmentation(pad=0, flip=flip).draw(50, torch.Generator().manual_seed(0))
    assert bool(draws.flip.any()) == flip
    assert not draws.down.any()


def test_an_epoch_has_every_example_once_and_the_last_batch_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "CHUNK_BATCHES", 2)  # several chunks
    data = whole(torch.randn(23, 4), rows=torch.arange(3, 23))
    batches = [
        (len(b), b.labels.clone(), b.inputs.clone()) for b in data.epoch(6, torch.Generator().manual_seed(0))
    ]
    assert [size for size, _, _ in batches] == [6, 6, 6, 2]
    order = torch.cat([labels for _, labels, _ in batches])
    assert sorted(order.tolist()) == list(range(3, 23))
    assert order.tolist() != list(range(3, 23))
    assert torch.allclose(torch.cat([x for _, _, x in batches]), data.scaling(data.inputs[order]))
    chosen = [b.labels.clone() for b in data.epoch(6, torch.Generator(), positions=torch.tensor([0, 5]))]
    assert sorted(torch.cat(chosen).tolist()) == [3, 8]


def test_scaling_by_blocks_is_scaling_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(50, 3) * 5 + 2
    whole_scaling = Scaling.of(values)
    monkeypatch.setattr(labelled, "SCALING_BLOCK", 7)
    blocks = Scaling.of(values)
    assert torch.allclose(blocks.mean, whole_scaling.mean)
    assert torch.allclose(blocks.std, values.std(0, unbiased=False))


def test_scaling_centres_and_spares_constant_columns() -> None:
    values = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    scaled = Scaling.of(values)(values)
    assert torch.allclose(scaled, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))


def test_frozen_logits_are_the_networks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "CHUNK_BATCHES", 2)
    data, network = whole(torch.randn(20, 4)), MLP((4,), 3).eval()
    for epoch in range(2):
        for batch in data.epoch(6, torch.Generator().manual_seed(epoch)):
            frozen = batch.frozen_logits(network)
            assert torch.allclose(frozen, network(batch.inputs), atol=1e-6)
            assert not frozen.requires_grad


@pytest.mark.parametrize(("most", "augmented", "asked"), [(10**6, False, 20), (10, False, 80), (10**6, True, 60)])
def test_frozen_networks_are_asked_once_for_all_epochs(
    most: int, augmented: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where examples stay as they are and there is room for what is said of them."""
    monkeypatch.setattr(labelled, "FROZEN_NUMBERS", most)
    monkeypatch.setattr(labelled, "BLOCK", 10)
    data, network, seen = whole(images(20)), MLP((2, 6, 5), 3).eval(), list[int]()
    data.augmentation = Augmentation() if augmented else None
    outputs = network.outputs
    monkeypatch.setattr(network, "outputs", lambda inputs: seen.append(len(inputs)) or outputs(inputs))
    for epoch in range(3):
        for batch in data.epoch(6, torch.Generator().manual_seed(epoch)):
            assert torch.allclose(batch.frozen_logits(network), outputs(batch.inputs)[1], atol=1e-5)
    assert sum(seen) == asked  # the first block, here all, tells that they are too many
    data.finish_phase()
    network.hidden[0].weight.data.mul_(2)  # pyright: ignore
    for batch in data.epoch(6, torch.Generator().manual_seed(0)):
        assert torch.allclose(batch.frozen_logits(network), outputs(batch.inputs)[1], atol=1e-5)


def test_the_moving_batch_is_the_one_its_position_names() -> None:
    data = whole(images(24))
    for batch in data.epoch(8, torch.Generator().manual_seed(0)):
        assert batch.chunk is not None
        batch.chunk.position.fill_(batch.index)
        moving = batch.chunk.moving()
        assert torch.equal(moving.inputs, batch.inputs)
        assert torch.equal(moving.labels, batch.labels)
        assert moving.inputs.shape == (8, 2, 6, 5)
        assert moving.inputs.is_contiguous(memory_format=torch.channels_last)


def test_a_walk_over_the_rows_is_the_same_for_a_number_and_a_tensor() -> None:
    data = whole(torch.randn(7, 2))
    assert data.at(2, 3).labels.tolist() == [6, 0, 1]
    assert torch.equal(data.at(2, 3).inputs, data.at(torch.tensor(2), 3).inputs)


def test_other_parameters_leave_the_network_alone() -> None:
    data, network = whole(torch.randn(6, 4)), MLP((4,), 3)
    batch = next(iter(data.in_order()))
    doubled = {name: 2 * value.detach() for name, value in network.named_parameters()}
    other = batch.logits_with(network, doubled)
    assert not torch.allclose(other, batch.logits(network))
    for parameter, name in ((p, n) for n, p in network.named_parameters()):
        parameter.data.copy_(doubled[name])
    assert torch.allclose(other, network(batch.inputs))
