"""Odd logs, labels and shapes: a sound result or one sentence, never a bare error, a hang or a NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch import nn

from accord import Classifier, Recommender
from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.noise import add_noise, add_noise_by_matrix
from accord.errors import AccordError, DataError, DataWarning, SettingError
from accord.estimators import fit_together
from accord.methods import methods_of
from accord.models import is_solved, models_of

pytestmark = pytest.mark.filterwarnings("ignore")
Pairs = Iterable[tuple[Any, Any]]
MODELS = ("mf", "gmf", "neumf", "cdae", "lightgcn")
EVERY = [("gmf", method) for method in methods_of("clicks")] + [
    (model, "deca-p") for model in MODELS if model != "gmf"
]
EVERY += [(model, "normal") for model in models_of("clicks") if is_solved(model)]
every_recommender = pytest.mark.parametrize(("model", "method"), EVERY)
every_method = pytest.mark.parametrize("method", methods_of("labels"))


def refusal(act: Callable[[], Any], words: str = "") -> None:
    """What is refused is refused in one line that ends as a sentence does."""
    with pytest.raises(AccordError, match=words) as caught:
        act()
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    assert not said[0].islower() or said.startswith("k is")


# -- clicks --------------------------------------------------------------------------------------------


def log_of(pairs: Pairs, **columns: Any) -> dict[str, Any]:
    users, items = zip(*pairs, strict=True)
    return {"user": list(users), "item": list(items), **columns}


def usual(users: int = 12, items: int = 15) -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    return [(f"u{u}", f"i{i}") for u in range(users) for i in rng.choice(items, 5, replace=False)]


def recommender(**settings: Any) -> Recommender:
    return Recommender(**{"epochs": 1, "dims": 4, **settings})


def assert_sound(rec: Recommender) -> None:
    """Every number is finite, and every question has its answer."""
    for network in rec.networks_.values():
        assert all(torch.isfinite(weights).all() for weights in network.state_dict().values())
    assert ((rec.quality_ >= 0) & (rec.quality_ <= 1)).all()
    assert 0 <= rec.threshold_ <= 1
    users, items = (ids.values.to_pylist() for ids in (rec.user_ids_, rec.item_ids_))
    beyond = 10 * len(items)
    everything = rec.recommend(users[:3], k=beyond, exclude_seen=False)
    assert everything.num_rows == len(users[:3]) * len(items)
    assert np.isfinite(everything["score"].to_numpy()).all()
    unseen = rec.recommend(users, k=beyond)
    assert unseen.num_rows == len(users) * len(items) - len(rec.clicks_)
    metrics = rec.evaluate({"user": users[:2], "item": items[:2]}, k=(1, beyond))
    assert all(np.isfinite(value) for value in metrics.values())
    assert rec.find_label_issues().num_rows == (rec.part_ <= 1).sum()
    if rec.settings.method not in ("ensemble", "popularity"):
        alike = rec.similar_items(items[:2], k=beyond)
        few = rec.settings.model in ("rp3beta", "itemknn")  # items without a common user are no neighbours
        assert alike.num_rows <= 2 * (len(items) - 1) if few else alike.num_rows == 2 * (len(items) - 1)
        assert np.isfinite(alike["score"].to_numpy()).all()


SMALL_LOGS: dict[str, Pairs] = {
    "two of each": [("a", "x"), ("b", "y")],
    "three clicks": [("a", "x"), ("b", "y"), ("a", "y")],
    "one click each": [(f"u{k}", f"i{k}") for k in range(6)],
    "one item for all but one": [("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")],
    "a user with every item": [*usual(), *((("full", f"i{i}")) for i in range(15))],
    "every row thrice": usual() * 3,
}


@every_recommender
@pytest.mark.parametrize("name", list(SMALL_LOGS))
def test_small_logs_are_learned(model: str, method: str, name: str) -> None:
    assert_sound(recommender(model=model, method=method).fit(log_of(SMALL_LOGS[name])))


@every_recommender
def test_a_log_without_a_negative_is_refused(model: str, method: str) -> None:
    log = log_of((f"u{u}", f"i{i}") for u in range(3) for i in range(4))
    refusal(lambda: recommender(model=model, method=method).fit(log), "clicked every item")


@pytest.mark.parametrize("pairs", [[("a", "x"), ("a", "y")], [("a", "x"), ("b", "x")], [("a", "x")] * 5])
def test_one_user_or_one_item_is_refused(pairs: Pairs) -> None:
    refusal(lambda: recommender().fit(log_of(pairs)), "at least two of each")


def test_an_empty_log_is_refused() -> None:
    refusal(lambda: recommender().fit({"user": [], "item": []}), "no rows")


def test_a_million_repeats_of_one_pair() -> None:
    pairs = usual()
    users, items = (np.array(ids)[[*np.zeros(1_000_000, int), *range(60)]] for ids in zip(*pairs, strict=True))
    rec = recommender().fit({"user": users, "item": items})
    assert_sound(rec)
    assert rec.notes_["merged"] == 1_000_000


ODD_IDS: dict[str, list[Any]] = {
    "far apart": [2**62, -(2**62), 2**63 - 1, -(2**63), 0],
    "beyond 64 bits as text": [str(2**64), "-1", "0"],
    "unicode": ["é", "e\u0301", "日本", "🙂"],
    "white space": ["a", " a", "a ", " ", "\t"],
    "very long": ["x" * 10_000, "x" * 10_001, "y"],
    "like missing ones": ["nano", "none", "nul", "inf", "1e5"],
    "like one number": ["1", "01", "1.0", " 1"],
    "whole floats": [1.0, 2.0, 3.0],
    "truth values": [True, False],
    "control characters": ["a\0b", "a\nb", 'a"b'],
}


@pytest.mark.parametrize("name", list(ODD_IDS))
def test_odd_ids_stay_apart(name: str) -> None:
    ids = ODD_IDS[name]
    rec = recommender().fit(log_of((u, i) for u in ids for i in ids if u is not i))
    assert len(rec.user_ids_) == len(rec.item_ids_) == len(ids)
    assert_sound(rec)


@pytest.mark.parametrize("bad", [None, float("nan"), "", "nan", "None", "null"])
def test_rows_of_missing_ids_are_dropped_or_refused(bad: Any) -> None:
    good = [1.0, 2.0] if isinstance(bad, float) else ["a", "b"]
    rows = [(good[0], "x"), (good[0], "y"), (good[1], "y"), (good[1], "z")]
    log = log_of([*rows, (bad, "x"), (bad, "new")])
    refusal(lambda: recommender().fit(log, on_missing="refuse"), "missing")
    with pytest.warns(DataWarning, match=r"2 row\(s\)"):
        rec = recommender().fit(log)
    assert (len(rec.user_ids_), len(rec.item_ids_), len(rec.clicks_)) == (2, 3, 4)
    assert_sound(rec)


@pytest.mark.parametrize("bad", [1.5, float("inf")])
def test_broken_ids_are_refused(bad: float) -> None:
    refusal(
        lambda: recommender().fit(log_of((u, i) for u in [bad, 1.0, 2.0] for i in "xyz")), "fractions|floats above"
    )


def test_times_that_say_nothing_or_run_backwards() -> None:
    pairs = usual()
    for times in ([5] * len(pairs), list(range(len(pairs)))[::-1], [-(2**63)] * len(pairs)):
        assert_sound(recommender().fit(log_of(pairs, ts=times)))


@pytest.mark.parametrize("bad", [None, float("nan"), "", "soon", True])
def test_missing_and_broken_times_are_refused(bad: Any) -> None:
    pairs = usual()
    refusal(
        lambda: recommender().fit(log_of(pairs, ts=[bad] * len(pairs))), "no time" if bad == "soon" else "times"
    )
    refusal(lambda: recommender(split="time").fit(log_of(pairs)), "time column")


@every_recommender
@pytest.mark.parametrize(
    "settings", [{"batch_size": 1}, {"batch_size": 100_000}, {"valid_share": 1e-9}, {"valid_share": 0.899}], ids=str
)
def test_odd_batches_and_parts(model: str, method: str, settings: dict[str, Any]) -> None:
    assert_sound(recommender(model=model, method=method, epochs=1, **settings).fit(log_of(usual(4))))


@every_recommender
@pytest.mark.parametrize("ranked_by", ["popularity", "model"])
def test_users_without_a_training_click(model: str, method: str, ranked_by: str) -> None:
    rec = recommender(model=model, method=method, cold_users=ranked_by)
    rec.fit(log_of(usual()), known=log_of([("cold", "new"), ("colder", "newer")]))
    assert_sound(rec)
    assert rec.recommend("cold", k=100).num_rows == 17


@pytest.mark.parametrize("what", ["valid", "eval_set"])
def test_further_pairs_of_unknown_ids_are_refused(what: str) -> None:
    unknown: Any = log_of([("nobody", "nothing")])
    none = "0 of 1 rows .* have user ids of the log"
    refusal(lambda: recommender().fit(log_of(usual()), **{what: unknown}), none)
    refusal(lambda: fit_together([recommender()], {"log": log_of(usual()), what: unknown}), none)


def test_validation_pairs_that_are_all_in_the_log_or_none_are_refused() -> None:
    refusal(lambda: recommender().fit(log_of(usual()), valid=log_of(usual())), "not in the log already")
    refusal(lambda: recommender().fit(log_of(usual()), valid={"user": [], "item": []}), "no rows")


@every_recommender
def test_everything_is_seen(model: str, method: str) -> None:
    seen = log_of((f"u{u}", f"i{i}") for u in range(12) for i in range(15))
    rec = recommender(model=model, method=method).fit(log_of(usual()), seen=seen)
    assert_sound(rec)
    assert rec.recommend("u1").num_rows == 0


@pytest.fixture(scope="module")
def small() -> Recommender:
    return recommender(epochs=1).fit(log_of(usual()))


def test_nothing_asked_is_nothing_answered(small: Recommender) -> None:
    assert small.recommend([]).num_rows == 0
    assert small.recommend("u1", items=[]).num_rows == 0
    assert small.similar_items([]).num_rows == 0
    assert small.predict([], []).shape == (0,)


@pytest.mark.parametrize("k", [0, -1, 1.5, None])
def test_lists_of_no_length_are_refused(small: Recommender, k: Any) -> None:
    truth = log_of([("u1", "i1")])
    for act in (lambda: small.recommend("u1", k=k), lambda: small.similar_items("i1", k=k)):
        refusal(act, "whole number of items")
    refusal(lambda: small.evaluate(truth, k=(k,)), "whole number of items")
    refusal(lambda: small.evaluate(truth, k=()), "No k")


def test_one_length_of_list_is_enough(small: Recommender) -> None:
    assert "ndcg@3" in small.evaluate(log_of([("u1", "i1")]), k=3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half"])
def test_shares_that_are_none_are_refused(small: Recommender, share: Any) -> None:
    refusal(lambda: small.find_label_issues(share), "number from 0 to 1")


def test_truth_with_kinds_that_are_missing_or_numbers(small: Recommender) -> None:
    clicks = usual()[:4]
    for kinds in ([None, "slip", None, "slip"], [1, 2, 3, 4]):
        found = small.evaluate_issues(log_of(clicks, is_noise=[True, True, False, False], kind=kinds))
        assert set(found["by_kind"]) == {"all", *("noise" if k is None else str(k) for k in kinds[:2])}
    refusal(lambda: small.evaluate_issues(log_of(clicks, is_noise=[True, None] * 2)), "true or false")


def test_stacks_of_nothing_and_of_other_lengths_are_refused() -> None:
    log = {"log": log_of(usual())}
    for act in (
        lambda: fit_together([], []),
        lambda: fit_together([], log),
        lambda: fit_together([recommender()], []),
        lambda: fit_together([recommender()], [log, log]),
        lambda: fit_together([recommender()], log, callbacks=[None, None]),
    ):
        refusal(act, "as many sources")


@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "deca-p"])
def test_stacks_of_small_and_of_full_logs(method: str) -> None:
    runs = [recommender(method=method, seed=seed, valid_share=1e-9) for seed in range(2)]
    for rec in fit_together(runs, {"log": log_of(SMALL_LOGS["three clicks"])}):
        assert_sound(rec)
    full = {"log": log_of((u, i) for u in "ab" for i in "xyz")}
    refusal(lambda: fit_together(runs, full), "clicked every item")


# -- labels --------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 3)).astype(np.float32), np.arange(24) % 3
IMAGES = RNG.random((24, 8, 8)).astype(np.float32)
BOTH = pytest.mark.parametrize("inputs", [X, IMAGES], ids=["table", "images"])


def classifier(**settings: Any) -> Classifier:
    return Classifier(**{"epochs": 2, "batch_size": 8, **settings})


def learned(inputs: Any, labels: Any, *, clean: Any = None, **settings: Any) -> Classifier:
    """Fit, and assert that every number is finite and every question has its answer."""
    if settings.get("method") == "mw-net" and clean is None:
        clean = inputs[:4], labels[:4]
    clf = classifier(**settings).fit(inputs, labels, clean=clean)
    for network in clf.networks_.values():
        assert all(torch.isfinite(weights).all() for weights in network.state_dict().values())
    assert ((clf.label_quality_ >= 0) & (clf.label_quality_ <= 1 + 1e-6)).all()
    assert np.isfinite(clf.noise_matrix_).all()
    p = clf.predict_proba(inputs)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-4)
    assert set(clf.predict(inputs[:1])) <= set(clf.classes_)
    assert len(clf.find_label_issues()) == len(inputs)  # pandas for pandas
    return clf


@every_method
@BOTH
def test_few_examples(inputs: np.ndarray, method: str) -> None:
    learned(inputs[:2], [0, 1], method=method)
    learned(inputs[:3], [0, 1, 1], method=method, batch_size=1)
    learned(inputs[:9], [0] + [1] * 8, method=method, valid_share=0.0)  # a batch of eight, and one over


@every_method
@BOTH
def test_as_many_classes_as_examples(inputs: np.ndarray, method: str) -> None:
    learned(inputs[:12], np.arange(12), method=method)


@every_method
@BOTH
@pytest.mark.parametrize(
    "settings", [{"batch_size": 1}, {"batch_size": 10**9}, {"valid_share": 1e-9}, {"valid_share": 0.89}], ids=str
)
def test_odd_batches_and_parts_of_labels(inputs: np.ndarray, method: str, settings: dict[str, Any]) -> None:
    learned(inputs[:10], np.arange(10) // 4, method=method, epochs=1, **settings)


@every_method
@BOTH
@pytest.mark.parametrize("scale", [0.0, 1e30, 1e-42])
def test_numbers_of_every_size(inputs: np.ndarray, method: str, scale: float) -> None:
    learned(inputs * np.float32(scale), Y, method=method, epochs=1)
    with_outlier = np.where(np.arange(24).reshape(24, *[1] * (inputs.ndim - 1)) == 3, np.float32(scale), inputs)
    learned(with_outlier, Y, method=method, epochs=1)


def scaled_inputs(values: torch.Tensor) -> torch.Tensor:
    """Examples as a network sees them in a batch."""
    rows = torch.arange(len(values))
    data = LabelData(values, torch.zeros_like(rows), rows, Scaling.of(values))
    return torch.cat([batch.inputs[0] for batch in LabelFeed([data]).in_order()])


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_columns_of_every_size_are_scaled(scale: float) -> None:
    values = torch.from_numpy(X * np.float32(scale))
    scaled = scaled_inputs(values)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(3))
    constant = torch.full((9, 1), 0.1 * scale)
    assert (scaled_inputs(constant) == 0).all()


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_that_are_none_are_refused(inputs: np.ndarray, bad: float) -> None:
    broken = inputs.astype(np.float64)
    broken[5].flat[0] = bad
    refusal(lambda: classifier().fit(broken, Y), "NaN|infinity")
    clf = classifier(method="normal", epochs=1).fit(inputs, Y)
    refusal(lambda: clf.predict(broken), "NaN|infinity")
    refusal(lambda: fit_together([classifier()], {"X": broken, "y": Y}), "NaN|infinity")


def test_an_example_beyond_all_bounds_has_no_answer() -> None:
    clf = classifier(method="normal", epochs=1).fit(X, Y)
    refusal(lambda: clf.predict(np.full((2, 3), 3e38, np.float32)), "Example 0 is so far")


GOOD_LABELS: dict[str, Any] = {
    "floats": Y.astype(float),
    "truth values": Y > 0,
    "words": np.array(["a", "b", ""])[Y],
    "words and numbers": ["a", 1, 2.0] * 8,
    "a column": Y[:, None],
    "a series": pd.Series(Y, index=range(24, 0, -1)),
    "categories": pd.Categorical(np.array(["a", "b", "c"])[Y]),
    "a tensor": torch.from_numpy(Y),
    "far apart": Y * 2**61,
}
BAD_LABELS: dict[str, Any] = {
    "fractions": Y + 0.5,
    "None among numbers": [None, 1, 2] * 8,
    "None among words": ["a", "b", None] * 8,
    "None alone": [None] * 24,
    "no labels": None,
    "NaN": [np.nan, 1.0, 2.0] * 8,
    "infinity": [np.inf, 1.0, 2.0] * 8,
    "a table": np.eye(3)[Y],
    "bytes": np.array([b"a", b"b", b"c"])[Y],
    "beyond 64 bits": Y.astype(object) * 2**70,
    "complex": Y * 1j,
    "lists": [[1], [1, 2]] * 12,
    "one number": 3,
    "one class": np.zeros(24),
    "too few": Y[:-1],
    "none": [],
}


@BOTH
@pytest.mark.parametrize("name", list(GOOD_LABELS))
def test_labels_of_many_forms(inputs: np.ndarray, name: str) -> None:
    labels = GOOD_LABELS[name]
    clf = learned(inputs, labels)
    assert len(clf.classes_) == (2 if name == "truth values" else 3)
    assert clf.evaluate(inputs, labels)["accuracy"] == np.mean(clf.predicted_ == clf.labels_)


@BOTH
@pytest.mark.parametrize("name", list(BAD_LABELS))
def test_labels_that_are_none_are_refused(inputs: np.ndarray, name: str) -> None:
    refusal(lambda: classifier().fit(inputs, BAD_LABELS[name]))
    if name != "one class":
        clf = classifier(method="normal", epochs=1).fit(inputs, Y)
        refusal(lambda: clf.evaluate(inputs, BAD_LABELS[name]))


@BOTH
def test_no_examples_and_one(inputs: np.ndarray) -> None:
    refusal(lambda: classifier().fit(inputs[:0], []))
    refusal(lambda: classifier().fit(inputs[:1], [0]), "one class")
    clf = classifier(method="normal", epochs=1).fit(inputs, Y)
    refusal(lambda: clf.evaluate(inputs[:0], []))
    refusal(lambda: clf.score(inputs, Y[:-1]), "as many labels")
    refusal(lambda: clf.evaluate_issues([True]), "24 examples")
    refusal(lambda: clf.evaluate_issues(["perhaps"] * 24), "true or false")
    assert clf.evaluate_issues(["False"] * 12 + ["True"] * 12)["noise_share"] == 0.5


BAD_INPUTS: dict[str, Any] = {
    "nothing": None,
    "a word": "abc",
    "a number": 3.0,
    "one column": X[:, 0],
    "no columns": X[:, :0],
    "five dimensions": np.zeros((24, 2, 2, 2, 3)),
    "words": np.array([["a", "b"]] * 24, object),
    "images of words": np.full((24, 4, 4), "a"),
    "rows of different lengths": [[1], [1, 2]] * 12,
    "complex": X * 1j,
    "no pixels": np.zeros((24, 0, 4)),
    "two channels": np.zeros((24, 8, 8, 2)),
    "five channels first": np.zeros((24, 5, 8, 8)),
}


@pytest.mark.parametrize("name", list(BAD_INPUTS))
def test_inputs_that_are_none_are_refused(name: str) -> None:
    refusal(lambda: classifier().fit(BAD_INPUTS[name], Y))
    for inputs in (X, IMAGES):
        clf = classifier(method="normal", epochs=1).fit(inputs, Y)
        refusal(lambda clf=clf: clf.predict(BAD_INPUTS[name]))


FURTHER_INPUTS: dict[str, Any] = {
    "images of different sizes": [np.zeros((4, 4)), np.ones((5, 5))] * 12,
    "sparse": scipy.sparse.csr_matrix(X),
    "a frame with gaps": pd.DataFrame(X).mask(lambda frame: frame > 1),
}


@pytest.mark.parametrize("name", list(FURTHER_INPUTS))
def test_inputs_of_further_forms(name: str) -> None:
    inputs = FURTHER_INPUTS[name]
    clf = classifier(method="normal", epochs=1).fit(inputs, Y)
    assert clf.predict_proba(inputs).shape == (24, 3)
    assert np.isfinite(clf.predict_proba(inputs)).all()
    other = classifier(method="normal", epochs=1).fit(np.zeros((24, 7)) + np.arange(7), Y)
    refusal(lambda: other.predict(inputs))


def test_other_shapes_than_those_trained_on_are_refused() -> None:
    table, images = (classifier(method="normal", epochs=1).fit(inputs, Y) for inputs in (X, IMAGES))
    for other in (X[:, :2], X[0], IMAGES, X[:0]):
        refusal(lambda other=other: table.predict(other))
    for other in (IMAGES[:, :4], IMAGES[0], X, np.zeros((2, 8, 8, 3))):
        refusal(lambda other=other: images.predict(other), "shape")
    assert images.predict(IMAGES[:0]).shape == (0,)
    refusal(lambda: Classifier().predict(X), "call fit first")


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 9), (4, 4), (5, 9), (9, 4)], ids=str)
@every_method
def test_images_of_every_size(size: tuple[int, int], method: str) -> None:
    learned(RNG.random((10, *size)), Y[:10], method=method, epochs=1)


@pytest.mark.parametrize("model", ["mlp", "convnet", "resnet32", "resnet9", "inception"])
def test_one_small_image_a_step(model: str) -> None:
    learned(RNG.random((3, 4, 4)), [0, 1, 0], method="normal", model=model, epochs=1, batch_size=1)
    if model in ("convnet", "inception"):
        refusal(lambda: classifier(model=model).fit(RNG.random((6, 3, 3)), Y[:6]), "too small .* use mlp")


@pytest.mark.parametrize(
    "images",
    [
        IMAGES * 255 - 100,
        (IMAGES * 255).astype(np.uint8),
        (IMAGES * 60_000).astype(np.uint16),
        IMAGES > 0.5,
        IMAGES.tolist(),
        torch.from_numpy(IMAGES),
        np.repeat(IMAGES[..., None], 3, 3),
        np.repeat(IMAGES[:, None], 4, 1),
    ],
    ids=["below 0", "bytes", "16 bits", "bits", "lists", "tensor", "3 channels", "4 channels first"],
)
def test_images_of_many_forms(images: Any) -> None:
    learned(images, Y, epochs=1, augment="crop-flip")


def test_a_model_that_cannot_learn_from_one_example_is_refused_where_it_would_have_to() -> None:
    own = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for settings in ({"batch_size": 1}, {"method": "itlm", "keep_share": 0.01, "epochs": 2, "rounds": 2}):
        refusal(lambda s=settings: classifier(model=own, features="2", **s).fit(X, Y), "one example")
    learned(X, Y, model=own, features="2")


@BOTH
def test_clean_examples(inputs: np.ndarray) -> None:
    learned(inputs, Y, method="mw-net", clean=(inputs[:1], Y[:1]))
    learned(inputs[:6], Y[:6], method="mw-net", clean=(inputs[:1], Y[:1]), batch_size=1)
    cases: list[tuple[Any, str]] = [
        (None, "clean examples"),
        ((inputs[:0], []), "clean examples"),
        ((inputs[:2], [7, 8]), "none of the 3 classes"),
        ((inputs[:2], [None, 1]), "one label"),
        ((inputs[:2], Y[:3]), "2 clean"),
        ((inputs[:3], Y[:2]), "3 clean"),
        ((inputs[:2, :2], Y[:2]), "training"),
        ((inputs,), "not a pair"),
        (inputs, "not a pair"),
    ]
    for clean, words in cases:
        refusal(lambda clean=clean: classifier(method="mw-net").fit(inputs, Y, clean=clean), words)


@BOTH
def test_examples_of_an_eval_set(inputs: np.ndarray) -> None:
    cases: list[tuple[Any, str]] = [
        ((inputs[:2], Y[:3]), "eval_set"),
        ((inputs[:2], [7, 8]), "classes"),
        (3, "pair"),
    ]
    for eval_set, words in cases:
        refusal(lambda e=eval_set: classifier().fit(inputs, Y, eval_set=e), words)


@BOTH
@pytest.mark.parametrize("share", [1e-9, 0.06, 1.0])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_itlm_keeps_at_least_one_example(inputs: np.ndarray, share: float, batch_size: int) -> None:
    learned(inputs, Y, method="itlm", keep_share=share, epochs=3, rounds=3, batch_size=batch_size)


@pytest.mark.parametrize("method", ["deca", "deca-p"])
def test_constants_for_each_class(method: str) -> None:
    learned(X, Y, method=method, c1=(1.0, 2.0, 0.0), c2=(0.0, 1e30, 1.0))
    for bad in ((1.0, 2.0), (), (1.0,) * 4):
        for name in ("c1", "c2"):
            refusal(lambda s={name: bad}: classifier(method=method, **s).fit(X, Y), "numbers for 3 classes")
    refusal(lambda: classifier(method=method, c1=float("nan")).fit(X, Y), r"Setting 'c1': .* \(it was nan\)")
    refusal(lambda: classifier(method=method, c2=-1.0).fit(X, Y), "Setting 'c2': .* greater than or equal to 0")
    refusal(lambda: classifier(method=method, c1=(1.0, -2.0, 1.0)).fit(X, Y), r"Setting 'c1\[1\]': .* -2\.0")


def test_fitting_nothing_together_and_other_lengths_are_refused() -> None:
    one, source = [classifier(epochs=1)], {"X": X, "y": Y}
    for act in (
        lambda: fit_together([], []),
        lambda: fit_together([], source),
        lambda: fit_together(one, []),
        lambda: fit_together(one, [source, source]),
        lambda: fit_together(one, [source], callbacks=[None, None]),
    ):
        refusal(act, "as many sources")
    for bad in ([[1], [1, 2]], np.array([["a"]] * 24)):
        refusal(lambda bad=bad: fit_together(one, {"X": bad, "y": Y}), "finite numbers")


@pytest.mark.parametrize("kind", ["uniform", "others", "pair"])
def test_noise_of_nothing_and_of_everything(kind: str) -> None:
    assert add_noise(Y, 3, 0.0, kind=kind).realised == 0
    everything = add_noise(Y, 3, 1.0, kind=kind)
    assert everything.realised == 1 if kind != "uniform" else everything.realised > 0.3
    assert set(everything.labels) <= {0, 1, 2}
    assert len(add_noise(np.array([], int), 3, 1.0, kind=kind).labels) == 0
    learned(X, everything.labels)
    for bad, error in (([7], SettingError), ([-1], SettingError), (["a"], DataError), ([[0]], DataError)):
        with pytest.raises(error):
            add_noise(bad, 3, 1.0, kind=kind)  # pyright: ignore[reportArgumentType]
    refusal(lambda: add_noise(Y, 0, 1.0, kind=kind), "two classes")
    refusal(lambda: add_noise_by_matrix(Y, [[1], [0, 1]]), "square")
    refusal(lambda: add_noise_by_matrix(Y - 1, np.eye(3)), "label -1")
