"""The one training loop: phase after phase, for R ≥ 1 runs of one architecture.

The runs differ in seed, learning rate, L2 term, constants and prior. What a run learns does not depend on the
other runs of the stack. If a phase is the same for several runs, as the training of DeCA(p)'s prior is for runs
that differ in their constants alone, one run trains for all, and its network answers for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from accord.methods.base import PerRun, Phase
from accord.models.stack import Stack, as_stack
from accord.training.checkpoints import Checkpoint, Checkpointer
from accord.training.phase_trainer import PhaseTrainer
from accord.training.run import Run


def training(
    phases: Sequence[Phase],
    stacks: Sequence[Stack],
    values: Sequence[PerRun],
    runs: Sequence[Run],
    checkpoint: Checkpoint | None = None,
) -> Iterator[None]:
    """A generator that makes one step at a time; histories go into the runs, weights into the networks.

    With ``checkpoint``, the training is saved now and then, and resumed from what was saved.
    """
    device = runs[0].data.device
    checkpointer = Checkpointer(phases, runs, checkpoint)
    alike: dict[Any, list[list[int]]] = {}
    """Networks that have learnt, and the runs for which they are the same."""
    for number, phase in enumerate(phases, 1):
        groups = _groups(runs) if phase.shared else [[run] for run in range(len(runs))]
        if number >= checkpointer.phase:
            _gather(phase, groups, [*stacks, *values], alike)
            for first, *others in groups:
                runs[first].followers = [runs[other] for other in others]
            trainer = PhaseTrainer(phase, (number, len(phases)), stacks, values, [runs[one] for one, *_ in groups])
            yield from trainer.run(checkpointer)
            _hand_on(phase, groups)
        _freeze(phase)
        alike |= dict.fromkeys(phase.networks.values(), groups)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    for one in stacks:
        one.dissolve()
        for network in one.networks:
            network.requires_grad_(False).eval()


def _freeze(phase: Phase) -> None:
    """Its networks learn no more."""
    for network in (*phase.networks.values(), *phase.last.values()):
        for member in as_stack(network).networks:
            member.requires_grad_(False).eval()


def _groups(runs: Sequence[Run]) -> list[list[int]]:
    """Runs that go through a shared phase alike, by index."""
    groups: list[list[int]] = []
    for number, run in enumerate(runs):
        for group in groups:
            one = runs[group[0]]
            same_fate = str(one.error) == str(run.error)  # of a resumed training, the text is known
            if one.options == run.options and same_fate and _same_data(one, run):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _same_data(one: Run, other: Run) -> bool:
    """Whether two runs learn from the same examples and are measured on the same."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("data", "valid", "eval_set")]
    return all(a is b or (None not in (a, b) and a.same_as(b)) for a, b in pairs)


def _gather(
    phase: Phase, groups: Sequence[Sequence[int]], each: Sequence[Any], alike: dict[Any, list[list[int]]]
) -> None:
    """Which runs train in a phase: the first of each group. Of runs with the same earlier network, one answers."""
    for one in each:
        one.rejoin()
        if phase.shared:
            one.keep([first for first, *_ in groups])
        elif one in alike and len(alike[one]) < len(groups) and one not in phase.networks.values():
            one.share(alike[one])


@torch.no_grad()
def _hand_on(phase: Phase, groups: Sequence[Sequence[int]]) -> None:
    """Copy the networks of one run of each group to the others."""
    for network in (*phase.networks.values(), *phase.last.values()):
        networks = as_stack(network).networks
        for first, *others in groups:
            learnt = networks[first].state_dict() if others else {}
            for other in others:
                networks[other].load_state_dict(learnt)
