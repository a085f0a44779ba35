"""Torch modules that were handed over: kept as they came, or reset; what is frozen stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import MethodType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from accord.data.ids import Ids
from accord.errors import SettingError, first_line

Pretrained = Literal["keep", "head", "reset"]
WORDS = {
    "keep": "the weights it was handed over with were kept",
    "head": "the weights it was handed over with were kept, but for its last layer, which was reset",
    "reset": "its layers were reset",
}


def copied(module: nn.Module, pretrained: str = "keep", still: bool = False) -> nn.Module:
    """A copy to train, in train mode apart from what rests; ``still`` lets all of it rest.

    Layers that are reset draw from torch's global stream.
    """
    try:
        network = copy.deepcopy(module)
    except (RuntimeError, TypeError) as error:
        raise SettingError(
            f"The {type(module).__name__} cannot be copied: {first_line(error)}; hand over a function that "
            "builds it."
        ) from error
    rest = [network] if still else list(resting(network))
    network.float().train()
    if pretrained == "reset":
        reset(network)
    elif pretrained == "head":
        reset_layer(last_layer(network))
    for part in rest:
        part.eval()
        part.train = MethodType(_stay, part)  # pyright: ignore[reportAttributeAccessIssue]
    return network


def _stay(part: nn.Module, mode: bool = True) -> nn.Module:
    """In place of ``train``: it stays in eval mode, whatever is asked."""
    return part


def is_frozen(part: nn.Module) -> bool:
    """Whether it has parameters, none of which learns."""
    own = list(part.parameters())
    return bool(own) and not any(one.requires_grad for one in own)


def resting(network: nn.Module) -> Iterator[nn.Module]:
    """The largest parts that stay in eval mode: what is frozen, and what was put in it within a net that trains."""

    def visit(part: nn.Module) -> Iterator[nn.Module]:
        if is_frozen(part) or (network.training and not part.training):
            yield part
            return
        for child in part.children():
            yield from visit(child)

    return visit(network)


def reset(network: nn.Module) -> None:
    """Draw every layer anew, inner ones first, as a constructor does; frozen parts and parameters stay."""
    if is_frozen(network):
        return
    for child in network.children():
        reset(child)
    reset_layer(network)


@torch.no_grad()
def reset_layer(layer: nn.Module) -> None:
    """By its ``reset_parameters``; without one its bare parameters are drawn from a normal distribution of the mean
    and deviation that they have. One that is constant, such as a scale of ones, stays."""
    frozen = {one: one.clone() for one in layer.parameters() if not one.requires_grad}
    own = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
    if callable(own):
        try:
            own()
        except TypeError as error:
            raise SettingError(
                f"A {type(layer).__name__} of the model cannot be reset: {first_line(error)}; let its "
                "reset_parameters() take no arguments, or keep the weights (pretrained='keep')."
            ) from error
    else:
        for one in layer.parameters(recurse=False):
            if not is_lazy(one) and one.is_floating_point() and one.numel() > 1 and float(one.std()) > 0:
                one.normal_(float(one.mean()), float(one.std()))
    for one, values in frozen.items():
        one.copy_(values)


def last_layer(network: nn.Module) -> nn.Module:
    """The layer that was registered last, of those with parameters that learn."""
    found = [m for m in network.modules() if any(one.requires_grad for one in m.parameters(recurse=False))]
    if not found:
        raise SettingError("pretrained='head' resets the last layer that learns, and no layer of the model does.")
    return found[-1]


class ByIds(nn.Module):
    """A recommender that was handed over: its rows are the ids of the log, which are whole numbers."""

    users: Tensor
    items: Tensor

    def __init__(self, module: nn.Module, user_ids: Ids, item_ids: Ids) -> None:
        super().__init__()
        self.module = module
        for name, ids in (("users", user_ids), ("items", item_ids)):
            rows = np.asarray(ids.values.to_pylist())
            if rows.dtype.kind not in "iu" or rows.min() < 0:
                raise SettingError(
                    f"The rows of a {type(module).__name__} that is handed over are ids, and the log's {name} are "
                    f"no row numbers (the first is {rows[0]}): hand over a function that builds it."
                )
            self.register_buffer(name, torch.from_numpy(rows.astype(np.int64)), persistent=False)
        try:
            with torch.no_grad():
                self.scores(self.users.argmax()[None])
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise SettingError(
                f"The {type(module).__name__} has no scores for users up to {int(self.users.max())} and items up "
                f"to {int(self.items.max())} ({first_line(error)}): its rows are the ids of the log."
            ) from error

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.module.logits(self.users[users], self.items[items])  # pyright: ignore[reportCallIssue]

    def scores(self, users: Tensor) -> Tensor:
        return self.module.scores(self.users[users])[:, self.items]  # pyright: ignore[reportCallIssue]


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    """Whether two modules are one network: the same layers with the same weights."""
    a, b = one.state_dict(), other.state_dict()
    return list(a) == list(b) and all(x.shape == b[k].shape and bool((x == b[k]).all()) for k, x in a.items())


def told_of(module: nn.Module, pretrained: str) -> dict[str, Any]:
    """What a run says of a module that was handed over."""
    own = [one for one in module.parameters() if not is_lazy(one)]
    frozen = sum(one.numel() for one in own if not one.requires_grad)
    return {"pretrained": pretrained, "parameters": sum(one.numel() for one in own), "frozen": frozen}


def in_words(told: dict[str, Any]) -> str:
    """The same as a sentence.

    >>> in_words({"pretrained": "keep", "parameters": 1200, "frozen": 1000})
    'the weights it was handed over with were kept; 1,000 of 1,200 parameters are frozen'
    """
    frozen = f"; {told['frozen']:,} of {told['parameters']:,} parameters are frozen" if told["frozen"] else ""
    return f"{WORDS[told['pretrained']]}{frozen}"
