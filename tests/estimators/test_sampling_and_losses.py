"""Several non-clicks for each click, ranking losses, and the metric that chooses the epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accord import Recommender
from accord.batches.clicks import ClickBatch, ClickFeed
from accord.batches.shards import ShardedFeed
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation, SimulatorSettings, simulate
from accord.data.stored_interactions import StoredInteractions
from accord.errors import SettingError
from accord.estimators import fit_together
from accord.estimators.settings import make_settings
from accord.methods import Setup, method_of
from accord.methods.base import StepInfo
from accord.models.recommenders import GMF
from accord.models.stack import stack
from accord.objectives import binary
from accord.objectives import binary_reference as plain
from accord.tasks.clicks import ClickTask

QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 256, "dims": 4, "device": "cpu"}
LONGER: dict[str, Any] = {**QUICK, "epochs": 12}
USERS, ITEMS = 30, 40


@pytest.fixture(scope="module")
def made() -> Simulation:
    return simulate(SimulatorSettings(users=150, items=250, interactions=2000, seed=2))


def log_of(weights: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    keys = np.unique(np.random.default_rng(1).integers(0, USERS * ITEMS, 300))
    own = 1.0 + np.arange(len(keys)) % 3 if weights else None
    return keys // ITEMS, keys % ITEMS, own


def data_of(kind: str, weights: bool) -> Interactions:
    users, items, own = log_of(weights)
    if kind == "in memory":
        return Interactions.from_pairs(users, items, USERS, ITEMS, weights=own)
    return StoredInteractions.of(users.astype(np.int32), items.astype(np.int32), USERS, ITEMS, weights=own)


def streams(runs: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(k) for k in range(runs)]


@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", ["in memory", "in files", "in shards"])
def test_each_click_has_as_many_non_clicks_as_asked_for(kind: str, weights: bool, negatives: Any) -> None:
    data = data_of("in memory" if kind == "in shards" else kind, weights)
    if kind == "in shards":
        sizes = [int(data.degrees[k::2].sum()) for k in range(2)]
        feed: Any = ShardedFeed([data], 64, False, False, sizes=sizes, own=None, per_click=3)
    else:
        feed = ClickFeed([data], 64, False, False, per_click=3)
    clicks = set(zip(data.users.tolist(), data.items.tolist(), strict=True))
    batches = list(feed.epoch(streams(1), negatives))
    seen = []
    for batch in batches:
        assert batch.items.shape == (4, 1, len(batch))
        assert batch.labels.flatten().tolist() == [1, 0, 0, 0]
        assert (batch.weights is not None) == weights
        users = batch.users[0].tolist()
        seen += zip(users, batch.items[0, 0].tolist(), strict=True)
        for others in batch.items[1:, 0]:
            assert not clicks & set(zip(users, others.tolist(), strict=True))
        assert not torch.equal(batch.items[1], batch.items[2])  # each is drawn anew
    assert sorted(seen) == sorted(clicks)
    assert sum(len(batch) for batch in batches) == len(data)


@pytest.mark.parametrize("shared", [True, False])
def test_runs_of_a_stack_draw_what_they_draw_alone(shared: bool) -> None:
    other = data_of("in memory", True)
    data = [other] * 2 if shared else [data_of("in memory", True), other]
    together = list(ClickFeed(data, 64, False, True, per_click=2).epoch(streams(2)))
    copies = [(batch.users.clone(), batch.items.clone()) for batch in together]
    for r in range(2):
        alone = ClickFeed([data[r]], 64, False, False, per_click=2).epoch([streams(2)[r]])
        for (users, items), own in zip(copies, alone, strict=True):
            assert torch.equal(users[r], own.users[0])
            assert torch.equal(items[:, r], own.items[:, 0])


def test_non_clicks_of_a_click_weigh_as_much_as_the_click() -> None:
    """Against a loop: the mean over clicks, times their weights, plus the mean over all non-clicks."""
    f = torch.randn(4, 1, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([[0.5, 1.0, 1.5, 0.0, 2.0]])
    labels = torch.tensor([1.0, 0.0, 0.0, 0.0]).view(4, 1, 1)
    batch = ClickBatch(torch.zeros(1, 5), torch.zeros(4, 1, 5), labels, weights=weights)
    wanted = sum(weights[0, k].item() * plain.cross_entropy(f[0, 0, k].item(), 1) for k in range(5)) / 5
    wanted += sum(plain.cross_entropy(f[n, 0, k].item(), 0) for n in (1, 2, 3) for k in range(5)) / 15
    assert batch.mean(binary.cross_entropy(f, labels)).item() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p"])
@pytest.mark.parametrize("model", ["gmf", "neumf", "lightgcn"])
def test_every_method_learns_from_several_and_a_stack_learns_the_same(
    made: Simulation, model: str, method: str
) -> None:
    each = [Recommender(model, method, negatives=3, seed=k, **QUICK) for k in range(2)]
    fit_together(each, [{"log": made.log()}] * 2)
    alone = Recommender(model, method, negatives=3, seed=1, **QUICK).fit(made.log())
    one = Recommender(model, method, seed=1, **QUICK).fit(made.log())
    assert np.allclose(each[1].quality_, alone.quality_, atol=2e-5)
    assert not np.allclose(one.quality_, alone.quality_, atol=2e-4)


def test_a_council_s_student_learns_from_several(made: Simulation) -> None:
    council: Any = {"members": ("ials", "ease", "rp3beta"), "folds": 0}
    found = [Recommender("gmf", "council", negatives=n, **council, **QUICK).fit(made.log()) for n in (1, 2)]
    one, other = (rec.networks_["target"].users for rec in found)
    assert not torch.equal(one, other)  # pyright: ignore[reportArgumentType]


class Rows(nn.Module):
    """A model of one's own that reads whole rows."""

    reads_rows = True

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(items))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.bias[items]

    def scores(self, users: Tensor) -> Tensor:
        return self.bias.expand(len(users), -1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "cdae"}, "model 'cdae' learns whole rows of clicks"),
        ({"model": "ease", "method": "normal"}, "model 'ease' is solved without them"),
        ({"model": "gmf", "method": "deca", "auxiliary": "cdae"}, "auxiliary 'cdae' learns whole rows"),
        ({"model": "gmf", "method": "deca-p", "noise_model": "cdae"}, "noise_model 'cdae' learns whole rows"),
    ],
)
def test_models_that_take_one_say_so(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Recommender(negatives=2, **given)
    Recommender(**given)


def test_a_model_of_one_s_own_that_reads_rows_takes_one(made: Simulation) -> None:
    with pytest.raises(SettingError, match="the Rows learns whole rows"):
        Recommender(Rows, "normal", negatives=2, **QUICK).fit(made.log())


def test_a_prior_of_another_model_has_its_own_non_clicks(made: Simulation) -> None:
    rec = Recommender("gmf", "deca-p", prior="cdae", negatives=2, **QUICK).fit(made.log())
    assert rec.notes_["prior"]["model"] == "cdae"


@pytest.mark.parametrize("rate", [0.5, 0.34])
def test_t_ce_refuses_to_drop_every_click(rate: float) -> None:
    negatives = 1 if rate == 0.5 else 2
    with pytest.raises(SettingError, match="leaves no click to learn from: give less than 0"):
        Recommender("gmf", "t-ce", drop_rate=rate, negatives=negatives)
    Recommender("gmf", "t-ce", drop_rate=0.3, negatives=2)


@pytest.mark.parametrize("kind", ["bpr", "softmax"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "ensemble"])
def test_the_loss_of_a_method_is_the_reference(method: str, kind: str) -> None:
    data = data_of("in memory", True)
    batch = next(iter(ClickFeed([data], 16, False, False, per_click=3).epoch(streams(1))))
    network = GMF(USERS, ITEMS, 4, item_bias=True)
    settings = make_settings("clicks", {"method": method, "loss": kind, "negatives": 3})
    bound = method_of(method, "clicks")().bound(Setup("clicks", binary, settings))
    phase = bound.phases(lambda role, architecture=None: stack([network]))[0]
    f, weights = network.logits(batch.users[0], batch.items[:, 0]), batch.weights
    assert weights is not None
    loss = plain.bpr if kind == "bpr" else plain.sampled_softmax
    each = [w * loss(own[0], own[1:]) for w, own in zip(weights[0].tolist(), f.T.tolist(), strict=True)]
    assert phase.loss(batch, StepInfo(0)).item() == pytest.approx(sum(each) / len(each), rel=1e-5)


@pytest.mark.parametrize("model", ["gmf", "cdae", "lightgcn"])
def test_ranking_losses_rank_better_than_chance(made: Simulation, model: str) -> None:
    chance = 20 / 250
    for kind in ("bpr", "softmax"):
        rec = Recommender(model, "normal", loss=kind, **LONGER).fit(made.log())
        assert rec.validation_["training"]["recall@20"] > 1.3 * chance


def test_a_loss_is_refused_where_nothing_is_minimised() -> None:
    with pytest.raises(SettingError, match="model 'ease' is solved without one"):
        Recommender("ease", "normal", loss="bpr")


@pytest.mark.parametrize("model", ["gmf", "ials"])
def test_the_epoch_is_chosen_by_the_metric_asked_for(made: Simulation, model: str) -> None:
    rec = Recommender(model, "normal", metric="mrr@7", patience=0, **LONGER).fit(made.log())
    values = [record["valid"]["mrr@7"] for record in rec.history_]
    assert rec.validation_["training"]["epoch"] == 1 + values.index(max(values))
    assert "ndcg@20" in rec.history_[0]["valid"]  # by which flags are doubted, whatever chooses


NO_METRICS = ["auc", "ndcg", "ndcg@", "ndcg@0", "ndcg@5000", "ndcg@020", "recall@²", "@5", "recall@-3"]


@pytest.mark.parametrize("metric", [*NO_METRICS, "ndcg@" + "9" * 5000])
def test_other_metrics_are_refused(metric: str) -> None:
    with pytest.raises(SettingError, match="ndcg, recall, precision, hit or mrr at a length of 1 to 1000"):
        Recommender("gmf", metric=metric)


@pytest.mark.parametrize(
    ("model", "wanted", "words"),
    [("cdae", False, "always has one"), ("lightgcn", True, "never has one"), ("ease", True, "never has one")],
)
def test_an_item_bias_that_a_model_ignores_is_refused(model: str, wanted: bool, words: str) -> None:
    method = "normal"
    with pytest.raises(SettingError, match=words):
        Recommender(model, method, item_bias=wanted)
    Recommender(model, method, item_bias=not wanted)
    rec = Recommender(model, method)
    assert Recommender(**rec.get_params()).settings == rec.settings


def test_a_comparison_sets_an_item_bias_for_the_models_that_can_have_one() -> None:
    task = ClickTask(log=None)
    for given in (False, "false"):
        made = [task.check_settings({"model": model, "item_bias": given}) for model in ("gmf", "cdae", "lightgcn")]
        assert [one.item_bias for one in made] == [False, None, False]


def test_a_run_of_before_that_ignored_its_item_bias_still_loads(made: Simulation, tmp_path: Path) -> None:
    rec = Recommender("lightgcn", "normal", **QUICK).fit(made.log())
    rec.save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["settings"]["item_bias"] = True  # the default once
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    again = Recommender.load(tmp_path / "run")
    assert np.array_equal(again.quality_, rec.quality_)


def test_gmf_has_an_item_bias_unless_it_is_to_have_none(made: Simulation) -> None:
    each = [Recommender("gmf", "normal", item_bias=bias, **QUICK).fit(made.log()) for bias in (None, True, False)]
    biases = [rec.networks_["target"].item_bias for rec in each]  # pyright: ignore
    assert torch.equal(biases[0], biases[1])  # pyright: ignore
    assert biases[2] is None
