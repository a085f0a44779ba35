"""A council of recommenders, from the members to what it says of every click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from council_models import Own

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError
from accord.estimators.council import members as making
from accord.estimators.log_split import TRAIN, VALID

SMALL: dict[str, Any] = {
    "method": "council", "model": "gmf", "members": ("gmf", "mf", "ease"), "member_seeds": 2, "folds": 3,
    "epochs": 3, "batch_size": 512,
}  # fmt: skip


def council(**changed: Any) -> Recommender:
    return Recommender(**{**SMALL, **changed})


@pytest.fixture(scope="module")
def taught(made: Simulation) -> Recommender:
    return council().fit(made.log())


@pytest.fixture(scope="module")
def serving(made: Simulation) -> Recommender:
    return council(serve="council").fit(made.log())


def fitted_members(monkeypatch: pytest.MonkeyPatch) -> list[making.Member]:
    """The members that a council makes from now on."""
    seen: list[making.Member] = []
    fit = making.fit_members

    def spied(each: Any, *rest: Any) -> Any:
        seen.extend(member for asked in each for member in asked.members)
        return fit(each, *rest)

    monkeypatch.setattr(making, "fit_members", spied)
    return seen


def test_every_click_is_judged_by_members_that_never_saw_it(
    made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = fitted_members(monkeypatch)
    monkeypatch.setattr("accord.estimators.council.clicks.judging.LEAST", 10**9)  # the members' word alone
    rec = council(members=("mf", "gmf")).fit(made.log())
    left_out = np.zeros(len(rec.clicks_), int)
    training = rec.part_ == TRAIN
    for member in seen:
        own = member.source["divided"].part == TRAIN
        assert not own[~training].any()  # no member learns from validation clicks
        if member.fold is None:
            assert (own == training).all()
        elif member.kind == "mf":
            left_out += training & ~own
    assert set(left_out[training]) <= {0, 1}
    assert (left_out[training] == 0).sum() < 3  # folds of one size leave a few over
    weights = rec.notes_["council"]["quality_weights"]
    assert set(weights) == {"mf", "gmf"}
    # What a fold's members say of its clicks, weighed, gives the order of the qualities.
    member = next(m for m in seen if m.fold == 1 and m.kind == "mf")
    other = next(m for m in seen if m.fold == 1 and m.kind == "gmf")
    rows = np.flatnonzero(training & (member.source["divided"].part != TRAIN))
    users, items = (
        torch.from_numpy(codes[rows].astype(np.int64)) for codes in (rec.clicks_.users, rec.clicks_.items)
    )
    networks: list[Any] = [member.network, other.network]
    answers = [network.logits(users, items).detach().numpy() for network in networks]
    features = np.stack([*answers, np.ones(len(rows))], 1)
    wanted = np.log(rec.quality_[rows] / (1 - rec.quality_[rows]))
    solved = np.linalg.lstsq(features, wanted, rcond=None)[0]
    assert np.abs(features @ solved - wanted).max() < 1e-3


def test_without_folds_members_judge_what_they_have_seen_and_the_run_says_so(made: Simulation) -> None:
    rec = council(folds=0, member_seeds=1).fit(made.log())
    notes = rec.notes_["council"]
    assert notes["judged"] == "by members that have seen it"
    assert not any("fold" in row for row in notes["members"])
    assert np.isfinite(rec.quality_).all()


def test_votes_are_counted_and_saved(taught: Recommender, tmp_path: Path) -> None:
    assert taught.notes_["council"]["judged"] == "by members that never saw it"
    issues = taught.find_label_issues()
    votes, voters, agreement = (np.asarray(issues[name]) for name in ("votes", "voters", "agreement"))
    assert (voters == 3).all()  # a member of each kind never saw a click
    assert (votes <= voters).all()
    assert len(set(votes)) == 4
    assert (agreement >= 0).all()
    assert (agreement <= 1).all()
    quality = np.asarray(issues["label_quality"])
    assert quality[votes == 0].max() < quality[votes == 3].mean()
    taught.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert again.find_label_issues().equals(issues)
    assert again.notes_["council"] == taught.notes_["council"]


def test_plain_methods_have_no_votes(fitted: Recommender) -> None:
    assert "votes" not in fitted.find_label_issues().column_names


def test_quality_finds_simulated_noise(made: Simulation, taught: Recommender) -> None:
    found = taught.evaluate_issues(made.clicks())
    assert found["roc_auc"] > 0.56


def test_two_councils_are_the_same_and_a_seed_changes_them(made: Simulation, serving: Recommender) -> None:
    again = council(serve="council").fit(made.log())
    assert (again.quality_ == serving.quality_).all()
    other = council(serve="council", seed=1).fit(made.log())
    assert (other.quality_ != serving.quality_).any()


def test_the_student_learns_what_the_council_says(made: Simulation) -> None:
    rec = council(epochs=40, patience=0, members=("ease",), l2=0.0, folds=0, caution=0).fit(made.log())
    teacher = Recommender(model="ease", method="normal", epochs=40).fit(made.log())
    users = torch.arange(100)
    with torch.no_grad():
        student, wanted = (one._target.scores(users).flatten().double() for one in (rec, teacher))
    plain = Recommender(model="gmf", method="normal", epochs=40, patience=0).fit(made.log())
    with torch.no_grad():
        unaware = plain._target.scores(users).flatten().double()
    similar = [float(torch.corrcoef(torch.stack([one, wanted]))[0, 1]) for one in (student, unaware)]
    assert similar[0] > similar[1] + 0.1


def test_the_students_l2_is_a_tenth_of_the_usual_one() -> None:
    usual = Recommender(method="normal").settings.training_options(10).weight_decay
    assert council().settings.training_options(10).weight_decay == pytest.approx(usual / 10)
    given = council(l2=0.5).settings.training_options(10).weight_decay
    assert given == pytest.approx(0.05)


def test_members_of_your_own(made: Simulation, tmp_path: Path) -> None:
    log = made.log()
    ready = Recommender(model="ease", method="normal").fit(log)
    wide = Recommender(model="gmf", method="normal", dims=8)
    rec = council(members=["mf", Own, wide, ready], member_seeds=1).fit(log)
    rows = rec.notes_["council"]["members"]
    assert [row["model"] for row in rows if "fold" not in row] == ["mf", "Own", "gmf", "ease"]
    assert all("fold" not in row for row in rows if row["model"] == "ease")  # it had seen all clicks when it came
    assert rec.settings.members == ("mf", "own-2", "own-3", "own-4")
    rec.save(tmp_path / "run")
    assert Recommender.load(tmp_path / "run").find_label_issues().equals(rec.find_label_issues())


def test_members_are_typed_with_commas() -> None:
    assert council(members="gmf,ease").settings.members == ("gmf", "ease")
    assert council(members="gmf").settings.members == ("gmf",)


def test_a_member_that_diverges_is_lost_and_the_others_go_on(made: Simulation) -> None:

    class Broken(Own):
        def logits(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            return super().logits(users, items) * torch.nan

    rec = council(members=["mf", Broken, "ease"], member_seeds=1).fit(made.log())
    assert rec.notes_["council"]["lost"] == 4
    assert {row["model"] for row in rec.notes_["council"]["members"]} == {"mf", "ease"}
    with pytest.raises(AccordError, match="diverged"):
        council(members=[Broken], member_seeds=1).fit(made.log())


def test_validation_clicks_are_judged_too(taught: Recommender) -> None:
    held = taught.part_ == VALID
    assert held.any()
    assert ((taught.quality_[held] > 0) & (taught.quality_[held] < 1)).all()
