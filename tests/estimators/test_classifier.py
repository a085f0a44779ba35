"""The classifier: a scikit-learn estimator that finds wrong labels, keeps its word, and can be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from accord import Classifier
from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.noise import NoisyLabels, add_noise
from accord.errors import AccordError, DataError, SettingError

QUICK: dict[str, Any] = {"epochs": 15, "batch_size": 50}


def blobs(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(count, 5, centers=3, cluster_std=2.0, random_state=seed)  # pyright: ignore
    return X, y


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, NoisyLabels, np.ndarray, np.ndarray]:
    """Images, noisy labels, and clean test images and labels."""
    data = load_digits()
    images = data.images.astype(np.uint8)
    return images[:1200], add_noise(data.target[:1200], 10, 0.4, seed=0), images[1200:], data.target[1200:]


@pytest.fixture(scope="module")
def fitted(digits: tuple[np.ndarray, NoisyLabels, np.ndarray, np.ndarray]) -> Classifier:
    images, noisy, *_ = digits
    return Classifier(model="mlp", epochs=20, seed=1).fit(images, noisy.labels)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    """One that needs SciPy's array API switched on is skipped by scikit-learn.

    One is expected to fail, as with every estimator that learns in steps: a row that is there twice changes which
    rows share a step and which are held out. tests/estimators/test_sample_weight.py shows where it holds.
    """
    chance = {"check_sample_weight_equivalence_on_dense_data": "other rows share a step"}
    results = check_estimator(
        Classifier(epochs=15, batch_size=32), on_fail=None, on_skip=None, expected_failed_checks=chance
    )
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(chance)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert [r["check_name"] for r in results if r["status"] == "skipped"] in ([], ["check_array_api_input"])


def test_pipeline_cross_validation_and_grid_search() -> None:
    X, y = blobs()
    clf = make_pipeline(StandardScaler(), Classifier(method="normal", **QUICK))
    assert cross_val_score(clf, X, y, cv=3).mean() > 0.9
    search = GridSearchCV(Classifier(method="normal", **QUICK), {"learning_rate": [1e-6, 0.05]}, cv=2).fit(X, y)
    assert search.best_params_ == {"learning_rate": 0.05}


def test_probabilities_feed_cleanlab_unchanged(digits: Any) -> None:
    filter_module = pytest.importorskip("cleanlab.filter", reason="cleanlab is not installed")
    X, y = blobs()
    noisy = add_noise(y, 3, 0.3, seed=1)
    clf = Classifier(method="normal", **QUICK)
    p = cross_val_predict(clf, X, noisy.labels, cv=3, method="predict_proba")
    issues = filter_module.find_label_issues(labels=noisy.labels, pred_probs=p)
    assert noisy.is_noise[issues].mean() > 0.7
    assert issues[noisy.is_noise].mean() > 0.7


def test_wrong_digits_are_found(fitted: Classifier, digits: Any) -> None:
    _, noisy, images, labels = digits
    table = fitted.find_label_issues()
    names = ["index", "given_label", "predicted_label", "label_quality", "is_label_issue"]
    assert table.column_names == names
    quality = np.asarray(table["label_quality"])
    assert (np.diff(quality) >= 0).all()
    assert quality.min() >= 0
    assert quality.max() <= 1
    index = np.asarray(table["index"])
    assert (np.asarray(table["given_label"]) == noisy.labels[index]).all()
    measured = fitted.evaluate_issues(noisy.is_noise)
    assert measured["roc_auc"] > 0.95
    assert measured["precision"] > 0.9
    assert fitted.evaluate(images, labels)["accuracy"] == pytest.approx(fitted.score(images, labels))
    assert fitted.score(images, labels) > 0.8
    assert np.asarray(fitted.find_label_issues(share=0.1)["is_label_issue"]).sum() == 120


def test_denoising_beats_plain_training_on_noisy_digits() -> None:
    """The last epoch: normal training has learned the wrong labels by heart, DeCA(p) has not."""
    data = IMAGE_SETS["digits"].load()
    noisy = add_noise(data.labels.astype(int), 10, 0.4, seed=0)
    last = {"model": "mlp", "epochs": 60, "restore": "last"}
    accuracy = {
        method: Classifier(method=method, **last)
        .fit(data.inputs, noisy.labels)
        .score(data.test_inputs, data.test_labels.astype(int))
        for method in ("normal", "deca-p")
    }
    assert accuracy["deca-p"] > accuracy["normal"] + 0.1


@pytest.mark.parametrize("method", ["normal", "ensemble", "itlm", "deca", "deca-p", "mw-net"])
def test_saved_and_loaded(method: str, tmp_path: Path) -> None:
    X, y = blobs(120)
    names = np.array(["ash", "birch", "cedar"])[y]
    clean = (X[:20], names[:20]) if method == "mw-net" else None
    clf = Classifier(method=method, epochs=3, batch_size=32).fit(X, names, clean=clean)
    clf.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.find_label_issues().equals(clf.find_label_issues())
    assert set(again.predict(X)) <= {"ash", "birch", "cedar"}
    assert again.get_params() == clf.get_params()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["kind"] == "classifier"
    assert np.allclose(again.noise_matrix_.sum(1), 1)


def test_same_seed_same_bytes() -> None:
    X, y = blobs()
    p = [Classifier(seed=seed, **QUICK).fit(X, y).predict_proba(X) for seed in (1, 1, 2)]
    assert np.array_equal(p[0], p[1])
    assert not np.array_equal(p[0], p[2])


def test_watched_examples_decide_nothing() -> None:
    X, y = blobs()
    plain = Classifier(**QUICK).fit(X, y)
    watched = Classifier(**QUICK).fit(X, y, eval_set=(X[:50], np.roll(y[:50], 1)))
    assert np.array_equal(plain.predict_proba(X), watched.predict_proba(X))
    assert "eval_set" in watched.history_[0]


def test_an_ensemble_is_watched_as_it_was_after_its_last_epochs() -> None:
    X, y = blobs()
    given = add_noise(y, 3, 0.6, seed=0).labels
    settings: dict[str, Any] = {**QUICK, "method": "ensemble", "epochs": 12, "learning_rate": 0.3}
    best, last = (Classifier(**settings, restore=kept).fit(X, given, eval_set=(X, y)) for kept in ("best", "last"))
    assert best.history_[-1]["eval_set_together"] == {"accuracy": pytest.approx(last.score(X, y))}
    assert best.score(X, y) > last.score(X, y), "else there is nothing to tell apart"
    assert np.array_equal(best.predict_proba(X), Classifier(**settings).fit(X, given).predict_proba(X))


def test_the_noise_matrix_is_learned(digits: Any) -> None:
    images, *_ = digits
    truth = load_digits().target[:1200]
    pair = add_noise(truth, 10, 0.3, kind="pair", seed=3)
    for method in ("normal", "deca-p"):
        clf = Classifier(model="mlp", method=method, epochs=40).fit(images, pair.labels)
        matrix = clf.noise_matrix_
        to_next = matrix[np.arange(10), (np.arange(10) + 1) % 10].mean()
        elsewhere = (1 - np.diag(matrix).mean() - to_next) / 8
        assert np.diag(matrix).mean() > to_next > 2 * elsewhere, method


class Own(nn.Module):
    def __init__(self, columns: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(columns, 16), nn.ReLU())
        self.last = nn.Linear(16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x))


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    X, y = blobs()

    def make(shape: tuple[int, ...], classes: int) -> nn.Module:
        return Own(shape[0], classes)

    for model in (Own(5, 3), make):
        clf = Classifier(model=model, features="body", **QUICK).fit(X, y)
        assert clf.score(X, y) > 0.8
    clf.save(tmp_path / "own")
    again = Classifier.load(tmp_path / "own", model=make, features="body")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(DataError, match="model of your own"):
        Classifier.load(tmp_path / "own")
    with pytest.raises(SettingError, match="of 4 outputs.*its linear layers are body.0, last"):
        Classifier(model=Own(5, 3)).fit(np.vstack([X, X[:5]]), np.append(y, [3] * 5))
    with pytest.raises(SettingError, match="did you mean 'body'"):
        Classifier(model=Own(5, 3), features="bodi").fit(X, y)
    with pytest.raises(SettingError, match="4 logits for 3 classes"):
        Classifier(model=Own(5, 4), features="body").fit(X, y)


def test_images_in_every_usual_form() -> None:
    rng = np.random.default_rng(0)
    gray, colour = rng.integers(0, 255, (40, 8, 8)), rng.integers(0, 255, (40, 8, 8, 3))
    y = np.arange(40) % 2
    for images, shape in ((gray, (8, 8, 1)), (colour, (8, 8, 3)), (colour.transpose(0, 3, 1, 2), (8, 8, 3))):
        clf = Classifier(method="normal", epochs=1).fit(images, y)
        assert clf.shape_ == shape
        assert clf.model_ == "convnet"
        assert clf.predict(images).shape == (40,)
    with pytest.raises(DataError, match=r"\(8, 8, 1\)"):
        clf.predict(gray)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": "resnt32"}, "did you mean 'resnet32'"),
        ({"method": "decap"}, "did you mean 'deca-p'"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"c1": (1.0, 2.0)}, "2 numbers for 3 classes"),
        ({"model": "resnet32"}, "is for images"),
        ({"method": "mw-net"}, "clean"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], words: str) -> None:
    X, y = blobs(60)
    with pytest.raises(AccordError, match=words):
        Classifier(**settings).fit(X, y)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(SettingError, match="did you mean 'epochs'"):
        Classifier(epoch=3)


def test_bad_inputs_are_refused() -> None:
    X, y = blobs(60)
    with pytest.raises(DataError, match="one class"):
        Classifier().fit(X, np.zeros(60))
    with pytest.raises(DataError, match="one for each"):
        Classifier().fit(np.zeros((5, 8, 8)), [0, 1])
    clf = Classifier(method="normal", epochs=1).fit(X, y)
    with pytest.raises(DataError, match="none of the 3 classes"):
        clf.evaluate(X, y + 7)
    with pytest.raises(DataError, match="60 examples"):
        clf.evaluate_issues([True])


def test_damaged_runs_are_refused(tmp_path: Path) -> None:
    X, y = blobs(60)
    clf = Classifier(method="normal", epochs=1).fit(X, y)
    for name, content in (("weights.safetensors", b"x"), ("labels.parquet", b"x"), ("config.json", b"{")):
        clf.save(tmp_path / name)
        (tmp_path / name / name).write_bytes(content)
        with pytest.raises(DataError, match="fit it again|fit the run again|cannot be read"):
            Classifier.load(tmp_path / name)


def test_damage_of_any_kind_is_one_sentence(tmp_path: Path) -> None:
    """Every file of a run folder, spoiled in ways that still parse."""
    rng = np.random.default_rng(0)
    clf = Classifier(method="deca-p", model="mlp", epochs=1).fit(rng.normal(size=(40, 5, 5)), np.arange(40) % 2)
    clf.save(tmp_path / "good")
    good = json.loads((tmp_path / "good" / "config.json").read_text())
    spoiled: list[dict[str, Any]] = [
        {**good, "settings": None},
        {**good, "settings": {k: v for k, v in good["settings"].items() if k != "method"}},
        {**good, "settings": {**good["settings"], "c1": [[1.0]]}},
        {**good, "networks": {"target": "elsewhere"}},
        {**good, "classes": {"type": "<i8", "values": ["x", "y"]}},
        {**good, "classes": {"type": "<i8", "values": [1]}},
        {**good, "shape": [5]},
        {**good, "shape": "wide"},
        {**good, "scaling": {"mean": [], "std": []}},
        {**good, "networks": []},
        {**good, "networks": ["elsewhere"]},
        {**good, "data": None},
    ]
    for k, config in enumerate(spoiled):
        clf.save(tmp_path / f"c{k}")
        (tmp_path / f"c{k}" / "config.json").write_text(json.dumps(config))
        with pytest.raises(DataError, match="fit it again"):
            Classifier.load(tmp_path / f"c{k}")
    for name, content in (
        ("history.jsonl", b""),
        ("history.jsonl", b"{}\n"),
        ("history.jsonl", b"[1]\n"),
        ("noise.safetensors", b"no"),
        ("worst.safetensors", b"no"),
    ):
        clf.save(tmp_path / "one")
        (tmp_path / "one" / name).write_bytes(content)
        with pytest.raises(DataError):
            Classifier.load(tmp_path / "one")


def test_a_loaded_classifier_knows_its_columns(tmp_path: Path) -> None:
    X, y = blobs(60)
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    fitted = Classifier(method="normal", epochs=1).fit(frame, y)
    fitted.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    for clf in (fitted, again):
        assert list(clf.feature_names_in_) == list(frame.columns)
        with pytest.raises(DataError, match="feature names should match"):
            clf.predict(frame[frame.columns[::-1]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            clf.predict(X)
    Classifier(method="normal", epochs=1).fit(X, y).save(tmp_path / "nameless")
    assert not hasattr(Classifier.load(tmp_path / "nameless"), "feature_names_in_")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    for names in (["c0"], [1] * X.shape[1], "c0", {}):
        (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"feature_names": names}))
        with pytest.raises(DataError, match="damaged"):
            Classifier.load(tmp_path / "run")


def test_labels_match_whether_text_or_numbers() -> None:
    X, y = blobs(90)
    clf = Classifier(method="normal", epochs=5, batch_size=32).fit(X, y)
    same = [clf.evaluate(X, labels)["accuracy"] for labels in (y, y.astype(str), y.astype(float))]
    assert same[0] == same[1] == same[2]
    words = Classifier(method="normal", epochs=1).fit(X, np.array(["cat", "dog", "eel"])[y])
    with pytest.raises(DataError, match="catfish"):
        words.evaluate(X, np.array(["catfish", "dog", "eel"])[y])
    assert words.class_numbers(["eel", "catfish"], unknown=True).tolist() == [2, -1]


class Dropping(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(self.body(x)))

    def __init__(self, columns: int, classes: int) -> None:
        super().__init__(columns, classes)
        self.drop = nn.Dropout(0.5)


def test_dropout_is_the_runs_own() -> None:
    from accord.estimators import fit_together

    X, y = blobs(120)

    def make(seed: int) -> Classifier:
        return Classifier(
            model=Dropping(5, 3),
            features="body",
            pretrained="reset",
            method="normal",
            epochs=3,
            batch_size=32,
            seed=seed,
        )

    torch.manual_seed(1)
    alone = make(4).fit(X, y).predict_proba(X)
    torch.manual_seed(2)
    pair = [make(3), make(4)]
    fit_together(pair, {"X": X, "y": y})
    assert np.array_equal(pair[1].predict_proba(X), alone)


def test_odd_sizes_of_data() -> None:
    X, y = blobs(101)
    norm = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    clf = Classifier(model=norm, features="2", method="normal", epochs=1, batch_size=10, valid_share=0.0)
    assert clf.fit(X, y).predict(X).shape == (101,)  # no batch of one
    images = np.random.default_rng(0).integers(0, 255, (20, 3, 3))
    with pytest.raises(SettingError, match="too small"):
        Classifier(model="convnet").fit(images, y[:20])
    with pytest.raises(DataError, match="names for"):
        Classifier().fit(X, y, names=["a"])
    many = Classifier(method="normal", epochs=1).fit(np.zeros((20, 8, 8)), np.arange(20) % 2)
    assert many.predict(np.zeros((0, 8, 8))).shape == (0,)
