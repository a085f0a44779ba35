"""People the model has never seen, and clicks that came after training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError, UnknownIdError
from accord.models.recommenders import GMF, MF, LightGCN, NeuMF

SOLVED = ("ease", "ials", "rp3beta", "itemknn")
LEARNED = ("mf", "gmf", "neumf", "cdae", "lightgcn")
FAST: dict[str, Any] = {"epochs": 3, "batch_size": 512, "dims": 8, "seed": 0}


def fit(made: Simulation, **options: Any) -> Recommender:
    model = options.get("model", "gmf")
    own: dict[str, Any] = {name: value for name, value in FAST.items() if model not in SOLVED or name == "seed"}
    return Recommender(**own | options).fit(made.log())


def clicked(rec: Recommender, user: int) -> list[Any]:
    """The training clicks of a user."""
    own = (rec.clicks_.users == user) & (rec.part_ == 0)
    return rec.item_ids_.take(rec.clicks_.items[own]).to_pylist()


@pytest.mark.parametrize("model", ["ease", "rp3beta", "itemknn"])
def test_a_known_users_clicks_give_the_known_users_scores(made: Simulation, model: str) -> None:
    rec = fit(made, model=model)
    histories = [clicked(rec, user) for user in range(5)]
    new = rec.recommend_for(histories, 250, exclude_seen=False)
    old = rec.recommend(rec.user_ids_.values[:5], 250, exclude_seen=False)
    assert new["item"].equals(old["item"])
    np.testing.assert_allclose(new["score"], old["score"], rtol=1e-5)


def test_a_row_is_solved_as_the_sweep_solves_it(made: Simulation) -> None:
    """By brute force: the normal equations of one user."""
    rec = fit(made, model="ials")
    target: Any = rec._target
    history = clicked(rec, 3)
    codes = rec.item_ids_.require(history)
    items, n = target.items.double(), target.n_items
    matrix = target.alpha * items.T @ items + items[codes].T @ items[codes]
    matrix += target.l2 * (len(codes) + target.alpha * n) * torch.eye(items.shape[1])
    row = torch.linalg.solve(matrix, items[codes].sum(0))
    found = rec.recommend_for(history, n, exclude_seen=False)
    scores = items @ row * float(target.scale) / len(codes) ** 0.5 + float(target.offset)
    expected = scores[rec.item_ids_.require(found["item"])]
    np.testing.assert_allclose(found["score"], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", LEARNED)
def test_a_history_says_something(made: Simulation, model: str) -> None:
    """Users taken in by their clicks are served more like the known users that they are than like others."""
    rec = fit(made, model=model, method="normal", epochs=20, learning_rate=0.01)
    histories = [clicked(rec, user) for user in range(40)]
    new = rec.recommend_for(histories, 250, exclude_seen=False)
    items = rec.item_ids_.require(new["item"])
    scores = np.zeros((40, len(rec.item_ids_)))
    scores[np.asarray(new["user"]), items] = np.asarray(new["score"])
    known = rec._target.scores(torch.arange(40)).detach().numpy()
    scores, known = scores - scores.mean(0), known - known.mean(0)
    alike = np.corrcoef(scores, known)[:40, 40:]
    assert np.mean(np.diag(alike) > np.median(alike, axis=1)) > 0.7


@pytest.mark.parametrize(
    "options",
    [
        {"method": "ensemble"},
        {"method": "deca-p"},
        {"method": "deca"},
        {"method": "t-ce"},
        {"method": "popularity"},
        {"method": "council", "members": ("mf", "ease"), "serve": "council", "folds": 2, "member_seeds": 1},
        {"method": "council", "members": ("mf", "ease"), "folds": 2, "member_seeds": 1},
        *({"model": model, "method": "normal"} for model in LEARNED),
        *({"model": model} for model in SOLVED),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_model_takes_people_in_and_judges_their_clicks(made: Simulation, options: dict[str, Any]) -> None:
    """Alone or among others, twice the same; nothing of the model changes; a council by its members."""
    rec = fit(made, **options)
    before = {role: {k: v.clone() for k, v in net.state_dict().items()} for role, net in rec.networks_.items()}
    histories = [["i1", "i2", "i7"], ["i5"], []]
    together, again = rec.recommend_for(histories, 5), rec.recommend_for(histories, 5)
    alone = rec.recommend_for(histories[1], 5)
    assert together.equals(again)
    assert together.column_names == ["user", "rank", "item", "score"]
    assert alone["user"].to_pylist() == [0] * 5
    np.testing.assert_allclose(alone["score"], together["score"][5:10], rtol=1e-4, atol=1e-5)
    assert not {"i1", "i2", "i7"} & set(together["item"][:5].to_pylist())
    assert np.isfinite(together["score"]).all()
    popular = np.argsort(-np.asarray(rec._training().popularity), kind="stable")[:5]
    counts = rec._training().popularity[rec.item_ids_.require(together["item"][10:])]
    np.testing.assert_allclose(together["score"][10:], torch.log1p(counts.float()), rtol=1e-6)
    assert counts.sum() == rec._training().popularity[popular].sum()
    judged = rec.judge({"user": ["u1", "new", "new"], "item": ["i1", "i1", "i4"]})
    quality = np.asarray(judged["label_quality"])
    assert ((quality >= 0) & (quality <= 1)).all()
    assert (np.diff(quality) >= 0).all()
    for role, network in rec.networks_.items():
        for name, value in network.state_dict().items():
            assert torch.equal(value, before[role][name]), (role, name)


@pytest.mark.parametrize("method", ["normal", "deca", "deca-p", "ensemble"])
def test_clicks_of_the_log_are_judged_as_they_were(made: Simulation, method: str) -> None:
    """Quality, flag, first row and count: what the run itself says of them."""
    rec = fit(made, method=method)
    order = [("user", "ascending"), ("item", "ascending")]
    ours = rec.judge(made.log()).sort_by(order)
    theirs = rec.find_label_issues().sort_by(order)
    assert not any(ours["new_user"].to_pylist())
    for name in ("user", "item", "is_label_issue", "row", "rows"):
        assert ours[name].equals(theirs[name]), name
    np.testing.assert_allclose(ours["label_quality"], theirs["label_quality"], rtol=1e-5)
    share = rec.judge(made.log(), share=0.1)
    assert sum(share["is_label_issue"].to_pylist()) == round(0.1 * len(share))
    assert all(share["is_label_issue"].to_pylist()[: round(0.1 * len(share))])


def test_a_council_flags_new_clicks_by_what_it_serves(made: Simulation) -> None:
    rec = fit(made, method="council", members=("mf", "ease"), folds=2, member_seeds=1)
    judged = rec.judged_log(made.log())
    users, items = rec._training().sample_pairs(20_000, torch.Generator().manual_seed(5))
    mean = torch.sigmoid(rec._target.logits(users, items)).mean()
    assert judged.threshold == pytest.approx(float(mean), abs=0.01)
    flagged = np.asarray(judged.table["label_quality"]) < judged.threshold
    assert flagged.tolist() == judged.table["is_label_issue"].to_pylist()


def test_noise_models_know_newcomers_as_average_users(made: Simulation) -> None:
    """DeCA's quality of a newcomer's click, from the networks themselves."""
    rec = fit(made, method="deca")
    judged = rec.judge({"user": ["new", "new"], "item": ["i3", "i9"]}).sort_by("item")
    from accord.batches.clicks import positives
    from accord.data.interactions import Interactions
    from accord.estimators.serving.newcomers import networks_for

    codes = np.sort(rec.item_ids_.require(["i3", "i9"]))
    history = Interactions.from_pairs(np.zeros(2, np.int64), codes, 1, 250)
    networks = networks_for(rec, history)
    noise: list[Any] = [name for name in networks if name.startswith("noise")]
    assert noise
    for name in noise:
        new: Any = networks[name]
        old: Any = rec.networks_[name]
        torch.testing.assert_close(new.users, old.users.mean(0, keepdim=True))
    items = torch.from_numpy(rec.item_ids_.require(["i3", "i9"]))
    expected = rec._method().label_quality(networks, positives(torch.zeros(2, dtype=torch.int64), items))
    np.testing.assert_allclose(judged["label_quality"], expected.flatten().detach(), rtol=1e-5)


def test_new_clicks_on_unknown_items(made: Simulation) -> None:
    rec = fit(made, method="normal")
    log = {"user": ["u1", "u2", "new", "new"], "item": ["i1", "strange", "stranger", "i2"]}
    with pytest.raises(UnknownIdError, match="strange, stranger; the model knows only"):
        rec.judge(log)
    judged = rec.judged_log(log, on_unknown="skip")
    assert (judged.skipped, judged.unknown, judged.new_users) == (2, ["strange", "stranger"], 1)
    assert judged.table.sort_by("row")["row"].to_pylist() == [0, 3]
    with pytest.raises(DataError, match="same ids"):
        rec.judge({"user": ["u1"], "item": ["strange"]}, on_unknown="skip")
    with pytest.raises(SettingError, match="choose refuse or skip"):
        rec.judge(log, on_unknown="leave")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "history",
    [
        pa.table({"user": ["b", "a", "b"], "item": ["i2", "i5", "i1"]}),
        {"user": ["b", "a", "b"], "item": ["i2", "i5", "i1"]},
    ],
)
def test_histories_as_a_table(fitted: Recommender, history: Any) -> None:
    found = fitted.recommend_for(history, 3)
    lists = fitted.recommend_for([["i2", "i1"], ["i5"]], 3)
    assert found["user"].to_pylist() == ["b"] * 3 + ["a"] * 3
    assert found["item"].equals(lists["item"])
    assert found["score"].equals(lists["score"])


@pytest.mark.parametrize("history", [("i1", "i2"), np.array(["i1", "i2", "i1"]), pa.array(["i2", "i1"])])
def test_one_history_in_any_form(fitted: Recommender, history: Any) -> None:
    assert fitted.recommend_for(history, 3).equals(fitted.recommend_for(["i1", "i2"], 3))


def test_seen_items_and_a_choice_of_items(fitted: Recommender) -> None:
    chosen = fitted.recommend_for(["i1"], 9, items=["i1", "i2", "i3"])
    assert set(chosen["item"].to_pylist()) == {"i2", "i3"}
    assert len(fitted.recommend_for(["i1"], 9, items=["i1", "i2", "i3"], exclude_seen=False)) == 3


def test_an_unknown_item_is_one_sentence(fitted: Recommender) -> None:
    with pytest.raises(UnknownIdError, match=r"Unknown item: nobody; the model knows only the items"):
        fitted.recommend_for(["i1", "nobody"])
    with pytest.raises(DataError, match="holds no rows"):
        fitted.recommend_for(pa.table({"user": pa.array([], pa.string()), "item": pa.array([], pa.string())}))


class Own(nn.Module):
    """A model of one's own that knows its users alone."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(users, items))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.table[users, items]

    def scores(self, users: Tensor) -> Tensor:
        return self.table[users]


class Welcoming(Own):
    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> Welcoming:
        made = Welcoming(len(starts) - 1, self.table.shape[1])
        made.table.data[0, clicked.long()] = 1.0
        return made


def test_a_model_of_ones_own_says_what_it_lacks(made: Simulation) -> None:
    rec = Recommender(model=Own, method="normal", epochs=1, seed=0).fit(made.log())
    with pytest.raises(AccordError, match=r"Own answers for the users of its log alone: give it a method"):
        rec.recommend_for(["i1"])
    kind = Recommender(model=Welcoming, method="normal", epochs=1, seed=0).fit(made.log())
    assert kind.recommend_for(["i1"], 1, exclude_seen=False)["item"].to_pylist() == ["i1"]


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF])
@pytest.mark.parametrize("item_bias", [False, True])
def test_rows_and_items_give_the_models_own_logits(kind: Any, item_bias: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = kind(5, 7, 4, item_bias=item_bias)
        if item_bias:
            network.item_bias.data.normal_()
    users, items = torch.tensor([0, 3, 4]), torch.tensor([6, 2, 2])
    names = ["users", "mlp_users"] if kind is NeuMF else ["users"]
    rows = [getattr(network, name)[users] for name in names]
    torch.testing.assert_close(network._logits_of(rows, items), network.logits(users, items))


def test_layers_of_a_newcomer_are_those_of_propagation() -> None:
    """A user of the graph, taken in by its own clicks: all but its own first vector is the same."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = LightGCN(4, 5, 3).eval()
    starts, items = torch.tensor([0, 2, 4, 5, 7]), torch.tensor([0, 1, 1, 4, 2, 0, 3])
    network.bind(starts, items)
    own = network.users.detach()
    torch.testing.assert_close(own / 4 + network._around(starts, items), network.user_vectors().detach())
