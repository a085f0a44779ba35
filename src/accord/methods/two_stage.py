"""The multi-class denoising terms of DeCA and DeCA(p): one class a step, in two stages."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.errors import SettingError
from accord.methods.base import Build, Method, MethodSettings, Space, StepInfo
from accord.models.stack import as_stack
from accord.objectives.multiclass import choose_classes, given_label_posterior, stage_one, stage_two

Expectation = Literal["printed", "full"]
Constant = Annotated[float, Field(ge=0)]
IMAGE_CONSTANTS = (1.0, 10.0, 50.0, 100.0)
SPACE: Space = {"c1": IMAGE_CONSTANTS, "c2": IMAGE_CONSTANTS}
NOISE = "noise-model"
"""What a run folder calls the architecture of hφ; a name follows where it is another than the paper's."""
NOISE_WIDTH = f"{NOISE} width="
"""The same, where the width of its hidden layer was chosen."""
WIDEST_NOISE = 1 << 16
MANY_CLASSES, LIKELY, IN_TURN = 100, 32, 32
"""With more classes than this, the second stage sums over the likeliest ones and others in turn."""


class TwoStageSettings(MethodSettings):
    c1: Constant | tuple[Constant, ...] = 1.0
    """How sure label k is where the class of the step is k; one number, or one for each class."""
    c2: Constant | tuple[Constant, ...] = 1.0
    """How sure the other labels are; one number, or one for each class."""
    alpha: float = Field(default=1.0, ge=0, le=1)
    """Weight of KL(f‖f′) in DeCA(p) and of KL(g‖f) in DeCA, against the other direction."""
    stage_one_epochs: int | None = Field(default=None, ge=0)
    """T1, the epochs of the first stage; by default half of all."""
    expectation: Expectation = "printed"
    """The sum of the second stage: printed, as in the paper, leaves out c = ỹ where ỹ is not the class of the step;
    full keeps it."""
    detach_features: bool = False
    """Keep the noise model's gradient from the target."""
    noise_model: str = "auto"
    """Network of hφ: auto, the paper's two layers, or a model for tables, whose columns are the target's features
    and the class; in Python also any torch module, or a callable (shape, classes) -> module."""
    noise_width: int | None = Field(default=None, ge=1, le=WIDEST_NOISE)
    """Width of the hidden layer of hφ, with noise_model auto; by default that of the features."""
    noise_classes: int | None = Field(default=None, ge=2)
    """Classes that an example sums over in the second stage: half are its likeliest, half are others in turn; by
    default all, and 64 if there are more than 100 classes."""


@cache
def _numbers(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Made once: a captured step may not copy from the host."""
    return torch.tensor(values, device=device)


def some_classes(settings: Any, classes: int) -> tuple[int, int] | None:
    """How many classes an example sums over in the second stage, likeliest and in turn; None for all."""
    if settings.noise_classes is not None:
        likely = settings.noise_classes // 2
        return None if settings.noise_classes >= classes else (likely, settings.noise_classes - likely)
    return None if classes <= MANY_CLASSES else (LIKELY, IN_TURN)


def cost_of_many_classes(settings: Any, classes: int) -> list[str]:
    """What a person should know before a training with so many classes begins."""
    if classes <= MANY_CLASSES or settings.method not in ("deca", "deca-p"):
        return []
    summed = classes if (some := some_classes(settings, classes)) is None else sum(some)
    return [
        f"{classes} classes: in the second stage each example asks the noise model of {summed} classes, and "
        f"once at the end of all {classes}. Beside a small network this takes most of the time; a smaller "
        "noise_classes makes the stage faster."
    ]


class MulticlassTerms:
    """The terms of labels; hφ reads the target's features."""

    kept: tuple[str, ...] = ("noise",)
    turns = 1

    def __init__(self, method: Method) -> None:
        self.method, self.classes = method, method.setup.classes
        settings = method.setup.settings
        for name in ("c1", "c2"):
            value = getattr(settings, name)
            if isinstance(value, tuple) and len(value) != self.classes:
                raise SettingError(f"Setting '{name}' has {len(value)} numbers for {self.classes} classes.")
        half = settings.epochs // 2 if settings.stage_one_epochs is None else settings.stage_one_epochs
        self.stage_one_epochs = half
        self.some = some_classes(settings, self.classes)

    def noise_networks(self, build: Build) -> dict[str, nn.Module]:
        name, width = self.method.setting("noise_model"), self.method.setting("noise_width")
        if width is not None and name != "auto":
            raise SettingError(
                f"Setting 'noise_width' is of hφ's own two layers; noise_model '{name}' has its own."
            )
        architecture = NOISE if name == "auto" else f"{NOISE} {name}"
        return {"noise": build("noise", architecture if width is None else f"{NOISE_WIDTH}{width}")}

    def stage(self, epoch: int) -> int:
        return 1 if epoch < self.stage_one_epochs else 2

    def losses(
        self, batch: Any, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], info: StepInfo
    ) -> Tensor:
        labels, h = batch.labels, noise["noise"]
        features = batch.features(target)
        if self.method.setting("detach_features"):
            features = features.detach()
        k = torch.as_tensor(info.step % self.classes, device=f.device)
        cost = -h(features, k).gather(-1, labels[..., None]).squeeze(-1)
        if self.stage(info.epoch) == 1:
            return stage_one(f, cost, labels, k, self._constant("c1", k), self._constant("c2", k))
        chosen = None if self.some is None else choose_classes(f, info.step, *self.some)
        costs = _costs(h, features, labels, None if chosen is None else chosen.classes)
        full = self.method.setting("expectation") == "full"
        return stage_two(f, cost, costs, labels, k, chosen, full=full)

    def _constant(self, name: str, k: Tensor) -> float | Tensor:
        value = self.method.setting(name)
        return _numbers(value, k.device).index_select(0, k.view(1)) if isinstance(value, tuple) else value

    def posterior(self, networks: dict[str, nn.Module], batch: Any) -> Tensor:
        f = batch.logits(networks["target"])
        costs = _costs(networks["noise"], batch.features(networks["target"]), batch.labels)
        return given_label_posterior(f, costs, batch.labels)


def _costs(noise: nn.Module, features: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
    """−log hφ(x, c)[ỹ] for every class c, or for some of each example; no gradient."""
    one: Any = as_stack(noise)
    with torch.no_grad():
        return one.call("costs", features, labels, classes)
