"""The loop: early stopping, the best epoch, seeds, and steps that never wait for the device."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from accord.estimators.classifier_settings import make_classifier_settings
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from accord.data.interactions import Interactions, PairBatch
from accord.errors import AccordError, SettingError
from accord.methods import METHODS, Clock, Denoising, make_method
from accord.models import recommender_factory
from accord.training import (
    Progress,
    TrainingOptions,
    derive,
    has_whole_gpu,
    resolve_device,
    seeded,
    stream,
    train,
    training_step,
)
from accord.training.loop import make_optimiser

USERS, ITEMS = 30, 20
TRAINED = [name for name in METHODS if name != "popularity"]


@pytest.fixture(scope="module")
def data() -> Interactions:
    pairs = np.unique(np.random.default_rng(0).integers(0, USERS * ITEMS, 200))
    return Interactions.from_pairs(pairs // ITEMS, pairs % ITEMS, USERS, ITEMS)


def build_with(seed: int):
    def build(role: str, model: str | None = None) -> nn.Module:
        with seeded(seed, role):
            return recommender_factory(model or "mf", dims=4, item_bias=False)(USERS, ITEMS)

    return build


def weights(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def run(data: Interactions, seed: int = 0, method: str = "deca-p", epochs: int = 3) -> torch.Tensor:
    phases = make_method(method, Denoising()).phases(build_with(seed))
    train(phases, data, TrainingOptions(epochs=epochs, batch_size=32, seed=seed))
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
    cpu = torch.device("cpu")
    assert torch.equal(torch.rand(3, generator=stream(cpu, 0, "a")), torch.rand(3, generator=stream(cpu, 0, "a")))


def scripted(values: list[float]):
    """A validation that says what it is told to, and keeps the weights it saw."""
    seen: list[torch.Tensor] = []

    def validate(network: nn.Module) -> dict[str, float]:
        seen.append(weights(network).clone())
        return {"ndcg@20": values[len(seen) - 1]}

    return validate, seen


def test_stops_early_and_restores_the_best_epoch(data: Interactions) -> None:
    validate, seen = scripted([0.1, 0.3, 0.2, 0.3, 0.1, 0.9])
    phases = make_method("normal", Denoising()).phases(build_with(0))
    history = train(phases, data, TrainingOptions(epochs=10, batch_size=32, patience=3), validate)
    assert len(history) == 5  # epoch 2 is best; 3, 4 (only level) and 5 are not better
    assert [record["is_best"] for record in history] == [True, True, False, False, False]
    assert torch.equal(weights(phases[0].networks["target"]), seen[1])


def test_last_epoch_and_no_patience(data: Interactions) -> None:
    validate, seen = scripted([0.5, 0.1, 0.2, 0.1])
    phases = make_method("normal", Denoising()).phases(build_with(0))
    options = TrainingOptions(epochs=4, batch_size=32, patience=0, restore="last")
    assert len(train(phases, data, options, validate)) == 4
    assert torch.equal(weights(phases[0].networks["target"]), seen[-1])


def test_deca_restores_the_noise_models_of_the_same_epoch(data: Interactions) -> None:
    phases = make_method("deca", Denoising()).phases(build_with(0))
    networks, seen = phases[0].networks, []

    def validate(network: nn.Module) -> dict[str, float]:
        seen.append({role: weights(net).clone() for role, net in networks.items()})
        return {"ndcg@20": [0.1, 0.9, 0.2][len(seen) - 1]}

    train(phases, data, TrainingOptions(epochs=3, batch_size=32), validate)
    for role in ("target", "noise_dp", "noise_dn"):
        assert torch.equal(weights(networks[role]), seen[1][role])


def test_training_lowers_the_loss(data: Interactions) -> None:
    phases = make_method("normal", Denoising()).phases(build_with(0))
    history = train(phases, data, TrainingOptions(epochs=30, batch_size=32, learning_rate=0.02))
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


def test_progress_tells_phase_epoch_and_metric(data: Interactions) -> None:
    calls: list[Progress] = []
    phases = make_method("deca-p", Denoising()).phases(build_with(0))
    train(phases, data, TrainingOptions(epochs=2, batch_size=32), lambda net: {"ndcg@20": 0.5}, calls.append)
    last = {(c.phase, c.epoch): (c.phase_number, c.phases, c.fraction, c.value, c.best) for c in calls}
    done = (1.0, 0.5, 0.5)
    assert last == {
        ("prior", 1): (1, 2, *done),
        ("prior", 2): (1, 2, *done),
        ("denoising", 1): (2, 2, *done),
        ("denoising", 2): (2, 2, *done),
    }


@pytest.mark.parametrize("method", TRAINED)
def test_a_step_never_asks_the_device_for_a_number(method: str) -> None:
    """Fake tensors have no values: reading one on the host would raise here as it would stall a GPU."""
    with FakeTensorMode():
        phase = make_method(method, Denoising()).phases(build_with(0))[-1]
        optimiser = make_optimiser(phase, TrainingOptions())
        batch = PairBatch(torch.zeros(8, dtype=torch.long), torch.zeros(2, 8, dtype=torch.long), torch.zeros(2, 1))
        for step in range(3):
            loss = training_step(phase, optimiser, batch, Clock(step))
        with pytest.raises(Exception, match="_local_scalar_dense"):
            loss.item()


def test_divergence_is_said_with_advice(data: Interactions) -> None:
    phases = make_method("normal", Denoising()).phases(build_with(0))
    with torch.no_grad():
        next(phases[0].networks["target"].parameters()).fill_(float("nan"))
    with pytest.raises(AccordError, match="diverged.*epoch 1"):
        train(phases, data, TrainingOptions(epochs=1, batch_size=32))


def test_no_negative_to_draw_is_said() -> None:
    everything = Interactions.from_pairs(np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 2, 3)
    phases = make_method("normal", Denoising()).phases(
        lambda role, model=None: recommender_factory("mf", dims=2, item_bias=False)(2, 3)
    )
    with pytest.raises(AccordError, match="every user clicked every item"):
        train(phases, everything, TrainingOptions(epochs=1))


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
    gpu = torch.device("cuda")
    assert (make_classifier_settings({}).dtype(gpu) == torch.bfloat16) == half
    assert make_classifier_settings({}).dtype(torch.device("cpu")) == torch.float32
    assert make_classifier_settings({"precision": "bfloat16"}).dtype(gpu) == torch.bfloat16
    assert make_classifier_settings({"precision": "float32"}).dtype(gpu) == torch.float32


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
    on_gpu = Interactions.from_pairs(data.users.numpy(), data.items.numpy(), USERS, ITEMS, "cuda")
    phase = make_method("deca", Denoising()).phases(lambda role, model=None: build_with(0)(role, model).cuda())[0]
    optimiser = make_optimiser(phase, TrainingOptions())
    batches = list(on_gpu.epoch(32, stream(torch.device("cuda"), 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode calls itself a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        for step, batch in enumerate(batches):
            training_step(phase, optimiser, batch, Clock(step))
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_same_seed_same_bytes_on_a_gpu(data: Interactions) -> None:
    def once() -> torch.Tensor:
        on_gpu = Interactions.from_pairs(data.users.numpy(), data.items.numpy(), USERS, ITEMS, "cuda")
        phases = make_method("deca", Denoising()).phases(lambda role, model=None: build_with(0)(role, model).cuda())
        train(phases, on_gpu, TrainingOptions(epochs=5, batch_size=32))
        return weights(phases[0].networks["target"])

    assert torch.equal(once(), once())
