"""Matrix factorisation: the log-odds are a product of a user's and an item's vector."""

from __future__ import annotations

import torch
from torch import nn

from accord.models.recommenders.pairwise import INIT_STD, FactorModel
from accord.models.recommenders.tables import FactorStack


class MF(FactorModel):
    """Koren, Bell & Volinsky (2009), with a logistic link: the inner product."""

    stack_class = FactorStack


class GMF(FactorModel):
    """He et al. (2017), *Neural Collaborative Filtering*, section 3.2: a product and a dense layer."""

    stack_class = FactorStack

    def __init__(
        self, n_users: int, n_items: int, dims: int = 32, item_bias: bool = False, init_std: float = INIT_STD
    ) -> None:
        super().__init__(n_users, n_items, dims, item_bias, init_std)
        bound = (3 / dims) ** 0.5  # Kaiming's uniform bound for a layer of `dims` inputs, as in their program
        self.weight = nn.Parameter(torch.empty(dims).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(1))
