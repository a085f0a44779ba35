"""Examples in every form that people have, through fit, predict, save and load; and their table given back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sparse
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset, SubsetRandomSampler, TensorDataset

from accord import Classifier
from accord.errors import DataError, SettingError
from mixed_tables import N, mixed

QUICK: dict[str, Any] = {"method": "normal", "model": "mlp", "epochs": 6, "batch_size": 32}


@pytest.fixture(scope="module")
def fitted() -> Classifier:
    return Classifier(**QUICK).fit(mixed(), "kind")


def test_a_mixed_table_of_every_library(fitted: Classifier, tmp_path: Path) -> None:
    frame = mixed()
    assert fitted.notes_["remarks"] == ["Columns left out: 'plant_id' is an id; 'same' is the same in every row"]
    assert fitted.n_features_in_ == 7
    assert fitted.score(frame, "kind") > 0.9
    fitted.save(tmp_path / "run")
    again = Classifier.load(tmp_path / "run")
    assert {path.suffix for path in (tmp_path / "run").iterdir()} <= {".json", ".jsonl", ".parquet", ".safetensors"}
    answers = fitted.predict_proba(frame)
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    for table in (frame, frame.drop(columns="kind"), pl.from_pandas(frame), whole, whole.to_batches()[0]):
        np.testing.assert_array_equal(again.predict_proba(table), answers)
    for one in (fitted, again):
        with pytest.raises(DataError, match="feature names.*plant_id, height, soil"):
            one.predict(frame[frame.columns[::-1]])
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(again.predict_proba(frame.drop(columns="kind").to_numpy()), answers)
    other = Classifier(**QUICK).fit(pl.from_pandas(frame).drop("kind"), frame["kind"])
    np.testing.assert_array_equal(other.predict_proba(whole.drop_columns(["kind"])), answers)


def test_a_run_whose_columns_do_not_fit_is_refused(fitted: Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    encoders = config["columns"]["encoders"]
    for columns in ({}, [], "x", {**config["columns"], "encoders": encoders[1:]}):
        (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"columns": columns}))
        with pytest.raises(DataError, match="damaged"):
            Classifier.load(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    (tmp_path / "run" / "columns.safetensors").unlink()
    with pytest.raises(DataError, match="damaged"):
        Classifier.load(tmp_path / "run")


def test_numbers_alone_are_learned_from_as_an_array_is() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    array = Classifier(**QUICK).fit(X, y)
    frame = Classifier(**QUICK).fit(pd.DataFrame(X, columns=list("abc")), y)
    nameless = Classifier(**QUICK).fit(pd.DataFrame(X), y)
    for one in (frame.predict_proba(pd.DataFrame(X, columns=list("abc"))), nameless.predict_proba(X)):
        np.testing.assert_array_equal(one, array.predict_proba(X))
    assert not hasattr(nameless, "feature_names_in_")
    with pytest.warns(UserWarning, match="feature names"):
        array.predict(pd.DataFrame(X, columns=list("abc")))
    for kind in (sparse.csr_matrix, sparse.coo_array):
        fitted = Classifier(**QUICK).fit(kind(X), y)
        np.testing.assert_array_equal(fitted.predict_proba(kind(X)), array.predict_proba(X))


def test_labels_by_name_and_in_another_order() -> None:
    frame = mixed()
    with pytest.raises(DataError, match="no column 'kinds' of labels"):
        Classifier(**QUICK).fit(frame, "kinds")
    gone = frame.assign(kind=frame["kind"].where(frame.index != 4))
    with pytest.raises(DataError, match="A label is missing in column 'kind', data row 5"):
        Classifier(**QUICK).fit(gone, "kind")
    with pytest.raises(DataError, match=r"another order; give y.loc\[X.index\]"):
        Classifier(**QUICK).fit(frame.drop(columns="kind"), frame["kind"].sample(frac=1, random_state=0))
    with pytest.raises(DataError, match="120 rows and 3 labels"):
        Classifier(**QUICK).fit(frame, ["a", "b", "c"])


def test_the_index_of_a_table_comes_with_the_issues(tmp_path: Path) -> None:
    frame = mixed().set_index(pd.Index([f"r{k}" for k in range(N)], name="plot"))
    clf = Classifier(**QUICK).fit(frame, "kind")
    clf.save(tmp_path / "run")
    for one in (clf, Classifier.load(tmp_path / "run")):
        issues = pa.table(one.find_label_issues())
        assert issues["source_index"].to_pylist() == [f"r{k}" for k in issues["index"].to_pylist()]


def test_data_sets_and_loaders_of_torch() -> None:
    X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    plain = Classifier(**QUICK).fit(X.numpy(), y.numpy())
    data = TensorDataset(X, y)
    indices = list(range(49, -1, -1))

    class Stream(IterableDataset):  # pyright: ignore[reportMissingTypeArgument]
        def __iter__(self) -> Any:
            return ({"image": X[k].numpy(), "label": int(y[k])} for k in range(50))

    for given in (data, DataLoader(data, 7), DataLoader(data, 7, shuffle=True), Stream(), DataLoader(Stream(), 9)):
        clf = Classifier(**QUICK).fit(given)
        np.testing.assert_array_equal(clf.predict_proba(given), plain.predict_proba(X.numpy()))
        assert clf.evaluate(given) == plain.evaluate(X.numpy(), y.numpy())
    turned = Classifier(**QUICK).fit(Subset(data, indices))
    assert turned.labels_.tolist() == y.flip(0).tolist()
    assert Classifier(**QUICK).fit(TensorDataset(X), y).score(X.numpy(), y.numpy()) > 0.5
    with pytest.raises(DataError, match="torch.utils.data.Subset"):
        Classifier(**QUICK).fit(DataLoader(data, 5, sampler=SubsetRandomSampler([1, 2, 3])))
    with pytest.raises(DataError, match="target y is None"):
        Classifier(**QUICK).fit(TensorDataset(X))


def test_a_list_of_texts() -> None:
    texts = [f"{'good' if k % 2 else 'bad'} thing number {k}" for k in range(60)]
    clf = Classifier(**QUICK | {"epochs": 40}).fit(texts, [k % 2 for k in range(60)])
    assert clf.score(np.array(texts), np.arange(60) % 2) > 0.9


def test_paths_and_pictures_and_a_folder(tmp_path: Path) -> None:
    paths, y = [], []
    for k in range(40):
        place = tmp_path / "pets" / ("cat" if k % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8 + k % 3, 8), 200 * (k % 2) + k).save(place / f"{k:02}.png")
        paths.append(place / f"{k:02}.png")
        y.append(place.name)
    clf = Classifier(**QUICK).fit(paths, y)
    assert clf.shape_ == (8, 9, 1)
    assert "40 images" in clf.notes_["remarks"][0]
    assert pa.table(clf.find_label_issues())["file"].to_pylist()[0] in map(str, paths)
    assert clf.predict([str(path) for path in paths[:3]]).shape == (3,)
    pictures = [Image.open(path) for path in paths]
    np.testing.assert_array_equal(clf.predict_proba(pictures), clf.predict_proba(paths))
    folder = Classifier(**QUICK).fit(tmp_path / "pets")
    assert folder.classes_.tolist() == ["cat", "dog"]
    assert folder.score(paths, y) > 0.9
    with pytest.raises(DataError, match="'nothing.png' cannot be read as an image: it is not there"):
        clf.predict(["nothing.png"])


# -- and back --------------------------------------------------------------------------------------------------


def without_wrong(clf: Classifier) -> np.ndarray:
    return np.flatnonzero(~clf.is_issue_)


def test_a_table_in_memory_comes_back_as_it_was() -> None:
    frame = mixed()
    frame = pd.concat([frame, frame.iloc[:7]]).set_index(pd.Index(np.arange(N + 7)[::-1]))  # repeats stay
    noisy = frame.assign(kind=frame["kind"].where(np.arange(N + 7) % 10 > 0, "ash"))
    clf = Classifier(**QUICK).fit(noisy, "kind")
    kept = without_wrong(clf)
    assert 0 < len(kept) < N + 7
    pd.testing.assert_frame_equal(clf.cleaned_table(noisy), noisy.iloc[kept])
    polar = pl.from_pandas(noisy)
    assert clf.cleaned_table(polar).equals(polar[kept.tolist()])
    np.testing.assert_array_equal(clf.cleaned_table(noisy.to_numpy()[:, 0]), noisy["plant_id"].to_numpy()[kept])
    marked = clf.marked_table(noisy)
    pd.testing.assert_frame_equal(marked[noisy.columns], noisy)
    assert list(marked.columns[len(noisy.columns) :]) == ["predicted_label", "label_quality", "is_label_issue"]
    assert (marked["is_label_issue"] == clf.is_issue_).all()
    beside = clf.relabelled_table(noisy)
    assert (beside["predicted_label"] == clf.classes_[clf.predicted_]).all()
    assert beside["kind"].equals(noisy["kind"])
    replaced = clf.relabelled_table(noisy, "replace")
    pd.testing.assert_frame_equal(replaced.drop(columns="kind"), noisy.drop(columns="kind"))
    assert (replaced["kind"].to_numpy() == clf.classes_[clf.predicted_]).all()
    assert replaced["kind"].dtype == noisy["kind"].dtype
    few = clf.relabelled_table(noisy, "replace", share=0.01)
    assert (few["kind"] != noisy["kind"]).sum() <= 1
    with pytest.raises(DataError, match="127 rows|fitted on 127"):
        clf.cleaned_table(noisy.iloc[1:])
    with pytest.raises(DataError, match="label in data row 1 is another"):
        clf.cleaned_table(noisy.assign(kind=["oak", *noisy["kind"][1:]]))
    with pytest.raises(DataError, match="give the table that it was fitted on"):
        clf.cleaned_table()
    with pytest.raises(SettingError, match="did you mean 'replace'"):
        clf.relabelled_table(noisy, "replaced")  # pyright: ignore


@pytest.mark.parametrize("dtype", ["category", "Int8", "int16", "float64", "boolean"])
def test_a_replaced_label_keeps_its_type(dtype: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    right = (X[:, 0] > 0).astype(int)
    given = np.where(np.arange(60) % 8 == 0, 1 - right, right)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": pd.Series(given).astype(dtype)})
    clf = Classifier(**QUICK | {"epochs": 20}).fit(frame, "y")
    replaced = clf.relabelled_table(frame, "replace")["y"]
    assert replaced.dtype == frame["y"].dtype
    assert (replaced.astype(int).to_numpy() == clf.predicted_).all()
    assert clf.is_issue_.any()
