"""scikit-learn's estimators and pipelines as models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from accord import Classifier
from accord.data.splits import stratified_folds
from accord.errors import DataError, SettingError
from accord.tasks.runs import run_of

pytest.importorskip("skops", reason="saving a scikit-learn model needs skops")


def blobs(count: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Examples of three classes far apart, their names, and names of which a tenth is wrong."""
    rng = np.random.default_rng(seed)
    truth = np.arange(count) % 3
    X = rng.normal(size=(count, 4)) * [1, 1, 100, 1] + 4 * np.eye(3, 4)[truth] * [1, 1, 100, 1]
    names = np.array(["ash", "birch", "cedar"])
    wrong = truth.copy()
    wrong[::10] = (truth[::10] + 1) % 3
    return X, names[truth], names[wrong]


PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())


def test_a_pipeline_is_fitted_judged_saved_and_loaded(tmp_path: Path) -> None:
    X, y, wrong = blobs()
    clf = Classifier(model=PIPELINE).fit(X, wrong)
    assert clf.settings.method == "normal"
    theirs = clone(PIPELINE).fit(X, wrong)
    assert np.array_equal(clf.predict_proba(X), theirs.predict_proba(X))  # all rows, as they were given
    assert np.array_equal(clf.predict(X[:5]), theirs.predict(X[:5]))
    assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.95
    assert clf.score(X, y) > 0.9
    clf.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.find_label_issues().equals(clf.find_label_issues())
    assert again.fit(X, wrong).find_label_issues().equals(clf.find_label_issues())  # what was loaded can be fitted
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert "model.skops" in names
    assert not [name for name in names if name.endswith((".pkl", ".joblib"))]
    assert any("judged by copies of the model in 5 folds" in line for line in run_of(again).description())


def test_every_label_is_judged_by_a_copy_that_never_saw_it() -> None:
    X, _, wrong = blobs()
    names, labels = np.unique(wrong, return_inverse=True)
    own = np.zeros((len(X), 3))
    for fold in stratified_folds(labels, np.arange(len(X)), 5, seed=3):
        rest = np.setdiff1d(np.arange(len(X)), fold)
        own[fold] = clone(PIPELINE).fit(X[rest], wrong[rest]).predict_proba(X[fold])
    clf = Classifier(model=PIPELINE, seed=3).fit(X, wrong)
    assert np.allclose(clf.label_quality_, own[np.arange(len(X)), labels], atol=1e-6)
    assert np.array_equal(clf.predicted_, own.argmax(1))
    assert clf.validation_["training"]["accuracy"] == pytest.approx((own.argmax(1) == labels).mean())
    assert clf.notes_["lowest"]["the most frequent label"] == pytest.approx(np.bincount(labels).max() / len(X))
    assert names.tolist() == clf.classes_.tolist()


def test_an_estimator_gets_what_was_given() -> None:
    """Data frames by the names of their columns, texts, sparse matrices, images as rows; and class names."""
    X, _, wrong = blobs(60)
    frame = pd.DataFrame({"size": X[:, 2], "tree": wrong}, index=np.arange(60) + 500)
    by_name = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["tree"]), (StandardScaler(), ["size"])
    )
    clf = Classifier(model=make_pipeline(by_name, LogisticRegression())).fit(frame, wrong)
    assert clf.score(frame, wrong) == 1.0
    with pytest.raises(DataError, match="cannot answer for these examples.*tree"):
        clf.predict(frame[["size"]])
    texts = [f"a {name} tree" for name in wrong]
    clf = Classifier(model=make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(texts, wrong)
    assert clf.predict(["the ash", "a cedar"]).tolist() == ["ash", "cedar"]
    clf = Classifier(model=LogisticRegression())
    sparse = scipy.sparse.csr_matrix(X / [1, 1, 100, 1])
    clf.fit(sparse, wrong, eval_set=(sparse, wrong))
    assert clf.history_[-1]["eval_set"]["accuracy"] == pytest.approx(clf.score(sparse, wrong))
    images = np.random.default_rng(0).integers(0, 255, (60, 6, 6)).astype(np.uint8)
    images[wrong == "ash", :3] = 255
    clf = Classifier(model=GaussianNB()).fit(images, wrong)
    assert clf.predict(images).shape == (60,)
    assert clf.worst_images_ is not None
    weighted = Classifier(model=LogisticRegression(class_weight={"ash": 50.0, "birch": 1.0, "cedar": 1.0}))
    assert (weighted.fit(X[:, :1], wrong).predict(X[:, :1]) == "ash").mean() > 0.6


def test_seeds_reach_what_has_none_of_its_own() -> None:
    X, _, wrong = blobs(60)
    for given, want in ((None, 7), (4, 4)):
        clf = Classifier(model=make_pipeline(RandomForestClassifier(3, random_state=given)), seed=7).fit(X, wrong)
        target: Any = clf.networks_["target"]
        assert target.fitted.model.get_params()["randomforestclassifier__random_state"] == want
    assert (
        Classifier(model=RandomForestClassifier(3)).fit(X, wrong).model.random_state is None
    )  # theirs is left alone


@pytest.mark.parametrize("method", ["deca", "deca-p", "mw-net", "itlm", "ensemble"])
def test_methods_with_gradients_say_what_to_take(method: str) -> None:
    X, _, wrong = blobs(60)
    with pytest.raises(SettingError, match=f"'{method}' learns by gradients.*'normal' or 'council'"):
        Classifier(model=PIPELINE, method=method).fit(X, wrong)


def test_a_council_of_estimators_and_one_as_prior() -> None:
    X, y, wrong = blobs()
    clf = Classifier(model=PIPELINE, method="council", members=["scikit-learn", GaussianNB(), "logistic"]).fit(
        X, wrong
    )
    assert [row["model"] for row in clf.notes_["council"]["members"][:3]] == [
        "scikit-learn",
        "GaussianNB",
        "logistic",
    ]
    assert min(row["out_of_fold"] for row in clf.notes_["council"]["members"]) > 0.6  # logistic saw scaled columns
    assert clf.evaluate_issues(wrong != y)["roc_auc"] > 0.95
    assert clf.score(X, y) > 0.9  # the student learnt what the council said
    target: Any = clf.networks_["target"]
    assert (target.fitted.model.predict(X) == y).mean() > 0.9
    prior = Classifier(prior=Classifier(model=PIPELINE), epochs=2, batch_size=20).fit(X, wrong)
    assert prior.notes_["prior"]["model"] == "scikit-learn"
    assert prior.notes_["prior"]["accuracy"] > 0.7
    network = Classifier(model=PIPELINE).fit(X, wrong)
    assert prior._as_prior(network) is not network._target  # whose inputs are not scaled


def test_what_cannot_serve_is_one_sentence(tmp_path: Path) -> None:
    X, _, wrong = blobs(60)
    with pytest.raises(SettingError, match=r"RidgeClassifier gives no probabilities.*CalibratedClassifierCV"):
        Classifier(model=RidgeClassifier()).fit(X, wrong)
    with pytest.raises(SettingError, match="stands for an estimator of yours"):
        Classifier(model="scikit-learn").fit(X, wrong)
    with pytest.raises(SettingError, match="Model 'LogisticRegression' cannot learn these examples"):
        Classifier(model=LogisticRegression()).fit(np.where(X > 3, np.nan, X), wrong)
    with pytest.raises(DataError, match="needs at least two"):
        Classifier(model=LogisticRegression()).fit(X, np.full(60, "ash"))
    with pytest.raises(DataError, match="59 labels"):
        Classifier(model=LogisticRegression()).fit(X, wrong[:-1])
    odd = make_pipeline(FunctionTransformer(lambda x: x), LogisticRegression())
    clf = Classifier(model=odd).fit(X / [1, 1, 100, 1], wrong)
    with pytest.raises(SettingError, match="cannot be saved without pickle.*leave out parts made of functions"):
        clf.save(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


def test_types_that_are_not_known_to_be_safe_are_named_and_not_loaded(tmp_path: Path) -> None:
    X, _, wrong = blobs(60)
    clf = Classifier(model=RandomForestClassifier(3)).fit(X, wrong)
    clf.save(tmp_path / "run")
    with pytest.raises(DataError, match=r"not known to be safe: sklearn.tree._tree.Tree; if you trust") as caught:
        Classifier.load(tmp_path / "run")
    assert "\n" not in str(caught.value)
    again = Classifier.load(tmp_path / "run", trusted=["sklearn.tree._tree.Tree"])
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    (tmp_path / "run" / "model.skops").write_bytes(b"PK not a model")
    with pytest.raises(DataError, match="does not hold a scikit-learn model"):
        Classifier.load(tmp_path / "run")


def test_a_run_says_that_it_holds_an_estimator(tmp_path: Path) -> None:
    X, _, wrong = blobs(60)
    Classifier(model=PIPELINE).fit(X, wrong).save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["settings"]["model"] == config["networks"]["target"] == "scikit-learn"
