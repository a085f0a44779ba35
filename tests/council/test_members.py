"""Members of a council of either kind, and what is kept of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from accord import Classifier
from accord.estimators import fit_together
from accord.estimators.council import members
from accord.training import Checkpoint, Checkpoints


def test_classifiers_of_your_own_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    """They differ in what no setting says; that of clicks is tested where its runs are killed."""
    inputs = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(int)

    def fitted(checkpoint: Checkpoint | None) -> Classifier:
        torch.manual_seed(0)
        own = [nn.Sequential(nn.Linear(4, 5), between, nn.Linear(5, 2)) for between in (nn.ReLU(), nn.Tanh())]
        members = [Classifier(model=model, features="1") for model in own]
        asked = Classifier(model="mlp", method="council", members=members, folds=2, epochs=4, member_rounds=0)
        return asked.fit(inputs, labels, checkpoint=checkpoint)

    plain, saved = fitted(None), fitted(Checkpoint(tmp_path / "state", seconds=0))
    assert plain.find_label_issues().equals(saved.find_label_issues())
    assert (plain.predict_proba(inputs) == saved.predict_proba(inputs)).all()


def test_what_all_members_share_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is still part of what a member is known by."""
    inputs = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(int)
    hashed: list[tuple[int, ...]] = []
    own = members.digest_of

    def counted(*parts: Any) -> str:
        hashed.extend(one.shape for one in parts if isinstance(one, np.ndarray))
        return own(*parts)

    monkeypatch.setattr(members, "digest_of", counted)
    shelf = Checkpoints(tmp_path / "shelf")
    settings = {"model": "mlp", "method": "council", "members": ("mlp",)}
    settings |= {"folds": 3, "epochs": 2, "member_rounds": 0}

    def files() -> set[str]:
        return {path.name for path in shelf.folder.iterdir()}

    fit_together([Classifier(**settings)], [{"X": inputs, "y": labels}], checkpoint=shelf)
    assert hashed == [inputs.shape]
    first = files()
    fit_together([Classifier(**settings)], [{"X": inputs + 1, "y": labels}], checkpoint=shelf)
    assert first
    assert len(files()) == 2 * len(first)
