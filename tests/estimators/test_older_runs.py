"""Run folders that version 0.1 wrote: they load, and answer as they did then.

`runs-0.1.zip` holds three, with the answers that version 0.1 gave itself.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Classifier, Recommender
from accord.errors import DataError, SettingError
from accord.estimators.settings import RENAMED
from accord.models.classifiers.mlp import MLP

ARCHIVE = Path(__file__).with_name("runs-0.1.zip")
CHANGES = Path(__file__).parents[2] / "CHANGELOG.md"
ANSWERS = json.loads(zipfile.Path(ARCHIVE, "run-0.1-answers.json").read_text())
RECOMMENDERS = ["run-0.1-recommender", "run-0.1-ensemble"]
RUNS = [*RECOMMENDERS, "run-0.1-classifier"]


def assert_same(found: dict[str, list[Any]], then: dict[str, list[Any]]) -> None:
    """Words, ranks and flags to the letter, numbers but for their last digits."""
    assert list(found) == list(then)
    for name, values in then.items():
        if isinstance(values[0], float):
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-7)
        else:
            assert found[name] == values


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classifier's networks were made 4 units wide, so that its file is small."""
    monkeypatch.setattr(MLP.__init__, "__defaults__", (4,))


def load(path: Path) -> Any:
    return (Classifier if "classifier" in path.name else Recommender).load(path)


def said_then(metrics: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 had nothing to say of whether the flags are to be trusted."""
    issues = {key: value for key, value in metrics["label_issues"].items() if key != "doubt"}
    return metrics | {"label_issues": issues}


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_a_recommender_answers_as_it_did(name: str, older: Path, tmp_path: Path) -> None:
    then, rec = ANSWERS[name], Recommender.load(older / name)
    rec.save(tmp_path / name)
    for one in (rec, Recommender.load(tmp_path / name)):  # as it is, and written anew
        assert_same(one.recommend([f"u{u}" for u in range(12)], k=3).to_pydict(), then["recommend"])
        assert_same(one.find_label_issues().to_pydict(), then["issues"])
        if then["similar"] is not None:
            assert_same(one.similar_items(["i1", "i2"], k=2).to_pydict(), then["similar"])
        assert one.threshold_ == then["threshold"]
        assert said_then(one.metrics_) == then["metrics"]
    assert json.loads((tmp_path / name / "config.json").read_text())["format"] == 2


def test_a_setting_that_has_another_name_now_is_kept(older: Path) -> None:
    assert Recommender.load(older / "run-0.1-recommender").settings.init_std == 0.1


def test_the_error_of_a_setting_that_has_another_name_now_says_it() -> None:
    table = re.findall(r"^\| settings? `(\w+)` \| `(\w+)` \|$", CHANGES.read_text(), re.MULTILINE)
    assert dict(table) == RENAMED
    for before, now in table:
        given: dict[str, Any] = {before: 0.1}
        with pytest.raises(SettingError, match=f"Unknown setting '{before}': it is called '{now}' now"):
            Recommender(**given)
        with pytest.raises(SettingError, match=f"Unknown setting '{before}': (?!it is called)"):
            Classifier(**given)  # which has no setting of the new name either


def test_a_classifier_answers_as_it_did(narrow: None, older: Path, tmp_path: Path) -> None:
    then, clf = ANSWERS["run-0.1-classifier"], Classifier.load(older / "run-0.1-classifier")
    clf.save(tmp_path / "run")
    for one in (clf, Classifier.load(tmp_path / "run")):
        np.testing.assert_allclose(one.predict_proba(np.array(then["X"])), then["probabilities"], rtol=1e-5)
        assert_same(one.find_label_issues().to_pydict(), then["issues"])
        assert said_then(one.metrics_) == then["metrics"]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("found", [3, 0, -1, "2", None, True, 2.5, [1]])
def test_a_format_that_is_not_known_is_one_sentence(found: Any, name: str, older: Path, tmp_path: Path) -> None:
    run = tmp_path / name
    shutil.copytree(older / name, run)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"format": found}))
    with pytest.raises(DataError) as refusal:
        load(run)
    said = str(refusal.value)
    assert str(run) in said
    assert "format" in said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_run_of_a_newer_version_asks_for_that_version(older: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(older / "run-0.1-recommender", run)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"format": 3, "accord": "9.1.0"}))
    with pytest.raises(DataError, match=r"has format 3, written by accord 9\.1\.0.*reads formats 1 and 2"):
        Recommender.load(run)
