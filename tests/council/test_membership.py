"""Who the members of a council of recommenders are, what they learn from, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from council_models import Own
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError
from accord.estimators.base import Cache
from accord.estimators.council.clicks import convening, membership
from accord.estimators.council.clicks.membership import folds_of, members_of
from accord.estimators.council.members import Member
from accord.estimators.fitting import fit_together
from accord.estimators.log_split import SEEN, TRAIN, VALID_FILE, SplitLog
from accord.estimators.recommender_data import split_of as split_log_of

SMALL: dict[str, Any] = {
    "method": "council", "model": "gmf", "members": ("gmf", "ease"), "member_seeds": 1, "folds": 3, "epochs": 2,
    "batch_size": 512,
}  # fmt: skip


def council(**changed: Any) -> Recommender:
    return Recommender(**{**SMALL, **changed})


def split_of(rec: Recommender, log: Any) -> SplitLog:
    return split_log_of(rec, {"log": log}, Cache())


def broken_at(*calls: int) -> Callable[[int, int], nn.Module]:
    """A model that diverges whenever it is built for one of these times."""
    built: list[int] = []

    def factory(n_users: int, n_items: int) -> nn.Module:
        network = Own(n_users, n_items)
        network.factor = torch.nan if len(built) in calls else 1.0
        built.append(len(built))
        return network

    return factory


# -- folds -----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(8, 60), st.integers(2, 12), st.integers(0, 5), st.integers(0, 2**16))
def test_folds_are_equal_parts_of_the_training_clicks(clicks: int, count: int, held: int, seed: int) -> None:
    part = np.full(clicks + held, VALID_FILE, np.int8)
    rows = np.random.default_rng(seed).choice(clicks + held, clicks, False)
    part[rows] = TRAIN
    split: Any = type("Split", (), {"part": part})
    asked = council(folds=count, seed=seed).settings
    if clicks < 4 * count:
        with pytest.raises(
            SettingError, match=f"^{clicks} training clicks are too few for {count} folds; give folds=0."
        ):
            folds_of(asked, split)
        return
    folds = folds_of(asked, split)
    assert [len(fold) for fold in folds] == [clicks // count] * count
    joined = np.concatenate(folds).tolist()
    assert len(set(joined)) == len(joined)
    assert set(joined) <= set(rows.tolist())
    assert all((np.diff(fold) > 0).all() for fold in folds)


def test_large_logs_are_not_cross_fitted_unless_asked(made: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    rec = council(folds=None)
    split = split_of(rec, made.log())
    learnt = int((split.part == TRAIN).sum())
    monkeypatch.setattr(membership, "MOST_CLICKS", learnt)
    assert len(folds_of(rec.settings, split)) == 5
    monkeypatch.setattr(membership, "MOST_CLICKS", learnt - 1)
    assert folds_of(rec.settings, split) == []
    assert len(folds_of(council(folds=2).settings, split)) == 2
    assert folds_of(council(folds=1).settings, split) == []


def test_a_member_of_a_fold_learns_all_else(made: Simulation) -> None:
    rec = council(member_seeds=2)
    split = split_of(rec, made.log())
    folds = folds_of(rec.settings, split)
    members = members_of(rec, split, {"log": made.log()}, folds)
    assert [(m.kind, m.fold) for m in members] == [
        *(("gmf", None), ("gmf", None), ("gmf", 0), ("gmf", 1), ("gmf", 2)),
        *(("ease", None), ("ease", 0), ("ease", 1), ("ease", 2)),
    ]
    for member in members:
        part = member.source["divided"].part
        wanted = split.part.copy()
        if member.fold is not None:
            wanted[folds[member.fold]] = SEEN
        assert (part == wanted).all()
    seeds = [m.estimator.settings.seed for m in members if m.kind == "gmf"]
    assert len(set(seeds)) == len(seeds)
    other = council(member_seeds=2, seed=1)
    assert not {m.estimator.settings.seed for m in members_of(other, split, {"log": None}, folds)} & set(seeds)


def test_a_click_has_no_part_in_what_its_judges_say_of_it(
    made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the click, the members of its fold are the same to the last bit, and the others are not."""
    folds: list[np.ndarray] = []
    heard: list[list[Member]] = []
    monkeypatch.setattr(convening, "folds_of", lambda *_: folds)
    monkeypatch.setattr(convening, "members_of", lambda *all: heard.append(members_of(*all)) or heard[-1])
    split = split_of(council(), made.log())
    folds += folds_of(council().settings, split)
    left_out = int(folds[1][7])
    fit_together([council()], {"log": None, "divided": split})
    folds[1] = folds[1][folds[1] != left_out]
    part = split.part.copy()
    part[left_out] = SEEN
    fit_together([council()], {"log": None, "divided": replace(split, part=part)})
    pair = [
        torch.from_numpy(codes[[left_out]].astype(np.int64)) for codes in (split.clicks.users, split.clicks.items)
    ]
    judges = []
    for one, again in zip(*heard, strict=True):
        networks: list[Any] = [one.network, again.network]
        answers = [network.logits(*pair).item() for network in networks]
        assert (answers[0] == answers[1]) == (one.fold == 1)
        if one.fold == 1:
            judges.append(one.kind)
            first, second = (network.state_dict() for network in networks)
            assert all(torch.equal(first[name], second[name]) for name in first)
    assert judges == ["gmf", "ease"]


# -- settings --------------------------------------------------------------------------------------------


def test_an_estimator_is_fitted_by_its_own_method_and_settings(made: Simulation) -> None:
    own = Recommender(model="mf", method="deca", epochs=7, dims=8, patience=0, seed=5, valid_share=0.4)
    usual = Recommender(model="mf", dims=8)
    rec = council(members=[own, usual, "mf"], patience=3, valid_share=0.2, folds=0)
    members = members_of(rec, split_of(rec, made.log()), {"log": None}, [])
    first, second, third = (member.estimator.settings for member in members)
    assert (first.method, second.method, third.method) == ("deca", "deca-p", "normal")
    assert (first.epochs, second.epochs) == (7, 2)
    assert (first.patience, second.patience) == (0, 3)
    assert (first.dims, second.dims) == (8, 8)
    assert third.dims != 8
    assert {one.valid_share for one in (first, second, third)} == {0.2}  # the division is the council's
    assert {one.seed for one in (first, second, third)} == {0}


def test_members_are_called_by_what_answers(made: Simulation) -> None:
    log = made.log()
    counted = Recommender(method="popularity").fit(log)
    given = [counted, Recommender(model=Own, method="normal", epochs=1).fit(log), lambda u, i: Own(u, i)]
    rec = council(members=[*given, "gmf"], folds=0)
    members = members_of(rec, split_of(rec, log), {"log": log}, [])
    assert [member.kind for member in members] == ["popularity", "Own", "<lambda>", "gmf"]


def test_members_that_all_came_fitted_have_seen_every_click(made: Simulation) -> None:
    log = made.log()
    ready = [Recommender(model=name, method="normal", epochs=1).fit(log) for name in ("ease", "mf")]
    notes = council(members=ready).fit(log).notes_["council"]
    assert notes["judged"] == "by members that have seen it"
    assert notes["lost"] == 0
    assert set(notes["quality_weights"]) == {"ease", "mf"}


# -- those that are lost, shared or refused --------------------------------------------------------------


@pytest.mark.parametrize(("calls", "also"), [((0,), ()), ((1,), ()), ((2,), ()), ((0,), (broken_at(0),))])
def test_without_a_judge_of_every_click_there_is_no_council(
    made: Simulation, calls: tuple[int, ...], also: tuple[Any, ...]
) -> None:
    """All that see every click were lost, or all of one fold."""
    with pytest.raises(AccordError, match="diverged"):
        council(members=[broken_at(*calls), *also], folds=2).fit(made.log())


def test_a_kind_that_lost_a_fold_is_silent_there(made: Simulation) -> None:
    rec = council(members=[broken_at(1), "ease"], folds=2).fit(made.log())
    voters = np.asarray(rec.find_label_issues()["voters"])
    assert rec.notes_["council"]["lost"] == 1
    assert set(voters) == {1, 2}
    assert (voters == 1).sum() == (rec.part_ == TRAIN).sum() // 2


def test_members_are_shared_by_councils_on_the_same_clicks_alone(made: Simulation) -> None:
    lasting: dict[Any, Any] = {}
    split = split_of(council(), made.log())
    clicks, last = split.clicks, len(split.item_ids) - 1
    keys = np.sort(clicks.users.astype(np.int64) * (last + 1) + last - clicks.items)
    mirrored = replace(clicks, items=(keys % (last + 1)).astype(np.int32))  # as many of each user, divided alike
    other = replace(split, clicks=mirrored)

    def fitted(divided: SplitLog, cache: Cache | None = None, **changed: Any) -> tuple[Recommender, int]:
        rec = council(**{"members": ("ease",), "folds": 2, **changed})
        told: list[str] = []
        cache = cache or Cache(lasting=lasting)
        asked = {"log": None, "divided": divided}
        fit_together([rec], asked, callbacks=[lambda now: told.append(now.phase)], cache=cache)
        return rec, sum(phase.startswith("member") for phase in told)

    assert fitted(split)[1] > 0
    assert fitted(split, l2=0.3)[1] == 0  # another student of the same members
    assert fitted(other)[1] > 0
    assert (fitted(other)[0].quality_ == fitted(other, Cache())[0].quality_).all()
    # A model without a name is known by nothing, and one that came fitted is not made here.
    fitted_here = [Recommender(model="mf", method="normal", epochs=k).fit(made.log()) for k in (1, 2)]
    for own in (Own, lambda u, i: Own(u, i, factor=2.0), *fitted_here):
        assert fitted(split, members=["ease", own])[1] > 0


class Unnamed(Own):
    """Not registered."""


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"members": ()}, SettingError, r"^Setting 'members'.*at least 1 item"),
        ({"members": ("gmff",)}, SettingError, r"^Unknown model 'gmff': did you mean 'gmf'\?$"),
        ({"members": [3]}, SettingError, r"^Member 1 of the council is of type int: give the name of a model, a"),
        (
            {"members": ["ease", Own(2, 2)]},
            SettingError,
            r"^The rows of a Own that is handed over are ids, and the",
        ),
        ({"members": [Classifier()]}, SettingError, r"^Member 1 of the council is of type Classifier: give"),
        ({"model": "ease"}, SettingError, "learns by gradients"),
        ({"folds": 101}, SettingError, r"^Setting 'folds'.*100"),
        ({"members": [Unnamed], "serve": "council"}, SettingError, r"needs members that have names: register"),
        (
            {"members": ["ease", Recommender(model="gmf", method="ensemble")], "serve": "council"},
            SettingError,
            r"members that are one network of their model, and one by 'ensemble' is not; fit it with method='norm",
        ),
    ],
)
def test_what_makes_no_council_is_refused_before_anything_is_fitted(
    made: Simulation, changed: dict[str, Any], error: type[AccordError], words: str
) -> None:
    phases: list[str] = []
    with pytest.raises(error, match=words) as refused:
        council(**changed).fit(made.log(), callback=lambda now: phases.append(now.phase))
    assert "\n" not in str(refused.value)
    assert not phases


def test_a_popularity_that_came_fitted_cannot_serve(made: Simulation) -> None:
    counted = Recommender(method="popularity").fit(made.log())
    with pytest.raises(SettingError, match="one by 'popularity' is not; fit it with method='normal'"):
        council(members=["ease", counted], serve="council").fit(made.log())


@pytest.mark.parametrize("what", ["users", "items"])
def test_a_member_fitted_elsewhere_is_refused(made: Simulation, what: str) -> None:
    log = made.log().to_pydict()
    column = what[:-1]
    other = {**log, column: [f"no {one}" for one in log[column]]}
    ready = Recommender(model="mf", method="normal", epochs=1).fit(other)
    words = f"^The fitted member was fitted on other {what} than those of the log; fit it on the same log, or"
    with pytest.raises(DataError, match=words):
        council(members=["mf", ready]).fit(log)


def test_few_clicks_are_refused_with_what_to_do() -> None:
    few = {"user": list("aabbccdd"), "item": list("xyxyxzxz")}
    with pytest.raises(SettingError, match=r"^8 training clicks are too few for 3 folds; give folds=0\.$"):
        council(valid_share=0.1).fit(few)
    assert np.isfinite(council(valid_share=0.1, folds=2).fit(few).quality_).all()
