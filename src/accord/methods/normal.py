"""Plain training: cross-entropy on the observed labels, as if they were true."""

from __future__ import annotations

from accord.methods.base import Build, Method, Phase, normal_phase


class Normal(Method):
    """The baseline every method is measured against."""

    name = "normal"
    takes_solved = True
    takes_weights = True
    divides = True
    takes_estimators = True

    def phases(self, build: Build) -> list[Phase]:
        return [normal_phase("training", "target", build("target"), self.objective)]
