"""Every setting of the classifier, with its meaning, default and range."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from accord.data.augmentation import Augmentation
from accord.errors import SettingError
from accord.estimators.settings import checked, require
from accord.methods import CLASSIFIER_METHODS, ClassifierMethodSettings, Method, TwoStage, make_classifier_method
from accord.methods.two_stage import Expectation
from accord.models import CLASSIFIERS
from accord.training import TrainingOptions, has_whole_gpu

MANY_CLASSES, LIKELY, IN_TURN = 100, 32, 32
"""With more classes than this, the second stage sums over the likeliest ones and others in turn."""


Constant = Annotated[float, Field(ge=0)]


class ClassifierSettings(BaseModel):
    """Keywords of `Classifier`, and the names that ``--set`` takes for labelled data."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True)

    model: str = "auto"
    """mlp, convnet, resnet32 or inception; auto takes mlp for tables and convnet for images (mlp where they are
    smaller than 4 pixels); in Python also any torch module, or a callable (shape, classes) -> module."""
    method: str = "deca-p"
    """The training method: normal, ensemble, mw-net, itlm, deca or deca-p."""
    epochs: int = Field(default=60, ge=1)
    """Epochs of a phase."""
    patience: int = Field(default=0, ge=0)
    """Epochs without better validation accuracy before a phase stops; 0 trains all epochs."""
    restore: Literal["best", "last"] = "best"
    """Which epoch's weights to keep: the best by noisy validation accuracy, or the last."""
    batch_size: int = Field(default=100, ge=1)
    """Examples of a step."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """SGD with momentum 0.9, or Adam."""
    learning_rate: float | None = Field(default=None, gt=0, le=10)
    """The step size; by default 0.1 for SGD (0.05 for mlp and convnet) and 0.001 for Adam."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Let the step size fall to nought over the epochs of a phase, or keep it."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """L2 term of the target."""
    clip: float | None = Field(default=5.0, gt=0)
    """SGD: the longest gradient a step takes; a prior that is very sure of easy examples can ask for a huge one."""
    augment: Literal["none", "crop", "crop-flip"] = "none"
    """Random crops out of the padded image, and mirror images."""
    c1: Constant | tuple[Constant, ...] = 1.0
    """How sure label k is where the class of the step is k; one number, or one for each class."""
    c2: Constant | tuple[Constant, ...] = 1.0
    """How sure the other labels are; one number, or one for each class."""
    alpha: float = Field(default=1.0, ge=0, le=1)
    """Weight of KL(f‖f′) in DeCA(p) and of KL(g‖f) in DeCA, against the other direction."""
    stage_one_epochs: int | None = Field(default=None, ge=0)
    """T1, the epochs of the first stage; by default half of all."""
    expectation: Expectation = "printed"
    """The second stage as the paper prints it, without c = ỹ where ỹ is not the step's class, or in full."""
    detach_features: bool = False
    """Keep the noise model's gradient from the target."""
    noise_classes: int | None = Field(default=None, ge=2)
    """Classes an example sums over in the second stage: half its likeliest, half in turn; by default all up to 100
    classes, and 64 beyond."""
    auxiliary: str = "auto"
    """Model of DeCA's auxiliary g; auto takes convnet for images and mlp for tables."""
    keep_share: float = Field(default=0.7, gt=0, le=1)
    """ITLM: the share of examples kept from the second round on."""
    rounds: int = Field(default=5, ge=1)
    """ITLM: rounds that the epochs are divided into."""
    weight_rate: float = Field(default=1e-3, gt=0)
    """MW-Net: the step size of its weight network (the published one by default)."""
    valid_share: float = Field(default=0.1, ge=0, lt=0.9)
    """Share of the examples held out, with their noisy labels, for choosing the epoch."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What networks compute in; auto takes bfloat16 on a GPU, unless MPS gives the process a share of it."""
    capture: bool = True
    """On a GPU, record a step once and replay it."""
    compile: bool = False
    """On a GPU, fuse the network's kernels with torch.compile: seconds once, then faster epochs. Not for mw-net."""
    seed: int = Field(default=0, ge=0)
    """One number from which every random stream is derived."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def training_options(self, model: str) -> TrainingOptions:
        usual = 1e-3 if self.optimiser == "adam" else 0.05 if model in ("mlp", "convnet") else 0.1
        return TrainingOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=usual if self.learning_rate is None else self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            metric="accuracy",
            restore=self.restore,
            optimiser=self.optimiser,
            schedule=self.schedule,
            clip=self.clip,
            capture=self.capture,
            seed=self.seed,
        )

    def make_method(
        self,
        classes: int,
        auxiliary: str,
        clean: Any = None,
        denoising: TwoStage | None = None,
        keep_last: bool = False,
    ) -> Method:
        """``denoising`` takes the place of the settings' own, as of a stack's."""
        settings = ClassifierMethodSettings(
            denoising=denoising or self.denoising(classes),
            auxiliary=auxiliary,
            keep_share=self.keep_share,
            round_epochs=max(1, round(self.epochs / self.rounds)),
            weight_rate=self.weight_rate,
            clean=clean,
            keep_last=keep_last,
        )
        return make_classifier_method(self.method, settings)

    def denoising(self, classes: int) -> TwoStage:
        for name in ("c1", "c2"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != classes:
                raise SettingError(f"Setting '{name}' has {len(value)} numbers for {classes} classes.")
        half = self.epochs // 2 if self.stage_one_epochs is None else self.stage_one_epochs
        return TwoStage(
            classes=classes,
            c1=self.c1,
            c2=self.c2,
            alpha=self.alpha,
            stage_one_epochs=half,
            expectation=self.expectation,
            detach_features=self.detach_features,
            some_classes=self._some_classes(classes),
        )

    def _some_classes(self, classes: int) -> tuple[int, int] | None:
        if self.noise_classes is not None:
            likely = self.noise_classes // 2
            return None if self.noise_classes >= classes else (likely, self.noise_classes - likely)
        return None if classes <= MANY_CLASSES else (LIKELY, IN_TURN)

    def augmentation(self) -> Augmentation | None:
        return None if self.augment == "none" else Augmentation(flip=self.augment == "crop-flip")

    def dtype(self, device: torch.device) -> torch.dtype:
        half = self.precision == "bfloat16"
        if self.precision == "auto":
            half = device.type == "cuda" and has_whole_gpu()
        return torch.bfloat16 if half else torch.float32


def make_classifier_settings(values: dict[str, Any]) -> ClassifierSettings:
    """Settings from keywords or from words typed at a prompt; errors name the nearest match."""
    typed = {name: _numbers(value) if name in ("c1", "c2") else value for name, value in values.items()}
    settings = checked(ClassifierSettings, typed)
    require("model", settings.model, [*CLASSIFIERS, "auto", "custom"])
    require("auxiliary", settings.auxiliary, [*CLASSIFIERS, "auto"])
    require("method", settings.method, list(CLASSIFIER_METHODS))
    return settings


def _numbers(value: Any) -> Any:
    """'1,2,3' as three numbers: one for each class."""
    if isinstance(value, str) and "," in value:
        return tuple(part.strip() for part in value.split(","))
    return value
