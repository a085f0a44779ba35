"""What each method trains, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from accord.batches.clicks import ClickBatch, positives
from accord.errors import SettingError
from accord.estimators.settings import make_settings
from accord.methods import METHODS, Method, Phase, Setup, StepInfo, method_of, methods_of
from accord.models import recommender_factory
from accord.objectives import binary
from accord.objectives import binary_reference as plain
from accord.training import TrainingOptions, seeded
from accord.training.phase_trainer import make_optimiser
from accord.training.stepping import Stepper

USERS, ITEMS = 12, 15


def build(role: str, architecture: str | None = None) -> nn.Module:
    with seeded(0, role):
        return recommender_factory(architecture or "gmf", dims=4, item_bias=True)(USERS, ITEMS)


def method(name: str, **settings: Any) -> Method:
    return method_of(name, "clicks")().bound(Setup("clicks", binary, make_settings("clicks", settings)))


def batch(seed: int = 0, size: int = 8) -> ClickBatch:
    generator = torch.Generator().manual_seed(seed)
    users = torch.randint(USERS, (1, size), generator=generator)
    items = torch.randint(ITEMS, (2, 1, size), generator=generator)
    return ClickBatch(users, items, torch.tensor([1.0, 0.0]).view(2, 1, 1))


def stepper(phase: Phase, weight_decay: float = 0.0) -> Stepper:
    options = [TrainingOptions(weight_decay=weight_decay)]
    return Stepper(phase, make_optimiser(phase, options, torch.device("cpu")), 1, torch.device("cpu"))


def snapshot(phase: Phase) -> dict[str, list[torch.Tensor]]:
    return {role: [p.detach().clone() for p in net.parameters()] for role, net in phase.networks.items()}


def changed(phase: Phase, before: dict[str, list[torch.Tensor]]) -> set[str]:
    return {
        role
        for role, net in phase.networks.items()
        if any(not torch.equal(old, new) for old, new in zip(before[role], net.parameters(), strict=True))
    }


@pytest.mark.parametrize(
    ("name", "sub_tasks", "first", "second"),
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
def test_a_step_moves_only_its_own_networks(name: str, sub_tasks: str, first: set[str], second: set[str]) -> None:
    """DP comes first; the other sub-task's noise model gets no update, not even by Adam's momentum."""
    phase = method(name, sub_tasks=sub_tasks).phases(build)[-1]
    step_of = stepper(phase, 1e-3)
    for step, expected in enumerate((first, second, first, second)):
        before = snapshot(phase)
        step_of(batch(step), step, 0)
        assert changed(phase, before) == expected


def test_the_prior_is_frozen_and_of_another_seed() -> None:
    prior_phase, phase = method("deca-p").phases(build)
    prior = prior_phase.networks["prior"]
    assert type(prior) is type(phase.networks["target"])
    assert not torch.equal(next(prior.parameters()), next(phase.networks["target"].parameters()))
    before = [p.detach().clone() for p in prior.parameters()]
    step_of = stepper(phase)
    for step in range(4):
        step_of(batch(step), step, 0)
    assert all(torch.equal(old, new) for old, new in zip(before, prior.parameters(), strict=True))
    assert all(p.grad is None for p in prior.parameters())


def reference_loss(per_pair: Callable[[int, int, int], float], data: ClickBatch) -> float:
    """Mean over the positives plus mean over the negatives, one pair at a time."""
    total = 0.0
    for row, label in ((0, 1), (1, 0)):
        pairs = zip(data.users[0].tolist(), data.items[row, 0].tolist(), strict=True)
        total += sum(per_pair(u, i, label) for u, i in pairs) / len(data)
    return total


def logit(network: nn.Module, user: int, item: int) -> float:
    return network.logits(torch.tensor([user]), torch.tensor([item])).item()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", [0, 1])
def test_the_losses_are_the_papers(alpha: float, step: int) -> None:
    data, denoising = batch(), {"c0": 3.0, "c1": 7.0, "alpha": alpha}
    term = plain.denoise_positives if step == 0 else plain.denoise_negatives
    constant, noise_role = (7.0, "noise_dp") if step == 0 else (3.0, "noise_dn")

    def expected(target: nn.Module, noise: nn.Module, other: nn.Module, other_first: bool) -> float:
        def per_pair(u: int, i: int, label: int) -> float:
            f, h, g = logit(target, u, i), logit(noise, u, i), logit(other, u, i)
            p, q = (g, f) if other_first else (f, g)
            agreement = alpha * plain.kl_divergence(p, q) + (1 - alpha) * plain.kl_divergence(q, p)
            return term(f, h, label, constant) + agreement

        return reference_loss(per_pair, data)

    deca = method("deca", **denoising).phases(build)[0]
    nets = deca.networks
    assert deca.loss(data, StepInfo(step)).item() == pytest.approx(
        expected(nets["target"], nets[noise_role], nets["auxiliary"], True), rel=1e-5
    )
    prior_phase, deca_p = method("deca-p", **denoising).phases(build)
    nets = deca_p.networks
    assert deca_p.loss(data, StepInfo(step)).item() == pytest.approx(
        expected(nets["target"], nets[noise_role], prior_phase.networks["prior"], False), rel=1e-5
    )


def test_normal_loss_is_cross_entropy() -> None:
    phase = method("normal").phases(build)[0]
    target = phase.networks["target"]
    expected = reference_loss(lambda u, i, y: plain.cross_entropy(logit(target, u, i), y), batch())
    assert phase.loss(batch(), StepInfo(0)).item() == pytest.approx(expected, rel=1e-5)


def test_weight_decay_is_the_l2_term_of_the_target_alone() -> None:
    phase = method("deca").phases(build)[0]
    optimiser = make_optimiser(phase, [TrainingOptions(weight_decay=0.25)], torch.device("cpu"))
    assert optimiser.decay == 0.25
    own = dict(zip(map(id, optimiser.parameters), optimiser.is_decayed, strict=True))
    for role, net in phase.networks.items():
        assert {own[id(p)] for p in net.parameters()} == {role == "target"}


def test_label_quality() -> None:
    data = positives(torch.tensor([1, 2]), torch.tensor([3, 4]))
    for name in methods_of("clicks"):
        if METHODS.find(name).convenes:  # its members judge, before its phases
            continue
        made = method(name)
        nets = {role: net for phase in made.phases(build) for role, net in phase.networks.items()}
        quality = made.label_quality(nets, data).flatten()
        for k, (u, i) in enumerate([(1, 3), (2, 4)]):
            f = logit(made.target(nets), u, i)
            expected = plain.probability(f)
            if name == "deca":
                h, h_prime = logit(nets["noise_dp"], u, i), logit(nets["noise_dn"], u, i)
                expected = plain.real_positive_probability(f, h, h_prime)
            assert quality[k].item() == pytest.approx(expected, abs=1e-6)


def test_unknown_method_names_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 'deca-p'"):
        METHODS.find("decap")
    with pytest.raises(SettingError, match="'itlm' is not for clicks: choose from"):
        method_of("itlm", "clicks")


@pytest.mark.parametrize("task", ["clicks", "labels"])
def test_what_a_method_says_of_itself_is_true(task: str) -> None:
    """Its space and what may differ are settings of its own, and a first phase has a method's name."""
    for name in methods_of(task):
        kind = method_of(name, task)
        fields = make_settings(task, {"method": name}).model_fields_set | set(
            type(make_settings(task, {})).model_fields
        )
        assert set(kind.space_of(task)) <= fields, name
        assert set(kind.defaults) <= fields | {"c0"}, name
        assert kind.begins_as in ("", *methods_of(task))
        own = set(kind.settings_of(task).model_fields)
        assert {n for n in kind.may_differ if n in fields} <= own, name
