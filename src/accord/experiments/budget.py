"""What the search of a row may spend: as many trainings for every row of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accord.experiments.spaces import size
from accord.methods import Space

ROUNDS = "rounds"
"""A search of the common settings, and then of a method's own."""
PLANNED = ("random", "grid")
"""Searches that try no settings twice."""


@dataclass(frozen=True)
class Budget:
    """Trials for every row of a comparison, of so many seeds each, and how they are drawn."""

    trials: int
    seeds: int = 1
    sampler: str = "random"
    where: str = ""
    """The part of a study in which they are made for others too."""

    def of(self, space: Space) -> Budget:
        """A row's own: where it has few settings, each is tried with more seeds, for the same number of trainings.

        >>> Budget(24).of({"l2": (0.1, 1.0, 10.0)})
        Budget(trials=3, seeds=8, sampler='random', where='')
        """
        times = self.trials // size(space)
        if not space or self.sampler not in PLANNED or times < 2:
            return self
        return replace(self, trials=size(space), seeds=self.seeds * times)

    def words(self, whose: str = "each row") -> str:
        how = "in two rounds" if self.sampler == ROUNDS else f"{self.sampler} search"
        at = f" at {self.where}" if self.where else ""
        return f"{self.trials} trials of {self.seeds} seed(s) for {whose}, {how}{at}"

    def words_of(self, space: Space) -> str:
        own = self.of(space)
        return self.words() if own is self else own.words("this row")

    def matches(self, words: str, space: Space) -> bool:
        """Whether cells that say these words come from such a search, in whichever part it was made."""
        return words.startswith(replace(self, where="").words_of(space))
