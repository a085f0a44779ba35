"""T-CE, R-CE, WBPR, ensemble and popularity do what their papers say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from accord import Recommender
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation
from accord.estimators.settings import make_settings
from accord.methods import PerRun, Setup
from accord.methods.t_ce import TruncatedCE
from accord.methods.wbpr import WBPR
from accord.models import is_solved, models_of
from accord.objectives import binary
from accord.objectives import binary_reference as plain


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30), st.floats(0, 0.9), st.integers(1, 3))
def test_t_ce_drops_a_share_of_the_whole_batch(logits: list[float], drop_rate: float, per_click: int) -> None:
    keep = binary.kept_positives(len(logits), drop_rate, per_click)
    assert keep == max(1, len(logits) - round(drop_rate * (1 + per_click) * len(logits)))
    rate = torch.tensor([[drop_rate]], dtype=torch.float64)
    stacked = binary.kept_positives(torch.tensor([[len(logits)]]), rate, per_click)
    assert stacked.tolist() == [[keep]]  # pyright: ignore[reportAttributeAccessIssue]
    f = torch.tensor([logits, *[logits[::-1]] * per_click], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1.0]] + [[0.0]] * per_click, dtype=torch.float64)
    loss = binary.truncated_cross_entropy(f, labels, keep)
    wanted = plain.truncated_cross_entropy(logits, logits[::-1] * per_click, drop_rate)
    assert loss.item() == pytest.approx(wanted, rel=1e-9)
    padded = binary.truncated_cross_entropy(f[:, None], labels[..., None], stacked, torch.ones(1, len(logits)) > 0)
    assert padded.item() == pytest.approx(wanted, rel=1e-9)
    (grad,) = torch.autograd.grad(loss, f)
    assert (grad[0] != 0).sum() == keep  # dropped positives teach nothing
    assert (grad[1:] != 0).all()  # negatives are never dropped


def test_t_ce_drops_twice_its_share_of_the_clicks_where_each_has_one_non_click() -> None:
    assert binary.kept_positives(1000, 0.1) == 800
    assert binary.kept_positives(1000, 0.1, 3) == 600


@given(st.floats(-20, 20), st.sampled_from([0, 1]), st.floats(0, 2))
def test_r_ce_is_the_reference(f: float, label: int, beta: float) -> None:
    fast = binary.reweighted_cross_entropy(
        torch.tensor([f], dtype=torch.float64), torch.tensor([label], dtype=torch.float64), beta
    )
    assert fast.item() == pytest.approx(plain.reweighted_cross_entropy(f, label, beta), rel=1e-9, abs=1e-12)


def test_the_drop_rate_grows_linearly_by_epoch() -> None:
    settings = make_settings("clicks", {"drop_rate": 0.2, "ramp_epochs": 4})
    method = TruncatedCE().bound(Setup("clicks", binary, settings))
    assert [method.share(epoch) for epoch in range(6)] == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2, 0.2])
    assert [method.stage(epoch) for epoch in range(6)] == [0, 1, 2, 3, 3, 3]
    own = {"drop_rate": PerRun([0.2, 0.4])}
    several = TruncatedCE().bound(Setup("clicks", binary, settings, per_run=own))
    shares = [several.share(epoch).flatten().tolist() for epoch in range(5)]  # pyright: ignore
    expected = [[0.05, 0.1], [0.1, 0.2], [0.15, 0.3], [0.2, 0.4], [0.2, 0.4]]
    assert shares == [pytest.approx(pair) for pair in expected]


def test_wbpr_draws_by_popularity_among_the_unclicked() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 40, 600) * 12 + rng.choice(12, 600, p=np.arange(1, 13) / 78))
    data = Interactions.from_pairs(pairs // 12, pairs % 12, 40, 12)
    weight = data.popularity.clamp(min=1).numpy()
    for user in range(5):
        own = set(data.items[data.starts[user] : data.starts[user + 1]].tolist())
        users = torch.full((30_000,), user)
        drawn = data.sample_negatives(users, torch.Generator().manual_seed(user), "popularity")
        counts = np.bincount(drawn.numpy(), minlength=12)
        open_items = [i for i in range(12) if i not in own]
        assert counts.sum() == counts[open_items].sum()
        expected = weight[open_items] / weight[open_items].sum() * 30_000
        if len(open_items) > 1:
            assert chisquare(counts[open_items], expected).pvalue > 1e-4
    method = WBPR().bound(Setup("clicks", binary, make_settings("clicks", {})))
    phase = method.phases(lambda role, architecture=None: torch.nn.Linear(1, 1))[0]
    assert phase.sampling(data, 0) == {"negatives": "popularity"}


def test_the_ensemble_is_the_mean_of_two_seeds(made: Simulation) -> None:
    rec = Recommender(method="ensemble", epochs=2, batch_size=512).fit(made.log())
    users = torch.arange(3)
    first, second = (rec.networks_[role].scores(users) for role in ("first", "second"))  # pyright: ignore
    assert not torch.equal(first, second)
    torch.testing.assert_close(rec._target.scores(users), (first + second) / 2)


def test_popularity_needs_no_training(made: Simulation, tmp_path) -> None:
    rec = Recommender(method="popularity").fit(made.log())
    assert rec.metrics_["epochs"] == 1
    training = rec.clicks_.subset(rec.part_ == 0)
    best = rec.item_ids_.take(np.bincount(training.items).argsort()[::-1][:1]).to_pylist()
    assert rec.recommend("u1", k=1, exclude_seen=False)["item"].to_pylist() == best
    rec.save(tmp_path / "run")
    assert Recommender.load(tmp_path / "run").recommend("u1").equals(rec.recommend("u1"))


@pytest.mark.parametrize("model", [name for name in models_of("clicks") if not is_solved(name)])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p"])
def test_every_method_trains_every_model(made: Simulation, model: str, method: str, tmp_path) -> None:
    rec = Recommender(model=model, method=method, epochs=2, batch_size=1024, dims=8).fit(made.log())
    assert rec.recommend(["u1", "u2"], k=3).num_rows == 6
    assert np.isfinite(rec.quality_).all()
    rec.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert again.recommend("u5", k=5)["item"].to_pylist() == rec.recommend("u5", k=5)["item"].to_pylist()
    assert again.find_label_issues().equals(rec.find_label_issues())


@pytest.mark.parametrize("noise_model", ["gmf", "neumf"])
def test_noise_models_and_auxiliaries_of_other_kinds(made: Simulation, noise_model: str) -> None:
    rec = Recommender(method="deca", noise_model=noise_model, auxiliary="lightgcn", epochs=1, dims=4).fit(
        made.log()
    )
    assert rec.recommend("u1").num_rows == 10
