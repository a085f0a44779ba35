"""The rule that flags labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord import Recommender
from accord.data.simulator import Simulation
from accord.estimators.issues import flag_share


def test_share_takes_the_lowest() -> None:
    assert flag_share(np.array([0.3, 0.1, 0.2, 0.9]), 0.5).tolist() == [False, True, True, False]


@pytest.mark.parametrize("method", ["normal", "deca-p"])
def test_threshold_is_the_mean_quality_of_non_clicks(made: Simulation, method: str) -> None:
    """Against every non-click of every user, weighted as users click."""
    rec = Recommender(method=method, epochs=3, batch_size=512).fit(made.log())
    training = rec.clicks_.subset(rec.part_ == 0)
    n_users, n_items = len(rec.user_ids_), len(rec.item_ids_)
    clicked = np.zeros((n_users, n_items), bool)
    clicked[training.users, training.items] = True
    with torch.no_grad():
        quality = torch.sigmoid(rec.networks_["target"].scores(torch.arange(n_users))).numpy()
    means = np.array([quality[u][~clicked[u]].mean() for u in range(n_users)])
    expected = np.average(means, weights=clicked.sum(1))
    assert rec.threshold_ == pytest.approx(expected, abs=0.003)


def test_threshold_needs_no_validation_click(made: Simulation) -> None:
    """The held-out part of the log moves neither the weights nor the threshold, once the epoch is fixed."""
    log = made.log()
    fixed = {"method": "normal", "epochs": 2, "batch_size": 512, "restore": "last", "patience": 0}
    one = Recommender(**fixed).fit(log.slice(0, 4000), valid=log.slice(4000, 500))
    other = Recommender(**fixed).fit(log.slice(0, 4000), valid=log.slice(4500, 500))
    assert one.threshold_ == other.threshold_
