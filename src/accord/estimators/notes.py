"""What a run says of what was fitted before it, and of what it should beat: checked when it is read again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accord.estimators.handed import Pretrained

Number = Annotated[float, Field(allow_inf_nan=False)]
Scalar = Number | str | bool | None


class Member(BaseModel):
    """A member of a council, or a prior; with its metrics of noisy validation."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number | str | bool]  # pyright: ignore[reportIncompatibleVariableOverride]
    model: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Council(BaseModel):
    """Of clicks, or of labels."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar | list[dict[str, Scalar]]]  # pyright: ignore
    members: Annotated[list[Member], Field(min_length=1)]
    lost: Annotated[int, Field(ge=0)]
    weights: dict[str, Number]
    quality_weights: dict[str, Number]
    judged: str


class CouncilOfClicks(Council):
    kappa: Number
    caution: Number


class CouncilOfLabels(Council):
    folds: int
    rounds: list[dict[str, Number]]
    round: int
    trust: Number


class Weights(BaseModel):
    """What became of the weights of a model that was handed over."""

    pretrained: Pretrained
    parameters: Annotated[int, Field(ge=0)]
    frozen: Annotated[int, Field(ge=0)]


class Decisions(BaseModel):
    """What people had decided about the labels that were learnt from."""

    keep: Annotated[int, Field(ge=0)]
    fix: Annotated[int, Field(ge=0)]
    drop: Annotated[int, Field(ge=0)]
    unsure: Annotated[int, Field(ge=0)]
    reviewers: Annotated[int, Field(ge=0)]
    differing: Annotated[int, Field(ge=0)]
    wrong_of_all: dict[str, Number] | None
    flagged_by_the_usual_rule: Annotated[int, Field(ge=0)]
    flagged: Annotated[int, Field(ge=0)]
    calibrated: bool


class WarmStart(BaseModel):
    """How much of an earlier recommender was taken over."""

    users: Annotated[int, Field(ge=0)]
    items: Annotated[int, Field(ge=0)]
    new_users: Annotated[int, Field(ge=0)]
    new_items: Annotated[int, Field(ge=0)]


class ClickNotes(BaseModel):
    """What is said besides counts of the log."""

    model_config = ConfigDict(extra="allow", strict=True)
    lowest: dict[str, Number] = {}
    by_chance: dict[str, Number] = {}
    prior: Member | None = None
    weights: Weights | None = None
    decisions: Decisions | None = None
    warm_start: WarmStart | None = None
    council: CouncilOfClicks | None = None


class LabelNotes(ClickNotes):
    remarks: list[str] = []
    label: str | None = None
    labels: str | None = None
    file: str | None = None
    depth: str | None = None
    judged_by_folds: Annotated[int, Field(ge=2)] | None = None
    council: CouncilOfLabels | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


NOTES: dict[str, type[BaseModel]] = {"clicks": ClickNotes, "labels": LabelNotes}


def sound_notes(stored: Any, task: Literal["clicks", "labels"]) -> dict[str, Any]:
    """Notes as they were read, if what is asked of them later is there and of its kind.

    >>> sound_notes({"lowest": {"item popularity": 0.1}}, "clicks")
    {'lowest': {'item popularity': 0.1}}
    """
    try:
        NOTES[task].model_validate(stored)
    except ValidationError as error:
        at = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(f"what is said of '{at}' is not of its kind") from error
    return stored
