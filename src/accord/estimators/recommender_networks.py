"""The networks of a recommender by role, and what is refused because it cannot be trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from accord.data.interactions import Interactions
from accord.errors import SettingError
from accord.estimators.base import CUSTOM
from accord.estimators.handed import ByIds, copied
from accord.estimators.log_split import refuse_other_ids
from accord.estimators.naming import is_scorer, object_of, unspelled
from accord.estimators.scorers import ScoredPairs, gives_scores, is_function
from accord.estimators.setting_rules import not_taken, refuse_negatives_of
from accord.methods.assembly import HEAD, CouncilHead
from accord.models import is_solved, recommender_factory
from accord.models.recommenders import PairModel
from accord.models.recommenders.popularity import appeal
from accord.ranks.group import ALONE, Ranks, dividing
from accord.training import seeded

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

NO_WEIGHTS = "Weights of clicks are for methods that learn from losses one by one, not"


def build(
    rec: Recommender, role: str, architecture: Any, training: Interactions, ranks: Ranks = ALONE
) -> nn.Module:
    """The network of a role, seeded for that role alone, on the device of the training clicks; divided over the
    ranks that train it."""
    chosen: Any = object_of(architecture, rec._objects) if architecture else rec._chosen
    if chosen == HEAD:
        return CouncilHead().to(training.device)
    if chosen == CUSTOM:
        chosen = rec._factory
    settings = rec.settings
    if isinstance(chosen, str) and role.startswith("member "):  # of a council: its settings are its own
        settings = rec.check_settings(unspelled(chosen))
        chosen = settings.model
    factory = recommender_factory(
        chosen, settings, dims=settings.dims, item_bias=settings.item_bias is not False, init_std=settings.init_std
    )
    with seeded(settings.seed, "network", role), dividing(ranks):
        network = _made(rec, factory)
    _refuse_other_than_pairs(network)
    if architecture is None:
        refuse_negatives_of(settings, network, f"the {type(network).__name__}")
        _refuse_untrainable(network, settings, rec.task, training)
    network.to(training.device)
    if hasattr(network, "bind"):
        network.bind(training.starts, training.items)
        if ranks.many:  # what everybody clicked, not only the users of this rank
            network.appeal = appeal(training.popularity)
    return network


def _refuse_other_than_pairs(network: Any) -> None:
    if not isinstance(network, nn.Module) or not isinstance(network, PairModel):
        raise SettingError(
            f"{type(network).__name__} cannot be trained: a model is a torch.nn.Module with the methods "
            "logits(users, items) and scores(users)."
        )


def _refuse_untrainable(network: nn.Module, settings: Any, task: str, training: Interactions) -> None:
    """Refuse a target that the method, or the weights of the clicks, cannot do anything with."""
    if training.weights is not None and is_solved(network):
        raise SettingError(f"{NO_WEIGHTS} for {type(network).__name__}, which learns from no losses.")
    if settings.method_class.takes_solved:
        return
    if isinstance(network, ScoredPairs):
        raise SettingError(
            f"Method '{settings.method}' learns by gradients, and the {network.scorer.name} comes fitted: take "
            "method='normal', or let it be a prior (prior=…) or a member of a council (members=[…])."
        )
    if is_solved(network):
        raise SettingError(not_taken(settings.method, type(network).__name__, task))


def _made(rec: Recommender, factory: Any) -> Any:
    """A network of the log's users and items, by a factory, or of what was handed over."""
    ids, sizes = (rec.user_ids_, rec.item_ids_), (len(rec.user_ids_), len(rec.item_ids_))
    if isinstance(factory, nn.Module):
        own = copied(factory, rec.settings.pretrained)
        return ByIds(own, *ids) if isinstance(own, PairModel) else own
    if is_scorer(factory):
        return ScoredPairs(factory, *ids)
    try:
        made = factory(*sizes)
    except Exception:
        if is_function(factory) and gives_scores(factory, *ids):
            return ScoredPairs(factory, *ids)
        raise
    scores = not isinstance(made, nn.Module) and is_function(factory) and gives_scores(factory, *ids)
    return ScoredPairs(factory, *ids) if scores else made


def as_prior(rec: Recommender, given: Any) -> nn.Module:
    """The network of a fitted recommender, as the prior of this one; refused where it is of another log."""
    for own, ids, what in (
        (given.user_ids_, rec.user_ids_, "users"),
        (given.item_ids_, rec.item_ids_, "items"),
    ):
        refuse_other_ids(own, ids, "prior", what)
    return given._target
