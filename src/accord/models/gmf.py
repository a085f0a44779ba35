"""Generalised matrix factorisation: an element-wise product and a dense layer."""

import torch
from torch import nn

from accord.models.pairwise import SPREAD, FactorModel


class GMF(FactorModel):
    """He et al. (2017), *Neural Collaborative Filtering*, section 3.2."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 32, item_bias: bool = False, spread: float = SPREAD
    ) -> None:
        super().__init__(n_users, n_items, dims, item_bias, spread)
        bound = (3 / dims) ** 0.5  # Kaiming's uniform bound for a layer of `dims` inputs, as in their program
        self.weight = nn.Parameter(torch.empty(dims).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(1))
