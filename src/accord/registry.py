"""Things by name: built in, registered at run time, or brought by an installed package (an entry point)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from accord.errors import SettingError, first_line, nearest

T = TypeVar("T")


class OwnSettings(BaseModel):
    """Settings that a registered thing brings; a field's docstring is its documentation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class Registry(Generic[T]):
    """Names of one kind. Installed packages are looked through only when a name is not known otherwise."""

    def __init__(self, kind: str, group: str, check: Callable[[T], str | None]) -> None:
        """``check`` says what is wrong with a thing that cannot be registered."""
        self.kind, self.group, self._check = kind, group, check
        self._known: dict[str, T] = {}
        self._broken: dict[str, str] = {}
        self._looked = False
        self.changes = 0
        """Counts registrations, for what is derived from all names."""
        self.on_change: list[Callable[[], None]] = []
        """Called after each change; one that raises takes a registration back."""

    def register(self, name: str, value: T) -> T:
        """Add a thing; another of the same name is refused, and one that is defined again replaces itself."""
        wrong = self._check(value)
        if wrong is not None:
            raise SettingError(f"{self.kind.capitalize()} '{name}' cannot be registered: {wrong}.")
        before = dict(self._known)
        known = before.get(name)
        if known is value:
            return value
        if known is not None and not _defined_again(known, value):
            raise SettingError(f"A {self.kind} '{name}' is registered already; choose another name.")
        try:
            self._set({**before, name: value})
        except SettingError:
            self._set(before)
            raise
        return value

    def unregister(self, name: str) -> None:
        """Forget a thing, as tests do."""
        if name in self._known:
            self._set({known: value for known, value in self._known.items() if known != name})

    def _set(self, known: dict[str, T]) -> None:
        self._known = known
        self.changes += 1
        for told in self.on_change:
            told()

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            self.load_plugins()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def find(self, name: str) -> T:
        """The thing of a name; an unknown one is one sentence."""
        if name in self:
            return self._known[name]
        raise SettingError(self._broken.get(name) or f"Unknown {self.kind} '{name}': {nearest(name, self._known)}")

    def load_plugins(self) -> None:
        """Register what installed packages bring. One that cannot be used is spoken of when it is asked for."""
        if self._looked:
            return
        self._looked = True
        for point in entry_points(group=self.group):
            try:
                self._plug_in(point.name, point.load())
            except Exception as error:  # an installed package may raise anything
                words = f"The installed {self.kind} '{point.name}' ({point.value}) cannot be used"
                self._broken[point.name] = f"{words}: {first_line(error)}."

    def _plug_in(self, name: str, value: T) -> None:
        own = getattr(value, "name", name)
        if own != name:
            raise SettingError(f"it calls itself '{own}'")
        self.register(name, value)


def _defined_again(known: Any, value: Any) -> bool:
    """Whether two things come from one definition, run twice, as a cell of a notebook may be."""
    both = [(getattr(one, "__module__", None), getattr(one, "__qualname__", "<>")) for one in (known, value)]
    return both[0] == both[1] and "<" not in both[0][1]
