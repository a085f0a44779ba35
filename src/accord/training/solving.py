"""Phases whose networks are computed from the clicks, with no gradient: in closed form, or in sweeps.

A network with a method ``solve(sweep)`` makes one sweep over the training clicks that it was bound to, and yields
the share of the sweep that is done. It changes its own tensors at the end of a sweep, all at once, so that a
training can be saved and stopped anywhere between. A sweep is an epoch: it is validated, the best one is kept, and
patience ends the phase. ``sweeps`` says how many there are at most; a closed form has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from accord.errors import AccordError, SettingError, first_line
from accord.methods.base import Phase
from accord.models import is_solved
from accord.models.stack import as_stack
from accord.training.random import stream
from accord.training.run import Run

CALIBRATED_ON = 100_000
"""Most clicks by which a solved network is brought to log-odds, each with a non-click."""


class Solver:
    """Solves the networks of a phase; it stands where an optimiser and its steps stand otherwise."""

    capturing = False

    def __init__(self, phase: Phase, runs: Sequence[Run]) -> None:
        self.phase, self.run = phase, runs[0]
        self.networks: dict[str, Any] = {
            role: member for role, one in phase.networks.items() for member in as_stack(one).networks
        }
        own = [getattr(network, "sweeps", 1) for network in self.networks.values() if is_solved(network)]
        self.sweeps = max((self.run.options.epochs if one is None else one for one in own), default=1)
        """The most epochs of the phase."""
        self.total = torch.zeros(len(runs), device=self.run.data.device)
        self._pairs: tuple[Tensor, Tensor, Tensor] | None = None

    @staticmethod
    def of(phase: Phase, runs: Sequence[Run]) -> Solver | None:
        """The solver of a phase; None where its networks learn by gradients."""
        networks = [member for one in phase.networks.values() for member in as_stack(one).networks]
        solved = [network for network in networks if is_solved(network)]
        learn = [
            network
            for network in networks
            if not is_solved(network) and any(one.requires_grad for one in network.parameters())
        ]
        if learn and solved:
            raise SettingError(
                f"Phase '{phase.name}' trains {type(learn[0]).__name__} together with "
                f"{type(solved[0]).__name__}, which has no gradient; give each a phase of its own."
            )
        return None if learn else Solver(phase, runs)

    @torch.no_grad()
    def sweep(self, epoch: int) -> Iterator[float]:
        """One sweep of every network: the share that is done. Then the scores are brought to log-odds."""
        for k, (role, network) in enumerate(self.networks.items()):
            if not is_solved(network):
                continue
            sweeps = getattr(network, "sweeps", 1)
            if sweeps is not None and epoch >= sweeps:
                continue
            try:
                for done in network.solve(epoch) or ():
                    yield (k + min(1.0, float(done))) / (len(self.networks) + 1)
            except torch.linalg.LinAlgError as error:  # pyright: ignore[reportPrivateImportUsage]
                raise AccordError(
                    f"The {type(network).__name__} of phase '{self.phase.name}' cannot be solved "
                    f"({first_line(error)}); raise its L2 setting."
                ) from error
            if hasattr(network, "calibrate"):
                loss = network.calibrate(*self._calibration_pairs())
                if role == self.phase.target:
                    self.total += loss / self.run.ranks.size

    def _calibration_pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Users, a clicked item and an unclicked item of each: the same ones for every sweep."""
        if self._pairs is None:
            ranks = self.run.ranks
            own = [ranks.rank] if ranks.many else range(ranks.shards)
            users, clicked, unclicked = map(torch.cat, zip(*(self._drawn(shard) for shard in own), strict=True))
            if not len(ranks.joined_rows(users[:1])):
                raise AccordError("Every user clicked every item, so that no score can be told from another.")
            self._pairs = users, clicked, unclicked
        return self._pairs

    def _drawn(self, shard: int) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of a shard of the users, from a stream of its own; where there is one, of all."""
        ranks, data, parts = self.run.ranks, self.run.data, self.run.ranks.shards
        alone = parts > 1 and not ranks.many
        data = data.of_users(shard, parts) if alone else data
        words = [f"shard {shard} of {parts}"] if parts > 1 else []
        generator = stream(data.device, self.run.options.seed, "calibration", self.phase.name, *words)
        if not data.drawn_in_an_epoch:
            none = torch.zeros(0, dtype=torch.int64, device=data.device)
            return none, none, none
        users, clicked, unclicked, *_ = next(data.draw_pairs(-(-CALIBRATED_ON // parts), [generator]))
        return users[0] * parts + shard if alone else users[0], clicked[0], unclicked[0]

    # -- what is asked of an optimiser and its steps ------------------------------------------------------

    def take_total(self) -> Tensor:
        """The loss of each run since the last time."""
        total = self.total.clone()
        self.total.zero_()
        return total

    def clear(self) -> None:
        """There are no gradients."""

    def release(self) -> None:
        """Nothing is captured."""

    def keep(self, kept: Tensor) -> None:
        """It has no state of its own."""

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """It has no state of its own."""
