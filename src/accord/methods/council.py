"""A council: many different models are fitted first; one student learns from all of them together, or they serve.

The members are fitted before the phases begin (`accord.estimators.council`), as estimators of their own. What they
say of every click, each member judging what it has never seen, is the quality of labels.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.methods.assembly import LabelsTogether, Together
from accord.methods.base import Batch, Build, Method, MethodSettings, Phase, StepInfo, normal_phase
from accord.models.stack import Single

DEFAULT_MEMBERS = ("lightgcn", "cdae", "gmf", "ials", "ease", "rp3beta")
"""Different enough to disagree, and fast."""


class CouncilSettings(MethodSettings):
    """Of clicks."""

    members: Annotated[tuple[str, ...], Field(min_length=1)] = DEFAULT_MEMBERS
    """Council: its kinds of members, by name; in Python also factories, estimators and fitted estimators."""
    member_seeds: int = Field(default=2, ge=1, le=64)
    """Council: members of each kind that see all clicks; of a model that is solved, one."""
    folds: int | None = Field(default=None, ge=0, le=100)
    """Council: parts of the clicks, each judged by members that never saw it; by default 5 (fewer for
    less than 20 clicks), and 0 (members judge what they have seen) where there are more than two million clicks."""
    serve: Literal["student", "council"] = "student"
    """Council: what recommends: one student, or all members together."""
    kappa: float | None = Field(default=None, ge=0, le=10)
    """Council: the price of disagreement, mean − κ · deviation; by default chosen by noisy validation."""
    caution: float = Field(default=4.0, ge=0, le=100)
    """Council: how much log P(meant) counts in the ranking; 0 ranks by what is likely to be clicked."""
    clicked: float = Field(default=2.0, ge=0, le=100)
    """Council: how much the log-odds of a click count in its quality, beside the log-odds that it was meant. 0
    finds clicks that follow the crowd; 4 and more find slips and dislikes better."""
    given: float = Field(default=0.0, ge=0, le=1)
    """Council: how much the clicks as given count in what the student learns; the rest is what the council says."""


class LabelCouncilSettings(MethodSettings):
    """Of labels."""

    members: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Council: its kinds of members: models, or forest, logistic, neighbours and boosting of scikit-learn; in
    Python also classifiers, torch modules and any scikit-learn classifier with predict_proba. By default the model
    itself, and with it forest, logistic and neighbours for tables."""
    member_seeds: int = Field(default=1, ge=1, le=64)
    """Council: members of each kind for each fold."""
    folds: int | None = Field(default=None, ge=2, le=100)
    """Council: parts of the examples, each judged by members that never saw its labels; by default 5 (fewer
    for less than 10 examples), and 3 from 20,000 images on."""
    member_rounds: int | None = Field(default=None, ge=0, le=10)
    """Council: rounds in which members learn from what all said before; by default 2 for images, 6 from 20,000
    images on, and 1 for tables."""
    member_epochs: int | None = Field(default=None, ge=1)
    """Council: epochs of a member in the first round; by default half of the student's, a quarter from 20,000
    images on. There, later rounds go on with what was learnt, in half as many; elsewhere they begin anew."""
    serve: Literal["student", "council"] = "student"
    """Council: what classifies: one student, or all members of the last round together."""
    trust: float | None = Field(default=None, ge=0, le=1)
    """Council: how far given labels count by Bayes' rule in what is learnt; by default by what explains them."""
    mixup: float | None = Field(default=None, ge=0, le=1)
    """Council: how strongly examples are mixed in pairs in the first round, and a quarter of it later and for
    the student; by default 1 for images, 0.3 from 20,000 images on, and 0 for tables."""


class Council(Method):
    """Agreement among many models."""

    name = "council"
    settings = {"clicks": CouncilSettings, "labels": LabelCouncilSettings}  # noqa: RUF012
    space = {"clicks": {"given": (0.0, 0.1, 0.3)}, "labels": {}}  # noqa: RUF012
    stackable = False
    convenes = True
    takes_estimators = True
    usual_rate_factor = 3.0
    usual_l2_share = 0.1
    usual_epoch = {"clicks": "best", "labels": "last"}  # noqa: RUF012
    rules = (
        "of clicks: rp3beta is searched, weights as chosen, eight other items a click, the best epoch",
        "of labels: rounds of many images continue, noise of few examples is fitted to four fifths",
    )

    def phases(self, build: Build) -> list[Phase]:
        council = self.setup.council
        if self.setting("serve") == "council":
            networks: dict[str, nn.Module] = {"council": Single(council.teacher)}
            return [Phase("council", networks, "council", _nothing, (), given=council.networks)]
        if self.setup.task == "labels":  # the data hold what the council said, in place of the labels
            return [normal_phase("student", "target", build("target"), self.objective)]
        target, taught = build("target"), council.taught()
        teacher, given, shifted = Single(taught), self.setting("given"), not _has_offset(target)

        def loss(batch: Any, info: StepInfo) -> Tensor:
            asked = batch.with_others(taught.others(batch.users, batch.items[1:]))
            apart = asked.logits(target) - asked.frozen_logits(teacher)
            if shifted:
                apart = apart - (batch.mean(apart) / batch.mean(torch.ones_like(apart)))[:, None]
            learnt = batch.mean(apart**2)
            if not given:
                return learnt
            entropy = self.objective.cross_entropy(batch.logits(target), batch.labels)
            return (1 - given) * learnt + given * batch.mean(entropy)

        return [Phase("student", {"target": target}, "target", loss, kept=("target",))]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        members = [network for role, network in networks.items() if role != "head"]
        head: Any = networks["head"]
        return LabelsTogether(members, head) if self.setup.task == "labels" else Together(members, head)

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        if self.setup.task == "labels":
            return super().label_quality(networks, batch)
        return torch.sigmoid(
            batch.logits(Single(self.target(networks) if "head" in networks else networks["target"]))
        )


def _has_offset(network: nn.Module) -> bool:
    """Whether a network can add one number to all its logits: it has a bias.

    One that has none, such as LightGCN, would have to bend its vectors to reach the council's log-odds, which are
    far below zero for most pairs. It learns them but for a number that all pairs share, which no ranking asks for.
    """
    return any(name.rpartition(".")[2].endswith("bias") for name, _ in network.named_parameters())


def _nothing(batch: Batch, info: StepInfo) -> Tensor:
    raise NotImplementedError("a council has nothing left to learn")
