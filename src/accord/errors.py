"""The one exception family of accord. Every message says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "AccordError",
    "DataError",
    "DataWarning",
    "InterruptedRunError",
    "LimitError",
    "LostRankError",
    "MissingDataError",
    "SettingError",
    "UnknownIdError",
]

HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Letters that a terminal obeys: control characters, what turns the direction of writing, and halves of letters."""


def harmless(text: object, *, lines: bool = False) -> str:
    """A text for a terminal: letters that would be obeyed are written as their numbers.

    With ``lines`` the ends of lines stay.

    >>> harmless("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    if lines:
        return "\n".join(harmless(line) for line in str(text).split("\n"))
    return HARMFUL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), str(text))


class AccordError(ValueError):
    """Bad input: shown to the person at the keyboard as one sentence, exit code 2.

    Its words may repeat what data hold, so they are harmless to a terminal.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(harmless(message))


class DataError(AccordError):
    """A file, table or column that cannot be used as it is."""


class MissingDataError(DataError):
    """A data set of the catalogue that is not at hand."""


class LimitError(DataError):
    """A training that does not fit into this machine."""


class DataWarning(UserWarning):
    """Something of the data was left out, and counted."""


class SettingError(AccordError):
    """A setting that does not exist or has a value outside its range."""


class UnknownIdError(AccordError):
    """Ids that the trained model has never seen."""


class InterruptedRunError(AccordError):
    """The person asked to stop; what was done so far is in the checkpoint."""


class LostRankError(AccordError):
    """Another process of the same training has ended, or cannot be reached."""


class Stopped(BaseException):
    """A command is asked to end. It is no `Exception`, so that no code takes it for a run that failed."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that names the closest known word, or lists what is known.

    >>> nearest("alhpa", ["alpha", "epochs"])
    "did you mean 'alpha'?"
    """
    names = sorted(known)
    match = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return f"did you mean '{match[0]}'?" if match else "choose from " + ", ".join(names)


def first_line(error: BaseException) -> str:
    """The message of another library's error, short enough for a sentence.

    >>> first_line(ValueError("no.\\nand more"))
    'no'
    """
    lines = str(error).strip().splitlines()[:1] or [type(error).__name__]
    return lines[0][:300].rstrip(".")
