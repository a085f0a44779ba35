"""What the page may ask of the server: each body is checked against one of these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from accord.review.items import Query

MOST_ITEMS = 100_000
"""Labels that can be decided at once."""
PAGE = 200
"""Rows that are given at once."""
Position = Annotated[int, Field(ge=0, lt=2**31)]
Id = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]


class Asked(BaseModel):
    """A body of JSON: no other names, and no values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskedRows(Asked):
    """Some rows of the queue."""

    query: Query = Query.model_construct()
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=48, ge=1, le=PAGE)
    first_open: bool = False
    """From the page on which the first label is that this reviewer has not decided."""


class AskedNext(Asked):
    """What to look at next."""

    mode: Literal["suggested", "checks"] = "suggested"
    limit: int = Field(default=24, ge=1, le=PAGE)


class AskedSelection(Asked):
    """A whole selection, before it is decided: by a query, or by its items."""

    query: Query | None = None
    items: list[Position] | None = Field(default=None, max_length=MOST_ITEMS)


class AskedStep(Asked):
    """Something that changes the journal; asked again with the same ``step``, it is done once."""

    step: Id
    server: Id
    """The server that the page knew when it was first asked."""
    after: int = Field(ge=0)
    """Steps that the journal had then, as far as the page knows."""


class AskedDecision(AskedStep):
    """A decision on some labels."""

    items: list[Position] = Field(min_length=1, max_length=MOST_ITEMS)
    action: Literal["keep", "fix", "drop", "unsure"]
    label: Position | None = None
    why: Literal["chosen", "worst", "check", "again", "bulk"] = "chosen"


class AskedUndo(AskedStep):
    """Taking back the last step."""
