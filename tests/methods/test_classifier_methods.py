"""Methods of many classes: what they learn from, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.noise import NoisyLabels, add_noise
from accord.errors import SettingError
from accord.estimators import Classifier
from accord.estimators.classifier_networks import networks_of
from accord.estimators.settings import make_settings
from accord.methods import Method, Setup, StepInfo, method_of
from accord.methods.two_stage import cost_of_many_classes
from accord.models.classifiers import MLP, NoiseModel, WeightNet
from accord.models.stack import as_stack, stack
from accord.objectives import multiclass
from accord.objectives.multiclass import cross_entropy, kl_divergence, stage_one, stage_two
from accord.training import Run, TrainingOptions, seeded, training

CLASSES = 3


def network(role: str, architecture: str | None = None, seed: int = 0) -> Any:
    with seeded(seed, role):
        if architecture == "noise-model":
            return NoiseModel(8, CLASSES)
        if architecture == "weight-net":
            return WeightNet()
        return MLP((4,), CLASSES, width=8)


def build(role: str, architecture: str | None = None) -> Any:
    return stack([network(role, architecture)])


def made(count: int = 90, seed: int = 0) -> LabelData:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    values = torch.randn(count, 4, generator=generator) + 2 * labels[:, None]
    return LabelData(values, labels, torch.arange(count), Scaling.of(values))


def first_batch(*each: LabelData) -> Any:
    return next(iter(LabelFeed(each or (made(),)).in_order()))


def method(name: str, clean: Any = None, classes: int = CLASSES, **settings: Any) -> Method:
    chosen = make_settings("labels", {"stage_one_epochs": 2, "method": name, **settings})
    return method_of(name, "labels")().bound(Setup("labels", multiclass, chosen, classes=classes, clean=clean))


@pytest.mark.parametrize("epoch", [0, 5])
@pytest.mark.parametrize("step", [0, 1, 5])
def test_deca_p_is_its_equation(epoch: int, step: int) -> None:
    phases = method("deca-p", c1=2.0, c2=3.0).phases(build)
    prior, target, h = (
        as_stack(phases[k].networks[role]).networks[0] for k, role in ((0, "prior"), (1, "target"), (1, "noise"))
    )
    batch = first_batch()
    loss = phases[1].loss(batch, StepInfo(step, epoch))
    k = torch.tensor(step % CLASSES)
    inputs, labels = batch.inputs[0], batch.labels[0]
    features, f = target.outputs(inputs)
    cost = -h(features, k).gather(1, labels[:, None]).squeeze(1)
    if epoch < 2:
        term = stage_one(f, cost, labels, k, 2.0, 3.0)
    else:
        term = stage_two(f, cost, h.costs(features, labels), labels, k, full=False)
    expected = (term + kl_divergence(f, prior(inputs).detach())).mean()
    assert torch.allclose(loss, expected)
    loss.backward()
    assert all(p.grad is None for p in prior.parameters())
    assert phases[1].stage(1) != phases[1].stage(2)


def test_features_can_be_kept_from_the_noise_models_gradient() -> None:
    grads = []
    for detach in (False, True):
        phase = method("deca-p", detach_features=detach).phases(build)[1]
        phase.loss(first_batch(), StepInfo(1, 0)).backward()
        grads.append(phase.networks["target"].module.hidden[0].weight.grad.clone())
    assert not torch.allclose(*grads)


def test_constants_can_differ_by_class() -> None:
    batch = first_batch()
    each = method("deca-p", c1=(1.0, 5.0, 9.0), c2=(2.0, 2.0, 2.0))
    for step, constant in enumerate((1.0, 5.0, 9.0)):
        one = method("deca-p", c1=constant, c2=2.0)
        losses = [m.phases(build)[1].loss(batch, StepInfo(step, 0)) for m in (each, one)]
        assert torch.allclose(*losses)
    with pytest.raises(SettingError, match="'c2' has 2 numbers for 3 classes"):
        method("deca-p", c2=(1.0, 2.0)).phases(build)


def test_co_trained_deca_teaches_its_auxiliary() -> None:
    phase = method("deca", auxiliary="mlp").phases(build)[0]
    phase.loss(first_batch(), StepInfo(0, 0)).backward()
    assert all(p.grad is not None for name in ("target", "auxiliary") for p in phase.networks[name].parameters())
    assert phase.kept == ("target", "noise")


@pytest.mark.parametrize("runs", [1, 3])
def test_weight_nets_gradient_is_exact(runs: int) -> None:
    """Against the meta-loss differentiated through the virtual step by autograd's own second order."""
    clean = [made(30, seed=7 + r) for r in range(runs)]
    clean = [LabelData(clean[0].inputs, one.labels, one.rows, one.scaling) for one in clean]
    data = made(20)
    batch = first_batch(
        *[LabelData(data.inputs, data.labels.roll(r), data.rows, data.scaling) for r in range(runs)]
    )
    rates = torch.tensor([0.3, 0.1, 0.5])[:runs]

    def networks(role: str, architecture: str | None = None) -> Any:
        return [network(role, architecture, seed) for seed in range(runs)]

    phase = method("mw-net", clean=LabelFeed(clean)).phases(lambda *role: stack(networks(*role)))[0]
    trusted = LabelFeed(clean).at(4, len(batch))
    expected = []
    for r in range(runs):
        target, weigh = networks("target")[r], networks("weight", "weight-net")[r]
        names, values = zip(*target.named_parameters(), strict=True)
        losses = cross_entropy(target(batch.inputs[r]), batch.labels[r])
        slope = torch.autograd.grad((weigh(losses.detach()) * losses).mean(), values, create_graph=True)
        ahead = {n: v - rates[r] * g for n, v, g in zip(names, values, slope, strict=True)}
        there = torch.func.functional_call(target, ahead, (trusted.inputs[r],))
        meta = cross_entropy(there, trusted.labels[r]).mean()
        expected.append(torch.autograd.grad(meta, list(weigh.parameters())))

    seen: dict[tuple[int, ...], torch.Tensor] = {}
    joined: Any = phase.networks["weight"]
    for parameter in joined.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: seen.update({tuple(p.shape): p.grad.clone()}))
    phase.loss(batch, StepInfo(4, 0, float(rates[0]) if runs == 1 else rates))
    for r in range(runs):
        for plain in expected[r]:
            ours = seen[tuple(plain.shape)] if runs == 1 else seen[(runs, *plain.shape)][r]
            assert torch.allclose(ours, plain, atol=1e-7)


def digits(rate: float = 0.4, seed: int = 0, count: int = 1200) -> tuple[np.ndarray, NoisyLabels]:
    data = load_digits()
    return data.data[:count], add_noise(data.target[:count], 10, rate, seed=seed)


def test_mw_nets_weights_fall_on_flipped_examples() -> None:
    inputs, noisy = digits()
    data = load_digits()
    clean = (data.data[1200:1600], data.target[1200:1600])
    clf = Classifier(method="mw-net", epochs=15, restore="last", batch_size=50, weight_rate=0.01)
    clf.fit(inputs, noisy.labels, clean=clean)
    p = clf.predict_proba(inputs)[np.arange(len(inputs)), noisy.labels]
    losses = torch.tensor(-np.log(np.maximum(p, 1e-12)), dtype=torch.float32)
    weights = clf.networks_["weight"](losses).numpy()
    assert weights[noisy.is_noise].mean() < 0.8 * weights[~noisy.is_noise].mean()


def test_itlm_keeps_a_cleaner_share_round_by_round() -> None:
    inputs, noisy = digits()
    values = torch.tensor(inputs, dtype=torch.float32)
    data = LabelData(values, torch.tensor(noisy.labels), torch.arange(len(values)), Scaling.of(values))
    own = method("itlm", keep_share=0.6, epochs=20, rounds=5)

    def fresh(role: str, architecture: str | None = None) -> Any:
        with seeded(0, role):
            return stack([MLP((64,), 10)])

    options = TrainingOptions(epochs=20, batch_size=100, learning_rate=0.02, optimiser="sgd", metric="accuracy")
    phases = own.phases(fresh)
    list(training(phases, [], [], [Run(options, data, LabelFeed)]))
    rounds = list(phases[0].memory.state_dict().values())  # pyright: ignore[reportOptionalMemberAccess]
    shares = [1 - noisy.is_noise[kept[0].numpy()].mean() for kept in rounds]
    assert [tuple(kept.shape) for kept in rounds] == [(1, 720)] * 4
    assert shares[0] > 1 - noisy.realised
    assert shares == sorted(shares)
    assert shares[-1] > shares[0]


def test_mw_net_leaves_its_network_uncompiled() -> None:
    """Forward-mode derivatives do not go through a compiled network."""
    for method, fused in (("mw-net", False), ("normal", True)):
        clf = Classifier(method=method, compile=True, epochs=1)
        X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
        clf.fit(X, y, clean=None if fused else (X, y))
        assert networks_of(clf).compiled == fused


def test_many_classes_are_said_to_cost_before_a_training_begins() -> None:
    for method, classes, said in (("normal", 1000, 0), ("deca", 100, 0), ("deca", 101, 1), ("deca-p", 1000, 1)):
        words = cost_of_many_classes(make_settings("labels", {"method": method}), classes)
        assert len(words) == said
        assert all(f"{classes} classes" in line and "of 64 classes" in line for line in words)
    (words,) = cost_of_many_classes(make_settings("labels", {"method": "deca", "noise_classes": 8}), 1000)
    assert "of 8 classes" in words
