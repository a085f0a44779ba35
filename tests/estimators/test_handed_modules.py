"""Torch modules that are handed over: kept, reset or frozen; token ids; inputs as they are."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accord import Classifier
from accord.errors import DataError, SettingError
from accord.estimators.handed import copied, reset, resting
from accord.tasks.runs import run_of

CLASSES = 3


def examples(count: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unlike scales, and labels that a linear rule gives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 5)) * [1, 3, 0.3, 1, 10] + [0, 5, 0, 0, -20]
    return X.astype(np.float32), (X[:, :3] / [1, 3, 0.3]).argmax(1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def pretrained(X: np.ndarray, y: np.ndarray, steps: int = 60) -> Net:
    """A net that was trained elsewhere, on numbers as they are."""
    torch.manual_seed(0)
    net = Net()
    step = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(steps):
        step.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        step.step()
    return net.eval()


@pytest.fixture(scope="module")
def given() -> tuple[Net, np.ndarray, np.ndarray, np.ndarray]:
    """A pretrained net, examples, their labels and labels of which a tenth is wrong."""
    X, y = examples()
    wrong = y.copy()
    wrong[::10] = (y[::10] + 1) % CLASSES
    return pretrained(X, y), X, y, wrong


def states(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    return [name for name in a if torch.equal(a[name], b[name])]


@pytest.mark.parametrize("method", ["normal", "ensemble", "deca", "deca-p", "itlm"])
def test_at_rate_0_a_net_answers_as_it_did(method: str, given: Any, tmp_path: Path) -> None:
    net, X, y, wrong = given
    before = states(net)
    clf = Classifier(model=net, method=method, learning_rate=0.0, epochs=2).fit(X, wrong)
    with torch.no_grad():
        own = torch.softmax(net(torch.from_numpy(X)), 1).numpy()
    assert np.allclose(clf.predict_proba(X), own, atol=1e-6)
    assert clf.score(X, y) == (own.argmax(1) == y).mean() > 0.9
    issues = clf.find_label_issues()
    assert issues.num_rows == len(X)
    if method == "normal":
        assert np.allclose(clf.label_quality_, own[np.arange(len(X)), wrong], atol=1e-6)
        assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.9
        clf.save(tmp_path / "run")
        again = Classifier.load(tmp_path / "run", model=Net())
        assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
        assert again.find_label_issues().equals(issues)
    assert len(same(before, states(net))) == len(before)  # what was handed over is left alone


def test_a_net_is_fine_tuned_from_where_it_was(given: Any) -> None:
    net, X, y, _ = given
    turned = (y + 1) % CLASSES
    near = Classifier(model=net, method="normal", epochs=1, learning_rate=1e-4).fit(X, y)
    assert near.score(X, y) > 0.9  # one step from it, where a fresh net knows nothing
    tuned = Classifier(model=net, method="normal", epochs=25, batch_size=20).fit(X, turned)
    assert tuned.score(X, turned) > 0.8 > 0.2 > (net(torch.from_numpy(X)).argmax(1).numpy() == turned).mean()
    assert tuned.notes_["weights"] == {"pretrained": "keep", "parameters": 179, "frozen": 0}
    assert any("handed over with were kept" in line for line in run_of(tuned).description())


def test_kept_weights_learn_at_a_tenth_of_the_usual_rate() -> None:
    options = Classifier().settings.training_options
    assert options("custom", True).learning_rate == pytest.approx(0.1 * options("custom").learning_rate)
    assert Classifier(learning_rate=0.3).settings.training_options("custom", True).learning_rate == 0.3


def test_a_frozen_backbone_stays_as_it_is(given: Any, tmp_path: Path) -> None:
    net, X, _, wrong = given
    net = copy.deepcopy(net)
    net.body.requires_grad_(False)
    nn.init.zeros_(net.head.weight)
    before = states(net)
    clf = Classifier(model=net, epochs=8, batch_size=20, seed=1).fit(X, wrong)
    assert clf.settings.method == "deca-p"
    after = {name.removeprefix("module."): t for name, t in states(clf.networks_["target"]).items()}
    assert set(same(before, after)) == {name for name in before if name.startswith("body.")}  # its norm's means too
    assert clf.score(X, wrong) > 0.6
    assert clf.notes_["weights"]["frozen"] == 128
    clf.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run", model=Net())
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.find_label_issues().equals(clf.find_label_issues())
    tuned = Classifier(model=net, method="mw-net", epochs=2).fit(X, wrong, clean=(X[:20], wrong[:20]))
    after = {name.removeprefix("module."): t for name, t in states(tuned.networks_["target"]).items()}
    assert "body.0.weight" in same(before, after)
    assert "head.weight" not in same(before, after)


def test_a_net_that_is_frozen_as_a_whole_judges_and_is_not_trained(given: Any) -> None:
    net, X, y, wrong = given
    net = copy.deepcopy(net).requires_grad_(False)
    clf = Classifier(model=net).fit(X, wrong)
    assert clf.settings.method == "normal"
    assert len(clf.history_) == 1
    assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.9
    with pytest.raises(SettingError, match="All parameters of the model are frozen.*method='normal'"):
        Classifier(model=net, method="deca-p").fit(X, wrong)


def test_what_rests_in_training() -> None:
    net = Net()
    assert list(resting(net)) == []
    assert list(resting(net.eval())) == []  # the whole net in eval mode says nothing: it was used
    net.train()
    net.body[1].eval()
    assert list(resting(net)) == [net.body[1]]
    made = copied(net)
    made.train()
    assert not made.body[1].training  # pyright: ignore
    assert made.body[3].training  # pyright: ignore
    net.body.requires_grad_(False)
    assert list(resting(net)) == [net.body]  # with its dropout
    assert not any(part.training for part in copied(net, still=True).train().modules())


class Attentive(nn.Module):
    """Layers of many kinds, one with no reset of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.place = nn.Parameter(torch.randn(6, 8))
        self.scale = nn.Parameter(torch.ones(8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = (self.embedding(ids) + self.place[: ids.shape[1]]) * self.scale
        return self.head(self.norm(self.encoder(x)).mean(1))


def test_layers_of_every_kind_are_reset() -> None:
    net = Attentive()
    with torch.no_grad():
        for one in net.parameters():
            one.add_(torch.rand_like(one))
        net.scale.fill_(1.0)
    net.encoder.layers[0].linear1.requires_grad_(False)
    first, second = copy.deepcopy(net), copy.deepcopy(net)
    torch.manual_seed(1)
    reset(first)
    torch.manual_seed(2)
    reset(second)
    own = dict(net.named_parameters())
    frozen = {name for name in own if "linear1" in name}
    assert set(same(own, dict(first.named_parameters()))) == {*frozen, "scale"}
    plain = {name for name in own if "norm" in name} | {
        f"encoder.layers.0.self_attn.{b}" for b in ("in_proj_bias",)
    }
    alike = set(same(dict(first.named_parameters()), dict(second.named_parameters())))
    assert plain <= alike - {"scale"} - frozen  # ones and zeros, as in every fresh net
    drawn = set(own) - alike
    weights = {"embedding.weight", "place", "encoder.layers.0.self_attn.in_proj_weight", "head.weight"}
    assert weights | {"encoder.layers.0.self_attn.out_proj.weight"} <= drawn
    assert torch.equal(first.norm.weight, torch.ones(8))
    assert float(first.place.detach().std()) == pytest.approx(float(net.place.detach().std()), rel=0.5)


def test_a_reset_that_wants_arguments_is_refused() -> None:
    class Odd(nn.Linear):
        def reset_parameters(self, std: float = -1.0) -> None:
            if std < 0 and hasattr(self, "made"):
                raise TypeError("std is missing")

    net = nn.Sequential(Odd(5, CLASSES))
    net[0].made = True  # pyright: ignore
    X, y = examples(40)
    with pytest.raises(SettingError, match="A Odd of the model cannot be reset: std is missing"):
        Classifier(model=net, pretrained="reset", epochs=1).fit(X, y)


def test_reset_and_head_by_seed(given: Any) -> None:
    net, X, y, _ = given
    made = {}
    for how in ("keep", "head", "reset"):
        quick: dict[str, Any] = {"method": "normal", "epochs": 1, "learning_rate": 0.0, "pretrained": how}
        made[how] = [states(Classifier(model=net, seed=s, **quick).fit(X, y).networks_["target"]) for s in (0, 1)]
    weights = [name for name in made["keep"][0] if name.endswith(("0.weight", "head.weight"))]
    shared = {how: [name for name in weights if name in same(*made[how])] for how in made}
    assert shared == {"keep": weights, "head": weights[:1], "reset": []}
    fresh = Classifier(model=lambda shape, classes: Net(), method="normal", epochs=1).fit(X, y)
    assert "weights" not in fresh.notes_  # a function makes what it makes


def test_two_networks_that_begin_as_one_are_warned_of(given: Any, recwarn: Any) -> None:
    net, X, y, _ = given
    with pytest.warns(UserWarning, match="both begin as the same one here.*pretrained='head' or 'reset'"):
        Classifier(model=net, method="deca", auxiliary=net, epochs=1).fit(X, y)
    Classifier(model=net, method="deca", auxiliary=net, pretrained="head", epochs=1).fit(X, y)
    Classifier(model=net, method="deca", auxiliary=Net(), epochs=1).fit(X, y)
    assert not recwarn.list


def test_inputs_are_scaled_only_where_it_makes_sense(given: Any) -> None:
    net, X, y, _ = given
    quick: dict[str, Any] = {"method": "normal", "epochs": 1}
    scaled = {
        "named": Classifier(**quick),
        "reset": Classifier(model=net, pretrained="reset", **quick),
        "kept, asked": Classifier(model=net, standardise=True, **quick),
        "kept": Classifier(model=net, **quick),
        "off": Classifier(standardise=False, **quick),
    }
    found = {name: bool((clf.fit(X, y).scaling_.mean != 0).any()) for name, clf in scaled.items()}
    assert found == {"named": True, "reset": True, "kept, asked": True, "kept": False, "off": False}


# -- token ids -------------------------------------------------------------------------------------------


def sentences(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Six tokens each; the class is which of two tokens is there."""
    rng = np.random.default_rng(0)
    ids, y = rng.integers(4, 20, (count, 6)), rng.integers(0, 2, count)
    ids[np.arange(count), rng.integers(0, 6, count)] = y + 2
    return ids, np.array(["no", "yes"])[y]


def test_a_transformer_on_token_ids(tmp_path: Path) -> None:
    ids, y = sentences()
    wrong = y.copy()
    wrong[:8] = np.where(y[:8] == "no", "yes", "no")
    torch.manual_seed(0)
    net = Attentive()
    quick: dict[str, Any] = {"optimiser": "adam", "learning_rate": 0.01, "batch_size": 20}
    clf = Classifier(model=net, epochs=15, **quick).fit(ids, wrong)
    assert clf.integers_
    assert clf.score(ids, y) > 0.85
    assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.85
    assert np.array_equal(clf.predict_proba(torch.from_numpy(ids)), clf.predict_proba(ids.tolist()))
    assert np.array_equal(clf.predict_proba(ids.astype(np.float32)), clf.predict_proba(ids))
    clf.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run", model=Attentive())
    assert np.array_equal(again.predict_proba(ids), clf.predict_proba(ids))
    assert again.find_label_issues().equals(clf.find_label_issues())
    with pytest.raises(DataError, match="trained on whole numbers"):
        clf.predict(ids + 0.5)
    with pytest.raises(DataError, match=r"not 2 to 500: index out of range.*give ids that its embedding has"):
        Classifier(model=net, epochs=1).fit(np.where(ids == 19, 500, ids), y)
    with pytest.raises(DataError, match="an id that the model does not have"):
        clf.predict(np.full((1, 6), 500))


def test_methods_with_several_networks_take_token_ids() -> None:
    ids, y = sentences(60)
    for method in ("deca", "ensemble", "council"):
        clf = Classifier(model=Attentive(), method=method, epochs=2, optimiser="adam", folds=2).fit(ids, y)
        assert clf.predict(ids).shape == (60,), method
    assert [row["model"] for row in clf.notes_["council"]["members"]] == [
        "custom",
        "custom",
    ]  # no columns of numbers
    with pytest.raises(SettingError, match="cannot be mixed"):
        Classifier(model=Attentive(), method="council", mixup=0.5, epochs=1).fit(ids, y)


def test_whole_numbers_are_columns_for_a_model_that_wants_numbers() -> None:
    X, y = examples(60)
    whole = np.round(X * 10).astype(np.int64)
    quick: dict[str, Any] = {"method": "normal", "epochs": 2}
    for model in ("mlp", Net()):
        ints = Classifier(model=model, **quick).fit(whole, y)
        floats = Classifier(model=model, **quick).fit(whole.astype(np.float32), y)
        assert not ints.integers_
        assert np.array_equal(ints.predict_proba(whole), floats.predict_proba(whole))


def test_a_council_of_a_kept_net_and_named_members(given: Any) -> None:
    """Each sees its inputs in its own scale: the named ones learn, though the net has raw numbers."""
    net, X, y, wrong = given
    quick: dict[str, Any] = {"method": "council", "folds": 2, "member_rounds": 0, "epochs": 20, "batch_size": 20}
    clf = Classifier(model=net, members=["custom", "mlp", "logistic"], **quick).fit(X, wrong)
    told = {row["model"]: row["out_of_fold"] for row in clf.notes_["council"]["members"]}
    assert told["custom"] > 0.75
    assert min(told["mlp"], told["logistic"]) > 0.6
    assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.9
    prior = Classifier(prior=net, epochs=1).fit(X, y)  # a kept net as the prior of a model whose inputs are scaled
    assert prior.notes_["prior"]["accuracy"] > 0.9
