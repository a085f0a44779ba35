"""WBPR: non-clicks are drawn by popularity, since a popular item without a click is more surely disliked."""

from __future__ import annotations

from typing import Any

from accord.methods.base import Build, ClickLossSettings, Method, Phase, normal_phase


def _by_popularity(data: Any, epoch: int) -> dict[str, Any]:
    return {"negatives": "popularity"}


class WBPR(Method):
    """The sampling of Gantner, Drumond, Freudenthaler & Schmidt-Thieme (2012), with cross-entropy as in the
    paper on DeCA; with ``loss="bpr"`` it is theirs."""

    name = "wbpr"
    settings = ClickLossSettings
    takes_weights = True
    tasks = ("clicks",)
    divides = True

    def phases(self, build: Build) -> list[Phase]:
        target, kind = build("target"), self.setting("loss")
        return [normal_phase("training", "target", target, self.objective, _by_popularity, kind)]
