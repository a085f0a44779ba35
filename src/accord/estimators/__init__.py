"""The objects users hold."""

from accord.estimators.recommender import Recommender
from accord.estimators.settings import RecommenderSettings, make_settings

__all__ = ["Recommender", "RecommenderSettings", "make_settings"]
