"""The networks of a classifier's roles: built fresh, seeded for the role alone, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from accord.batches.scaling import Scaling
from accord.errors import DataError, SettingError, first_line, nearest
from accord.estimators.handed import copied, is_frozen
from accord.estimators.naming import is_estimator, is_own, object_of
from accord.estimators.scikit_models import SCIKIT, Lessons, ScikitModel
from accord.methods.assembly import LABEL_HEAD, LabelHead
from accord.methods.two_stage import NOISE, NOISE_WIDTH, WIDEST_NOISE
from accord.models import model_of, trait
from accord.models.classifiers import FeatureModel, JoinedNoise, NoiseModel, WeightNet, Wrapped
from accord.training import seeded


@dataclass
class Networks:
    """Builds the network of a role, for examples of one shape and a number of classes."""

    model: Any
    """A name, a torch module, or a callable (shape, classes) -> module."""
    features: Any
    """Of a user's own model: the layer that outputs its features, or a callable that gives features and logits."""
    shape: tuple[int, ...]
    """Channels first."""
    classes: int
    seed: int
    device: torch.device
    compiled: bool = False
    alone: bool = False
    """Whether some step has a single example."""
    usual: str = "mlp"
    """The model that ``auto`` means."""
    reads_features: bool = True
    """Whether the method reads the features of a model."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Modules that were given for other roles, by name."""
    pretrained: str = "keep"
    """What becomes of the weights of modules that were handed over."""
    still: bool = False
    """Whether these modules stay in eval mode: nothing learns at a learning rate of 0."""
    integers: bool = False
    """Whether examples are rows of whole numbers, such as token ids."""
    lessons: Lessons | None = None
    """What a scikit-learn model learns from."""
    begins: Mapping[str, Tensor] = field(default_factory=dict)
    """What the target had learnt before, with which it begins; empty for a fresh one."""
    _width: int | None = None

    def __call__(self, role: str, architecture: Any = None) -> nn.Module:
        fresh = architecture == "auto" and self.usual == "custom"  # the same model again must be another network
        made = replace(self, pretrained="reset") if fresh else self
        with seeded(self.seed, "network", role):
            network = made._fresh(architecture)
        if self.begins and role == "target":
            network.load_state_dict(self.begins)
        network.to(self.device)
        if len(self.shape) == 3:
            network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        if self.compiled and self.device.type == "cuda" and isinstance(network, FeatureModel):
            network.outputs = torch.compile(network.outputs)  # pyright: ignore
        return network

    def _fresh(self, architecture: Any) -> nn.Module:
        if architecture == NOISE:
            return NoiseModel(self._feature_width(), self.classes)
        if str(architecture).startswith(NOISE_WIDTH):
            hidden = int(architecture.removeprefix(NOISE_WIDTH))
            if not 1 <= hidden <= WIDEST_NOISE:
                raise ValueError(f"hφ of width {hidden}")  # such a run folder is damaged
            return NoiseModel(self._feature_width(), self.classes, hidden)
        if str(architecture).startswith(f"{NOISE} "):
            return self._joined_noise(architecture.removeprefix(f"{NOISE} "))
        if architecture == "weight-net":
            return WeightNet()
        if architecture == LABEL_HEAD:
            return LabelHead()
        return self._classifier(self.model if architecture in (None, "custom", SCIKIT) else architecture)

    def _joined_noise(self, model: str) -> nn.Module:
        """hφ by a model for tables, whose columns are the target's features and the one-hot class."""
        if not trait(model, "takes_tables", True):
            raise SettingError(
                f"Setting 'noise_model': '{model}' is for images, and hφ reads features; take auto or mlp."
            )
        width = self._feature_width() + self.classes
        tables = replace(self, shape=(width,), alone=False, usual="mlp", integers=False, _width=None)
        tables._look(model)
        return JoinedNoise(tables._classifier(model), self.classes)

    def _classifier(self, model: Any) -> nn.Module:
        features = self.features
        if isinstance(model, str) and is_own(model):
            model, features = object_of(model, self.own), logits_twice
        if isinstance(model, str) and (self.usual if model == "auto" else model) == "custom":
            model = self.model
        if is_estimator(model) and self.lessons is not None:
            return ScikitModel(model, self.lessons)
        if isinstance(model, str):
            model = self.usual if model == "auto" else model
            if len(self.shape) != 3 and not trait(model, "takes_tables", True):
                raise SettingError(f"Model '{model}' is for images; rows of a table want model='mlp'.")
            try:
                network = model_of(model, "labels")(self.shape, self.classes)
            except SettingError:
                raise
            except ValueError as error:
                raise SettingError(f"Model '{model}' cannot take these examples: {error}; use mlp.") from error
            if isinstance(network, FeatureModel):
                return network
        elif isinstance(model, nn.Module):
            network = copied(model, self.pretrained, self.still)
        else:
            network = model(self.shape, self.classes)
        if not isinstance(network, nn.Module):
            raise SettingError(f"A {type(network).__name__} cannot be trained: a model is a torch.nn.Module.")
        if features is None and isinstance(network, FeatureModel):
            return network
        return self._wrapped(network, features)

    def _wrapped(self, network: nn.Module, layer: Any) -> nn.Module:
        if layer is None:
            linear = {name: part for name, part in network.named_modules() if isinstance(part, nn.Linear)}
            last = [name for name, part in linear.items() if part.out_features == self.classes]
            if last:
                return Wrapped(network, last[-1], before=True)
            if not self.reads_features:
                return Wrapped(network, logits_twice)
            raise SettingError(
                f"A model of your own without a linear layer of {self.classes} outputs needs features='layer', the "
                "layer before its last" + (f" (its linear layers are {', '.join(linear)})." if linear else ".")
            )
        try:
            return Wrapped(network, layer)
        except KeyError as error:
            names = [name for name, _ in network.named_modules() if name]
            raise SettingError(f"The model has no layer '{layer}': {nearest(str(layer), names)}") from error

    def _feature_width(self) -> int:
        """Width of the target's features."""
        if self._width is None:
            self._width = self._look(self.model)
        return self._width

    def _look(self, model: Any) -> int:
        """Look at one example of zeros: the width of the features, and whether the model can serve at all.

        A model that must learn from one example at a time is looked at in training: most norms cannot.
        """
        given = object_of(model, self.own) if isinstance(model, str) else model
        name = given if isinstance(given, str) else type(given).__name__
        with seeded(self.seed, "look"), torch.no_grad():
            network = self._classifier(model).train(self.alone)
            try:
                kind = torch.int64 if self.integers else torch.float32
                features, logits = network.outputs(torch.zeros(1, *self.shape, dtype=kind))  # pyright: ignore
            except (RuntimeError, ValueError, TypeError) as error:
                reason = first_line(error)
                what = "a step of one example" if self.alone else "examples"
                raise SettingError(
                    f"Model '{name}' cannot take {what} of shape {self.shape}: {reason}; "
                    + ("use more examples a step." if self.alone else "use a model made for them.")
                ) from error
        if logits.shape != (1, self.classes):
            raise SettingError(f"The model gives {logits.shape[-1]} logits for {self.classes} classes.")
        return int(features.shape[1])

    def takes_integers(self, inputs: Tensor) -> bool:
        """Whether the model takes whole numbers as they are, as an embedding does; asked with a few examples."""
        with seeded(self.seed, "look"), torch.no_grad():
            network: Any = self._classifier(self.model).eval()
            try:
                network.outputs(inputs)
            except IndexError as error:
                raise DataError(
                    f"The model takes whole numbers, but not {int(inputs.min())} to {int(inputs.max())}: "
                    f"{first_line(error)}; give ids that its embedding has."
                ) from error
            except (RuntimeError, ValueError, TypeError):
                return False
        return True

    def refuse_frozen(self, method: str) -> None:
        """Refuse a model of which nothing learns, for a method that trains it."""
        if isinstance(self.model, nn.Module) and is_frozen(self.model):
            raise SettingError(
                f"All parameters of the model are frozen, and method '{method}' trains it: take method='normal', "
                "which judges by the model as it is, or let a layer learn (layer.requires_grad_(True))."
            )

    def check(self, auxiliary: str | None = None, noise: str = "auto") -> None:
        """Refuse a model that cannot serve before anything is trained."""
        self._feature_width()
        if auxiliary is not None:
            self._look(auxiliary)
        if noise != "auto":
            self._joined_noise(noise)


def logits_twice(network: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Of a module whose features nobody reads: its logits stand for them."""
    logits = network(inputs)
    return logits, logits


class Rescaled(nn.Module):
    """A classifier that was fitted with another mean and deviation of the inputs."""

    factor: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, own: Scaling, given: Scaling, dimensions: int) -> None:
        super().__init__()
        self.network = network
        wide = (-1, *[1] * (dimensions - 1))  # channels come first
        self.register_buffer("factor", (given.std / own.std).view(wide))
        self.register_buffer("shift", ((given.mean - own.mean) / own.std).view(wide))

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.outputs(inputs * self.factor + self.shift)  # pyright: ignore[reportCallIssue]


def scaled_as(network: nn.Module, own: Scaling, given: Scaling, dimensions: int) -> nn.Module:
    """A network fitted to inputs of its own scaling, for inputs that are scaled otherwise."""
    same = torch.equal(own.mean, given.mean) and torch.equal(own.std, given.std)
    return network if same else Rescaled(network, own, given, dimensions)
