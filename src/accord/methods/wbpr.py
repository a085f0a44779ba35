"""WBPR: non-clicks are drawn by popularity, since a popular item without a click is more surely disliked."""

from __future__ import annotations

from typing import Any

from accord.methods.base import Build, Method, Phase, normal_phase


def _by_popularity(data: Any, epoch: int) -> dict[str, Any]:
    return {"negatives": "popularity"}


class WBPR(Method):
    """The sampling of Gantner, Drumond, Freudenthaler & Schmidt-Thieme (2012), with cross-entropy."""

    name = "wbpr"
    takes_weights = True
    tasks = ("clicks",)
    divides = True

    def phases(self, build: Build) -> list[Phase]:
        return [normal_phase("training", "target", build("target"), self.objective, _by_popularity)]
