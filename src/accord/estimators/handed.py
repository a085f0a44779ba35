"""Torch modules that were handed over: kept as they came, or reset; what is frozen stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import MethodType
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy

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


def sized(network: nn.Module, users: int, items: int) -> nn.Module:
    """A recommender that was handed over, whose rows are those of the log's ids; others are refused."""
    if not hasattr(network, "scores"):
        return network  # refused with all that are no recommenders
    what = f"a log of {users} users and {items} items: its rows are those of user_ids_ and item_ids_ in their order"
    try:
        found = tuple(network.scores(torch.tensor([users - 1])).shape)  # pyright: ignore[reportCallIssue]
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        raise SettingError(f"The {type(network).__name__} is not for {what} ({first_line(error)}).") from error
    if found != (1, items):
        raise SettingError(f"The {type(network).__name__} scores {found[-1]} items, and this is {what}.")
    return network


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
