"""Methods of many classes: what they learn from, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from accord.data.labelled import LabelledData, Scaling
from accord.models.weight_net import WeightNet
from sklearn.datasets import load_digits
from torch import nn

from accord.data.noise import NoisyLabels, add_noise
from accord.estimators import Classifier
from accord.methods import ClassifierMethodSettings, Clock, TwoStage, make_classifier_method
from accord.models import MLP, NoiseModel
from accord.objectives.multiclass import cross_entropy, kl_divergence, stage_one, stage_two
from accord.training import TrainingOptions, seeded, train

CLASSES = 3


def build(role: str, model: str | None = None) -> nn.Module:
    with seeded(0, role):
        if model == "noise":
            return NoiseModel(8, CLASSES)
        if model == "weight":
            return WeightNet()
        return MLP((4,), CLASSES, width=8)


def made(count: int = 90, seed: int = 0) -> LabelledData:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    values = torch.randn(count, 4, generator=generator) + 2 * labels[:, None]
    return LabelledData(values, labels, torch.arange(count), Scaling.of(values))


def method(name: str, **settings: Any) -> Any:
    terms = TwoStage(CLASSES, stage_one_epochs=2, **settings.pop("terms", {}))
    return make_classifier_method(name, ClassifierMethodSettings(terms, **settings))


@pytest.mark.parametrize("epoch", [0, 5])
@pytest.mark.parametrize("step", [0, 1, 5])
def test_deca_p_is_its_equation(epoch: int, step: int) -> None:
    phases = method("deca-p", terms={"c1": 2.0, "c2": 3.0}).phases(build)
    prior, target, h = phases[0].networks["prior"], phases[1].networks["target"], phases[1].networks["noise"]
    batch = next(iter(made().in_order()))
    loss = phases[1].loss(batch, Clock(step, epoch))
    k = torch.tensor(step % CLASSES)
    features, f = target.outputs(batch.inputs)
    cost = -h(features, k).gather(1, batch.labels[:, None]).squeeze(1)
    if epoch < 2:
        term = stage_one(f, cost, batch.labels, k, 2.0, 3.0)
    else:
        term = stage_two(f, cost, h.costs(features, batch.labels), batch.labels, k, full=False)
    expected = (term + kl_divergence(f, prior(batch.inputs).detach())).mean()
    assert torch.allclose(loss, expected)
    loss.backward()
    assert all(p.grad is None for p in prior.parameters())
    assert phases[1].stage(1) != phases[1].stage(2)


def test_features_can_be_kept_from_the_noise_models_gradient() -> None:
    grads = []
    for detach in (False, True):
        phase = method("deca-p", terms={"detach_features": detach}).phases(build)[1]
        phase.loss(next(iter(made().in_order())), Clock(1, 0)).backward()
        grads.append(phase.networks["target"].hidden[0].weight.grad.clone())
    assert not torch.allclose(*grads)


def test_constants_can_differ_by_class() -> None:
    batch = next(iter(made().in_order()))
    each = method("deca-p", terms={"c1": (1.0, 5.0, 9.0), "c2": (2.0, 2.0, 2.0)})
    for step, constant in enumerate((1.0, 5.0, 9.0)):
        one = method("deca-p", terms={"c1": constant, "c2": 2.0})
        losses = [m.phases(build)[1].loss(batch, Clock(step, 0)) for m in (each, one)]
        assert torch.allclose(*losses)


def test_co_trained_deca_teaches_its_auxiliary() -> None:
    phase = method("deca", auxiliary="mlp").phases(build)[0]
    phase.loss(next(iter(made().in_order())), Clock(0, 0)).backward()
    assert all(p.grad is not None for name in ("target", "auxiliary") for p in phase.networks[name].parameters())
    assert phase.kept == ("target", "noise")


def test_weight_nets_gradient_is_exact() -> None:
    """Against the meta-loss differentiated through the virtual step by autograd's own second order."""
    clean = made(30, seed=7)
    batch = next(iter(made(20).in_order()))
    rate = 0.3
    phase = method("mw-net", clean=clean).phases(build)[0]
    target, weigh = phase.networks["target"], phase.networks["weight"]
    names, values = zip(*target.named_parameters(), strict=True)
    losses = cross_entropy(batch.logits_with(target, dict(zip(names, values, strict=True))), batch.labels)
    slope = torch.autograd.grad((weigh(losses.detach()) * losses).mean(), values, create_graph=True)
    ahead = {n: v - rate * g for n, v, g in zip(names, values, slope, strict=True)}
    trusted = clean.at(4, len(batch))
    meta = cross_entropy(trusted.logits_with(target, ahead), trusted.labels).mean()
    plain = torch.autograd.grad(meta, list(weigh.parameters()))

    seen: list[torch.Tensor] = []
    for parameter in weigh.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    phase.loss(batch, Clock(4, 0, rate))
    order = {tuple(g.shape): g for g in seen}
    for ours in plain:
        assert torch.allclose(order[tuple(ours.shape)], ours, atol=1e-7)


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
    data = LabelledData(values, torch.tensor(noisy.labels), torch.arange(len(values)), Scaling.of(values))
    own = make_classifier_method("itlm", ClassifierMethodSettings(TwoStage(10), keep_share=0.6, round_epochs=4))

    def fresh(role: str, model: str | None = None) -> nn.Module:
        with seeded(0, role):
            return MLP((64,), 10)

    options = TrainingOptions(epochs=20, batch_size=100, learning_rate=0.02, optimiser="sgd", metric="accuracy")
    train(own.phases(fresh), data, options)
    shares = [1 - noisy.is_noise[kept.numpy()].mean() for kept in own.kept]
    assert [len(kept) for kept in own.kept] == [720] * 4
    assert shares[0] > 1 - noisy.realised
    assert shares == sorted(shares)
    assert shares[-1] > shares[0]


def test_mw_net_leaves_its_network_uncompiled() -> None:
    """Forward-mode derivatives do not go through a compiled network."""
    for method, fused in (("mw-net", False), ("normal", True)):
        clf = Classifier(method=method, compile=True, epochs=1)
        X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
        clf.fit(X, y, clean=None if fused else (X, y))
        assert clf._networks().compiled == fused
