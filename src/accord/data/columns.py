"""Which columns of a log hold what: as they were named, or by their usual names."""

from __future__ import annotations

from dataclasses import dataclass

from accord.errors import DataError, nearest

USER_NAMES = ("user", "user_id", "userid", "uid", "user id")
ITEM_NAMES = ("item", "item_id", "itemid", "iid", "movie_id", "movieid", "product_id", "article_id", "item id")
TIME_NAMES = ("ts", "timestamp", "time", "datetime", "date")
NAMES_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """Which columns of the input hold what; ``note`` says how they were found."""

    user: str
    item: str
    time: str | None = None
    note: str = ""
    weight: str | None = None
    trusted: str | None = None

    @property
    def names(self) -> list[str]:
        """All that are read, each once."""
        given = (self.user, self.item, self.time, self.weight, self.trusted)
        return list(dict.fromkeys(name for name in given if name))


def begun(where: str) -> str:
    """The words that name a source, at the beginning of a sentence; a path keeps its letters."""
    return where[:1].upper() + where[1:]


def listed(names: list[str]) -> str:
    """Names of columns in a message: the first few, each cut to a length."""
    shown = ", ".join(" ".join(name[:80].split()) for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


def choose_columns(
    names: list[str],
    where: str,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    like: Columns | None = None,
) -> Columns:
    """The columns that were named, or, where none was, those of a log that it is ``like``, or of usual names."""
    if like is not None:
        user = user or (like.user if like.user in names else None)
        item = item or (like.item if like.item in names else None)
    numbered = names == [str(k + 1) for k in range(len(names))]
    chosen_user = named(user, "user", names, where) or _guessed(USER_NAMES, names)
    chosen_item = named(item, "item", names, where) or _guessed(ITEM_NAMES, names)
    chosen_time = _guessed(TIME_NAMES, names) if time is None else None
    if time:  # named; an empty name means that there is none
        chosen_time = named(time, "time", names, where)
    if numbered:  # no header: the first two columns are the pair
        chosen_user, chosen_item = chosen_user or "1", chosen_item or "2"
    for what, chosen in (("user", chosen_user), ("item", chosen_item)):
        if chosen is None:
            raise DataError(
                f"No {what} column found in {where} (it has {listed(names)}); call it '{what}', name it with "
                f"{what}=COLUMN, or add a first line of names if it has none."
            )
    if chosen_user is None or chosen_item is None or chosen_user == chosen_item:
        raise DataError(f"User and item are both column '{chosen_user}' of {where}; name two columns.")
    if chosen_time in (chosen_user, chosen_item):
        raise DataError(
            f"Column '{chosen_time}' of {where} cannot be the time as well; name another one with time=COLUMN."
        )
    note = f"user={chosen_user}, item={chosen_item}, time={chosen_time or 'none'}"
    return Columns(chosen_user, chosen_item, chosen_time, note + (" (no header row)" if numbered else ""))


def named(name: str | None, what: str, names: list[str], where: str) -> str | None:
    if name is not None and name not in names:
        raise DataError(f"No column '{name}' in {where} for the {what}: {nearest(name, names)}")
    return name


def _guessed(candidates: tuple[str, ...], names: list[str]) -> str | None:
    by_folded = {name.lower(): name for name in reversed(names)}
    return next((by_folded[c] for c in candidates if c in by_folded), None)
