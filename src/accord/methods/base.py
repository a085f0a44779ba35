"""The one interface of training methods, for every task.

A method is one file: a class with its settings, what is searched for them, and which of them may differ between the
runs of a stack. It turns a way to build networks into phases. A phase says which networks learn, from which loss,
and which of them is the target that validation looks at; the training loop does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from accord.objectives import Objective
from accord.objectives.binary import RANKING
from accord.registry import OwnSettings

Space = dict[str, tuple[Any, ...]]
"""The values of each setting to choose from in a search."""


class Batch(Protocol):
    """Examples of any task, of R runs: what methods need to know of them."""

    def __len__(self) -> int: ...

    @property
    def count(self) -> int | Tensor:
        """How many examples there are; of padded batches, of each run, (R, 1)."""
        ...

    @property
    def inside(self) -> Tensor | None:
        """Where batches are padded to one width: True where there is an example."""
        ...

    @property
    def labels(self) -> Tensor:
        """The observed, maybe wrong labels; broadcasts with the logits."""
        ...

    @property
    def taught(self) -> Tensor:
        """What plain training learns: the observed labels, or probabilities that were put in their place."""
        ...

    def logits(self, network: nn.Module) -> Tensor:
        """The networks' logits for these examples: clicks (1 + N, R, B), labels (R, B, classes)."""
        ...

    def frozen_logits(self, network: nn.Module) -> Tensor:
        """The logits of a network that does not learn here, such as DeCA(p)'s prior; no gradient."""
        ...

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,): for clicks, the mean over positives plus the mean over negatives."""
        ...


class StepInfo(NamedTuple):
    """When a step happens: steps and whole epochs done so far in its phase, and the step size."""

    step: int | Tensor
    """A tensor where the step is captured once and replayed."""
    epoch: int = 0
    rate: float | Tensor = 0.0
    captured: int = 0
    """While a step is captured: one of the steps that it will be replayed for."""

    def turn(self, of: int) -> int:
        """Which kind of step this is, where so many kinds alternate."""
        return (self.captured if isinstance(self.step, Tensor) else self.step) % of


Loss = Callable[[Batch, StepInfo], Tensor]
"""The loss of each run, (R,); a pure function of the phase's networks, the batch and the step."""


class Build(Protocol):
    """Builds the network of a role: fresh, seeded for that role alone, on the training device.

    ``architecture`` is a registered model or its name; by default the target's own.
    """

    def __call__(self, role: str, architecture: Any = None) -> nn.Module: ...


class Examples(Protocol):
    """A training set, for a method that looks at all of it between epochs."""

    def __len__(self) -> int: ...

    def in_order(self) -> Iterator[Batch]:
        """Every example once, as it is, in its own order."""
        ...


Sampling = Callable[[Any, int], dict[str, Any]]
"""What to draw in an epoch, given the training set and the epoch: keyword arguments of the set's ``epoch``."""


class Memory(Protocol):
    """Something with a state of its own, for checkpoints."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...

    def keep(self, runs: Tensor) -> None:
        """Continue with these runs alone."""
        ...


@dataclass(frozen=True)
class Phase:
    """One stretch of training."""

    name: str
    networks: dict[str, nn.Module]
    """Every network that learns here; ``target`` is one of them."""
    target: str
    """The network that is validated and carries the L2 term."""
    loss: Loss
    kept: tuple[str, ...]
    """Networks whose best weights are restored at the end."""
    sampling: Sampling = lambda data, epoch: {}
    """Asked before every epoch: which negatives or which rows to draw."""
    stage: Callable[[int], Hashable] = lambda epoch: 0
    """Epochs of one stage have the same loss, step by step, so that one captured step serves them all."""
    turns: int = 1
    """Kinds of step that alternate; each is captured by itself."""
    shared: bool = False
    """Whether it is the same for all runs of one seed, rate, L2 factor and data, whatever their other settings."""
    memory: Memory | None = None
    """State that it keeps from step to step, besides its networks."""
    last: dict[str, nn.Module] = field(default_factory=dict)
    """By role, networks that are given the weights of the last epoch when others are restored."""
    given: dict[str, nn.Module] = field(default_factory=dict)
    """By role, networks that had learnt before, and are kept as they are."""


class MethodSettings(OwnSettings):
    """Settings of a method; a field's docstring is its documentation."""


class PerRun:
    """A setting that differs between the runs of a stack; runs that end leave it."""

    def __init__(self, values: list[float], device: torch.device | str = "cpu") -> None:
        self._all = {dtype: torch.tensor(values, device=device, dtype=dtype)[:, None] for dtype in FLOATS}
        self._now = dict(self._all)

    def now(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The values of the runs that are in the stack, (R, 1)."""
        return self._now[dtype]

    def keep(self, which: list[int]) -> None:
        """Continue with the values of these runs alone."""
        self._now = {dtype: values[which] for dtype, values in self._now.items()}

    def rejoin(self) -> None:
        """Continue with the values of all runs again."""
        self._now = dict(self._all)


FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Setup:
    """What a method knows of the training that it is used in."""

    task: str
    objective: Objective
    settings: Any
    """All settings, checked; of a stack, those of its first run."""
    per_run: Mapping[str, PerRun] = field(default_factory=dict)
    """Settings that differ between the runs."""
    classes: int = 2
    clean: Any = None
    """Examples with trusted labels, for methods that use some."""
    council: Any = None
    """The members that were fitted first, for methods that convene some."""
    prior: Any = None
    """DeCA(p)'s prior, where it was fitted first."""
    keep_last: bool = False
    """Whether networks of the last epochs are wanted too, where several answer together."""


class Method:
    """A training method. A new one is one file, and one line of registration or `register_method`."""

    name: ClassVar[str] = ""
    """What ``method=`` and ``--method`` call it."""
    tasks: ClassVar[tuple[str, ...]] = ("clicks", "labels")
    settings: ClassVar[type[MethodSettings] | Mapping[str, type[MethodSettings]]] = MethodSettings
    """Its own settings; by task where they differ."""
    space: ClassVar[Mapping[str, tuple[Any, ...]] | Mapping[str, Mapping[str, tuple[Any, ...]]]] = {}
    """What is searched for it, besides the common settings; by task where that differs."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values of settings that are None by default."""
    may_differ: ClassVar[frozenset[str]] = frozenset()
    """Its own settings in which the runs of a stack may differ: numbers that its loss reads anew in every step."""
    stackable: ClassVar[bool] = True
    """Whether its loss is the same for one run and for many."""
    network_count: ClassVar[int] = 1
    """How many networks of the target's size it trains or holds at once."""
    begins_as: ClassVar[str] = ""
    """The method whose training is its first phase, by which common settings can be searched."""
    validates_served: ClassVar[bool] = True
    """Whether noisy validation measures what is served, not single networks of it; tables say where it does not."""
    takes_weights: ClassVar[bool] = False
    """Whether clicks or examples may have weights: its loss of a run is `batch.mean` of what each of them costs."""
    divides: ClassVar[bool] = False
    """Whether several ranks may share its batches: the loss of a batch is the sum of what its parts cost."""
    uses_clean_labels: ClassVar[bool] = False
    """Whether it receives some clean labels; tables mark its rows."""
    needs_model: ClassVar[bool] = True
    """Whether it trains a model that was chosen."""
    takes_solved: ClassVar[bool] = False
    """Whether it takes models that are solved, such as EASE: its phases then need no loss of them."""
    takes_estimators: ClassVar[bool] = False
    """Whether it takes scikit-learn's estimators: it asks nothing of its target but to learn the labels."""
    convenes: ClassVar[bool] = False
    """Whether other models are fitted first, and judge the labels (`accord.estimators.council`)."""
    usual_rate_factor: ClassVar[float] = 1.0
    """How many times a recommender's usual learning rate it takes where none is given."""
    usual_l2_share: ClassVar[float] = 1.0
    """The share of a model's usual L2 term that it takes where none is given."""
    usual_epoch: ClassVar[Literal["best", "last"] | Mapping[str, Literal["best", "last"]]] = "best"
    """Which epoch's weights are kept where `restore` leaves it open; by task where that differs."""
    rules: ClassVar[tuple[str, ...]] = ()
    """What changed in it since it came, in words: stored results of other rules are not its own."""
    compilable: ClassVar[bool] = True
    """Whether its networks may be fused by torch.compile."""

    def __init__(self, **chosen: Any) -> None:
        """``chosen`` are own settings, checked when the estimator is made."""
        self.chosen = chosen
        self.setup: Setup

    # -- of a method's class -----------------------------------------------------------------------------

    @classmethod
    def settings_of(cls, task: str) -> type[MethodSettings]:
        """The settings that the method has for a task."""
        return cls.settings[task] if isinstance(cls.settings, Mapping) else cls.settings

    @classmethod
    def space_of(cls, task: str) -> Space:
        """What a search chooses from, for a task."""
        by_task = set(cls.space) <= {"clicks", "labels"}
        own: Any = cls.space.get(task, {}) if by_task else cls.space
        return dict(own)

    @classmethod
    def resolve(cls, settings: Any, name: str) -> Any:
        """A setting's value, or the method's default where it is None."""
        value = getattr(settings, name)
        return cls.defaults.get(name) if value is None else value

    @classmethod
    def refuse(cls, settings: Any) -> None:
        """Refuse settings, each of them right, that do not go together."""

    @classmethod
    def fits_first(cls, settings: Any) -> bool:
        """Whether other models are fitted before its phases begin."""
        return cls.convenes

    @classmethod
    def fewest_examples(cls, settings: Any, count: int) -> int:
        """How many of ``count`` training examples are left in its smallest epoch."""
        return count

    # -- in a training -----------------------------------------------------------------------------------

    def bound(self, setup: Setup) -> Self:
        """This method, for a training."""
        made = type(self)(**self.chosen)
        made.setup = setup
        return made

    @property
    def objective(self) -> Objective:
        """The task's maths: `objectives.binary` or `objectives.multiclass`."""
        return self.setup.objective

    def setting(self, name: str, dtype: torch.dtype = torch.float32) -> Any:
        """A setting's value now: a number, or (R, 1) where the runs of a stack differ in it."""
        if name in self.setup.per_run:
            return self.setup.per_run[name].now(dtype)
        return self.resolve(self.setup.settings, name)

    # -- what it does ------------------------------------------------------------------------------------

    def phases(self, build: Build) -> list[Phase]:
        """What to train, in order."""
        raise NotImplementedError

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        """What recommends or classifies, made of the networks that were kept."""
        return networks["target"]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        """P(the given label is right); for clicks, of observed positives."""
        return self.objective.label_quality(batch.logits(self.target(networks)), batch.labels)


class ClickLossSettings(MethodSettings):
    loss: Literal["bce", "bpr", "softmax"] = "bce"
    """What normal training minimises: cross-entropy of clicks and non-clicks one by one (bce), BPR of each click
    against each of its non-clicks, or the click's cross-entropy in a softmax over itself and its non-clicks. With
    the last two, scores order the items of one user, and qualities of different users do not compare."""


def normal_phase(
    name: str,
    role: str,
    network: nn.Module,
    objective: Objective,
    sampling: Sampling = lambda data, epoch: {},
    kind: str = "bce",
) -> Phase:
    """One network trained on the labels as they are: the whole of `normal`, and DeCA(p)'s prior."""
    ranking = None if kind == "bce" else RANKING[kind]

    def loss(batch: Batch, info: StepInfo) -> Tensor:
        f = batch.logits(network)
        return batch.mean(objective.cross_entropy(f, batch.taught) if ranking is None else ranking(f))

    return Phase(name, {role: network}, target=role, loss=loss, kept=(role,), sampling=sampling)
