"""The loop: early stopping, the best epoch, seeds, and steps that never wait for the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from accord.batches.clicks import ClickBatch, ClickFeed
from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.interactions import Interactions
from accord.errors import AccordError, SettingError
from accord.estimators import Classifier
from accord.estimators.classifier_training import data_of
from accord.estimators.settings import make_settings
from accord.methods import Phase, Setup, method_of, methods_of
from accord.models import recommender_factory
from accord.models.classifiers import ConvNet
from accord.models.stack import as_stack, stack
from accord.objectives import binary, multiclass
from accord.training import (
    PhaseTrainer,
    Progress,
    Run,
    TrainingOptions,
    derive,
    has_whole_gpu,
    resolve_device,
    seeded,
    stream,
    training,
)
from accord.training.phase_trainer import make_optimiser
from accord.training.random import OwnRandomness
from accord.training.stepping import Stepper

USERS, ITEMS = 30, 20
TRAINED = [name for name in methods_of("clicks") if name != "popularity" and not method_of(name, "clicks").convenes]
"""Those whose phases need nothing that was fitted before."""
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> Interactions:
    pairs = np.unique(np.random.default_rng(0).integers(0, USERS * ITEMS, 200))
    return Interactions.from_pairs(pairs // ITEMS, pairs % ITEMS, USERS, ITEMS)


def phases_of(method: str, seeds: Sequence[int] = (0,), device: str = "cpu") -> list[Phase]:
    """The phases of a stack of MFs, one of each seed."""

    def member(role: str, architecture: str | None, seed: int) -> nn.Module:
        with seeded(seed, role):
            made = recommender_factory(architecture or "mf", dims=4, item_bias=False)(USERS, ITEMS)
        return made if device == "cpu" else made.to(device)

    setup = Setup("clicks", binary, make_settings("clicks", {}))
    return (
        method_of(method, "clicks")()
        .bound(setup)
        .phases(lambda role, architecture=None: stack([member(role, architecture, seed) for seed in seeds]))
    )


def weights(network: nn.Module, run: int = 0) -> Tensor:
    member = as_stack(network).networks[run]
    return torch.cat([p.detach().flatten() for p in member.parameters()])


def train(phases: list[Phase], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Train to the end; gives the first run's history."""
    stacks = [as_stack(network) for phase in phases for network in phase.networks.values()]
    list(training(phases, list(dict.fromkeys(stacks)), [], runs))
    return runs[0].history


def options(**settings: Any) -> TrainingOptions:
    return TrainingOptions(**{"batch_size": 32, **settings})


def run(data: Interactions, seed: int = 0, method: str = "deca-p", epochs: int = 3) -> Tensor:
    phases = phases_of(method, [seed])
    train(phases, [Run(options(epochs=epochs, seed=seed), data, ClickFeed)])
    return torch.cat([weights(phase.networks[phase.target]) for phase in phases])


@pytest.mark.parametrize("method", TRAINED)
def test_same_seed_same_bytes(data: Interactions, method: str) -> None:
    assert torch.equal(run(data, 1, method), run(data, 1, method))
    assert not torch.equal(run(data, 1, method), run(data, 2, method))


def test_global_random_state_is_left_alone(data: Interactions) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = run(data)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    assert torch.equal(first, run(data))


def test_streams_depend_on_their_own_words_alone() -> None:
    assert derive(0, "a") != derive(0, "b") != derive(1, "b")
    assert torch.equal(torch.rand(3, generator=stream(CPU, 0, "a")), torch.rand(3, generator=stream(CPU, 0, "a")))


def test_layers_that_draw_have_a_stream_of_their_own() -> None:
    torch.manual_seed(5)
    before, drawn = torch.get_rng_state(), []
    for _ in range(2):
        own = OwnRandomness(3, "layers")
        for _ in range(2):
            with own:
                drawn.append(torch.rand(3))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[0], drawn[1])


class Scripted:
    """A set on which runs measure what they are told to; it keeps the weights it saw."""

    def __init__(self, values: Sequence[float], networks: Callable[[], dict[str, nn.Module]] | None = None) -> None:
        self.values, self.seen, self.networks = list(values), [], networks

    def same_as(self, other: object) -> bool:
        return self is other

    def measure(self, target: Any, which: Sequence[int], sets: Sequence[Scripted]) -> dict[str, Tensor]:
        found = []
        for place, one in zip(which, sets, strict=True):
            networks = {"target": target} if one.networks is None else one.networks()
            members = {role: as_stack(net) for role, net in networks.items()}
            own = {role: getattr(net, "_members", net.networks) for role, net in members.items()}
            one.seen.append({role: weights(each[place]).clone() for role, each in own.items()})
            found.append(one.values[len(one.seen) - 1])
        return {"ndcg@20": torch.tensor(found)}


def test_stops_early_and_restores_the_best_epoch(data: Interactions) -> None:
    valid = Scripted([0.1, 0.3, 0.2, 0.3, 0.1, 0.9])
    phases = phases_of("normal")
    history = train(phases, [Run(options(epochs=10, patience=3), data, ClickFeed, valid)])
    assert len(history) == 5  # epoch 2 is best; 3, 4 (only level) and 5 are not better
    assert [record["is_best"] for record in history] == [True, True, False, False, False]
    assert torch.equal(weights(phases[0].networks["target"]), valid.seen[1]["target"])


@pytest.mark.parametrize(("epochs", "steps", "stops"), [(2, 0, 4), (2, 4, 6), (2, 3.5, 6), (3, 2, 5), (0, 4, 8)])
def test_patience_is_so_many_epochs_and_so_many_steps(
    epochs: int, steps: float, stops: int, data: Interactions
) -> None:
    """Steps are told in epochs here; the second epoch is the best."""
    valid, step = Scripted([0.1, 0.3, *[0.2] * 6]), -(-len(data) // 32)
    chosen = options(epochs=8, patience=epochs, patient_steps=round(steps * step))
    assert len(train(phases_of("normal"), [Run(chosen, data, ClickFeed, valid)])) == stops


def test_only_a_patience_that_was_not_chosen_counts_steps() -> None:
    def waits(**chosen: Any) -> tuple[int, int]:
        found = make_settings("clicks", chosen).training_options(10)
        return found.patience, found.patient_steps

    assert waits() == (10, 300)
    assert [waits(patience=n) for n in (0, 10, 30)] == [(0, 0), (10, 0), (30, 0)]


def test_last_epoch_and_no_patience(data: Interactions) -> None:
    valid = Scripted([0.5, 0.1, 0.2, 0.1])
    phases = phases_of("normal")
    history = train(phases, [Run(options(epochs=4, patience=0, restore="last"), data, ClickFeed, valid)])
    assert len(history) == 4
    assert torch.equal(weights(phases[0].networks["target"]), valid.seen[-1]["target"])


@pytest.mark.parametrize("restore", ["best", "last"])
def test_each_run_of_a_stack_stops_when_it_would_alone(restore: str, data: Interactions) -> None:
    """And ends with the weights of its own best epoch, or of its own last."""
    scripts = [
        [0.1, 0.3, 0.2, 0.1],
        [0.5, 0.4, 0.3],
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.1, 0.1],
        [0.2, 0.1, 0.3, 0.2, 0.1],
    ]
    kept = {"best": [1, 0, 4, 2], "last": [3, 2, 6, 4]}[restore]
    phases, valid = phases_of("normal", range(4)), [Scripted(script) for script in scripts]
    chosen: dict[str, Any] = {"epochs": 20, "patience": 2, "restore": restore}
    runs = [Run(options(seed=k, **chosen), data, ClickFeed, one) for k, one in enumerate(valid)]
    train(phases, runs)
    for k, (one, own) in enumerate(zip(runs, valid, strict=True)):
        assert len(one.history) == len(own.seen) == len(scripts[k])
        assert torch.equal(weights(phases[0].networks["target"], k), own.seen[kept[k]]["target"])
        (alone,) = phases_of("normal", [k])
        again = Scripted(scripts[k])
        history = train([alone], [Run(options(seed=k, **chosen), data, ClickFeed, again)])
        assert [r["epoch"] for r in history] == [r["epoch"] for r in one.history]
        assert [r["is_best"] for r in history] == [r["is_best"] for r in one.history]
        assert torch.allclose(weights(alone.networks["target"]), own.seen[kept[k]]["target"], rtol=1e-2, atol=1e-4)


def test_deca_restores_the_noise_models_of_the_same_epoch(data: Interactions) -> None:
    phases = phases_of("deca")
    networks = phases[0].networks
    valid = Scripted([0.1, 0.9, 0.2], lambda: networks)
    train(phases, [Run(options(epochs=3), data, ClickFeed, valid)])
    for role in ("target", "noise_dp", "noise_dn"):
        assert torch.equal(weights(networks[role]), valid.seen[1][role])


def test_training_lowers_the_loss(data: Interactions) -> None:
    history = train(phases_of("normal"), [Run(options(epochs=30, learning_rate=0.02), data, ClickFeed)])
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


@pytest.mark.parametrize("runs", [1, 3])
def test_an_epoch_is_usable_by_itself(runs: int, data: Interactions) -> None:
    """A trainer's epochs are those of a whole training."""
    (phase,), (again,) = phases_of("normal", range(runs)), phases_of("normal", range(runs))
    each = [Run(options(epochs=2, seed=k), data, ClickFeed) for k in range(runs)]
    trainer = PhaseTrainer(phase, (1, 1), list(map(as_stack, phase.networks.values())), [], each)
    losses = torch.stack([trainer.train_epoch() for _ in range(2)])
    assert losses.shape == (2, runs)
    whole = [Run(options(epochs=2, seed=k), data, ClickFeed) for k in range(runs)]
    train([again], whole)
    for k, one in enumerate(whole):
        assert [r["loss"] for r in one.history] == pytest.approx(losses[:, k].tolist(), rel=1e-6)


def test_progress_tells_phase_epoch_and_metric(data: Interactions) -> None:
    calls: list[Progress] = []
    valid = Scripted([0.5] * 4)
    train(phases_of("deca-p"), [Run(options(epochs=2), data, ClickFeed, valid, callback=calls.append)])
    last = {(c.phase, c.epoch): (c.phase_number, c.phases, c.fraction, c.value, c.best) for c in calls}
    done = (1.0, 0.5, 0.5)
    assert last == {
        ("prior", 1): (1, 2, *done),
        ("prior", 2): (1, 2, *done),
        ("denoising", 1): (2, 2, *done),
        ("denoising", 2): (2, 2, *done),
    }


class Images:
    """A set on which a classifier measures what it is told to; it keeps all of the weights it saw."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values, self.seen = list(values), list[dict[str, Tensor]]()

    def measure(self, target: Any, which: Sequence[int], sets: Sequence[Images]) -> dict[str, Tensor]:
        self.seen.append({name: one.clone() for name, one in target.module.state_dict().items()})
        return {"accuracy": torch.tensor([self.values[len(self.seen) - 1]])}


def test_the_best_epoch_of_any_module_is_restored_with_its_buffers() -> None:
    """Such as what batch norm has seen."""
    torch.manual_seed(0)
    network = ConvNet((1, 8, 8), 3, width=6)
    inputs = torch.randn(40, 8, 8, 1)
    data = LabelData(inputs, torch.arange(40) % 3, torch.arange(40), Scaling.of(inputs))
    setup = Setup("labels", multiclass, make_settings("labels", {}), classes=3)
    phases = method_of("normal", "labels")().bound(setup).phases(lambda *_: stack([network]))
    valid = Images([0.3, 0.6, 0.4, 0.2])
    chosen = TrainingOptions(epochs=4, batch_size=10, metric="accuracy", optimiser="sgd", patience=0)
    train(phases, [Run(chosen, data, LabelFeed, valid)])
    kept = network.state_dict()
    assert any("running_mean" in name for name in kept)
    for name, tensor in kept.items():
        assert torch.equal(tensor, valid.seen[1][name]), name
    mean = "convolutions.1.running_mean"
    assert not torch.equal(valid.seen[1][mean], valid.seen[3][mean])


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("method", TRAINED)
def test_a_step_never_asks_the_device_for_a_number(method: str, runs: int) -> None:
    """Fake tensors have no values: reading one on the host would raise here as it would stall a GPU."""
    with FakeTensorMode():
        phase = phases_of(method, range(runs))[-1]
        rates = [options(learning_rate=0.01 * (k + 1), weight_decay=0.1 * k) for k in range(runs)]
        step_of = Stepper(phase, make_optimiser(phase, rates, CPU), runs, CPU)
        users = torch.zeros(runs, 8, dtype=torch.long)
        batch = ClickBatch(users, torch.zeros(2, runs, 8, dtype=torch.long), torch.zeros(2, 1, 1))
        for step in range(3):
            step_of(batch, step, 0)
        with pytest.raises(Exception, match="_local_scalar_dense"):
            step_of.total[0].item()


@pytest.mark.parametrize("runs", [1, 3])
def test_divergence_is_said_with_advice_and_ends_that_run_alone(runs: int, data: Interactions) -> None:
    phases = phases_of("normal", range(runs))
    target: Any = as_stack(phases[0].networks["target"])
    with torch.no_grad():
        target.tensors()[0][-1].fill_(float("nan"))
    each = [Run(options(epochs=2, seed=k), data, ClickFeed) for k in range(runs)]
    train(phases, each)
    assert "diverged" in str(each[-1].error)
    assert "epoch 1 of phase 'training'" in str(each[-1].error)
    assert not each[-1].history
    for k, one in enumerate(each[:-1]):
        (alone,) = phases_of("normal", [k])
        train([alone], [Run(options(epochs=2, seed=k), data, ClickFeed)])
        assert one.error is None
        assert torch.allclose(weights(alone.networks["target"]), weights(target, k), rtol=1e-2, atol=1e-4)


def test_no_negative_to_draw_is_said() -> None:
    everything = Interactions.from_pairs(np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 2, 3)
    with pytest.raises(AccordError, match="every user clicked every item"):
        train(phases_of("normal"), [Run(options(epochs=1), everything, ClickFeed)])


def test_devices() -> None:
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto").type in ("cpu", "cuda")
    with pytest.raises(SettingError, match="Unknown device"):
        resolve_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(SettingError, match="sees no GPU"):
            resolve_device("cuda")


@pytest.mark.parametrize(
    ("share", "half"), [(None, True), ("100", True), ("15", False), ("99.5", False), ("all", True)]
)
def test_half_precision_is_not_chosen_where_mps_gives_a_share_of_the_gpu(
    share: str | None, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)
    if share is not None:
        monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share)

    def precision(device: str, **settings: Any) -> torch.dtype:
        clf: Any = Classifier(**settings)
        clf.scaling_ = SimpleNamespace(to=lambda device: None)
        values: Any = SimpleNamespace(device=torch.device(device))
        none: Any = None
        return data_of(clf, values, none, none).precision

    assert (precision("cuda") == torch.bfloat16) == half
    assert precision("cpu") == torch.float32
    assert precision("cuda", precision="bfloat16") == torch.bfloat16
    assert precision("cuda", precision="float32") == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.skipif(not has_whole_gpu(), reason="MPS gives this process a share of the GPU")
def test_half_precision_products_are_right_where_it_is_chosen() -> None:
    """They are not in a share that MPS gives: wrong by orders of magnitude, and not the same twice."""
    generator = torch.Generator("cuda").manual_seed(0)
    for rows, width, wide in [(34, 8, 16), (50, 8, 128), (128, 10, 64), (234, 64, 128)]:
        one, other = (torch.randn(3, rows, n, generator=generator, device="cuda") for n in (wide, width))
        one, other = one.bfloat16(), other.bfloat16()
        for a, b in ((one.transpose(1, 2), other), (one, torch.randn(3, wide, width, device="cuda").bfloat16())):
            exact = a.double() @ b.double()
            for _ in range(5):
                assert torch.dist((a @ b).double(), exact) < 0.01 * exact.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_gpu_steps_never_synchronise(data: Interactions) -> None:
    gpu = torch.device("cuda")
    on_gpu = data.to(gpu)
    (phase,) = phases_of("deca", device="cuda")
    step_of = Stepper(phase, make_optimiser(phase, [options()], gpu), 1, gpu)
    batches = list(ClickFeed([on_gpu], 32, False, False).epoch([stream(gpu, 0)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode calls itself a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        for step, batch in enumerate(batches):
            step_of(batch, step, 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_same_seed_same_bytes_on_a_gpu(data: Interactions) -> None:
    def once() -> Tensor:
        phases = phases_of("deca", device="cuda")
        train(phases, [Run(options(epochs=5), data.to(torch.device("cuda")), ClickFeed)])
        return weights(phases[0].networks["target"])

    assert torch.equal(once(), once())
