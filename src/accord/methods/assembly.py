"""Several models that answer as one: recommenders by weighted log-odds, classifiers by mean probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEAD = "council-head"
"""What a run folder calls the architecture of the head."""
FARTHEST = 30.0
"""Exponents are kept within this."""
LABEL_HEAD = "label-head"
"""The same, of classifiers."""
LOWEST = -10.0
"""No student learns log-odds below this: what is never recommended needs no order."""


class Numbers(NamedTuple):
    """How much each member counts for the mean and for P(meant), and the prices of disagreement and of doubt."""

    weight: list[float]
    judging: list[float]
    kappa: float
    caution: float


class CouncilHead(nn.Module):
    """How members answer together: each one's scale and offset, its weights, and what it costs them to disagree.

    Members' scores are brought to one scale, log-odds of a held-out click. The council's log-odds are their
    weighted mean, less κ times their weighted standard deviation, plus ``caution`` times log P(meant): the chance
    that the click, if it came, would be meant, as `accord.estimators.council.clicks.meant` fits it. For P(meant)
    members have other weights (``judging``), and every item a mean, a slope, a scale and the log-odds of its noise.
    """

    OF_MEMBERS = ("scale", "offset", "weight", "judging")
    OF_ITEMS = ("item_mean", "item_slope", "item_scale", "item_doubt")
    scale: Tensor
    offset: Tensor
    weight: Tensor
    judging: Tensor
    kappa: Tensor
    caution: Tensor
    item_mean: Tensor
    item_slope: Tensor
    item_scale: Tensor
    item_doubt: Tensor

    def __init__(self, members: int = 0, items: int = 0) -> None:
        super().__init__()
        for name, value in (("scale", 1.0), ("offset", 0.0), ("weight", 1 / max(1, members)), ("judging", 0.0)):
            self.register_buffer(name, torch.full((members,), value))
        for name in self.OF_ITEMS:
            self.register_buffer(name, torch.zeros(items))
        for name in ("kappa", "caution"):
            self.register_buffer(name, torch.zeros(()))

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        for names in (self.OF_MEMBERS, self.OF_ITEMS):  # as many members and items as the run has
            sizes = {state_dict.get(f"{prefix}{name}", torch.empty(0)).shape for name in names}
            if len(sizes) == 1 and len(size := sizes.pop()) == 1:
                for name in names:
                    setattr(self, name, torch.empty(size, device=self.kappa.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def logits_of(self, k: int, scores: Tensor) -> Tensor:
        """A member's scores as log-odds."""
        return scores * self.scale[k] + self.offset[k]

    def numbers(self) -> Numbers:
        """What `joined` asks for one by one: a program that is exported must know it before."""
        return Numbers(self.weight.tolist(), self.judging.tolist(), float(self.kappa), float(self.caution))

    def joined(self, each: Sequence[Tensor], items: Tensor | None = None, numbers: Numbers | None = None) -> Tensor:
        """The council's log-odds of the members' scores: of these items, or of all along the last dimension."""
        numbers = self.numbers() if numbers is None else numbers
        mean = square = judged = torch.zeros((), device=self.kappa.device)
        cautious = numbers.caution > 0
        for k, one in enumerate(each):
            weight, judging = numbers.weight[k], numbers.judging[k]
            if not weight and not (cautious and judging):
                continue
            logits = self.logits_of(k, one)
            if weight:
                mean, square = mean + weight * logits, square + weight * logits**2
            if cautious and judging:
                judged = judged + judging * logits
        answer = mean
        if numbers.kappa:
            answer = answer - self.kappa * (square - mean**2).clamp(min=0).sqrt()
        if cautious:
            answer = answer + self.caution * F.logsigmoid(self.meant(judged, items))
        return answer

    def meant(self, judged: Tensor, items: Tensor | None = None) -> Tensor:
        """Log-odds that a click is meant, given the judging members' weighted log-odds."""
        own = [getattr(self, name) for name in self.OF_ITEMS]
        mean, slope, scale, doubt = own if items is None else (one[items] for one in own)
        return (slope * (judged - mean)).clamp(-FARTHEST, FARTHEST) - scale - doubt


class LabelHead(nn.Module):
    """How much each classifier of a council counts; the weights sum to 1."""

    weight: Tensor

    def __init__(self, members: int = 0) -> None:
        super().__init__()
        self.register_buffer("weight", torch.full((members,), 1 / max(1, members)))

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        stored = state_dict.get(f"{prefix}weight", torch.empty(0))
        if stored.dim() == 1:  # as many members as the run has
            self.weight = torch.empty(len(stored), device=self.weight.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class LabelsTogether(nn.Module):
    """Classifiers and their head as one: the logits are logarithms of the weighted mean of probabilities."""

    def __init__(self, members: Sequence[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.members, self.head = nn.ModuleList(members), head

    def solve(self, sweep: int) -> Iterator[float]:
        """Its members have learnt already."""
        yield 1.0

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Its features are its logits."""
        weights: Any = self.head.weight
        mean = torch.zeros((), device=inputs.device)
        for member, weight in zip(self.members, weights, strict=True):
            mean = mean + weight * torch.softmax(member.outputs(inputs)[1].float(), -1)  # pyright: ignore
        logits = mean.clamp_min(torch.finfo(torch.float32).tiny).log()
        return logits, logits


class Together(nn.Module):
    """Members and their head as one recommender. Nothing in it learns: it is measured once."""

    def __init__(self, members: Sequence[nn.Module], head: CouncilHead) -> None:
        super().__init__()
        self.members, self.head = nn.ModuleList(members), head

    def solve(self, sweep: int) -> Iterator[float]:
        """Its members have learnt already."""
        yield 1.0

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        each: list[Tensor] = [member.logits(users, items) for member in self.members]  # pyright: ignore
        return self.head.joined(each, items)

    def scores(self, users: Tensor) -> Tensor:
        return self.head.joined([member.scores(users) for member in self.members])  # pyright: ignore


class Seen(Protocol):
    """Training clicks."""

    def mask_seen(self, scores: Tensor, users: Tensor) -> Tensor:
        """Set the scores (B, items) of these users' own clicks to −inf, in place."""
        ...


class Taught(nn.Module):
    """What a student learns from: the teacher's log-odds, computed once where all pairs fit into memory.

    None is below ``lowest``. With ``seen``, the training clicks, it also knows the likeliest other items of each
    user. A student that meets them often learns best where it matters: at the top of the ranking.
    """

    LARGEST: ClassVar[int] = 1 << 28
    """Users × items of a table: 1 GiB."""
    MOST = 1 << 31
    """Users × items that are scored to find each user's likeliest items."""
    LIKELIEST = 100
    """Of each user."""
    EACH = 4
    """Items of either sort that a student meets with a click. Of a user with one or two clicks they say most."""
    BLOCK = 1 << 22
    """Scores computed at a time."""

    table: Tensor | None = None
    likeliest: Tensor | None = None

    def __init__(
        self,
        teacher: nn.Module,
        n_users: int,
        n_items: int,
        device: torch.device,
        lowest: float = LOWEST,
        seen: Seen | None = None,
    ) -> None:
        super().__init__()
        self.teacher, self.lowest, self.n_items = teacher, lowest, n_items
        if n_users * n_items <= self.LARGEST:
            self.table = torch.empty(n_users, n_items, device=device)
        if seen is not None and n_users * n_items <= self.MOST:
            most = min(self.LIKELIEST, n_items)
            self.likeliest = torch.empty(n_users, most, dtype=torch.int32, device=device)
        if self.table is None and self.likeliest is None:
            return
        with torch.no_grad():
            for users in torch.arange(n_users, device=device).split(max(1, self.BLOCK // n_items)):
                scores: Tensor = teacher.scores(users).clamp_(min=lowest)  # pyright: ignore[reportCallIssue]
                if self.table is not None:
                    self.table[users] = scores
                if self.likeliest is not None and seen is not None:
                    top = seen.mask_seen(scores, users).topk(self.likeliest.shape[1]).indices
                    self.likeliest[users] = top.int()

    @torch.no_grad()
    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        if self.table is None:
            return self.teacher.logits(users, items).clamp_(min=self.lowest)  # pyright: ignore[reportCallIssue]
        return self.table.view(-1)[users * self.table.shape[1] + items]

    def others(self, users: Tensor, items: Tensor) -> Tensor:
        """What a student meets with each click, in place of its sampled non-clicks (N, R, B): items that are spread
        over the catalogue, and as many that are spread over the list of the user's likeliest ones. Where the
        log-odds of all pairs are at hand there are ``EACH`` of both; otherwise one, as each asks all members."""
        if self.likeliest is None:
            return items
        each = 1 if self.table is None else self.EACH
        count = torch.arange(each, device=items.device)[:, None, None]
        most = self.likeliest.shape[1]
        spread = (items[:1] + count * self.n_items // each) % self.n_items
        own = self.likeliest[users, (items[:1] + count * most // each) % most]
        return torch.cat([spread, own.to(items.dtype)])
