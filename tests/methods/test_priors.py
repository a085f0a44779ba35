"""DeCA(p) with any prior, and modules of one's own as g and h."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from accord import Classifier, Recommender
from accord.batches.scaling import Scaling
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, InterruptedRunError, SettingError
from accord.estimators.fitting import fit_together, stack_key
from accord.estimators.networks import scaled_as
from accord.estimators.recommender_networks import build
from accord.methods.assembly import Taught
from accord.models.recommenders import GMF
from accord.training import Checkpoint, Progress

CLICKS: dict[str, Any] = {"epochs": 2, "batch_size": 512, "dims": 4}
LABELS: dict[str, Any] = {"epochs": 2, "batch_size": 50}
FEW: dict[str, Any] = {"members": ("mf", "ease"), "member_seeds": 1, "folds": 2}

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)


def own_net(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 5), nn.ReLU(), nn.Linear(5, classes))


def weights(estimator: Any) -> dict[str, torch.Tensor]:
    every = estimator.networks_.items()
    return {f"{role}.{name}": t.clone() for role, one in every for name, t in one.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def plain(made: Simulation) -> Recommender:
    return Recommender(**CLICKS).fit(made.log())


@pytest.fixture(scope="module")
def of_labels() -> Classifier:
    return Classifier(**LABELS).fit(X, Y)


# -- the prior ---------------------------------------------------------------------------------------------


def test_a_prior_of_the_targets_own_model_is_the_papers(made: Simulation, plain: Recommender) -> None:
    named = Recommender(**CLICKS, prior="gmf").fit(made.log())
    assert same(weights(named), weights(plain))
    assert [row["phase"] for row in named.history_] == [row["phase"] for row in plain.history_]


@pytest.mark.parametrize("prior", ["mlp", "auto"])
def test_a_prior_of_the_targets_own_classifier_is_the_papers(of_labels: Classifier, prior: str) -> None:
    assert same(weights(Classifier(**LABELS, prior=prior).fit(X, Y)), weights(of_labels))


@pytest.mark.parametrize("prior", ["lightgcn", "cdae", "ease", "ials"])
def test_another_model_is_fitted_first_and_has_its_say(made: Simulation, plain: Recommender, prior: str) -> None:
    rec = Recommender(**CLICKS, prior=prior).fit(made.log())
    assert not same(weights(rec), weights(plain))
    assert set(rec.networks_) == {"target"}
    assert {row["phase"] for row in rec.history_} == {"denoising"}
    row = rec.notes_["prior"]
    assert row["model"] == prior
    assert 0 < row["ndcg@20"] < 1
    assert rec.metrics_["train_seconds"] >= row["seconds"] > 0
    assert same(weights(Recommender(**CLICKS, prior=prior).fit(made.log())), weights(rec))


def test_the_prior_is_what_its_model_learns_from_the_same_clicks(made: Simulation, monkeypatch: Any) -> None:
    seen: list[Any] = []
    hear = Recommender._finish

    def spied(self: Recommender, trained: Any, judge: bool) -> None:
        hear(self, trained, judge)
        seen.append(self)

    monkeypatch.setattr(Recommender, "_finish", spied)
    log = made.log()
    rec = Recommender(**CLICKS, model="mf", prior="ease", ease_l2=7.0, split="random", seed=3, c1=5.0).fit(log)
    prior, target = seen
    assert target is rec
    assert prior.settings.model == "ease"
    assert prior.settings.method == "normal"
    assert prior.settings.ease_l2 == 7.0
    assert prior.settings.seed not in (0, 3)
    assert prior.settings.c1 is None
    assert np.array_equal(prior.part_, rec.part_)


def test_the_prior_moves_the_target_towards_itself(made: Simulation) -> None:
    log, rng = made.log(), np.random.default_rng(1)
    priors = [Recommender(method="popularity").fit(log), Recommender(model="ease", method="normal").fit(log)]
    longer = {"epochs": 40, "patience": 0, "restore": "last", "batch_size": 512}
    recs = [Recommender(**longer, prior=prior).fit(log) for prior in priors]
    users, items = (rng.choice(np.unique(np.asarray(log[name])), 3000) for name in ("user", "item"))
    answers = [one.predict(users, items) for one in (*priors, *recs)]
    assert np.corrcoef(answers[1] - answers[0], answers[3] - answers[2])[0, 1] > 0.3


@pytest.mark.parametrize("model", ["ease", "rp3beta", "itemknn", "ials", "cdae"])
def test_a_table_of_its_answers_stands_for_a_slow_prior(
    made: Simulation, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = Recommender(model=model, method="normal", epochs=2).fit(made.log())
    by_table = Recommender(**CLICKS, prior=prior).fit(made.log())
    monkeypatch.setattr(Taught, "LARGEST", 0)
    asked = Recommender(**CLICKS, prior=prior).fit(made.log())
    for name, tensor in weights(asked).items():
        torch.testing.assert_close(tensor, weights(by_table)[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("serve", ["student", "council"])
@pytest.mark.parametrize("model", ["gmf", "lightgcn"])
def test_a_fitted_prior_stays_as_it_is(made: Simulation, tmp_path: Path, serve: str, model: str) -> None:
    log = made.log()
    prior = Recommender(**CLICKS, **FEW, model=model, method="council", serve=serve).fit(log)
    before, on = weights(prior), [one.training for one in prior.networks_.values()]
    rec = Recommender(**CLICKS, prior=prior).fit(log)
    assert same(weights(prior), before)
    assert [one.training for one in prior.networks_.values()] == on
    assert rec.notes_["prior"] == {"model": f"{model} council", "seed": 0, "seconds": 0.0, "fitted": True}
    prior.save(tmp_path / "prior")
    loaded = Recommender.load(tmp_path / "prior")
    assert same(weights(Recommender(**CLICKS, prior=loaded).fit(log)), weights(rec))


def test_estimators_that_are_not_fitted_keep_their_own_settings(made: Simulation) -> None:
    log, method = made.log(), {"model": "mf", "method": "t-ce", "epochs": 1}
    given = Recommender(**method, drop_rate=0.3)
    first, second = (Recommender(**CLICKS, prior=one).fit(log) for one in (given, Recommender(**method)))
    assert first.notes_["prior"]["model"] == "mf t-ce"
    assert not same(weights(first), weights(second))
    assert not hasattr(given, "networks_")


def test_a_council_is_a_prior_by_name_and_as_an_estimator(made: Simulation) -> None:
    log = made.log()
    named = Recommender(**CLICKS, **FEW, prior="council").fit(log)
    given = Recommender(**CLICKS, prior=Recommender(**CLICKS, **FEW, method="council")).fit(log)
    assert named.notes_["prior"]["model"] == "gmf council"
    assert same(weights(named), weights(given))


def test_own_modules_and_members_come_along_with_an_estimator(made: Simulation) -> None:
    council = Recommender(**CLICKS, method="council", members=[GMF, "ease"], member_seeds=1, folds=2)
    rec = Recommender(**CLICKS, prior=council).fit(made.log())
    assert rec.notes_["prior"]["model"] == "gmf council"
    assert Recommender(**CLICKS, prior=GMF).fit(made.log()).notes_["prior"]["model"] == "custom"


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("method", ["normal", "council", "deca"])
def test_classifiers_as_priors(of_labels: Classifier, fitted: bool, method: str) -> None:
    more = {"members": ("mlp", "logistic"), "folds": 2} if method == "council" else {}
    prior = Classifier(**LABELS, **more, method=method, seed=4)
    before = weights(prior.fit(X, Y)) if fitted else {}
    clf = Classifier(**LABELS, prior=prior).fit(X, Y)
    assert not same(weights(clf), weights(of_labels))
    assert hasattr(prior, "networks_") == fitted
    assert not fitted or same(weights(prior), before)
    assert clf.notes_["prior"]["model"].startswith("mlp")


@pytest.mark.parametrize("prior", [own_net, own_net((6,), 3)])
def test_modules_without_named_features_are_priors_of_classifiers(of_labels: Classifier, prior: Any) -> None:
    assert not same(weights(Classifier(**LABELS, prior=prior).fit(X, Y)), weights(of_labels))


def test_a_prior_of_images_may_be_of_another_kind() -> None:
    images = RNG.normal(size=(60, 6, 6, 1)).astype(np.float32)
    clf = Classifier(**LABELS, prior="mlp", augment="crop").fit(images, np.arange(60) % 2)
    assert (clf.notes_["prior"]["model"], clf.model_) == ("mlp", "convnet")


@pytest.mark.parametrize("shape", [(40, 6), (40, 5, 4, 3)])
def test_a_prior_of_other_scaling_answers_as_it_would(shape: tuple[int, ...]) -> None:
    data = torch.from_numpy(RNG.normal(size=shape)).float()
    own, given = Scaling.of(data * 3 + 2), Scaling.of(data)
    clf = Classifier(method="normal", model="mlp", epochs=1).fit(data.numpy(), np.arange(40) % 2)
    order = (0, 3, 1, 2) if len(shape) == 4 else (0, 1)

    def scaled(scaling: Scaling) -> torch.Tensor:
        return ((data - scaling.mean) / scaling.std).permute(order)

    target: Any = clf._target
    wrapped: Any = scaled_as(target, own, given, len(shape) - 1)
    with torch.no_grad():
        expected, answer = target.outputs(scaled(own))[1], wrapped.outputs(scaled(given))[1]
    torch.testing.assert_close(answer, expected)
    assert scaled_as(target, given, given, len(shape) - 1) is target


def test_prior_and_target_of_labels_hold_out_the_same_examples(monkeypatch: Any) -> None:
    seen: list[np.ndarray] = []
    finish = Classifier._finish

    def spied(self: Classifier, trained: Any, judge: bool) -> None:
        seen.append(self.part_)
        finish(self, trained, judge)

    monkeypatch.setattr(Classifier, "_finish", spied)
    Classifier(**LABELS, prior=Classifier(method="deca", epochs=1, valid_share=0.4)).fit(X, Y)
    assert np.array_equal(*seen)


# -- saving and resuming -------------------------------------------------------------------------------------


def test_a_run_with_a_prior_is_loaded_as_it_was(made: Simulation, tmp_path: Path) -> None:
    for number, prior in enumerate(("ease", Recommender(model="ease", method="normal").fit(made.log()), GMF)):
        rec = Recommender(**CLICKS, prior=prior).fit(made.log())
        rec.save(tmp_path / str(number))
        again = Recommender.load(tmp_path / str(number))
        assert same(weights(again), weights(rec))
        assert again.notes_["prior"] == rec.notes_["prior"]
        assert again.find_label_issues().equals(rec.find_label_issues())
        if number:
            with pytest.raises(SettingError, match="'prior' was given as an object"):
                again.fit(made.log())
        else:
            assert same(weights(again.fit(made.log())), weights(rec))


@pytest.mark.parametrize("phase", ["prior", "denoising"])
@pytest.mark.parametrize("prior", ["lightgcn", "council"])
def test_an_interrupted_run_is_resumed(made: Simulation, tmp_path: Path, prior: str, phase: str) -> None:
    settings = {**CLICKS, **FEW, "epochs": 4, "prior": prior}
    whole = Recommender(**settings).fit(made.log())
    checkpoint = Checkpoint(tmp_path / "state", seconds=0)

    def stop(now: Progress) -> None:
        if now.phase.startswith(phase) and now.epoch > 1:
            checkpoint.stop = True

    with pytest.raises(InterruptedRunError):
        Recommender(**settings).fit(made.log(), callback=stop, checkpoint=checkpoint)
    seen: set[str] = set()
    again = Recommender(**settings).fit(
        made.log(), callback=lambda now: seen.add(now.phase), checkpoint=Checkpoint(tmp_path / "state")
    )
    assert same(weights(again), weights(whole))
    assert phase == "prior" or seen == {"denoising"}


@pytest.mark.parametrize("phase", ["prior", "denoising"])
def test_an_interrupted_classifier_is_resumed(tmp_path: Path, phase: str) -> None:
    settings = {**LABELS, "prior": Classifier(method="deca", epochs=3), "noise_model": "mlp"}
    checkpoint = Checkpoint(tmp_path / "state", seconds=0)

    def stop(now: Progress) -> None:
        checkpoint.stop |= now.phase.startswith(phase)

    with pytest.raises(InterruptedRunError):
        Classifier(**settings).fit(X, Y, callback=stop, checkpoint=checkpoint)
    again = Classifier(**settings).fit(X, Y, checkpoint=Checkpoint(tmp_path / "state"))
    assert same(weights(again), weights(Classifier(**settings).fit(X, Y)))


def test_a_checkpoint_knows_its_fitted_prior(made: Simulation, tmp_path: Path) -> None:
    log = made.log()
    first, second = (Recommender(**CLICKS, method="normal", seed=seed).fit(log) for seed in (1, 2))
    checkpoint = Checkpoint(tmp_path / "state", seconds=0)

    def stop(now: Progress) -> None:
        checkpoint.stop = True

    with pytest.raises(InterruptedRunError):
        Recommender(**CLICKS, prior=first).fit(log, callback=stop, checkpoint=checkpoint)
    with pytest.raises(DataError, match="belongs to another run"):
        Recommender(**CLICKS, prior=second).fit(log, checkpoint=Checkpoint(tmp_path / "state"))
    Recommender(**CLICKS, prior=first).fit(log, checkpoint=tmp_path / "state")
    assert not list(tmp_path.iterdir())


def test_runs_with_priors_are_fitted_together_as_alone(made: Simulation) -> None:
    log = made.log()
    each = [{"prior": "ease"}, {"prior": "ease", "c1": 3.0}, {}, {"prior": "lightgcn", "seed": 1}]
    together = fit_together([Recommender(**CLICKS, **one) for one in each], {"log": log})
    for rec, one in zip(together, each, strict=True):
        assert same(weights(rec), weights(Recommender(**CLICKS, **one).fit(log)))


def test_modules_that_were_given_are_never_stacked() -> None:
    assert stack_key(Recommender()) is not None
    for settings in ({"prior": "ease"}, {"method": "deca", "auxiliary": GMF}, {"noise_model": GMF}):
        assert stack_key(Recommender(**settings)) is None
    assert stack_key(Classifier(method="deca", auxiliary=own_net)) is None


def test_noise_models_of_clicks_may_be_any_model(made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(**CLICKS, method="deca", noise_model="lightgcn").fit(made.log())
    assert rec.architectures_["noise_dp"] == rec.architectures_["noise_dn"] == "lightgcn"
    rec.save(tmp_path / "run")
    assert same(weights(Recommender.load(tmp_path / "run")), weights(rec))


def test_own_modules_are_g_and_h_of_clicks(made: Simulation, tmp_path: Path) -> None:
    named = Recommender(**CLICKS, method="deca", auxiliary="mf", noise_model="mf").fit(made.log())

    def mf(users: int, items: int) -> nn.Module:
        return build(named, "any", "mf", named._training()).__class__(users, items, dims=4, item_bias=True)

    rec = Recommender(**CLICKS, method="deca", auxiliary=mf, noise_model=mf).fit(made.log())
    assert same(weights(rec), weights(named))
    rec.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert set(again.networks_) == {"target"}
    assert again.find_label_issues().equals(rec.find_label_issues())
    with pytest.raises(SettingError, match="'auxiliary' was given as an object|'noise_model' was given"):
        again.fit(made.log())


def test_own_modules_are_g_and_h_of_labels(of_labels: Classifier, tmp_path: Path) -> None:
    named = Classifier(**LABELS, method="deca", noise_model="mlp").fit(X, Y)
    assert named.architectures_["noise"] == "noise-model mlp"
    named.save(tmp_path / "named")
    assert same(weights(Classifier.load(tmp_path / "named")), weights(named))
    own = Classifier(**LABELS, method="deca", auxiliary=own_net, noise_model=own_net).fit(X, Y)
    own.save(tmp_path / "own")
    again = Classifier.load(tmp_path / "own")
    assert set(again.networks_) == {"target"}
    assert again.find_label_issues().equals(own.find_label_issues())
    assert not same(weights(Classifier(**LABELS, noise_model=own_net).fit(X, Y)), weights(of_labels))


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prior": "lightgnc"}, "did you mean 'lightgcn'"),
        ({"prior": "mlp"}, "Unknown prior 'mlp'"),
        ({"prior": Classifier()}, "a recommender, not a classifier"),
        ({"prior": 3}, "A int cannot be a prior"),
        ({"noise_model": "ease"}, "noise_model learns by gradients"),
        ({"method": "deca", "auxiliary": lambda users, items: nn.Linear(2, 2)}, "Linear cannot be trained"),
    ],
)
def test_what_cannot_be_taken_is_refused(made: Simulation, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        Recommender(**CLICKS, **settings).fit(made.log())
    assert len(str(caught.value).splitlines()) == 1


def test_a_prior_of_other_users_or_items_is_refused(made: Simulation) -> None:
    other = Recommender(model="mf", method="normal", epochs=1).fit(
        {"user": ["a", "a", "b"], "item": ["x", "y", "x"]}
    )
    with pytest.raises(DataError, match="fitted prior was fitted on other users than those of the log; fit it on"):
        Recommender(**CLICKS, prior=other).fit(made.log())


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("gmf", "Unknown prior 'gmf'"),
        ("convnet", "'convnet' is for images"),
        (LogisticRegression(), "can be a member of a council"),
        (Classifier(method="normal", epochs=1).fit(X, Y + 1), "fitted on other classes"),
        (Classifier(method="normal", epochs=1).fit(X[:, :4], Y), r"shape \(4,\), and these are \(6,\)"),
        (lambda shape, classes: nn.Linear(shape[0], classes + 1), "4 logits for 3 classes"),
    ],
)
def test_a_classifiers_prior_that_does_not_fit_is_refused(prior: Any, words: str) -> None:
    clf = Classifier(**LABELS, prior=prior)
    with pytest.raises(AccordError, match=words):
        clf.fit(X, Y)
    assert not hasattr(clf, "networks_")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise_model": "convnet"}, "hφ reads features; take auto or mlp"),
        ({"noise_model": "gmf"}, "Unknown noise_model"),
        ({"noise_model": lambda shape, classes: nn.Linear(2, classes)}, "cannot take examples"),
        ({"method": "deca", "auxiliary": nn.Linear(4, 3)}, "Model 'Linear' cannot take examples of shape"),
    ],
)
def test_g_and_h_of_labels_that_do_not_fit_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Classifier(**LABELS, **settings).fit(X, Y)
