"""Matrix factorisation: the log-odds are the inner product of a user's and an item's vector."""

from accord.models.pairwise import FactorModel


class MF(FactorModel):
    """Koren, Bell & Volinsky (2009), with a logistic link."""
