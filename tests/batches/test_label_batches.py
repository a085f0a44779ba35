"""Labelled examples on a device: batches, crops and flips, scaling, and frozen networks' logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from accord.batches import label_batches, labels, scaling
from accord.batches.label_batches import LabelBatch, as_network_input
from accord.batches.labels import LabelData, LabelFeed, on_shared_inputs
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation
from accord.models.classifiers import MLP
from accord.models.stack import stack

RUNS = [1, 3]


def images(count: int = 30) -> torch.Tensor:
    return torch.randint(0, 256, (count, 6, 5, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def whole(values: torch.Tensor, rows: torch.Tensor | None = None, **more: Any) -> LabelData:
    labels = torch.arange(len(values))
    rows = torch.arange(len(values)) if rows is None else rows
    return LabelData(values, labels, rows, Scaling.of(values), **more)


def feed(data: LabelData, batch_size: int = 6, runs: int = 1) -> LabelFeed:
    """Runs with the same inputs; the labels of run r are moved by r."""
    return LabelFeed([_moved(data, r) for r in range(runs)], batch_size)


def _moved(data: LabelData, by: int) -> LabelData:
    return LabelData(
        data.inputs, data.labels.roll(by), data.rows, data.scaling, data.augmentation, data.precision, data.start
    )


def streams(seed: int, runs: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(100 * seed + r) for r in range(runs)]


def networks(runs: int, shape: tuple[int, ...] = (4,)) -> list[MLP]:
    each = []
    for r in range(runs):
        torch.manual_seed(r)
        each.append(MLP(shape, 3).eval())
    return each


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


@pytest.mark.parametrize("runs", RUNS)
def test_an_epoch_has_every_example_once_and_the_last_batch_is_smaller(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_batches, "CHUNK_BATCHES", 2)  # several chunks
    data = whole(torch.randn(23, 4), rows=torch.arange(3, 23))
    of_all = feed(data, 6, runs)
    batches = [(len(b), b.rows.clone(), b.labels.clone(), b.inputs.clone()) for b in of_all.epoch(streams(0, runs))]
    assert [size for size, *_ in batches] == [6, 6, 6, 2]
    assert of_all.steps({}) == 4
    rows, labels = (torch.cat([batch[k] for batch in batches], 1) for k in (1, 2))
    inputs = torch.cat([batch[3] for batch in batches], 1)
    for r in range(runs):
        assert sorted(rows[r].tolist()) == list(range(3, 23))
        assert rows[r].tolist() != list(range(3, 23))
        assert torch.equal(labels[r], data.labels.roll(r)[rows[r]])
        assert torch.allclose(inputs[r], ((data.inputs - data.scaling.mean) / data.scaling.std)[rows[r]])
    assert runs == 1 or not torch.equal(rows[0], rows[1])


@pytest.mark.parametrize("runs", RUNS)
def test_an_epoch_of_some_positions_has_these_alone(runs: int) -> None:
    data = whole(torch.randn(23, 4), rows=torch.arange(3, 23))
    positions = torch.tensor([[0, 5], [1, 6], [19, 7]])[:runs]
    of_all = feed(data, 6, runs)
    (batch,) = of_all.epoch(streams(0, runs), positions=positions)
    assert batch.rows.sort(1).values.tolist() == (positions + 3).sort(1).values.tolist()
    assert of_all.steps({"positions": positions}) == 1


@pytest.mark.parametrize("augmented", [False, True])
def test_each_run_gets_the_batches_it_would_get_alone(augmented: bool) -> None:
    data = whole(images(), augmentation=Augmentation(pad=2) if augmented else None)
    together = [(b.rows.clone(), b.inputs.clone()) for b in feed(data, 7, 3).epoch(streams(0, 3))]
    for r in range(3):
        own = LabelFeed([data], 7).epoch([streams(0, 3)[r]])
        for (rows, inputs), batch in zip(together, own, strict=True):
            assert torch.equal(rows[r], batch.rows[0])
            assert torch.equal(inputs[r], batch.inputs[0])


def test_one_example_alone_is_no_batch() -> None:
    """It has no batch statistics."""
    assert [len(b) for b in feed(whole(torch.randn(13, 4)), 6).epoch(streams(0, 1))] == [6, 6]
    assert [len(b) for b in feed(whole(torch.randn(1, 4)), 6).epoch(streams(0, 1))] == [1]


def test_unlike_inputs_are_laid_end_to_end() -> None:
    torch.manual_seed(0)
    each = [whole(torch.randn(9, 4) * (k + 1) + k) for k in range(3)]
    shared = on_shared_inputs([*each, each[1]])
    assert len({id(data.inputs) for data in shared}) == 1
    assert [data.start for data in shared] == [0, 9, 18, 9]
    together = list(LabelFeed(shared, 4).in_order())
    for r, data in enumerate([*each, each[1]]):
        own = torch.cat([batch.inputs[r] for batch in together])
        assert torch.equal(own, torch.cat([batch.inputs[0] for batch in LabelFeed([data], 4).in_order()]))
    assert on_shared_inputs([each[0], each[0]])[0].inputs is each[0].inputs


def test_the_same_rows_of_the_same_inputs_are_known_as_such() -> None:
    data = whole(torch.randn(9, 4), rows=torch.arange(5))
    assert data.same_as(_moved(data, 0))
    assert not data.same_as(_moved(data, 1))
    assert not data.same_as(whole(data.inputs, rows=torch.arange(4)))
    assert not data.same_as(whole(data.inputs.clone(), rows=torch.arange(5)))
    unseen = _moved(data, 0)
    unseen.labels[7] = 0  # a row that it does not train on
    assert data.same_as(unseen)


def test_scaling_by_blocks_is_scaling_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(50, 3) * 5 + 2
    whole_scaling = Scaling.of(values)
    monkeypatch.setattr(scaling, "SCALING_BLOCK", 7)
    blocks = Scaling.of(values)
    assert torch.allclose(blocks.mean, whole_scaling.mean)
    assert torch.allclose(blocks.std, values.std(0, unbiased=False))


def test_scaling_centres_and_spares_constant_columns() -> None:
    values = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    (batch,) = LabelFeed([whole(values)]).in_order()
    assert torch.allclose(batch.inputs[0], torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))


@pytest.mark.parametrize("runs", RUNS)
def test_frozen_logits_are_the_networks_own(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_batches, "CHUNK_BATCHES", 2)
    each = networks(runs)
    joined, of_all = stack(networks(runs)).eval(), feed(whole(torch.randn(20, 4)), 6, runs)
    for epoch in range(2):
        for batch in of_all.epoch(streams(epoch, runs)):
            frozen = batch.frozen_logits(joined)
            for r, network in enumerate(each):
                assert torch.allclose(frozen[r], network(batch.inputs[r]), atol=1e-6)
            assert not frozen.requires_grad


@pytest.mark.parametrize("augmented", [False, True])
def test_frozen_logits_of_shared_members_go_to_every_run(augmented: bool) -> None:
    """The first and the third run share what one member says."""
    each = [networks(2, (2, 6, 5))[k] for k in (0, 1, 0)]
    data = whole(images(20), augmentation=Augmentation() if augmented else None)
    joined, of_all = stack([networks(2, (2, 6, 5))[k] for k in (0, 1, 0)]).eval(), feed(data, 6, 3)
    joined.share([[0, 2], [1]])
    own = [torch.Generator().manual_seed(seed) for seed in (0, 1, 0)]  # alike in all
    for batch in of_all.epoch(own):
        frozen = batch.frozen_logits(joined)
        for r, network in enumerate(each):
            assert torch.allclose(frozen[r], network(batch.inputs[r]), atol=1e-5)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("most", "augmented", "asked"), [(10**6, False, 20), (10, False, 80), (10**6, True, 60)])
def test_frozen_networks_are_asked_once_for_all_epochs(
    most: int, augmented: bool, asked: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where examples stay as they are and there is room for what is said of them."""
    monkeypatch.setattr(labels, "FROZEN_NUMBERS", most)
    monkeypatch.setattr(label_batches, "BLOCK", 30)
    monkeypatch.setattr(labels, "BLOCK", 30)
    data, seen = whole(images(20)), list[int]()
    data.augmentation = Augmentation() if augmented else None
    joined: Any = stack(networks(runs, (2, 6, 5))).eval()
    outputs = joined.outputs
    monkeypatch.setattr(joined, "outputs", lambda inputs: seen.append(inputs.shape[1]) or outputs(inputs))
    of_all = feed(data, 6, runs)
    for epoch in range(3):
        for batch in of_all.epoch(streams(epoch, runs)):
            assert torch.allclose(batch.frozen_logits(joined), outputs(batch.inputs)[1], atol=1e-5)
    most_at_once = 30 if runs == 1 else 10  # of the first block it is told that they are too many
    assert sum(seen) == (asked if most == 10**6 else 60 + min(20, most_at_once))


@pytest.mark.parametrize("runs", RUNS)
def test_the_moving_batch_is_the_one_its_position_names(runs: int) -> None:
    data = whole(images(24))
    for batch in feed(data, 8, runs).epoch(streams(0, runs)):
        assert batch.chunk is not None
        batch.chunk.position.fill_(batch.index)
        moving = batch.chunk.moving()
        assert torch.equal(moving.inputs, batch.inputs)
        assert torch.equal(moving.labels, batch.labels)
        assert moving.inputs.shape == (runs, 8, 2, 6, 5)
        assert moving.inputs[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("runs", RUNS)
def test_a_walk_over_the_rows_is_the_same_for_a_number_and_a_tensor(runs: int) -> None:
    of_all = feed(whole(torch.randn(7, 2)), 6, runs)
    assert of_all.at(2, 3).rows.tolist() == [[6, 0, 1]] * runs
    assert torch.equal(of_all.at(2, 3).inputs, of_all.at(torch.tensor(2), 3).inputs)
    assert of_all.at(0, 3).labels[-1].tolist() == torch.arange(7).roll(runs - 1)[:3].tolist()


@pytest.mark.parametrize("runs", RUNS)
def test_other_parameters_leave_the_networks_alone(runs: int) -> None:
    joined: Any = stack(networks(runs))
    batch = next(iter(feed(whole(torch.randn(6, 4)), 6, runs).in_order()))
    before = batch.logits(joined).detach()
    doubled = {name: 2 * value.detach() for name, value in joined.named_parameters()}
    other = batch.logits_with(joined, doubled)
    assert not torch.allclose(other, before)
    assert torch.equal(joined(batch.inputs), before)
    for name, parameter in joined.named_parameters():
        parameter.data.copy_(doubled[name])
    assert torch.allclose(other, joined(batch.inputs))


def test_accuracy_is_the_share_of_labels_that_a_run_gives_as_told() -> None:
    """Runs that have stopped are asked too, and their answers are left out."""
    torch.manual_seed(0)
    data = whole(torch.randn(20, 4))
    sets = [LabelData(data.inputs, torch.randint(0, 3, (20,)), data.rows, data.scaling) for _ in range(2)]
    joined, each = stack(networks(3)).eval(), networks(3)
    found = sets[0].measure(joined, [2, 0], sets)["accuracy"]
    inputs = next(iter(LabelFeed([data]).in_order())).inputs[0]
    for ours, r, own in zip(found.tolist(), (2, 0), sets, strict=True):
        assert ours == pytest.approx(float((each[r](inputs).argmax(1) == own.labels).float().mean()))


def test_batches_of_some_runs() -> None:
    batch = next(iter(feed(whole(images(9)), 6, 3).in_order()))
    own = batch.of_runs(torch.tensor([2, 0]))
    assert isinstance(own, LabelBatch)
    assert torch.equal(own.labels, batch.labels[[2, 0]])
    assert torch.equal(own.inputs, batch.inputs[[2, 0]])
    assert as_network_input(torch.zeros(3, 9, 6, 5, 2)).shape == (3, 9, 2, 6, 5)
