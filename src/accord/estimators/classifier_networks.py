"""Which networks a classifier trains, and whether they can serve."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from accord.errors import DataError, SettingError
from accord.estimators.base import CUSTOM
from accord.estimators.handed import same_weights, told_of
from accord.estimators.naming import OWN
from accord.estimators.networks import Networks, scaled_as
from accord.models.classifiers import SMALLEST

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier


def networks_of(clf: Classifier, alone: bool = False) -> Networks:
    """What builds its networks by role; with ``alone`` some step may have a single example."""
    shape = clf.shape_ if len(clf.shape_) == 1 else (clf.shape_[2], *clf.shape_[:2])
    model = clf.model_ if isinstance(clf.model, str) else clf.model
    settings = clf.settings
    fused = settings.compile and settings.method_class.compilable
    usual = CUSTOM if clf.integers_ else usual_model(clf)
    reads = {"features", "noise_model"} & set(settings.method_class.settings_of(clf.task).model_fields)
    return Networks(
        model,
        clf.features,
        shape,
        len(clf.classes_),
        settings.seed,
        clf._device,
        fused,
        alone,
        usual,
        reads_features=bool(reads),
        own=clf.objects(),
        pretrained=settings.pretrained,
        still=settings.learning_rate == 0,
        integers=clf.integers_,
    )


def usual_model(clf: Classifier) -> str:
    """convnet for images, unless they are too small to be pooled, and mlp for all else."""
    return "convnet" if len(clf.shape_) == 3 and min(clf.shape_[:2]) >= SMALLEST else "mlp"


def auxiliary_of(clf: Classifier) -> str:
    """The name of the model of the network beside the target."""
    name = clf.settings.auxiliary
    if name != "auto":
        return name
    return CUSTOM if clf.integers_ else usual_model(clf)


def keeps_weights(clf: Classifier) -> bool:
    """Whether the model was handed over with weights that are kept."""
    return isinstance(clf.model, nn.Module) and clf.settings.pretrained != "reset"


def check_networks(clf: Classifier, build: Networks) -> None:
    """Refuse networks that cannot serve, before anything is trained."""
    settings = clf.settings
    read = settings.method_class.settings_of(clf.task).model_fields
    build.check(
        auxiliary_of(clf) if "auxiliary" in read else None,
        settings.noise_model if "noise_model" in read else "auto",
    )
    _tell_of_weights(clf, build)


def _tell_of_weights(clf: Classifier, build: Networks) -> None:
    """Say what became of the weights of a module that was handed over."""
    settings, method = clf.settings, clf.settings.method_class
    if not isinstance(clf.model, nn.Module):
        return
    if not method.takes_solved and not method.convenes:
        build.refuse_frozen(settings.method)
    clf.notes_["weights"] = told_of(clf.model, settings.pretrained)
    other = clf.objects().get(OWN["auxiliary"])
    compares = settings.pretrained == "keep" and "auxiliary" in method.settings_of(clf.task).model_fields
    if compares and isinstance(other, nn.Module) and same_weights(clf.model, other):
        warnings.warn(
            f"Method '{settings.method}' compares two networks, and both begin as the same one here, so that "
            "their agreement says little: leave auxiliary= out, give another model, or reset a part of them "
            "(pretrained='head' or 'reset').",
            UserWarning,
            stacklevel=2,
        )


def as_prior(clf: Classifier, given: Any) -> nn.Module:
    """The network of a fitted classifier, as the prior of this one; refused where it is of other examples."""
    if given.shape_ != clf.shape_:
        raise DataError(
            f"The fitted prior is for examples of shape {given.shape_}, and these are {clf.shape_}; fit it on "
            "such examples, or name its model to have it fitted here."
        )
    if not np.array_equal(given.classes_, clf.classes_):
        raise DataError(
            "The fitted prior was fitted on other classes than those of these labels; fit it on these, or "
            "name its model to have it fitted here."
        )
    if given.integers_ and not clf.integers_:
        raise SettingError(
            "The prior takes whole numbers as they are, and the model takes them scaled; give both models that "
            "do the same."
        )
    return scaled_as(given._target, given.scaling_, clf.scaling_, len(clf.shape_))
