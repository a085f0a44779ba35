"""The second stage of clicks: no constants, both noise models, and the one that is not in turn learns nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord import Classifier, Recommender
from accord.batches.clicks import ClickBatch
from accord.data.simulator import Simulation
from accord.errors import SettingError
from accord.estimators import fit_together
from accord.estimators.settings import make_settings
from accord.methods import Setup, method_of
from accord.methods.base import StepInfo
from accord.models.recommenders import MF
from accord.models.stack import stack
from accord.objectives import binary
from accord.objectives import binary_reference as plain

LOGIT = st.floats(-20, 20)


@given(LOGIT, LOGIT, LOGIT, st.sampled_from([0, 1]), st.sampled_from(["dp", "dn"]), st.booleans())
def test_stage_two_is_the_reference(
    f: float, h: float, h_prime: float, label: int, sub_task: Any, full: bool
) -> None:
    own, other = (h, h_prime) if sub_task == "dp" else (h_prime, h)
    given = [torch.tensor([one], dtype=torch.float64) for one in (f, own, other, float(label))]
    found = binary.stage_two(*given, sub_task=sub_task, full=full)
    wanted = plain.stage_two(f, h, h_prime, label, 0 if sub_task == "dp" else 1, full)
    assert found.item() == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("sub_task", ["dp", "dn"])
def test_gradients_reach_the_target_and_the_noise_model_in_turn(sub_task: Any, full: bool) -> None:
    f, h, other = (torch.randn(6, dtype=torch.float64).requires_grad_() for _ in range(3))
    labels = torch.tensor([1.0, 0, 1, 0, 1, 0], dtype=torch.float64)
    loss = binary.stage_two(f, h, other, labels, sub_task=sub_task, full=full).sum()
    grads = torch.autograd.grad(loss, (f, h, other), allow_unused=True)
    assert grads[0] is not None
    assert grads[1] is not None
    assert grads[2] is None
    frozen = other.detach()
    assert torch.autograd.gradcheck(
        lambda a, b: binary.stage_two(a, b, frozen, labels, sub_task=sub_task, full=full), (f, h)
    )


@pytest.mark.parametrize("method", ["deca", "deca-p"])
def test_the_stages_follow_one_another(method: str) -> None:
    values = {"method": method, "stage_one_epochs": 2, "alpha": 0.0, "c0": 3.0, "c1": 7.0}
    bound = method_of(method, "clicks")().bound(Setup("clicks", binary, make_settings("clicks", values)))
    torch.manual_seed(0)
    phase = bound.phases(lambda role, architecture=None: stack([MF(5, 7, 3, init_std=1.0)]))[-1]
    assert [phase.stage(epoch) for epoch in range(4)] == [1, 1, 2, 2]
    batch = ClickBatch(
        torch.tensor([[0, 1]]), torch.tensor([[[1, 2]], [[3, 4]]]), torch.tensor([1.0, 0.0]).view(2, 1, 1)
    )
    losses = [phase.loss(batch, StepInfo(0, epoch)).item() for epoch in range(4)]
    assert losses[0] == losses[1] != losses[2] == losses[3]
    noise = [phase.networks[role] for role in ("noise_dp", "noise_dn")]
    for step, learns in ((0, 0), (1, 1)):
        for one in noise:
            one.zero_grad(set_to_none=True)
        phase.loss(batch, StepInfo(step, 3)).sum().backward()
        moved = [any(p.grad is not None for p in one.parameters()) for one in noise]
        assert moved == [k == learns for k in range(2)]


@pytest.mark.parametrize("method", ["deca", "deca-p"])
def test_a_recommender_has_two_stages_where_it_is_asked_to(made: Simulation, method: str) -> None:
    quick: dict[str, Any] = {"epochs": 4, "patience": 0, "restore": "last", "dims": 4, "batch_size": 512}
    one = Recommender("gmf", method, **quick).fit(made.log())
    alike = Recommender("gmf", method, stage_one_epochs=4, **quick).fit(made.log())
    assert (one.quality_ == alike.quality_).all()  # a second stage that never begins
    each = [Recommender("gmf", method, stage_one_epochs=2, seed=k, **quick) for k in range(2)]
    fit_together(each, [{"log": made.log()}] * 2)
    assert abs(each[0].quality_ - one.quality_).max() > 1e-3


@pytest.mark.parametrize("sub_tasks", ["dp", "dn", "joint"])
def test_a_second_stage_needs_both_sub_tasks(sub_tasks: Any) -> None:
    with pytest.raises(SettingError, match="leave sub_tasks at both"):
        Recommender("gmf", "deca-p", stage_one_epochs=2, sub_tasks=sub_tasks)


def test_the_width_of_h_is_a_setting(tmp_path: Any) -> None:
    X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)).numpy()
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    clf = Classifier("mlp", "deca-p", epochs=2, noise_width=7).fit(X, y)
    assert clf.networks_["noise"].first.out_features == 7  # pyright: ignore
    clf.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run")
    assert again.networks_["noise"].first.out_features == 7  # pyright: ignore
    with pytest.raises(SettingError, match="noise_model 'mlp' has its own"):
        Classifier("mlp", "deca-p", epochs=1, noise_width=7, noise_model="mlp").fit(X, y)
