"""A council of classifiers: cross-fitted members, what they say of every label, and what a student learns.

In the first round members of every fold learn the labels as they are given. What they say of the examples that they
did not see becomes a probability of every class (`accord.objectives.consensus`). In later rounds they learn these:
a member of a fold learns its own fold too, with what was said of it without its labels, so that it stays
independent of them. Members of many images go on with what they learnt in the round before; others begin anew. The
round whose members predict given labels that they never saw best is used.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from accord.batches.labels import LabelFeed
from accord.batches.scaling import Scaling
from accord.data.splits import stratified_folds
from accord.errors import DataError, SettingError
from accord.estimators.base import CUSTOM, Cache, Prepared
from accord.estimators.classifier_networks import keeps_weights
from accord.estimators.classifier_training import LEFT_OUT, standardises
from accord.estimators.council.lesson import Lesson, strongly
from accord.estimators.council.members import Asked, Member, Shelf
from accord.estimators.council.plain import PLAIN, PlainMember, is_plain
from accord.estimators.scikit_models import SCIKIT, is_numeric
from accord.methods.assembly import LABEL_HEAD, LabelHead, LabelsTogether
from accord.models import MODELS
from accord.models.stack import as_stack
from accord.objectives.consensus import Consensus, again, consensus
from accord.training import Callback, CheckpointPath, Progress

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

MANY_IMAGES = 20_000
"""From so many images on, fewer folds do."""
FOLDS = {"many images": 3, "images": 5, "tables": 5}
OF_TABLES = ("forest", "logistic", "neighbours")
"""Members that tables have by default, besides the model that is trained."""
ROUNDS = {"many images": 6, "images": 2, "tables": 1}
"""Rounds on what the members say, by default."""
SEEDS_APART = 1009
EPOCHS = {"many images": 0.25, "images": 0.5, "tables": 0.5}
"""Epochs of a member in the first round, as a share of the student's."""
CONTINUES = frozenset({"many images"})
"""Where a later round goes on with what the members learnt in the round before, in half as many epochs."""
LATER_RATE = 0.5
"""The share of a member's learning rate with which it goes on."""
MIXUP = {"many images": 0.3, "images": 1.0, "tables": 0.0}
LATER_MIXUP = 0.25
"""Share of the first round's mixup in later rounds and for the student."""
INHERITED = (
    *("device", "batch_size", "optimiser", "learning_rate", "schedule", "weight_decay", "clip", "augment"),
    *("precision", "capture", "compile", "pretrained", "standardise"),
)
"""Settings that members have in common with the estimator."""


@dataclass
class Heard:
    """What a council said of every label."""

    networks: dict[str, nn.Module]
    """By role, what answers when the council serves."""
    architectures: dict[str, str]
    notes: dict[str, Any]
    targets: np.ndarray
    """(examples, classes): what a student learns."""
    quality: np.ndarray
    noise_matrix: np.ndarray
    votes: dict[str, np.ndarray]

    role: ClassVar[str] = "council"

    def identity(self) -> list[Any]:
        """Words by which a checkpoint knows it."""
        return [json.dumps(self.architectures)]

    @property
    def teacher(self) -> nn.Module:
        members = [network for role, network in self.networks.items() if role != "head"]
        return LabelsTogether(members, self.networks["head"])


@dataclass(frozen=True)
class Kind:
    """One kind of members: its name, and what is fitted."""

    name: str
    model: Any
    own: Mapping[str, Any]
    """Settings of its own."""
    features: Any = None

    @property
    def plain(self) -> bool:
        return is_plain(self.model)


def convene(
    clf: Classifier,
    prepared: Prepared,
    source: Mapping[str, Any],
    cache: Cache,
    callback: Callback | None,
    where: CheckpointPath | None,
) -> Generator[Asked, list[Member], Heard]:
    """Have the members fitted, round by round, and give the student its targets."""
    return _Session(clf, prepared, source, cache, callback, where).heard()


class _Session:
    """Members of one council, and what they have said so far."""

    def __init__(
        self,
        clf: Classifier,
        prepared: Prepared,
        source: Mapping[str, Any],
        cache: Cache,
        callback: Callback | None,
        where: CheckpointPath | None,
    ) -> None:
        self.clf, self.prepared, self.source = clf, prepared, source
        self.cache, self.callback, self.where = cache, callback, where
        self.settings = clf.settings
        self.labels, self.classes = clf.labels_, len(clf.classes_)
        self.device: torch.device = prepared.run.data.device
        self.learnt = np.flatnonzero(clf.part_ == 0)
        self.held = np.flatnonzero(clf.part_ != 0)
        told = clf._decided
        self.trusted = np.empty(0, np.int64) if told is None else told.at("keep", "fix")
        """Examples whose labels people decided."""
        self.known = np.flatnonzero(clf.part_ != LEFT_OUT) if (clf.part_ == LEFT_OUT).any() else None
        """All but those that people dropped, where they dropped some."""
        images = "many images" if len(self.labels) >= MANY_IMAGES else "images"
        self.looks = images if len(clf.shape_) == 3 else "tables"
        settings = self.settings
        self.rounds = ROUNDS[self.looks] if settings.member_rounds is None else settings.member_rounds
        self.mixup = MIXUP[self.looks] if settings.mixup is None else settings.mixup
        if clf.integers_ and settings.mixup:
            raise SettingError("Whole numbers, such as token ids, cannot be mixed; leave mixup out.")
        self.scaling = clf.scaling_
        """That of members that want their columns scaled."""
        if not standardises(clf) and is_numeric(clf._inputs):
            self.scaling = Scaling.of(torch.from_numpy(clf._inputs[self.learnt]))
        self.kinds = self._kinds()
        self.folds = self._folds()
        self.seeds = settings.member_seeds
        self.each_round = len(self.kinds) * self.seeds * len(self.folds)
        self.members: dict[tuple[int, int, int], Classifier] = {}
        """Those of the last round that are networks, by kind, seed and fold."""
        self._flat: np.ndarray | None = None

    # -- who is asked ------------------------------------------------------------------------------------

    def _kinds(self) -> list[Kind]:
        settings, clf = self.settings, self.clf
        asked = settings.members
        if asked is None:
            numbers = self.looks == "tables" and not clf.integers_ and is_numeric(clf._inputs)
            more = OF_TABLES if numbers and settings.serve == "student" else ()
            asked = (self.clf.model_, *more)
        objects = clf.objects()
        kinds = [self._kind(number, objects.get(name, name)) for number, name in enumerate(asked)]
        if settings.serve == "council" and any(kind.plain or kind.name not in MODELS for kind in kinds):
            bad = next(kind.name for kind in kinds if kind.plain or kind.name not in MODELS)
            raise SettingError(
                f"A council that serves itself is saved with its members, and '{bad}' cannot be: take members that "
                "are models with names (accord.models.register_model), or let a student serve (serve='student')."
            )
        return kinds

    def _kind(self, number: int, given: Any) -> Kind:
        from accord.estimators.classifier import Classifier

        if isinstance(given, str) and given not in PLAIN:
            own_model = given in (self.clf.model_, CUSTOM, SCIKIT)
            if own_model and not isinstance(self.clf.model, str):
                return Kind(self.clf.model_, self.clf.model, {}, self.clf.features)
            return Kind(given, given, {})
        if isinstance(given, Classifier):
            own = {k: v for k, v in given.changed_settings().items() if k not in ("model", "method", "seed")}
            name = given.model if isinstance(given.model, str) else f"own {number + 1}"
            return Kind(name, given.model, own, given.features)
        if isinstance(given, str):
            return Kind(given, given, {})
        return Kind(getattr(given, "__name__", type(given).__name__), given, {})

    def _folds(self) -> list[np.ndarray]:
        """Training rows cut at random into parts in which every class has its share."""
        rows = self.learnt
        asked = self.settings.folds
        folds = asked or max(2, min(FOLDS[self.looks], len(rows) // 2))
        if len(rows) < (2 * folds if asked else folds):
            raise DataError(f"{len(rows)} training examples are too few for {folds} folds; give more of them.")
        return stratified_folds(self.labels, rows, folds, seed=self.settings.seed)

    # -- rounds ------------------------------------------------------------------------------------------

    def heard(self) -> Generator[Asked, list[Member], Heard]:
        every: list[np.ndarray] = []
        found: list[Consensus] = []
        told: list[dict[str, Any]] = []
        for number in range(1 + self.rounds):
            last = found[-1] if found else None
            said, rows = yield from self._round(number, last)
            every.append(said)
            told += rows
            how = {"trust": self.settings.trust, "seed": self.settings.seed}
            how |= {} if self.known is None else {"rows": self.known}
            if last is None:
                found.append(consensus(said, self.labels, **how))
            else:
                found.append(again(said, self.labels, found[0].noise, **how))
            found[-1].targets[self.trusted] = np.eye(self.classes)[self.labels[self.trusted]]
        best = max(range(len(found)), key=lambda number: (found[number].noise.held_out, number))
        return self._told(found, best, np.concatenate(every, 1), told)

    def _round(
        self, number: int, last: Consensus | None
    ) -> Generator[Asked, list[Member], tuple[np.ndarray, list[dict[str, Any]]]]:
        """Fit all members: what they say of unseen examples, (examples, members, classes)."""
        said = np.zeros((len(self.labels), len(self.kinds) * self.seeds, self.classes), np.float32)
        told: list[dict[str, Any]] = []
        networks: list[tuple[int, int, int, Member]] = []
        plain: list[tuple[int, int, int, PlainMember]] = []
        for k, kind in enumerate(self.kinds):
            for s in range(self.seeds):
                seed = self.settings.seed * SEEDS_APART + (number * self.seeds + s) * len(self.folds)
                told.append({"model": kind.name, "seed": seed, "round": number, "seconds": 0.0})
                for f in range(len(self.folds)):
                    if kind.plain:
                        plain.append((k, s, f, PlainMember(kind.name, kind.model, seed + f, self.clf.classes_)))
                    else:
                        earlier = self.members.get((k, s, f)) if self.looks in CONTINUES else None
                        networks.append((k, s, f, self._member(kind, seed + f, f, number, last, earlier)))
        before = number * self.each_round
        of = self.each_round * (1 + self.rounds)
        ready = yield Asked([member for *_, member in networks], self.callback, before, of)
        held: dict[tuple[int, int], list[float]] = {}
        self.members = {}

        def take(at: tuple[int, int, int], answers: np.ndarray, seconds: float) -> None:
            k, s, f = at
            column, fold = k * self.seeds + s, self.folds[f]
            said[fold, column] = answers[: len(fold)]
            said[self.held, column] += answers[len(fold) :] / len(self.folds)
            told[column]["seconds"] = round(told[column]["seconds"] + seconds, 3)
            if len(self.held):
                right = answers[len(fold) :].argmax(1) == self.labels[self.held]
                held.setdefault((k, s), []).append(float(right.mean()))

        for k, s, f, member in networks:
            if member not in ready:
                raise member.error or SettingError("A member of the council could not be fitted.")
            rec = member.estimator
            self.members[k, s, f] = rec
            seconds = sum(r["train_seconds"] + r["valid_seconds"] for r in rec.history_)
            take((k, s, f), self._said_by(rec, self._asked(f)), seconds)
        shelf = Shelf(self.where)
        for at, (k, s, f, member) in enumerate(plain):
            self._tell(member.kind, f, before + len(networks) + at, of)
            take((k, s, f), *self._said_by_plain(member, f, number, last, shelf))
        for column, row in enumerate(told):
            k, s = divmod(column, self.seeds)
            right = said[self.learnt, column].argmax(1) == self.labels[self.learnt]
            row["out_of_fold"] = round(float(right.mean()), 4)
            if (k, s) in held:
                row["accuracy"] = round(float(np.mean(held[k, s])), 4)
        return said, told

    def _asked(self, fold: int) -> np.ndarray:
        """Rows of which members of a fold speak: their own, and those held out."""
        return np.concatenate([self.folds[fold], self.held])

    def _rows(self, fold: int, number: int) -> np.ndarray:
        """What members of a fold learn from; as many rows for each, so that they can be one stack."""
        if number:
            return self.learnt
        rows = np.setdiff1d(self.learnt, self.folds[fold])
        size = len(self.learnt) - max(map(len, self.folds))
        if len(rows) > size:
            drop = np.random.default_rng([self.settings.seed, fold, 0xD0]).choice(
                len(rows), len(rows) - size, False
            )
            rows = np.delete(rows, drop)
        return rows

    def _targets(self, fold: int, last: Consensus | None) -> np.ndarray:
        """What members of a fold are taught: of their own fold, what was said without its labels."""
        if last is None:
            return np.eye(self.classes, dtype=np.float32)[self.labels]
        targets = last.targets.astype(np.float32)
        targets[self.folds[fold]] = last.probabilities[self.folds[fold]]
        return targets

    def _member(
        self, kind: Kind, seed: int, fold: int, number: int, last: Consensus | None, earlier: Classifier | None
    ) -> Member:
        """A member of a fold; one that goes on with what an ``earlier`` one has learnt does so in half as long."""
        from accord.estimators.classifier import Classifier

        settings = self.settings
        epochs = settings.member_epochs or max(1, round(settings.epochs * EPOCHS[self.looks]))
        common: dict[str, Any] = {name: getattr(settings, name) for name in INHERITED}
        if kind.model is not self.clf.model and kind.name != self.clf.model_:
            common["learning_rate"] = None  # another architecture has a usual rate of its own
        common |= {"epochs": epochs, "restore": "last", "patience": 0, "valid_share": 0.0, **kind.own}
        if earlier is not None:
            rate = earlier.settings.training_options(earlier.model_, keeps_weights(earlier)).learning_rate
            later = {"epochs": -(-common["epochs"] // 2), "learning_rate": LATER_RATE * rate}
            common |= later if number == 1 else {name: getattr(earlier.settings, name) for name in later}
        estimator = Classifier(model=kind.model, method="normal", features=kind.features, seed=seed, **common)
        lesson = Lesson(
            rows=self._rows(fold, number),
            targets=None if number == 0 and not self.mixup else self._targets(fold, last),
            scaling=self.scaling,
            mixup=self.mixup * (LATER_MIXUP if number else 1.0),
            strong=number > 0,
            begins={} if earlier is None else earlier._target.state_dict(),
        )
        source = {"X": self.source["X"], "y": self.source["y"], "lesson": lesson}
        source["decisions"] = self.source.get("decisions")
        return Member(kind.name, estimator, source, fold=fold)

    @torch.no_grad()
    def _said_by(self, member: Classifier, rows: np.ndarray) -> np.ndarray:
        """A member's probabilities of some examples; of images and their mirror images, where it was trained so."""
        if not len(rows):
            return np.zeros((0, self.classes), np.float32)
        target, own = as_stack(member._target.to(self.device).eval()), self.prepared.run.data
        inputs = own.inputs
        if member.integers_ != self.clf.integers_:
            inputs = inputs.long() if member.integers_ else inputs.float()
        data = replace(
            own,
            inputs=inputs,
            rows=torch.from_numpy(rows).to(self.device),
            scaling=member.scaling_.to(self.device),
            targets=None,
            augmentation=None,
        )
        parts = []
        for batch in LabelFeed([data]).in_order():
            said = torch.softmax(batch.logits(target)[0], 1)
            if member.settings.augment == "crop-flip":  # it has learnt mirror images too
                said = (said + torch.softmax(batch.mirrored().logits(target)[0], 1)) / 2
            parts.append(said)
        return torch.cat(parts).cpu().numpy()

    def _said_by_plain(
        self, member: PlainMember, fold: int, number: int, last: Consensus | None, shelf: Shelf
    ) -> tuple[np.ndarray, float]:
        """The same of a scikit-learn member; if it had spoken before an interruption, what it said then."""
        import time

        rows, asked = self._rows(fold, number), self._asked(fold)
        targets, inputs = self._targets(fold, last)[rows], self._inputs(scaled=member.named)
        known = inputs if isinstance(inputs, np.ndarray) else self.clf._inputs
        identity = [member.kind, member.identity(), rows, asked, targets, known]
        kept = shelf.get(identity)
        if kept is not None:
            return kept.tensors["said"].numpy(), float(kept.metadata["seconds"])
        started = time.perf_counter()
        said = member.said(inputs, targets, rows, asked)
        seconds = time.perf_counter() - started
        shelf.put(identity, {"seconds": seconds}, {"said": torch.from_numpy(said)})
        return said, seconds

    def _inputs(self, scaled: bool) -> Any:
        """Examples as rows of numbers; an estimator of the user's own sees them as given."""
        if not scaled:
            given = self.clf._rows
            return self.clf._inputs.reshape(len(self.labels), -1) if given is None else given
        if not is_numeric(self.clf._inputs):
            raise SettingError("Members with names need rows of numbers; take members that are estimators.")
        if self._flat is None:
            scaling = self.scaling
            values = (self.clf._inputs - scaling.mean.numpy()) / scaling.std.numpy()
            self._flat = values.reshape(len(values), -1).astype(np.float32)
        return np.asarray(self._flat)

    def _tell(self, kind: str, fold: int, number: int, of: int) -> None:
        if self.callback is not None:
            words = f"member {number + 1} of {of}: {kind}, fold {fold + 1}"
            self.callback(Progress(words, number + 1, of + 1, 1, 1, 0.0, self.clf.metric, None, None))

    # -- what it comes to --------------------------------------------------------------------------------

    def _told(self, found: Sequence[Consensus], best: int, every: np.ndarray, told: list[dict[str, Any]]) -> Heard:
        word = found[best]
        choices = every.argmax(2)
        believed = (choices == self.labels[:, None]).sum(1).astype(np.int16)
        pairs = np.stack([(choices == c).sum(1) for c in range(self.classes)], 1)
        voters = choices.shape[1]
        same = (pairs * (pairs - 1)).sum(1) / max(1, voters * (voters - 1))
        agreement = np.ones(len(choices)) if voters < 2 else same
        share = word.weights / max(word.weights.sum(), 1e-12)
        weights: dict[str, float] = {}
        for column, weight in enumerate(share):
            name = self.kinds[column // self.seeds].name
            weights[name] = round(weights.get(name, 0.0) + float(weight), 4)
        notes: dict[str, Any] = {
            "members": told,
            "lost": 0,
            "weights": weights,
            "quality_weights": weights,
            "judged": "by members that never saw it",
            "folds": len(self.folds),
            "rounds": [
                {"held_out_log_likelihood": round(one.noise.held_out, 5), "trust": round(one.trust, 3)}
                for one in found
            ],
            "round": best,
            "trust": round(word.trust, 3),
            "noise_share": round(float(1 - word.quality.mean()), 4),
        }
        votes = {
            "votes": believed,
            "voters": np.full(len(believed), voters, np.int16),
            "agreement": agreement.astype(np.float32),
        }
        networks, architectures = self._served(found[-1].weights / max(found[-1].weights.sum(), 1e-12))
        targets = word.targets.astype(np.float32)
        data = self.prepared.run.data
        self.prepared.run.data = replace(
            data,
            targets=torch.from_numpy(targets).to(self.device),
            mixup=self.mixup * LATER_MIXUP,
            augmentation=strongly(data, True),
        )
        quality = word.quality.astype(np.float32)
        return Heard(networks, architectures, notes, targets, quality, word.noise.matrix, votes)

    def _served(self, share: np.ndarray) -> tuple[dict[str, nn.Module], dict[str, str]]:
        """The members of the last round, where they are to serve."""
        if self.settings.serve != "council":
            return {}, {}
        head = LabelHead(len(self.members)).to(self.device)
        networks: dict[str, nn.Module] = {}
        architectures: dict[str, str] = {}
        for n, ((k, s, _), member) in enumerate(self.members.items()):
            head.weight[n] = float(share[k * self.seeds + s]) / len(self.folds)
            networks[f"member {n + 1}"] = member._target
            architectures[f"member {n + 1}"] = self.kinds[k].name
        return networks | {"head": head}, architectures | {"head": LABEL_HEAD}


__all__ = ["Heard", "convene"]
