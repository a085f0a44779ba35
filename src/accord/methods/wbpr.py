"""WBPR: non-clicks are drawn by popularity, since a popular item left alone is more surely disliked."""

from __future__ import annotations

from accord.methods.base import Build, Phase
from accord.methods.normal import Normal, normal_phase


class WBPR(Normal):
    """The sampling of Gantner, Drumond, Freudenthaler & Schmidt-Thieme (2012), with cross-entropy."""

    def phases(self, build: Build) -> list[Phase]:
        return [
            normal_phase(
                "training", "target", build("target"), sampling=lambda data, epoch: {"negatives": "popularity"}
            )
        ]
