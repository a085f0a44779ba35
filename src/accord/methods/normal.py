"""Plain training on the observed labels, as if they were true: cross-entropy or, of clicks, a ranking loss."""

from __future__ import annotations

from accord.methods.base import Build, ClickLossSettings, Method, MethodSettings, Phase, normal_phase


class Normal(Method):
    """The baseline every method is measured against."""

    name = "normal"
    settings = {"clicks": ClickLossSettings, "labels": MethodSettings}  # noqa: RUF012
    takes_solved = True
    takes_weights = True
    divides = True
    takes_estimators = True

    def phases(self, build: Build) -> list[Phase]:
        kind = self.setting("loss") if self.setup.task == "clicks" else "bce"
        return [normal_phase("training", "target", build("target"), self.objective, kind=kind)]
