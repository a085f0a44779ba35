"""The paper's tables and figures, and ours beside them, as declarations: data, models, methods, settings, views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from accord.data.datasets.benchmarks import load_benchmark
from accord.data.datasets.catalogue import find_data_set
from accord.data.datasets.image_sets import IMAGE_SETS, LabelledImages
from accord.errors import SettingError, nearest
from accord.studies.budget import ROUNDS
from accord.studies.clicks import Comparison
from accord.studies.compare import Wanted
from accord.studies.labels import CLEANLAB, LabelComparison
from accord.studies.spaces import CONSTANTS, IMAGE_CONSTANTS, IMAGES, Space
from accord.studies.study import Study

MODELS = ("gmf", "neumf", "cdae", "lightgcn")
METHODS = ("normal", "wbpr", "t-ce", "ensemble", "deca", "deca-p")
ROWS = ("popularity", *METHODS)
"""Of every table of clicks."""
IMAGE_METHODS = ("normal", "ensemble", "deca-p", "itlm", "mw-net")
CLICK_SETS = ("movielens-100k", "modcloth", "adressa", "electronics")
NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)
EPOCHS = {"cifar10": 60, "fashion-mnist": 30, "mnist": 20, "digits": 60}
"""Epochs of every phase and method on images."""
WATCHED = {False: "ndcg@20", True: "accuracy"}
"""What is measured after every epoch."""
VALID_IMAGES = 10_000
TRIALS, PAPER_TRIALS, IMAGE_TRIALS = 36, 24, 4
"""Trials of the search for every row, by noisy validation; the same for all methods of a table. Fair tables are
searched in two rounds, the paper's at random in the paper's grids."""
PAPER_SETTINGS = {"learning_rate": 1e-3, "item_bias": False, "spread": 0.01}
"""What the paper's models have: its rate, no item bias, small fresh vectors."""


@dataclass(frozen=True)
class Part:
    """One table of cells: models × methods × seeds on one data set."""

    name: str
    data: str
    methods: tuple[str, ...]
    models: tuple[str, ...] = ("gmf",)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: str = "fair"
    level: float = 0.0
    """Random false clicks, as a share of training; for images the share of labels redrawn."""
    noise_seed: int | None = None
    """Images: the same wrong labels for every seed, where seeds are compared with one another."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    trials: int = 0
    """Trials of the search for every row; 0 takes the settings as they are."""
    sampler: str = "random"
    spaces: Mapping[str, Space] = field(default_factory=dict)
    """What is searched for a method of images, in place of its usual space."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """Methods that take the settings found for another."""
    together: str = ""
    """Parts of one name are trained together: they are alike but for their noise."""
    searched_in: str = ""
    """The part in which settings are searched for all that are trained together; by default the part itself."""
    same_as: tuple[str, str] | None = None
    """A study and its part that has the same cells: made beside this one, its searches and cells are taken over."""

    @property
    def is_images(self) -> bool:
        return self.data in IMAGE_SETS

    @property
    def metric(self) -> str:
        """What its rows are judged by: accuracy, or NDCG at the larger K of the paper."""
        return "accuracy" if self.is_images else f"ndcg@{max(find_data_set(self.data).ks)}"

    @property
    def caveat(self) -> str:
        """What is known to be wrong with its data, for all rows alike."""
        return "" if self.is_images or self.protocol != "paper" else find_data_set(self.data).caveat

    @property
    def rules(self) -> tuple[str, ...]:
        """By which its cells are made now."""
        return LabelComparison.rules if self.is_images else Comparison.rules

    def study(self, root: Path | None, seeds: int, device: str) -> Study:
        """The comparison of this part; data that are not at hand are an error that says so."""
        return self._images(root, seeds, device) if self.is_images else self._clicks(root, seeds, device)

    def _clicks(self, root: Path | None, seeds: int, device: str) -> Comparison:
        benchmark = load_benchmark(find_data_set(self.data), self.protocol, root)  # pyright: ignore
        return Comparison.of_benchmark(
            benchmark,
            methods=self.methods,
            models=self.models,
            seeds=seeds,
            settings={"updates": "dense", **self.settings, "device": device},  # as on a GPU, wherever it runs
            variants=self.variants,
            inject=self.level,
            also=self.also,
        )

    def _images(self, root: Path | None, seeds: int, device: str) -> LabelComparison:
        entry = IMAGE_SETS[self.data]
        images = _loaded(self.data, root)
        held = min(0.2, VALID_IMAGES / len(images.labels))
        common = {"epochs": EPOCHS[self.data], "valid_share": held, "augment": entry.augment}
        return LabelComparison(
            images.inputs,
            images.labels,
            methods=self.methods,
            models=self.models,
            seeds=seeds,
            settings={**common, **self.settings, "device": device},
            variants=self.variants,
            test=(images.test_inputs, images.test_labels),
            noise=self.level,
            noise_seed=self.noise_seed,
            protocol={"data": self.data, "noise": self.level},
            also=self.also,
            spaces=self.spaces,
            follows=self.follows,
        )


@lru_cache(maxsize=1)
def _loaded(data: str, root: Path | None) -> LabelledImages:
    """Read once for all parts, which then hold the same arrays."""
    return IMAGE_SETS[data].load(root)


@dataclass(frozen=True)
class View:
    """What is shown of a study: a kind of table or figure, of all its parts or some."""

    kind: str
    """table, heat, curves, levels, ratings, agreement or cost."""
    title: str
    parts: tuple[str, ...] = ()
    """Names of parts; none means all."""
    metric: str = ""
    """By default the part's own."""
    paper: str = ""
    """The file of the paper's numbers to set beside ours."""


@dataclass(frozen=True)
class Declared:
    """A study."""

    name: str
    title: str
    parts: tuple[Part, ...]
    views: tuple[View, ...]

    def select(self, models: Sequence[str], methods: Sequence[str]) -> Wanted:
        """Which rows are asked for, for machines that share a study; no names mean all."""
        for kind, names in (("models", models), ("methods", methods)):
            known = {one for part in self.parts for one in getattr(part, kind)}
            for name in names:
                if name not in known:
                    raise SettingError(f"Study '{self.name}' has no {kind[:-1]} '{name}': {nearest(name, known)}")
        return lambda model, method: (
            (not model or not models or model in models) and (not methods or method in methods)
        )

    def with_trials(self, trials: int | None) -> Declared:
        """The same with another budget for the parts that are searched."""
        if trials is None:
            return self
        if trials < 1:
            raise SettingError(f"{trials} trials make no search; give --trials 1 or more.")
        changed = tuple(replace(part, trials=trials if part.trials else 0) for part in self.parts)
        return replace(self, parts=changed)


def _recommend(short: str, data: str) -> Declared:
    fair = ROWS if data in ("adressa",) else (*ROWS, "oracle")
    parts = (
        Part("fair", data, fair, MODELS, trials=TRIALS, sampler=ROUNDS),
        Part("paper", data, ROWS, MODELS, protocol="paper", settings=PAPER_SETTINGS, trials=PAPER_TRIALS),
    )
    views = (
        View("table", "Fair: chosen by noisy validation, every method tuned alike", ("fair",), paper="recommend"),
        View(
            "table", "The authors' split files and masks, with the paper's settings", ("paper",), paper="recommend"
        ),
    )
    return Declared(f"recommend-{short}", f"Recommendation on {data}", parts, views)


def _of_images(data: str, level: float) -> Part:
    """A rate of an image table."""
    return Part(
        f"noise-{round(level * 100)}",
        data,
        IMAGE_METHODS,
        ("resnet32",),
        level=level,
        trials=IMAGE_TRIALS,
        sampler="grid",
        spaces=IMAGES,
        follows={"ensemble": "normal"},
        together="noise",
        searched_in="noise-40",
    )


def _again(part: Part, name: str, **changed: Any) -> Part:
    """A rate of an image table in another study."""
    return replace(part, name=name, same_as=(f"images-{part.data}", part.name), **changed)


def _images(data: str) -> Declared:
    parts = tuple(_of_images(data, level) for level in NOISE)
    views = (
        View("levels", "Accuracy on clean test images over the noise", paper="images"),
        View("table", "Every noise rate: best-validation and last epoch"),
    )
    return Declared(f"images-{data}", f"Image classification on {data}", parts, views)


def _agreement() -> tuple[Declared, Declared]:
    clicks = Part("models", "movielens-100k", ("normal",), ("mf", "gmf", "neumf", "lightgcn"), also=("decisions",))
    networks = ("mlp", "convnet", "resnet32", "inception")
    images = Part("models", "mnist", ("normal",), networks, level=0.4, noise_seed=0, also=("decisions",))
    title = "How often two models decide differently, on clean and on noisy examples"
    return (
        Declared("agreement-recommend", "Agreement of recommenders", (clicks,), (View("agreement", title),)),
        Declared("agreement-images", "Agreement of image classifiers", (images,), (View("agreement", title),)),
    )


def _curves() -> Declared:
    parts = [Part(data, data, METHODS, settings={"patience": 0}, also=("curve",)) for data in CLICK_SETS]
    parts.append(_again(_of_images("cifar10", 0.4), "cifar10", searched_in="", together=""))
    views = tuple(
        View(
            "curves",
            f"{part.data}: the clean test along training" + (", tuned, 40 % noise" if part.is_images else ""),
            (part.name,),
            WATCHED[part.is_images],
        )
        for part in parts
    )
    return Declared("curves", "Learning curves", tuple(parts), views)


def _ablation() -> Declared:
    changed = {
        method: {f"{method} {kind}": {"method": method, "sub_tasks": kind} for kind in ("dp", "dn", "joint")}
        for method in ("deca", "deca-p")
    }
    stages = {
        "deca-p stage 1": {"method": "deca-p", "stage_one_epochs": EPOCHS["cifar10"]},
        "deca-p full expectation": {"method": "deca-p", "expectation": "full"},
        "deca-p detached": {"method": "deca-p", "detach_features": True},
    }
    parts = (
        Part(
            "modcloth",
            "modcloth",
            ("popularity", "normal", "deca", *changed["deca"], "deca-p", *changed["deca-p"]),
            MODELS,
            changed["deca"] | changed["deca-p"],
            trials=TRIALS,
            sampler=ROUNDS,
            same_as=("recommend-modcloth", "fair"),
        ),
        Part(
            "movielens-100k",
            "movielens-100k",
            ("popularity", "normal", "deca-p", "deca-p dp", "deca-p dn"),
            MODELS,
            changed["deca-p"],
            trials=TRIALS,
            sampler=ROUNDS,
            same_as=("recommend-movielens", "fair"),
        ),
        _again(
            _of_images("cifar10", 0.4),
            "cifar10",
            methods=("normal", "deca-p", *stages),
            variants=stages,
            follows=dict.fromkeys(stages, "deca-p"),
            searched_in="",
            together="",
        ),
    )
    views = (
        View(
            "table",
            "Both sub-tasks in turn (deca, deca-p), one alone, and both noise models at once",
            ("modcloth",),
            paper="variants",
        ),
        View("table", "CIFAR-10, 40 %, tuned: both stages (deca-p), and what changes without", ("cifar10",)),
        View("table", "MovieLens-100K: both sub-tasks in turn (deca-p), and one alone", ("movielens-100k",)),
    )
    return Declared("ablation", "What each part of the method brings", parts, views)


def _hyper() -> Declared:
    def grid(
        names: tuple[str, str], values: tuple[float, ...], methods: tuple[str, ...]
    ) -> dict[str, dict[str, Any]]:
        return {
            f"{m} {names[0]}={a:g} {names[1]}={b:g}": {"method": m, names[0]: a, names[1]: b}
            for m in methods
            for a in values
            for b in values
        }

    clicks = grid(("c0", "c1"), CONSTANTS, ("deca", "deca-p"))
    images = grid(("c1", "c2"), IMAGE_CONSTANTS, ("deca-p",))
    parts = [Part(data, data, tuple(clicks), variants=clicks) for data in CLICK_SETS]
    parts += [
        Part(data, data, tuple(images), ("resnet32",), images, level=0.4) for data in ("cifar10", "fashion-mnist")
    ]
    views = tuple(View("heat", f"{part.data}: the constants", (part.name,)) for part in parts)
    return Declared("hyper", "The constants", tuple(parts), views)


def _by_noise_model(methods: tuple[str, ...] = ("deca", "deca-p")) -> dict[str, dict[str, Any]]:
    models = ("mf", "gmf", "neumf")
    return {f"{m} {h}": {"method": m, "noise_model": h} for m in methods for h in models}


def _noise_models() -> Declared:
    rows = _by_noise_model()
    parts = tuple(Part(data, data, ("popularity", "normal", *rows), variants=rows) for data in CLICK_SETS)
    views = tuple(View("table", f"{part.data}: h and h′", (part.name,), paper="variants") for part in parts)
    return Declared("noise-models", "The architecture of the noise models", parts, views)


def _interpretation() -> Declared:
    rows = _by_noise_model()
    parts = tuple(
        Part(data, data, tuple(rows), variants=rows, also=("by_rating",)) for data in ("movielens-100k", "modcloth")
    )
    views = tuple(View("ratings", f"{part.data}: mean P(meant) by rating", (part.name,)) for part in parts)
    return Declared("interpretation", "Do ratings and the real-positive probability agree?", parts, views)


def _cost() -> Declared:
    parts = (
        Part(
            "movielens-100k",
            "movielens-100k",
            METHODS,
            MODELS,
            settings={"epochs": 20, "patience": 0},
            also=("cost",),
        ),
    )
    views = (View("cost", "Time of each method over normal"),)
    return Declared("cost", "Training and inference time", parts, views)


def _robustness() -> Declared:
    levels = (0.0, *NOISE)
    parts = [
        Part(f"{data} {round(level * 100)}", data, ROWS, level=level)
        for data in ("movielens-100k", "modcloth")
        for level in levels
    ]
    found = {
        "methods": ("normal", "ensemble", "itlm", "deca-p", CLEANLAB),
        "variants": {CLEANLAB: {"method": "normal"}},
        "follows": {"ensemble": "normal", CLEANLAB: "normal"},
    }
    for level in NOISE:
        name = f"digits {round(level * 100)}"
        parts.append(Part(name, "digits", models=("convnet",), level=level, together="digits", **found))
    where = {"together": "fashion", "searched_in": "fashion-mnist 40"}
    for level in NOISE:
        name = f"fashion-mnist {round(level * 100)}"
        parts.append(_again(_of_images("fashion-mnist", level), name, **where, **found))
    views = []
    for data in ("movielens-100k", "modcloth", "digits", "fashion-mnist"):
        names = tuple(part.name for part in parts if part.data == data)
        views.append(View("levels", f"{data}: quality as the noise grows", names))
        views.append(View("levels", f"{data}: the noise found (ROC-AUC)", names, "noise auc"))
    return Declared("robustness", "Quality and detection as the noise grows", tuple(parts), tuple(views))


STUDIES: dict[str, Declared] = {
    study.name: study
    for study in (
        *_agreement(),
        _recommend("movielens", "movielens-100k"),
        _recommend("modcloth", "modcloth"),
        _recommend("adressa", "adressa"),
        _recommend("electronics", "electronics"),
        _images("cifar10"),
        _images("fashion-mnist"),
        _curves(),
        _ablation(),
        _hyper(),
        _noise_models(),
        _interpretation(),
        _cost(),
        _robustness(),
    )
}


def find_study(name: str) -> Declared:
    if name not in STUDIES:
        raise SettingError(f"Unknown study '{name}': {nearest(name, STUDIES)}")
    return STUDIES[name]
