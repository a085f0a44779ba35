"""What each method trains, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from accord.data.interactions import PairBatch
from accord.errors import SettingError
from accord.methods import METHODS, Clock, Denoising, Phase, make_method
from accord.models import recommender_factory
from accord.objectives import binary_reference as plain
from accord.training import TrainingOptions, seeded, training_step
from accord.training.loop import make_optimiser

USERS, ITEMS = 12, 15


def build(role: str, model: str | None = None) -> nn.Module:
    with seeded(0, role):
        return recommender_factory(model or "gmf", dims=4, item_bias=True)(USERS, ITEMS)


def batch(seed: int = 0, size: int = 8) -> PairBatch:
    generator = torch.Generator().manual_seed(seed)
    users = torch.randint(USERS, (size,), generator=generator)
    items = torch.randint(ITEMS, (2, size), generator=generator)
    return PairBatch(users, items, torch.tensor([[1.0], [0.0]]))


def snapshot(phase: Phase) -> dict[str, list[torch.Tensor]]:
    return {role: [p.detach().clone() for p in net.parameters()] for role, net in phase.networks.items()}


def changed(phase: Phase, before: dict[str, list[torch.Tensor]]) -> set[str]:
    return {
        role
        for role, net in phase.networks.items()
        if any(not torch.equal(old, new) for old, new in zip(before[role], net.parameters(), strict=True))
    }


@pytest.mark.parametrize(
    ("method", "sub_tasks", "first", "second"),
    [
        ("deca", "both", {"target", "auxiliary", "noise_dp"}, {"target", "auxiliary", "noise_dn"}),
        ("deca-p", "both", {"target", "noise_dp"}, {"target", "noise_dn"}),
        ("deca-p", "dp", {"target", "noise_dp"}, {"target", "noise_dp"}),
        ("deca-p", "dn", {"target", "noise_dn"}, {"target", "noise_dn"}),
        (
            "deca",
            "joint",
            {"target", "auxiliary", "noise_dp", "noise_dn"},
            {"target", "auxiliary", "noise_dp", "noise_dn"},
        ),
    ],
)
def test_a_step_moves_only_its_own_networks(method: str, sub_tasks: str, first: set[str], second: set[str]) -> None:
    """DP comes first; the other sub-task's noise model gets no update, not even by Adam's momentum."""
    phase = make_method(method, Denoising(sub_tasks=sub_tasks)).phases(build)[-1]  # pyright: ignore[reportArgumentType]
    optimiser = make_optimiser(phase, TrainingOptions(weight_decay=1e-3))
    for step, expected in enumerate((first, second, first, second)):
        before = snapshot(phase)
        training_step(phase, optimiser, batch(step), Clock(step))
        assert changed(phase, before) == expected


def test_the_prior_is_frozen_and_of_another_seed() -> None:
    prior_phase, phase = make_method("deca-p", Denoising()).phases(build)
    prior = prior_phase.networks["prior"]
    assert type(prior) is type(phase.networks["target"])
    assert not torch.equal(next(prior.parameters()), next(phase.networks["target"].parameters()))
    before = [p.detach().clone() for p in prior.parameters()]
    optimiser = make_optimiser(phase, TrainingOptions())
    for step in range(4):
        training_step(phase, optimiser, batch(step), Clock(step))
    assert all(torch.equal(old, new) for old, new in zip(before, prior.parameters(), strict=True))
    assert all(p.grad is None for p in prior.parameters())


def reference_loss(per_pair: Callable[[int, int, int], float], data: PairBatch) -> float:
    """Mean over the positives plus mean over the negatives, one pair at a time."""
    total = 0.0
    for row, label in ((0, 1), (1, 0)):
        pairs = zip(data.users.tolist(), data.items[row].tolist(), strict=True)
        total += sum(per_pair(u, i, label) for u, i in pairs) / len(data)
    return total


def logit(network: nn.Module, user: int, item: int) -> float:
    return network.logits(torch.tensor([user]), torch.tensor([item])).item()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", [0, 1])
def test_the_losses_are_the_papers(alpha: float, step: int) -> None:
    data, denoising = batch(), Denoising(c0=3.0, c1=7.0, alpha=alpha)
    term = plain.denoise_positives if step == 0 else plain.denoise_negatives
    constant, noise_role = (7.0, "noise_dp") if step == 0 else (3.0, "noise_dn")

    def expected(target: nn.Module, noise: nn.Module, other: nn.Module, other_first: bool) -> float:
        def per_pair(u: int, i: int, label: int) -> float:
            f, h, g = logit(target, u, i), logit(noise, u, i), logit(other, u, i)
            p, q = (g, f) if other_first else (f, g)
            agreement = alpha * plain.kl_divergence(p, q) + (1 - alpha) * plain.kl_divergence(q, p)
            return term(f, h, label, constant) + agreement

        return reference_loss(per_pair, data)

    deca = make_method("deca", denoising).phases(build)[0]
    nets = deca.networks
    assert deca.loss(data, Clock(step)).item() == pytest.approx(
        expected(nets["target"], nets[noise_role], nets["auxiliary"], True), rel=1e-5
    )
    prior_phase, deca_p = make_method("deca-p", denoising).phases(build)
    nets = deca_p.networks
    assert deca_p.loss(data, Clock(step)).item() == pytest.approx(
        expected(nets["target"], nets[noise_role], prior_phase.networks["prior"], False), rel=1e-5
    )


def test_normal_loss_is_cross_entropy() -> None:
    phase = make_method("normal", Denoising()).phases(build)[0]
    target = phase.networks["target"]
    expected = reference_loss(lambda u, i, y: plain.cross_entropy(logit(target, u, i), y), batch())
    assert phase.loss(batch(), Clock(0)).item() == pytest.approx(expected, rel=1e-5)


def test_weight_decay_is_the_l2_term_of_the_target_alone() -> None:
    phase = make_method("deca", Denoising()).phases(build)[0]
    optimiser = make_optimiser(phase, TrainingOptions(weight_decay=0.25))
    assert optimiser.dense is not None
    decay = {id(p): group["weight_decay"] for group in optimiser.dense.param_groups for p in group["params"]}
    for role, net in phase.networks.items():
        assert {decay[id(p)] for p in net.parameters()} == {0.25 if role == "target" else 0.0}


def test_label_quality() -> None:
    data = PairBatch(torch.tensor([1, 2]), torch.tensor([3, 4]), torch.ones(1))
    for name in METHODS:
        method = make_method(name, Denoising())
        nets = {role: net for phase in method.phases(build) for role, net in phase.networks.items()}
        quality = method.label_quality(nets, data)
        for k, (u, i) in enumerate([(1, 3), (2, 4)]):
            f = logit(method.target(nets), u, i)
            expected = plain.probability(f)
            if name == "deca":
                h, h_prime = logit(nets["noise_dp"], u, i), logit(nets["noise_dn"], u, i)
                expected = plain.real_positive_probability(f, h, h_prime)
            assert quality[k].item() == pytest.approx(expected, abs=1e-6)


def test_unknown_method_names_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 'deca-p'"):
        make_method("decap", Denoising())
