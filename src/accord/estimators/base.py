"""What the two estimators share: settings, fitting, networks by role, saving."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import nn

from accord.data.tables_out import TableKind, as_kind, check_table_kind
from accord.decisions.journal import Decision
from accord.decisions.tables import Subject
from accord.errors import AccordError, SettingError
from accord.estimators.settings import make_settings, own_settings
from accord.estimators.signatures import SETTINGS_TITLE, parameters_of, signature_of
from accord.estimators.trust import bars_of, doubt
from accord.methods import METHODS, Method, Setup, chosen_method
from accord.models import MODELS, model_of
from accord.objectives import binary, multiclass
from accord.training import EpochRecord, Run, computes_here

OBJECTIVES: dict[str, Any] = {"clicks": binary, "labels": multiclass}
CUSTOM = "custom"
"""The name of a user's own architecture in a run folder."""


def class_of(model: str, task: str) -> Any:
    """The class of a named model; nothing for a user's own model, or where it is not chosen yet."""
    return None if model in (CUSTOM, "auto") else model_of(model, task)


class Cache:
    """What several runs share: logs that were read, tensors on the device. Keys hold their objects alive."""

    def __init__(self, lasting: dict[Any, Any] | None = None) -> None:
        self._made: dict[Any, tuple[Any, Any]] = {}
        self.lasting = {} if lasting is None else lasting
        """What is kept for later trainings too, by whoever made the cache."""

    def get(self, key: tuple[Any, ...], owners: Sequence[Any], make: Callable[[], Any]) -> Any:
        """What was made for a key, in which ``owners`` are distinguished by identity."""
        whole = (*key, *map(id, owners))
        if whole not in self._made:
            self._made[whole] = (owners, make())
        return self._made[whole][1]


@dataclass
class Prepared:
    """A run that was prepared from its source: what a training needs."""

    run: Run
    build: Callable[..., nn.Module]
    """The network of a role: (role, architecture)."""
    architecture: str
    """The target's."""
    identity: Sequence[Any]
    """Words and arrays that identify this training, for its checkpoint."""
    same: Mapping[str, Any] = field(default_factory=dict)
    """What the runs of a stack must have in common, by name."""
    clean: Any = None
    """Examples with trusted labels."""
    bytes_needed: int = 0
    """What training takes, roughly; a checkpoint takes no more."""


def place_of(source: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """What tells a member of a council with a model of one's own from others, for its checkpoint: a function that
    makes models has no name by which it could be known."""
    place = source.get("place")
    return [] if place is None else [(place, place)]


Convening = Generator[Any, Any, Any]
"""A council or a prior in the making: yields what to fit, is sent what is ready, returns what a method gets."""


@dataclass(frozen=True)
class Trained:
    """The result of a training, for one run."""

    history: list[EpochRecord]
    kept: dict[str, nn.Module]
    last: dict[str, nn.Module]
    """As they were after the last epoch, of a method with several networks that answer together."""
    architectures: dict[str, str]
    council: Any = None
    """The members that were fitted first, where the method convenes some."""
    prior: Any = None
    """DeCA(p)'s prior, where it was fitted first."""
    run: Run | None = None
    """Its data."""


class Estimator:
    """Fit, judge the given labels, save and load; a subclass handles the data of its task."""

    kind: ClassVar[str]
    """Its name in a run folder."""
    task: ClassVar[str]
    metric: ClassVar[str]
    """The metric of noisy validation by which the epoch is chosen."""
    metric_words: ClassVar[str]
    what: ClassVar[str]
    """What is judged: clicks or labels."""

    networks_: dict[str, nn.Module]
    history_: list[EpochRecord]
    architectures_: dict[str, str]
    notes_: dict[str, Any]
    decisions_: Sequence[Decision] = ()
    """What people decided about its labels."""
    votes_: dict[str, Any] | None
    """What the members of a council say of each label."""

    _came_as: TableKind = "arrow"
    """The kind of table that it was fitted on."""
    _output: TableKind | None = None
    """The kind that was asked for."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            own = list(inspect.signature(cls.__init__).parameters.values())
            if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own):
                cls._own_parameters = own
                cls.refresh_signature()
                METHODS.on_change.append(cls.refresh_signature)
                MODELS.on_change.append(cls.refresh_signature)

    _own_parameters: ClassVar[list[inspect.Parameter]] = []

    @classmethod
    def refresh_signature(cls) -> None:
        """List every setting, for `help` and editors; again whenever a method or a model is registered."""
        cls.__init__.__signature__ = signature_of(cls.task, cls._own_parameters)  # pyright: ignore
        own = [parameter.name for parameter in cls._own_parameters]
        text = inspect.cleandoc(cls.__doc__ or "").partition(SETTINGS_TITLE)[0].rstrip()
        cls.__doc__ = f"{text}\n\n{parameters_of(cls.task, own)}\n"

    # -- settings ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def settings(self) -> Any:
        """The settings, checked."""

    @classmethod
    def check_settings(cls, values: dict[str, Any]) -> Any:
        """Settings from keywords, refused in one sentence where they are wrong."""
        settings = make_settings(cls.task, values)
        settings.method_class.refuse(settings)
        return settings

    @classmethod
    def _named_method(cls, method: Any, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The name of a method given in any form, and the settings with those that came with it."""
        name, own = chosen_method(method, cls.task)
        return name, own | settings

    def _method(self, **more: Any) -> Method:
        settings = self.settings
        setup = Setup(self.task, OBJECTIVES[self.task], settings, **more)
        return settings.method_class().bound(setup)

    # -- fitting -----------------------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
        """Read and check a source, the keyword arguments of `fit`, and say what to train."""

    @abstractmethod
    def _finish(self, trained: Trained, judge: bool) -> None:
        """Keep what was learned and judge every given label."""

    @abstractmethod
    def _room(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
        """How many runs like this one are best trained as one stack; 1 where they are not stacked."""

    def _stackable(self, settings: Any) -> bool:
        """Whether runs with such settings are worth training as stacks, where they are alike."""
        return False

    def _refuse_stack(self, model: type[nn.Module], prepared: Sequence[Prepared]) -> None:
        """Refuse to stack networks of a class for runs whose data it cannot be stacked on."""

    def _join(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        """Let the runs of a stack share what they can; returns more fields of the method's setup."""
        return {}

    def _convene(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening | None:
        """Ask for what is fitted first, for a method that needs it: the members of a council, or a prior."""
        from accord.estimators.prior import fitted_first

        if self.settings.method_class.convenes:
            return self._council(prepared, source, cache, callback, checkpoint)
        return fitted_first(self, prepared, source, cache, callback)

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        """Ask for the members of a council, and listen to them."""
        raise SettingError(f"Method '{self.settings.method}' is not for {self.task}.")

    @abstractmethod
    def objects(self) -> dict[str, Any]:
        """What was given as an object in place of a name, by the names that settings have for it."""

    @abstractmethod
    def renewed(self, **changes: Any) -> Self:
        """An estimator that is not fitted, of the same settings but for these."""

    @abstractmethod
    def _divided(self, source: Mapping[str, Any], cache: Cache) -> dict[str, Any]:
        """The source of another estimator that learns from the same part and is validated on the same part."""

    @abstractmethod
    def _as_prior(self, given: Any) -> nn.Module:
        """The network of a fitted prior, for the data of this one; refused where it is of others."""

    def _fit(self, source: Mapping[str, Any], callback: Any, checkpoint: Any, verbose: bool | None) -> Self:
        """Fit alone; if that fails or is stopped, the estimator stays as it was before."""
        from accord.estimators.fitting import fit_together
        from accord.progress import shown

        before = dict(vars(self))
        try:
            with shown(False if callback is not None else verbose) as bars:
                fit_together([self], source, callbacks=[callback or bars], checkpoint=checkpoint)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    @property
    def _target(self) -> Any:
        """What recommends or classifies: what was trained, whatever the settings say by now."""
        computes_here()
        if "target" in self.networks_:
            return self.networks_["target"]
        return self._method().target(self.networks_)

    def _keep(self, trained: Trained) -> None:
        """Keep the networks that answer, and what is known of their training."""
        self.history_, self.architectures_ = trained.history, trained.architectures
        self.networks_ = {role: network for role, network in trained.kept.items() if role != "prior"}
        self.votes_, self.decisions_ = None, ()
        self.notes_ |= {} if trained.prior is None else {"prior": trained.prior.notes}

    @property
    def _networks_device(self) -> torch.device:
        tensors = (t for net in self.networks_.values() for t in (*net.parameters(), *net.buffers()))
        return next(tensors, torch.empty(0)).device

    # -- answering ---------------------------------------------------------------------------------------

    def set_output(self, kind: TableKind | None) -> Self:
        """Which tables it returns: "arrow", "pandas" or "polars"; None for the kind that it was fitted on.

        Files, arrays and dictionaries are answered with Arrow tables, and so is all after `load`.
        """
        self._output = None if kind is None else check_table_kind(kind)
        return self

    def _shown(self, table: pa.Table) -> Any:
        """A result as the kind of table that is wanted."""
        return as_kind(table, self._output or self._came_as)

    # -- decisions of people -----------------------------------------------------------------------------

    @abstractmethod
    def _subject(self) -> Subject:
        """Its labels, as decisions speak of them."""

    def decide(
        self, labels: Any, decision: str | None = None, *, label: Any = None, reviewer: str = "reviewer"
    ) -> Self:
        """Record what a person decided about labels: 'keep', 'fix' (with its new ``label``), 'drop' or 'unsure'.

        ``labels`` are rows of examples, as `find_label_issues` numbers them (``index``), or pairs of a user and an
        item. Without a ``decision`` they are a table of decisions, or a file of one, as `decisions` gives it. They
        are shown by `find_label_issues`, saved with the run, and learnt from by ``fit(..., decisions=…)``.
        """
        from accord.estimators.deciding import record

        self._require_fit()
        self.decisions_ = [*self.decisions_, *record(self, labels, decision, label, reviewer)]
        return self

    def decisions(self) -> Any:
        """Every decision, in order: a table that can be written to a file and used with the same labels again."""
        return self._shown(self.decisions_table())

    def decisions_table(self) -> pa.Table:
        """What `decisions` says, as an Arrow table."""
        from accord.estimators.deciding import table_of

        self._require_fit()
        return table_of(self)

    def decisions_estimate(self) -> dict[str, Any]:
        """What the decisions so far say of all labels: how many of the flagged are wrong, how many of the others,
        each with an interval, and how many labels are worth looking at."""
        from accord.decisions.estimates import estimate

        self._require_fit()
        return estimate(self._subject().design, self.decisions_).to_show()

    # -- keeping -----------------------------------------------------------------------------------------

    def _require_fit(self) -> None:
        if not hasattr(self, "networks_"):
            raise AccordError(f"This {self.kind} is not trained yet; call fit first.")

    @property
    def validation_(self) -> dict[str, dict[str, Any]]:
        """Epoch, loss and noisy validation metrics of what was kept of each phase."""
        from accord.estimators.run_folder import kept_epochs

        return kept_epochs(self.history_, self.settings.kept_epoch)

    @property
    def doubt_(self) -> str | None:
        """One sentence where the model is no better than what it should beat; then do not trust its flags."""
        kept = self.validation_
        value = list(kept.values())[-1].get(self.metric)
        bars = bars_of(self.notes_, kept, self.metric, self.notes_.get("lowest", {}))
        return doubt(value, bars, self.metric_words, self.what, self.notes_.get("by_chance"))

    @property
    @abstractmethod
    def metrics_(self) -> dict[str, Any]:
        """Noisy validation metrics of the epoch that was kept, for each phase, and the issues that were found."""

    @abstractmethod
    def _save_files(self, draft: Path) -> dict[str, Any]:
        """Write the estimator's own files; gives its part of the settings file."""

    @abstractmethod
    def _load_files(self, run: Path, config: dict[str, Any]) -> Callable[..., nn.Module]:
        """Read the estimator's own files; gives a builder of networks by role."""

    @property
    def bytes_to_look(self) -> int:
        """What looking at one example takes when a run is loaded."""
        return 0

    @abstractmethod
    def _check_loaded(self, run: Path) -> None:
        """Refuse networks that cannot answer."""

    def save(self, path: str | Path, *, overwrite: bool = True, also: Callable[[Path], None] | None = None) -> None:
        """Write the run folder, whole or not at all; ``also`` may add files before it appears."""
        from accord.estimators.run_folder import save

        self._require_fit()
        save(self, Path(path), overwrite=overwrite, also=also)

    def report(self, path: str | Path = "report.html", *, data: Any = None) -> Path:
        """Write the report as one HTML file that needs no network, and say where it is.

        With ``data``, the table or the texts that a classifier was fitted on, flagged labels show their rows.
        """
        import accord  # which knows where pages are made; estimators do not

        self._require_fit()
        return accord.write_report(self, path, data=data)

    def settings_to_save(self) -> dict[str, Any]:
        """The settings of the task, the method and the model, and whatever else was changed.

        What other methods and models are registered changes neither a run folder nor what a checkpoint is known by.
        """
        settings = self.settings
        own = own_settings(settings, self.task) | set(self.changed_settings())
        return settings.model_dump(include=own)

    def changed_settings(self) -> dict[str, Any]:
        """Settings that are not as they are by default."""
        settings = self.settings
        fields = type(settings).model_fields
        return {name: value for name, value in settings.model_dump().items() if value != fields[name].default}
