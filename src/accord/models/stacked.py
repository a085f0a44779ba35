"""Stacks of recommenders: `logits` of users (R, B) and items (n, R, B) for all members at once, with no loop over
runs; and which models can be stacked at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from accord.errors import SettingError
from accord.kernels.segment_sum import cached_on, gather, segment_sum
from accord.models.cdae import CDAE
from accord.models.gmf import GMF
from accord.models.lightgcn import LightGCN, _Propagate
from accord.models.mf import MF
from accord.models.neumf import NeuMF
from accord.models.noise_model import NoiseModel
from accord.models.pairwise import FactorModel, pair_logits
from accord.models.stack import Stack
from accord.models.stacked_classifiers import MLPStack, NoiseStack, WeightStack
from accord.models.vision import MLP
from accord.models.weight_net import WeightNet


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Row numbers in all members' tables laid end to end: (R, B) as (R·B), (n, R, B) as (n, R·B)."""

    def make() -> Tensor:
        shift = torch.arange(len(table), device=index.device)[:, None] * table.shape[1]
        return (index + shift).flatten(-2)

    return cached_on(index, ("rows", table.shape[1]), make)


def _products(
    users_table: Tensor, items_table: Tensor, bias: Tensor | None, users: Tensor, items: Tensor
) -> Tensor:
    """`pair_logits` of every member at once: one world in which each has users and items of its own."""
    flat = pair_logits(
        users_table.flatten(0, 1),
        items_table.flatten(0, 1),
        None,
        None if bias is None else bias.flatten(),
        None,
        _rows(users_table, users),
        _rows(items_table, items),
    )
    return flat.view(items.shape)


def _all_scores(of_users: Tensor, of_items: Tensor, offsets: list[Tensor]) -> Tensor:
    """Scores (R, B, items) of vectors (R, B, d) and (R, items, d), and what is added to them."""
    scores = torch.bmm(of_users, of_items.transpose(1, 2))
    for offset in offsets:
        scores += offset[:, None]
    return scores


def _some(table: Tensor, which: Sequence[int]) -> Tensor:
    """Some members' part of a table; all of them without a copy."""
    return table if list(which) == list(range(len(table))) else table[list(which)]


class FactorStack(Stack):
    """MF and GMF."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        bias = self.of("item_bias") if "item_bias" in self.names else None
        products = _products(self._weighted(), self.of("items"), bias, users, items)
        return products + self.of("bias") if "bias" in self.names else products

    def _weighted(self) -> Tensor:
        table = self.of("users")  # on the table, which has fewer rows than a batch
        return table * self.of("weight")[:, None] if "weight" in self.names else table

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        of_users = _some(self._weighted(), which).index_select(1, users)
        offsets = [_some(self.of(name), which) for name in ("item_bias", "bias") if name in self.names]
        return _all_scores(of_users, _some(self.of("items"), which), offsets)


class LightGCNStack(Stack):
    """LightGCN on one graph: the members' vectors are averaged together."""

    def _final(self) -> tuple[Tensor, Tensor]:
        first: Any = self._members[0]
        final: Any = _Propagate.apply(self.of("users"), self.of("items"), *first.graphs())
        return final

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return _products(*self._averaged(), None, users, items)

    def _averaged(self) -> tuple[Tensor, Tensor]:
        return self.made_once("averaged", self._final)

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        of_users, of_items = self._averaged()
        return _all_scores(_some(of_users, which).index_select(1, users), _some(of_items, which), [])


class NeuMFStack(Stack):
    """NeuMF: the layers of all members as batched products."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        part_u, part_i = self.of("first.weight").chunk(2, dim=2)
        candidates, runs, batch = items.shape
        of_users = self._first("mlp_users", part_u, users)
        side_by_side = cached_on(
            items, "side by side", lambda: items.data.transpose(0, 1).reshape(runs, candidates * batch)
        )
        of_items = self._first("mlp_items", part_i, side_by_side)
        of_users = of_users + self.of("first.bias")[:, None]
        hidden = (of_users.repeat(1, candidates, 1) + of_items).relu()
        for layer in ("second", "third"):
            hidden = torch.baddbmm(
                self.of(f"{layer}.bias")[:, None], hidden, self.of(f"{layer}.weight").transpose(1, 2)
            ).relu()
        wide = self._take(self.of("users"), users).repeat(1, candidates, 1)
        wide = wide * self._take(self.of("items"), side_by_side)
        out = self.of("out.weight").transpose(1, 2)
        logits = torch.bmm(torch.cat([wide, hidden], 2), out).squeeze(2) + self.of("out.bias")
        if "item_bias" in self.names:
            table = self.of("item_bias")
            logits = logits + gather(table.flatten(), _rows(table, side_by_side)).view_as(logits)
        return logits.view(runs, candidates, batch).transpose(0, 1)

    def _first(self, name: str, part: Tensor, index: Tensor) -> Tensor:
        """A side's part of the first layer, computed for whole tables where that is the smaller product."""
        table = self.of(name)
        if table.shape[1] <= index.shape[1]:
            return self._take(torch.bmm(table, part.transpose(1, 2)), index)
        return torch.bmm(self._take(table, index), part.transpose(1, 2))

    def _take(self, table: Tensor, index: Tensor) -> Tensor:
        taken = gather(table.flatten(0, 1), _rows(table, index))
        return taken.view(*index.shape, -1)


class CDAEStack(Stack):
    """CDAE: the rows of all members' batches are one long table."""

    reads_rows = True

    def logits_of_rows(self, rows: Tensor, position: Tensor, items: Tensor, weights: Tensor) -> Tensor:
        """Logits (n, R, B) of rows (R, U), the place of each click among them (R, B), and items (n, R, B)."""
        runs, most = rows.shape
        at = (position + torch.arange(runs, device=rows.device)[:, None] * most).flatten()
        inputs = self._take("items_in", items[0]) * weights.flatten()[:, None]
        before = segment_sum(at, inputs, runs * most) + self._take("users", rows)
        hidden = torch.sigmoid(before.view(runs, most, -1) + self.of("hidden_bias")[:, None]).flatten(0, 1)
        flat = pair_logits(
            hidden, self.of("items").flatten(0, 1), None, self.of("item_bias").flatten(), None,
            at, _rows(self.of("items"), items),
        )  # fmt: skip
        return flat.view(items.shape)

    def _take(self, name: str, index: Tensor) -> Tensor:
        table = self.of(name)
        return gather(table.flatten(0, 1), _rows(table, index))

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        clicked = {id(self._members[r].clicked) for r in which}
        if len(clicked) > 1:  # logs of their own
            return super().scores(users, which)
        member: Any = self._members[which[0]]
        contents = self.of("items").new_zeros(len(users), self.of("items").shape[1])  # smaller than the scores
        contents.index_put_(member.contents(users), contents.new_ones(()))
        before = torch.matmul(contents, _some(self.of("items_in"), which))
        before += _some(self.of("users"), which).index_select(1, users)
        hidden = torch.sigmoid(before + _some(self.of("hidden_bias"), which)[:, None])
        return _all_scores(hidden, _some(self.of("items"), which), [_some(self.of("item_bias"), which)])


STACKS: dict[type[nn.Module], type[Stack]] = {
    MF: FactorStack,
    GMF: FactorStack,
    FactorModel: FactorStack,
    NeuMF: NeuMFStack,
    LightGCN: LightGCNStack,
    CDAE: CDAEStack,
    MLP: MLPStack,
    NoiseModel: NoiseStack,
    WeightNet: WeightStack,
}
"""Which models can be stacked, and how."""


def stack(members: Sequence[nn.Module]) -> Stack:
    kind = STACKS.get(type(members[0]))
    if kind is None:
        raise SettingError(f"A {type(members[0]).__name__} cannot be trained in a stack.")
    return kind(members)
