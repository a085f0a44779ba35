"""What an editor, a notebook and scikit-learn expect of the two estimators."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import accord
from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, SettingError
from accord.models.recommenders import MF

BOTH = [Recommender, Classifier]
FAST: dict[type, dict[str, Any]] = {
    Recommender: {"method": "normal", "epochs": 1, "dims": 4, "batch_size": 512},
    Classifier: {"model": "mlp", "method": "normal", "epochs": 1},
}
SOME = [
    Recommender(),
    Recommender(model="ease", ease_l2=3.0),
    Recommender(method="council", members=["mf", "ease"]),
    Classifier(),
    Classifier(method="normal", epochs=3, c1=(1.0, 2.0)),
]


@pytest.mark.parametrize("estimator", SOME, ids=repr)
def test_clone_and_repr_give_the_same_settings(estimator: Any) -> None:
    for again in (clone(estimator), eval(repr(estimator))):
        assert type(again) is type(estimator)
        assert again.get_params() == estimator.get_params()


@pytest.mark.parametrize("kind", BOTH)
def test_set_params_changes_one_setting(kind: Any) -> None:
    estimator = kind()
    before = estimator.get_params()
    assert estimator.set_params(epochs=3) is estimator
    changed = {name for name, value in estimator.get_params().items() if value != before[name]}
    assert changed == {"epochs"}


def test_a_model_of_ones_own_is_shown_and_kept() -> None:
    def own(users: int, items: int) -> MF:
        return MF(users, items, 4)

    rec = Recommender(model=own, noise_model=own)
    assert "own" in repr(rec)
    assert "custom" not in repr(rec)
    assert clone(rec).get_params()["model"] is own
    assert clone(rec).get_params()["noise_model"] is own


@pytest.mark.parametrize("kind", BOTH)
def test_help_names_every_setting(kind: Any) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    for name in kind().get_params():
        assert f"{name}: " in text, name


WRONG = """
from accord import Classifier, Recommender

Recommender(epochs=3)
Classifier(epochs=3)
Recommender(epoch=3)
Classifier(epoch=3)
"""


def test_pyright_knows_the_settings(tmp_path: Path) -> None:
    pyright = which("pyright", path=str(Path(sys.executable).parent)) or which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    source = Path(accord.__file__).parents[1]
    (tmp_path / "typed.py").write_text(WRONG)
    settings = f'{{"extraPaths": ["{source}"], "include": ["typed.py"]}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    words = [pyright, "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    if "error" not in done.stdout:
        pytest.skip("pyright cannot run here")
    errors = [line for line in done.stdout.splitlines() if " - error" in line]
    assert [line.split("typed.py:")[1].split(":")[0] for line in errors] == ["6", "7"], done.stdout
    assert all('No parameter named "epoch"' in line for line in errors)


# -- results as the kind of table that came in -------------------------------------------------------------


def frame(made: Simulation, kind: str) -> Any:
    log = made.log()
    return {"arrow": log, "pandas": log.to_pandas(), "polars": pl.from_arrow(log)}[kind]


TYPES = {"arrow": pa.Table, "pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.mark.parametrize("kind", TYPES)
def test_a_recommender_answers_with_the_kind_of_its_log(kind: str, made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(**FAST[Recommender]).fit(frame(made, kind))

    def answers(log: Any = None) -> list[Any]:
        first = made.log()["item"][0].as_py()
        return [rec.recommend("u1"), rec.similar_items(first), rec.find_label_issues(), rec.cleaned_log(log=log)]

    assert {type(one) for one in answers()} == {TYPES[kind]}
    names = [list(one.column_names if kind == "arrow" else one.columns) for one in answers()]
    rec.save(tmp_path / "run")
    rec = Recommender.load(tmp_path / "run")
    log = made.log()  # a run folder does not hold it, nor say how it came
    assert {type(one) for one in answers(log)} == {pa.Table}
    assert [one.column_names for one in answers(log)] == names
    rec.set_output("polars")
    assert {type(one) for one in answers(log)} == {pl.DataFrame}
    rec.fit(frame(made, "pandas"))  # what was asked for holds until it is taken back
    assert {type(one) for one in answers()} == {pl.DataFrame}
    rec.set_output(None)
    assert {type(one) for one in answers()} == {pd.DataFrame}


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3)), np.arange(60) % 2


@pytest.mark.parametrize(
    ("as_given", "kind"),
    [
        (lambda X, y: (X, y), pa.Table),
        (lambda X, y: (X.tolist(), y), pa.Table),
        (lambda X, y: (pd.DataFrame(X, columns=list("abc")), y), pd.DataFrame),
        (lambda X, y: (X, pd.Series(y)), pd.DataFrame),
        (lambda X, y: (pl.DataFrame(X, schema=["a", "b", "c"]), y), pl.DataFrame),
    ],
)
def test_a_classifier_answers_with_the_kind_of_its_examples(as_given: Any, kind: type) -> None:
    clf = Classifier(**FAST[Classifier]).fit(*as_given(*examples()))
    assert type(clf.find_label_issues()) is kind
    assert type(clf.set_output("pandas").find_label_issues()) is pd.DataFrame


def test_values_are_the_same_in_every_kind(made: Simulation) -> None:
    rec = Recommender(**FAST[Recommender]).fit(made.log())
    arrow, expected = rec.find_label_issues(), rec.issues_table().to_pydict()
    assert arrow.to_pydict() == expected
    assert rec.set_output("pandas").find_label_issues().to_dict("list") == expected
    assert rec.set_output("polars").find_label_issues().to_dict(as_series=False) == expected


def test_a_report_is_written_whatever_the_kind(made: Simulation, tmp_path: Path) -> None:
    from accord.tasks.runs import run_of

    rec = Recommender(**FAST[Recommender]).fit(frame(made, "pandas"))
    run_of(rec).write_report(tmp_path / "report.html")
    assert run_of(rec).audit(None, None).cleaned().num_rows < len(made.log())


def test_kinds_that_cannot_be_given_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="did you mean 'pandas'"):
        Recommender().set_output("panda")  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(AccordError, match=r"pip install 'accord-labels\[tables\]'"):
        Classifier().set_output("polars")
