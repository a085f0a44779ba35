"""The paper's tables and figures, and ours, as declarations: data, models, methods, settings, views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accord.errors import SettingError, nearest
from accord.experiments.budget import ROUNDS
from accord.methods import Space
from accord.methods.denoising import CONSTANTS
from accord.methods.two_stage import IMAGE_CONSTANTS
from accord.reproduction.parts import EPOCHS, Declared, Part, View
from accord.tasks.labels import CLEANLAB

MODELS = ("gmf", "neumf", "cdae", "lightgcn")
METHODS = ("normal", "wbpr", "t-ce", "ensemble", "deca", "deca-p")
ROWS = ("popularity", *METHODS)
"""Of every table of clicks."""
IMAGE_METHODS = ("normal", "ensemble", "deca-p", "itlm", "mw-net")
CLICK_SETS = ("movielens-100k", "modcloth", "adressa", "electronics")
NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)
AFTER_EPOCHS = {False: "ndcg@20", True: "accuracy"}
"""What is measured after every epoch."""
TRIALS, PAPER_TRIALS, IMAGE_TRIALS = 36, 24, 4
"""Trials of the search for every row, by noisy validation; the same for all methods of a table. Fair tables are
searched in two rounds, the paper's at random in the paper's grids."""
IMAGE_COMMON: Space = {"learning_rate": (0.1, 0.01), "weight_decay": (5e-4, 1e-3)}
IMAGES: dict[str, Space] = {
    "normal": IMAGE_COMMON,
    "mw-net": IMAGE_COMMON,
    "deca-p": IMAGE_COMMON,
    "itlm": {"keep_share": (0.6, 0.8), "weight_decay": (5e-4, 1e-3)},
}
"""Four settings of every method for the large image sets; C1 = C2 = 1, the paper's best. They are searched at 40 %
noise for all rates, but for the share that ITLM keeps, which is of one rate."""
PAPER_SETTINGS = {"learning_rate": 1e-3, "item_bias": False, "init_std": 0.01}
"""What the paper's models have: its rate, no item bias, small fresh vectors."""


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
        searched_here=("itlm",),
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
            AFTER_EPOCHS[part.is_images],
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
        Part(data, data, tuple(rows), variants=rows, also=("by_rating",))
        for data in ("movielens-100k", "modcloth", "electronics")  # as in the paper
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
    where: dict[str, Any] = {"together": "fashion", "searched_in": "fashion-mnist 40"}
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
