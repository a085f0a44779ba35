"""A council of classifiers, from the folds to what its student learns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

from accord import Classifier
from accord.data.noise import add_noise
from accord.errors import AccordError, DataError, InterruptedRunError, SettingError
from accord.estimators import fit_together
from accord.estimators.council import labels as council
from accord.estimators.council.lesson import Lesson
from accord.estimators.council.plain import PlainMember
from accord.tasks.runs import run_of
from accord.training import Checkpoint

SMALL: dict[str, Any] = {
    "method": "council", "model": "mlp", "folds": 3, "epochs": 6, "batch_size": 32, "device": "cpu", "seed": 3,
}  # fmt: skip
MLP_ALONE = {**SMALL, "members": ("mlp",)}


def blobs(count: int = 210, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(count) % 3
    return (rng.normal(size=(count, 5)) + 2.5 * np.eye(5)[truth]).astype(np.float32), truth


@pytest.fixture(scope="module")
def noisy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, truth = blobs()
    return X, add_noise(truth, 3, 0.3, kind="uniform", seed=1).labels, truth


@pytest.fixture(scope="module")
def taught(noisy: Any) -> Classifier:
    return Classifier(**SMALL).fit(noisy[0], noisy[1])


class Told(PlainMember):
    """Says what it was asked, and remembers what it was taught."""

    taught: list[dict[str, Any]] = []  # noqa: RUF012

    def said(self, inputs: np.ndarray, targets: np.ndarray, rows: np.ndarray, asked: np.ndarray) -> np.ndarray:
        self.taught.append({"rows": rows, "targets": targets.copy(), "asked": asked})
        return super().said(inputs, targets, rows, asked)


def lessons(monkeypatch: pytest.MonkeyPatch, X: np.ndarray, y: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    """What the members of a council of Bayes classifiers learn, fold by fold and round by round."""
    monkeypatch.setattr(council, "PlainMember", Told)
    monkeypatch.setattr(Told, "taught", [])
    Classifier(**{**SMALL, "epochs": 1, "members": (GaussianNB(),), "valid_share": 0.0, **more}).fit(X, y)
    return Told.taught


# -- folds -------------------------------------------------------------------------------------------------


def test_every_example_is_judged_by_a_member_that_never_saw_it(noisy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = noisy
    told = lessons(monkeypatch, X, y, member_rounds=0)
    assert len(told) == 3
    assert sorted(np.concatenate([one["asked"] for one in told])) == list(range(len(y)))
    for one in told:
        assert not set(one["rows"]) & set(one["asked"])
        assert np.bincount(y[one["asked"]]).min() > 15  # every class has its share


def test_what_judges_a_label_does_not_depend_on_it(noisy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In no round: with another label of one example, members of its fold are taught the same of all others,
    and of it what was said without its label."""
    X, y, _ = noisy
    changed = y.copy()
    changed[7] = (y[7] + 1) % 3
    folds: list[Any] = []
    parts = [np.flatnonzero(np.arange(len(y)) // 3 % 3 == k) for k in range(3)]
    monkeypatch.setattr(council._Session, "_folds", lambda _: parts)
    for labels in (y, changed):
        folds.append(lessons(monkeypatch, X, labels, member_rounds=1, trust=1.0))
    own, other = 2, 0
    before, after = folds[0][own], folds[1][own]
    assert np.array_equal(before["targets"], after["targets"])
    told = folds[0][3 + own]
    said = GaussianNB().fit(X[before["rows"]], y[before["rows"]]).predict_proba(X[[7]])[0]
    of_seven = told["targets"][told["rows"] == 7][0]
    assert of_seven.argmax() == said.argmax()  # not its label, which full trust would show
    elsewhere = [one[3 + other]["targets"][one[3 + other]["rows"] == 7][0] for one in folds]
    assert not np.allclose(*elsewhere)  # other folds' members may know it


def test_rounds_learn_everything_and_the_first_its_folds_alone(noisy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = lessons(monkeypatch, noisy[0], noisy[1], member_rounds=2)
    assert [len(one["rows"]) for one in told] == [140] * 3 + [210] * 6


def test_members_that_learnt_mirror_images_are_asked_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of both answers; of members that never saw a mirror image, the image's own alone."""
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 8, 8, 3)).astype(np.float32), np.arange(30) % 3
    heard: list[tuple[np.ndarray, Any, np.ndarray]] = []
    own = council._Session._said_by

    def kept(self: Any, member: Any, rows: np.ndarray) -> np.ndarray:
        said = own(self, member, rows)
        heard.append((rows, member, said))
        return said

    monkeypatch.setattr(council._Session, "_said_by", kept)
    few = {"method": "council", "model": "convnet", "folds": 2, "member_rounds": 0, "epochs": 1, "device": "cpu"}
    for augment, both in (("crop-flip", True), ("crop", False)):
        heard.clear()
        Classifier(**few, augment=augment, valid_share=0.0).fit(X, y)
        rows, member, said = heard[0]
        network = member._target.eval()
        values = (torch.from_numpy(X[rows]) - member.scaling_.mean) / member.scaling_.std
        plain, mirrored = (
            torch.softmax(network(one.movedim(-1, 1)), 1).detach().numpy() for one in (values, values.flip(2))
        )
        expected = (plain + mirrored) / 2 if both else plain
        assert np.allclose(said, expected, atol=1e-5)
        assert not np.allclose(plain, mirrored, atol=1e-5)


# -- what it comes to --------------------------------------------------------------------------------------


def test_errors_are_found_and_the_student_does_not_learn_them(taught: Classifier, noisy: Any) -> None:
    X, y, truth = noisy
    assert taught.evaluate_issues(y != truth)["roc_auc"] > 0.9
    fresh, classes = blobs(300, seed=9)
    plain = Classifier(**{**SMALL, "method": "normal", "epochs": 60, "valid_share": 0.0}).fit(X, y)
    student = Classifier(**{**SMALL, "epochs": 60}).fit(X, y)
    assert student.evaluate(fresh, classes)["accuracy"] > plain.evaluate(fresh, classes)["accuracy"] + 0.03


def test_votes_are_those_of_all_members_and_rounds(taught: Classifier) -> None:
    issues = taught.find_label_issues()
    votes, voters = issues["votes"].to_numpy(), issues["voters"].to_numpy()
    assert (voters == 4 * 2).all()  # mlp, forest, logistic, neighbours; two rounds
    assert votes.min() >= 0
    assert votes.max() == 8
    quality, agreement = issues["label_quality"].to_numpy(), issues["agreement"].to_numpy()
    assert quality[votes == 8].mean() > 0.9 > 0.3 > quality[votes == 0].mean()
    assert (agreement[votes == 8] == 1).all()
    assert ((agreement >= 0) & (agreement <= 1)).all()


def test_the_round_that_foretells_labels_best_has_the_word(taught: Classifier) -> None:
    notes = taught.notes_["council"]
    likelihoods = [one["held_out_log_likelihood"] for one in notes["rounds"]]
    assert len(likelihoods) == 2
    assert notes["round"] == int(np.argmax(likelihoods))
    assert notes["folds"] == 3
    assert sum(notes["weights"].values()) == pytest.approx(1, abs=1e-3)
    assert [row["round"] for row in notes["members"]] == [0] * 4 + [1] * 4
    assert all(0 < row["out_of_fold"] < 1 and "accuracy" in row for row in notes["members"])


def test_the_run_tells_of_its_council(taught: Classifier, tmp_path: Path) -> None:
    words = "\n".join(run_of(taught).description())
    assert "council: 8 members; labels judged by members that never saw it" in words
    assert "members alone: mlp 0." in words
    page = tmp_path / "report.html"
    run_of(taught).write_report(page)
    text = page.read_text()
    assert "The council" in text
    assert "neighbours" in text
    assert re.search(r"\d of 8 \(\d+ %\)</td>", text)


def test_a_run_without_validation_tells_of_its_council(noisy: Any) -> None:
    alone = Classifier(**{**MLP_ALONE, "valid_share": 0.0, "member_rounds": 0}).fit(noisy[0], noisy[1])
    words = "\n".join(run_of(alone).description())
    assert "council: 1 members" in words
    assert "members alone" not in words


def test_the_student_keeps_its_last_epoch_unless_told_otherwise(noisy: Any) -> None:
    def kept(**more: Any) -> list[int]:
        clf = Classifier(**{**MLP_ALONE, "member_rounds": 0, "epochs": 12, "learning_rate": 0.05, **more})
        clf.fit(noisy[0], noisy[1])
        return [one["epoch"] for one in clf.metrics_["validation"].values()]

    assert kept() == [12]
    assert kept(restore="best") != [12]
    assert Classifier(method="normal").settings.kept_epoch == "best"


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_said_is_the_same_alone_and_side_by_side(noisy: Any, shared: bool) -> None:
    from accord.estimators import fit_together

    X, y, _ = noisy
    each = [Classifier(**{**MLP_ALONE, "seed": seed}) for seed in (3, 4)]
    if shared:
        fit_together(each, {"X": X, "y": y})
    else:
        for one in each:
            one.fit(X, y)
    again = Classifier(**MLP_ALONE).fit(X, y)
    assert np.allclose(again.label_quality_, each[0].label_quality_, atol=1e-4)
    assert not np.allclose(each[1].label_quality_, each[0].label_quality_, atol=1e-3)


# -- members -----------------------------------------------------------------------------------------------


def test_members_of_every_kind(noisy: Any) -> None:
    X, y, _ = noisy

    def own(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], 8), nn.ReLU(), nn.Linear(8, classes))

    members = (
        "logistic",
        LogisticRegression(C=0.3),
        Classifier(model="mlp", epochs=2),
        Classifier(own, features="1"),
    )
    clf = Classifier(**{**SMALL, "members": members, "member_rounds": 0}).fit(X, y)
    assert (clf.find_label_issues()["voters"].to_numpy() == 4).all()
    assert len({row["model"] for row in clf.notes_["council"]["members"]}) == 4


def test_a_student_of_ones_own_module(noisy: Any) -> None:
    torch.manual_seed(0)
    own = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    before = own[0].weight.detach().clone()
    clf = Classifier(own, **{k: v for k, v in SMALL.items() if k != "model"}, features="1").fit(noisy[0], noisy[1])
    assert torch.equal(own[0].weight, before)  # what is given is a pattern, and stays as it is
    assert clf.predict(noisy[0]).shape == (210,)


def test_members_that_cannot_learn_or_speak_say_so_in_one_sentence(noisy: Any) -> None:
    class Silent(GaussianNB):
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 3), np.nan)

    class Broken(GaussianNB):
        def fit(self, *_: Any, **__: Any) -> Any:
            raise ValueError("no such thing\nand more")

    for member, words in ((Silent(), "not finite"), (Broken(), "no such thing")):
        with pytest.raises(SettingError, match=words) as caught:
            Classifier(**{**SMALL, "members": (member,)}).fit(noisy[0], noisy[1])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"members": ("mpl",)}, "mpl"),
        ({"members": ("forest",), "serve": "council"}, "'forest' cannot be"),
        ({"folds": 80, "members": ("mlp",)}, "too few for 80 folds"),
        ({"folds": 1}, "folds"),
        ({"trust": 2.0}, "trust"),
        ({"members": ()}, "members"),
    ],
)
def test_refusals_are_one_sentence(noisy: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises((AccordError, DataError, SettingError), match=words) as caught:
        Classifier(**{**SMALL, **more}).fit(noisy[0][:150], noisy[1][:150])
    assert "\n" not in str(caught.value)


# -- kept and read again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", ["student", "council"])
def test_a_run_that_is_read_again_says_the_same(serve: str, noisy: Any, tmp_path: Path) -> None:
    X, y, _ = noisy
    clf = Classifier(**{**MLP_ALONE, "serve": serve}).fit(X, y)
    clf.save(tmp_path / "run")
    read = Classifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(X), clf.predict_proba(X))
    assert read.find_label_issues().equals(clf.find_label_issues())
    assert read.notes_["council"] == clf.notes_["council"]


def test_a_council_that_serves_answers_as_the_weighed_mean_of_its_last_members(noisy: Any) -> None:
    X, y, _ = noisy
    clf = Classifier(**{**MLP_ALONE, "serve": "council", "member_seeds": 2}).fit(X, y)
    members = {name: one for name, one in clf.networks_.items() if name.startswith("member")}
    assert len(members) == 6
    scaled = (torch.from_numpy(X) - clf.scaling_.mean) / clf.scaling_.std
    head: Any = clf.networks_["head"]
    with torch.no_grad():
        each = [torch.softmax(one.eval()(scaled), 1) for one in members.values()]
    want = sum(float(w) * p.double() for w, p in zip(head.weight, each, strict=True))
    assert float(head.weight.sum()) == pytest.approx(1)
    assert np.allclose(clf.predict_proba(X), want.numpy(), atol=1e-5)


class StopError(Exception):
    pass


@pytest.mark.parametrize("at", [2, 8])
def test_a_fit_that_was_cut_goes_on_to_the_same_bytes(at: int, noisy: Any, tmp_path: Path) -> None:
    X, y, _ = noisy
    settings = {**SMALL, "members": ("mlp", "logistic")}
    whole = Classifier(**settings).fit(X, y)
    count = 0

    def cut(now: Any) -> None:
        nonlocal count
        if now.phase_number > at:
            count += 1
            raise StopError

    with pytest.raises((StopError, InterruptedRunError)):
        Classifier(**settings).fit(X, y, callback=cut, checkpoint=Checkpoint(tmp_path / "half", seconds=0))
    assert count == 1
    again = Classifier(**settings).fit(X, y, checkpoint=Checkpoint(tmp_path / "half", seconds=0))
    for name, tensor in whole.networks_["target"].state_dict().items():
        assert torch.equal(tensor, again.networks_["target"].state_dict()[name]), name
    assert np.array_equal(whole.label_quality_, again.label_quality_)


def test_images_are_mixed_and_strongly_augmented_in_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = (rng.integers(0, 90, (60, 8, 8, 3)) + 120 * y[:, None, None, None]).astype(np.uint8)
    seen: list[tuple[int, float, bool, bool]] = []
    made = council.Lesson

    def lesson(**kept: Any) -> Any:
        seen.append((len(kept["rows"]), kept["mixup"], kept["strong"], kept["targets"] is None))
        return made(**kept)

    monkeypatch.setattr(council, "Lesson", lesson)
    settings = {**SMALL, "model": "convnet", "epochs": 2, "augment": "crop-flip", "valid_share": 0.0}
    clf = Classifier(**{**settings, "mixup": 0.4}).fit(X, y)
    first, later = (40, 0.4, False, False), (60, 0.1, True, False)
    assert seen == [first] * 3 + [later] * 6
    assert clf.notes_["council"]["folds"] == 3
    seen.clear()
    Classifier(**{**settings, "mixup": 0.0, "folds": None, "member_rounds": 0}).fit(X, y)
    assert seen == [(48, 0.0, False, True)] * 5  # five folds by default; labels as they are, without mixup
    seen.clear()
    monkeypatch.setattr(council, "MANY_IMAGES", 60)
    Classifier(**{**settings, "folds": None, "member_rounds": 0}).fit(X, y)
    assert seen == [(40, 0.3, False, False)] * 3


# -- many images -------------------------------------------------------------------------------------------


def test_members_of_many_images_go_on_with_what_they_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the weights of its own fold's member, which never saw that fold's labels; shorter and slower."""
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 8, 8, 3)).astype(np.float32), np.arange(30) % 3
    made: list[tuple[int, int, Any, Any]] = []
    own = council._Session._member

    def kept(self: Any, kind: Any, seed: int, fold: int, number: int, *rest: Any) -> Any:
        member = own(self, kind, seed, fold, number, *rest)
        began = {name: one.clone() for name, one in member.source["lesson"].begins.items()}
        made.append((number, fold, member.estimator, began))
        return member

    monkeypatch.setattr(council._Session, "_member", kept)
    few: dict[str, Any] = {"method": "council", "model": "convnet", "folds": 2, "member_rounds": 2, "epochs": 8}
    few |= {"member_epochs": 4, "valid_share": 0.0, "device": "cpu"}
    for many in (20, 1000):
        made.clear()
        monkeypatch.setattr(council, "MANY_IMAGES", many)
        Classifier(**few).fit(X, y)
        each = {(number, fold): (rec, began) for number, fold, rec, began in made}
        for (number, fold), (rec, began) in each.items():
            anew = number == 0 or many == 1000
            assert bool(began) is not anew
            assert rec.settings.epochs == (4 if anew else 2)
            assert rec.settings.learning_rate == (None if anew else pytest.approx(0.5 * 0.05))
            if not anew:
                before = each[number - 1, fold][0]._target.state_dict()
                assert began.keys() == before.keys()
                assert all(torch.equal(one, before[name]) for name, one in began.items())


def test_a_member_begins_with_the_weights_of_its_lesson(noisy: Any) -> None:
    """Where nothing is learnt it ends with them, and a checkpoint knows lessons apart by them."""
    X, y, _ = noisy
    first = Classifier(model="mlp", method="normal", epochs=2, seed=1, valid_share=0.0, device="cpu").fit(X, y)
    lessons_ = [
        Lesson(np.arange(len(y)), None, first.scaling_, begins=begins)
        for begins in ({}, first._target.state_dict())
    ]
    kept = {"model": "mlp", "method": "normal", "epochs": 1, "seed": 2, "learning_rate": 0.0, "device": "cpu"}
    fresh, gone_on = (_taught(kept, X, y, one) for one in lessons_)
    same = [torch.equal(a, b) for a, b in zip(gone_on.parameters(), first._target.parameters(), strict=True)]
    assert all(same)
    assert not all(torch.equal(a, b) for a, b in zip(fresh.parameters(), first._target.parameters(), strict=True))
    assert len(lessons_[1].identity()) > len(lessons_[0].identity())


def _taught(settings: dict[str, Any], X: np.ndarray, y: np.ndarray, lesson: Lesson) -> nn.Module:
    (clf,) = fit_together([Classifier(**settings)], {"X": X, "y": y, "lesson": lesson}, judge=False)
    return clf._target


@pytest.mark.parametrize("round_", [1, 2])
def test_rounds_that_go_on_are_resumed_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, round_: int
) -> None:
    """Also where the members of the round before come from their files."""
    monkeypatch.setattr(council, "MANY_IMAGES", 20)
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 8, 8, 3)).astype(np.float32), np.arange(30) % 3
    few: dict[str, Any] = {"method": "council", "model": "convnet", "folds": 2, "member_rounds": 2, "epochs": 4}
    few |= {"member_epochs": 2, "valid_share": 0.0, "device": "cpu", "seed": 1}
    whole = Classifier(**few).fit(X, y)

    def cut(now: Any) -> None:
        if now.phase_number > 2 * round_ + 1 and now.fraction > 0.4:  # the second member of that round
            raise StopError

    with pytest.raises((StopError, InterruptedRunError)):
        Classifier(**few).fit(X, y, callback=cut, checkpoint=Checkpoint(tmp_path / "half", seconds=0))
    again = Classifier(**few).fit(X, y, checkpoint=Checkpoint(tmp_path / "half", seconds=0))
    for name, tensor in whole.networks_["target"].state_dict().items():
        assert torch.equal(tensor, again.networks_["target"].state_dict()[name]), name
    assert np.array_equal(whole.label_quality_, again.label_quality_)
    assert whole.notes_["council"]["rounds"] == again.notes_["council"]["rounds"]
