"""hφ(x, c): the distribution of the observed label given the features and the true class.

A two-layer ReLU network on the features joined with the one-hot class. Its first layer is computed in two parts,
one of the features and one of the class, so that the rows of all classes share the costly one; and where only the
probability of one label is wanted, no more than a block of rows is in memory at a time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.models.stack import DenseStack

BLOCK, BLOCK_OF_CPU = 1 << 24, 1 << 20
"""Numbers in memory at a time while the rows of many classes are computed (64 MiB). On a CPU so few that they stay
in its caches (4 MiB): it takes half the time."""


class JoinedNoise(nn.Module):
    """hφ by any classifier of tables: it reads the features joined with the one-hot class."""

    one_hot: Tensor

    def __init__(self, network: nn.Module, classes: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("one_hot", torch.eye(classes), persistent=False)

    def _log(self, features: Tensor, classes: Tensor) -> Tensor:
        """log hφ(x, c), a row for each example, of one class or of a class for each."""
        joined = torch.cat([features, self.one_hot[classes].expand(len(features), -1)], 1)
        return F.log_softmax(self.network.outputs(joined)[1], 1)  # pyright: ignore[reportCallIssue]

    def forward(self, features: Tensor, k: Tensor) -> Tensor:
        """log hφ(x, k), a row for each example."""
        return self._log(features, k.view(1))

    @torch.no_grad()
    def costs(self, features: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
        """As of `NoiseModel`, a class at a time."""
        each = torch.arange(len(self.one_hot), device=labels.device)[:, None] if classes is None else classes.t()
        return torch.cat([-self._log(features, c).gather(1, labels[:, None]) for c in each], 1)

    @torch.no_grad()
    def rows(self, features: Tensor) -> Tensor:
        """hφ(x, c) for every class c: (examples, true class, observed label)."""
        each = torch.arange(len(self.one_hot), device=features.device)[:, None]
        return torch.stack([self._log(features, c).exp() for c in each], 1)


class NoiseModel(nn.Module):
    """hφ; its hidden width is the width of the features, unless another is given."""

    stack_class = DenseStack

    def __init__(self, width: int, classes: int, hidden: int | None = None) -> None:
        super().__init__()
        self.width, self.classes = width, classes
        self.first = nn.Linear(width + classes, hidden or width)
        self.second = nn.Linear(hidden or width, classes)

    def _of_features(self, features: Tensor) -> Tensor:
        return F.linear(features, self.first.weight[:, : self.width], self.first.bias)

    def _of_classes(self) -> Tensor:
        """What each class adds to the hidden layer, a row for each."""
        return self.first.weight[:, self.width :].t()

    def _logits(self, hidden: Tensor) -> Tensor:
        """Of hidden values (examples, classes, width): one product, which costs a stack less than one for each."""
        return self.second(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2])

    def forward(self, features: Tensor, k: Tensor) -> Tensor:
        """log hφ(x, k), a row for each example."""
        hidden = torch.relu(self._of_features(features) + self._of_classes().index_select(0, k.view(1)))
        return F.log_softmax(self.second(hidden), 1)

    @torch.no_grad()
    def costs(self, features: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
        """−log hφ(x, c)[ỹ] for every class c, or for the ``classes`` of each example; no gradient."""
        own, added = self._of_features(features), self._of_classes()
        count = self.classes if classes is None else classes.shape[1]
        block = BLOCK_OF_CPU if features.device.type == "cpu" else BLOCK
        step = max(1, block // (len(features) * self.classes))
        weight = self.second.weight[labels][:, None]  # only the given label's logit is wanted as it is
        parts = []
        for start in range(0, count, step):
            part = slice(start, start + step)
            of_classes = added[None, part] if classes is None else added[classes[:, part]]
            hidden = (own[:, None] + of_classes).relu_()  # in place: these tensors are the largest of a step
            total = torch.logsumexp(self._logits(hidden), 2)
            given = hidden.mul_(weight).sum(2) + self.second.bias[labels][:, None]
            parts.append(total - given)
        return torch.cat(parts, 1)

    @torch.no_grad()
    def rows(self, features: Tensor) -> Tensor:
        """hφ(x, c) for every class c: (examples, true class, observed label)."""
        hidden = (self._of_features(features)[:, None] + self._of_classes()[None]).relu_()
        return torch.softmax(self._logits(hidden), 2)
