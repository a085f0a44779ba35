"""Members of a council of either kind, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from accord import Classifier
from accord.training import Checkpoint


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
