"""Things by name: built in, registered at run time, or brought by an installed package (an entry point)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from accord.errors import SettingError, first_line, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind. Installed packages are looked through only when a name is not known otherwise."""

    def __init__(self, kind: str, group: str, check: Callable[[T], str | None]) -> None:
        """``check`` says what is wrong with a thing that cannot be registered."""
        self.kind, self.group, self._check = kind, group, check
        self._known: dict[str, T] = {}
        self._looked = False
        self.changes = 0
        """Counts registrations, for what is derived from all names."""

    def register(self, name: str, value: T) -> T:
        """Add a thing; another of the same name is refused."""
        wrong = self._check(value)
        if wrong is not None:
            raise SettingError(f"{self.kind.capitalize()} '{name}' cannot be registered: {wrong}.")
        known = self._known.get(name)
        if known is not None and known is not value:
            raise SettingError(f"A {self.kind} '{name}' is registered already; choose another name.")
        if known is None:
            self._known[name] = value
            self.changes += 1
        return value

    def unregister(self, name: str) -> None:
        """Forget a thing, as tests do."""
        if self._known.pop(name, None) is not None:
            self.changes += 1

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            self.load_plugins()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def find(self, name: str) -> T:
        """The thing of a name; an unknown one is one sentence."""
        if name not in self:
            raise SettingError(f"Unknown {self.kind} '{name}': {nearest(name, self._known)}")
        return self._known[name]

    def load_plugins(self) -> None:
        """Register what installed packages bring."""
        if self._looked:
            return
        self._looked = True
        for point in entry_points(group=self.group):
            try:
                self.register(point.name, point.load())
            except Exception as error:  # a stranger's package may raise what it likes
                words = (
                    f"The installed {self.kind} '{point.name}' ({point.value}) cannot be used: {first_line(error)}."
                )
                raise SettingError(words) from error
