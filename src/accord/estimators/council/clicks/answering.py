"""How a council of recommenders answers together: weights, the price of disagreement, and caution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from accord.estimators.council.clicks.judging import Judged
from accord.estimators.council.clicks.meant import scale_of
from accord.estimators.council.clicks.voices import Voices
from accord.estimators.council.clicks.weights import KAPPAS, Choice, bagged, choices
from accord.evaluation.ranking import RankingTask, StackedScorer, stacked_metrics
from accord.methods.assembly import CouncilHead, Together

COST = 0.075
"""The share of the NDCG of held-out clicks that caution may cost: they are as noisy as the rest."""
JUDGED_USERS = 2_000
"""Most validation users by whom weights are chosen."""


def chosen(voices: Voices, task: RankingTask | None, kappa: float | None) -> Choice:
    """Weights and κ by noisy validation; equal where nothing is held out."""
    kinds = len(voices.kinds)
    if task is None or not len(task.users):
        return Choice(tuple([1 / kinds] * kinds), 0.5 if kappa is None else kappa)
    tried = choices(kinds, KAPPAS if kappa is None else (kappa,))
    values = _ndcg(lambda users: _mixed(voices.by_kind(users), tried), _some_users(task, voices.seed), len(tried))
    choice = bagged(values.cpu().double().numpy(), tried, voices.seed)
    return choice if kappa is None else choice._replace(kappa=kappa)


def head_of(voices: Voices, choice: Choice, judged: Judged, caution: float) -> CouncilHead:
    """The head that weighs the members that see all clicks."""
    caution = caution if judged.meant is not None else 0.0
    head = CouncilHead(len(voices.full), voices.data.n_items if caution else 0).to(voices.device)
    head.kappa.fill_(choice.kappa)
    counts = {kind: sum(m.kind == kind for m in voices.full) for kind in voices.kinds}
    share = dict(zip(voices.kinds, choice.weights, strict=True))
    for k, member in enumerate(voices.full):
        head.scale[k], head.offset[k] = voices.scale(member)
        head.weight[k] = share[member.kind] / counts[member.kind]
        head.judging[k] = judged.weights.get(member.kind, 0.0) / counts[member.kind]
    if caution and judged.meant is not None:
        head.caution.fill_(caution)
        slope, doubt = judged.meant.of_items(voices.data.popularity.cpu())
        fits = voices.weighed(voices.full, judged.weights)
        head.item_mean.copy_(fits.mean(0))
        head.item_slope.copy_(slope)
        head.item_doubt.copy_(doubt)
        head.item_scale.copy_(scale_of(fits - fits.mean(0), slope.to(fits)))
    return head


def temper(teacher: Together, task: RankingTask | None, seed: int) -> None:
    """Halve the caution until it costs no more than a little of the ranking of held-out, noisy clicks."""
    head, caution = teacher.head, float(teacher.head.caution)
    if not caution or task is None or not len(task.users):
        return
    task = _some_users(task, seed)
    tried = (0.0, caution, caution / 2, caution / 4)
    found = []
    for value in tried:
        head.caution.fill_(value)
        found.append(float(_ndcg(lambda users: teacher.scores(users)[None], task, 1).mean()))
    kept = (value for value, own in zip(tried[1:], found[1:], strict=True) if own >= (1 - COST) * found[0])
    head.caution.fill_(next(kept, 0.0))


def _ndcg(scores: StackedScorer, task: RankingTask, count: int) -> Tensor:
    """NDCG@20 of each of so many ways to answer, for each user."""
    return stacked_metrics(scores, task, [20], count)["ndcg@20"]


def _some_users(task: RankingTask, seed: int) -> RankingTask:
    """The users of noisy validation, or a sample of them."""
    if len(task.users) <= JUDGED_USERS:
        return task
    drawn = np.random.default_rng([seed, 0x305E]).choice(len(task.users), JUDGED_USERS, False)
    return replace(task, users=task.users[torch.from_numpy(np.sort(drawn)).to(task.users.device)])


def _mixed(kinds: Tensor, tried: Sequence[Choice]) -> Tensor:
    """What each way to answer makes of the kinds' log-odds (kinds, users, items): (choices, users, items)."""
    weights = torch.tensor([one.weights for one in tried], device=kinds.device)
    mean = torch.einsum("ck,kbi->cbi", weights, kinds)
    square = torch.einsum("ck,kbi->cbi", weights, kinds**2)
    kappas = torch.tensor([one.kappa for one in tried], device=kinds.device)[:, None, None]
    return mean - kappas * (square - mean**2).clamp_(min=0).sqrt_()
