"""Recommenders: each gives the log-odds of pairs, and the scores of all items."""

from accord.models.recommenders.cdae import CDAE
from accord.models.recommenders.ease import EASE
from accord.models.recommenders.factors import GMF, MF
from accord.models.recommenders.ials import IALS
from accord.models.recommenders.lightgcn import LightGCN
from accord.models.recommenders.neighbours import ItemKNN, RP3Beta
from accord.models.recommenders.neumf import NeuMF
from accord.models.recommenders.pairwise import INIT_STD, FactorModel, PairModel
from accord.models.recommenders.popularity import Popularity

__all__ = [
    "CDAE",
    "EASE",
    "GMF",
    "IALS",
    "INIT_STD",
    "MF",
    "FactorModel",
    "ItemKNN",
    "LightGCN",
    "NeuMF",
    "PairModel",
    "Popularity",
    "RP3Beta",
]
