"""Exports: the same scores without accord, in a fresh interpreter that cannot import it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from numpy.lib.format import open_memmap
from torch import Tensor, nn

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, SettingError
from accord.estimators.export import writing

SOLVED = ("ease", "ials", "rp3beta", "itemknn")
COUNCIL: dict[str, Any] = {"method": "council", "members": ("mf", "ease"), "folds": 2, "member_seeds": 1}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "gmf": ("vectors", {"model": "gmf", "method": "normal", "item_bias": True}),
    "cdae": ("vectors", {"model": "cdae", "method": "normal"}),
    "lightgcn": ("vectors", {"model": "lightgcn", "method": "normal"}),
    "ials": ("vectors", {"model": "ials", "dims": 8}),
    "untrained": ("vectors", {"model": "mf", "method": "deca-p", "cold_users": "model"}),
    "ease": ("items", {"model": "ease"}),
    "itemknn": ("items", {"model": "itemknn"}),
    "neumf": ("torch", {"model": "neumf", "method": "normal", "item_bias": True}),
    "appeal": ("torch", {"model": "rp3beta", "cold_users": "model"}),
    "ensemble": ("torch", {"method": "ensemble"}),
    "council": ("torch", COUNCIL | {"serve": "council"}),
}
USERS = ["u1", "u2", "u77", "cold"]
ASK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(name)

where, *refused = sys.argv[1].split(",")
sys.meta_path.insert(0, Refuse())
import importlib.util
import json
found = {}
for name in sys.argv[2:]:
    spec = importlib.util.spec_from_file_location(name, f"{where}/{name}/how_to.py")
    how_to = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(how_to)
    found[name] = [how_to.recommend(user, 300) for user in ["u1", "u2", "u77", "cold"]]
print(json.dumps(found))
"""


def fit(made: Simulation, **options: Any) -> Recommender:
    solved = options.get("model") in SOLVED
    fast: dict[str, Any] = {} if solved else {"epochs": 2, "batch_size": 512, "dims": 4, "seed": 0}
    cold = {"user": ["cold"], "item": ["i1"]}
    return Recommender(**fast | options).fit(made.log(), known=cold)


def asked(where: Path, names: list[str], refused: str) -> dict[str, Any]:
    """What exported folders say in a fresh interpreter, which finds no accord."""
    words = [sys.executable, "-I", "-c", ASK, f"{where},{refused}", *names]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_same_scores_without_accord(made: Simulation, tmp_path: Path) -> None:
    """Without torch too, where numpy is enough."""
    fitted = {name: fit(made, **options) for name, (_, options) in FORMS.items()}
    for name, (form, _) in FORMS.items():
        told = fitted[name].export(tmp_path / name)
        assert (told.form, told.left_out) == (form, None)
        assert {path.name for path in (tmp_path / name).iterdir()} == {*told.files, "config.json"}
    plain = [name for name, (form, _) in FORMS.items() if form != "torch"]
    answers = asked(tmp_path, plain, "accord,torch")
    answers |= asked(tmp_path, [name for name in FORMS if name not in plain], "accord")
    for name, rec in fitted.items():
        for user, theirs in zip(USERS, answers[name], strict=True):
            ours, found = rec.recommend(user, 300), dict(map(tuple, theirs))
            assert found.keys() == set(ours["item"].to_pylist()), (name, user)
            scores = [found[item] for item in ours["item"].to_pylist()]
            np.testing.assert_allclose(scores, ours["score"], rtol=1e-3, atol=1e-4, err_msg=f"{name} {user}")


def test_vectors_with_their_ids(made: Simulation, tmp_path: Path) -> None:
    rec = fit(made, model="mf", method="normal")
    rec.export(tmp_path / "out")
    users, items = (parquet.read_table(tmp_path / "out" / f"{side}.parquet") for side in ("users", "items"))
    assert users["id"].combine_chunks().equals(rec.user_ids_.values)
    assert items["id"].combine_chunks().equals(rec.item_ids_.values)
    array = open_memmap(tmp_path / "out" / "user_vectors.npy", "r")
    np.testing.assert_array_equal(np.stack(users["vector"].to_numpy()), array)
    product = np.asarray(users["vector"][5].as_py()) @ np.asarray(items["vector"][7].as_py())
    assert product == pytest.approx(rec.predict([users["id"][5].as_py()], [items["id"][7].as_py()])[0], rel=1e-4)


def test_an_index_finds_nearly_the_best(made: Simulation, tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    from usearch.index import Index

    rec = fit(made, model="gmf", method="normal")
    told = rec.export(tmp_path / "out", index=True)
    assert told.recall is not None
    assert 0.9 < told.recall <= 1
    index: Any = Index.restore(str(tmp_path / "out" / "items.usearch"))
    users, items = (open_memmap(tmp_path / "out" / f"{side}_vectors.npy", "r") for side in ("user", "item"))
    best = np.argsort(-(items @ users[3]))[:10]
    assert len(np.intersect1d(best, index.search(np.array(users[3]), 10).keys)) >= 8
    code = "import how_to; print(*how_to.nearest(3, 10))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "out", capture_output=True, text=True)
    assert len(np.intersect1d(best, [int(word) for word in done.stdout.split()])) >= 8, done.stderr


def test_without_vectors_there_is_no_index(made: Simulation, tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    with pytest.raises(SettingError, match="An index is made of vectors"):
        fit(made, model="ease").export(tmp_path / "out", index=True)
    assert not (tmp_path / "out").exists()


class Own(nn.Module):
    """A model of one's own that asks Python while it scores."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(users, items))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.table[users, items]

    def scores(self, users: Tensor) -> Tensor:
        return self.table[users]


class Stubborn(Own):
    def scores(self, users: Tensor) -> Tensor:
        return torch.stack([self.table[int(user)] for user in users.tolist()])


def test_a_model_of_ones_own(made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(model=Own, method="normal", epochs=1).fit(made.log())
    told = rec.export(tmp_path / "own")
    assert "model.pt2" in told.files
    program = torch.export.load(tmp_path / "own" / "model.pt2").module()
    for users in ([3], [1, 2, 3, 4, 5]):
        rows = torch.tensor(users)
        torch.testing.assert_close(program(rows, torch.full((len(users), 1), -1)), rec._target.scores(rows))
    told = Recommender(model=Stubborn, method="normal", epochs=1).fit(made.log()).export(tmp_path / "stubborn")
    assert told.left_out is not None
    assert told.left_out.startswith("torch.export takes no Stubborn")
    assert "model.pt2" not in told.files
    assert "There is no model.pt2" in (tmp_path / "stubborn" / "README.md").read_text()


def test_what_reads_back_otherwise_is_not_kept(
    made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = fit(made, model="mf", method="normal")
    real = writing.program_of
    monkeypatch.setattr(writing, "program_of", lambda rec: _moved(real(rec)))
    with pytest.raises(AccordError, match=r"by 'model.pt2' are not those of the model"):
        rec.export(tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(writing, "vectors_of", lambda rec: (torch.zeros(301, 4), torch.zeros(249, 4)))
    with pytest.raises(AccordError, match=r"by 'user_vectors.npy' are not those"):
        rec.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def _moved(program: Any) -> Any:
    program.items += 0.1
    return program


def test_places_that_are_taken_stay(made: Simulation, tmp_path: Path) -> None:
    rec = fit(made, model="mf", method="normal")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.txt").write_text("x")
    with pytest.raises(DataError, match="is no run folder"):
        rec.export(tmp_path / "mine", overwrite=True)
    rec.save(tmp_path / "run")
    with pytest.raises(DataError, match="holds a recommender, not"):
        rec.export(tmp_path / "run", overwrite=True)
    rec.export(tmp_path / "out")
    with pytest.raises(DataError, match="exists already"):
        rec.export(tmp_path / "out")
    (tmp_path / "out" / "README.md").unlink()
    rec.export(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "README.md").exists()
    with pytest.raises(DataError, match="holds a recommender export, not a recommender"):
        Recommender.load(tmp_path / "out")
