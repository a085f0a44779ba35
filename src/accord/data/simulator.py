"""Click logs whose every click and every non-click has a known truth.

A user likes an item when its affinity, taste · traits + quality, is above the user's own threshold. Genuine clicks
come from liked items that the user was exposed to, and exposure follows popularity. Three kinds of noise
put clicks on items the user does *not* like:

- ``misclick``: any item, uniformly, as by a slip of the finger;
- ``conformity``: popular items, more so than genuine exposure: clicked because everybody does;
- ``promotion``: items pushed onto the page, whatever their worth: clicked because they were there.

The clean test pairs are liked items that were never clicked, drawn uniformly, so that neither popularity
nor exposure helps to find them: only true preference does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from accord.errors import DataError

__all__ = ["Preferences", "Simulation", "SimulatorSettings", "simulate"]

LARGEST = 1 << 31
"""Users, items or interactions."""
GENUINE, MISCLICK, CONFORMITY, PROMOTION = range(4)
KINDS = ("genuine", "misclick", "conformity", "promotion")
PROPOSALS = 4
"""Items proposed for each open click in one round."""
MAX_ROUNDS = 500
BLOCK = 1 << 20
"""Open clicks that are worked on at a time."""
Tick = Callable[[float], None]


class SimulatorSettings(BaseModel):
    """Users, items and noise. Defaults were fixed before any method was run on them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    users: int = Field(default=2000, ge=2, le=LARGEST)
    items: int = Field(default=1000, ge=10, le=LARGEST)
    interactions: int = Field(default=100_000, ge=10, le=LARGEST)
    noise: float = Field(default=0.3, ge=0, le=0.9)
    """Expected share of clicks on items the user does not like."""
    misclick: float = Field(default=0.3, ge=0, le=1)
    """Share of the noise that is random slips."""
    conformity: float = Field(default=0.4, ge=0, le=1)
    """Share of the noise that follows the crowd."""
    promotion: float = Field(default=0.3, ge=0, le=1)
    """Share of the noise on promoted items."""
    like_rate: float = Field(default=0.15, gt=0, lt=1)
    """Share of the catalogue that a user likes, on average."""
    taste_dims: int = Field(default=8, ge=1)
    quality_spread: float = Field(default=0.5, ge=0)
    """Standard deviation of item quality; the taste term has 1."""
    popularity_slope: float = Field(default=0.8, ge=0)
    """Exposure of the item of rank r is r^(−slope)."""
    conformity_slope: float = Field(default=1.4, ge=0)
    """The crowd's pull: exposure to the power of this."""
    promotion_spread: float = Field(default=1.5, ge=0)
    """Standard deviation of the log-normal push of promoted items."""
    activity_spread: float = Field(default=0.6, ge=0)
    """Standard deviation of the log-normal activity of users."""
    carelessness: float = Field(default=10.0, gt=0)
    """Concentration of the users' own noise rates around the mean: small values, very unequal users."""
    test_per_user: int = Field(default=10, ge=1)
    test_users: int = Field(default=10_000, ge=1)
    """At most this many users have clean test pairs."""
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _shares_add_up(self) -> SimulatorSettings:
        total = self.misclick + self.conformity + self.promotion
        if abs(total - 1) > 1e-9:
            raise ValueError(f"misclick, conformity and promotion must add up to 1, not {total:g}")
        return self


@dataclass(frozen=True)
class Preferences:
    """Who likes what."""

    taste: np.ndarray
    traits: np.ndarray
    quality: np.ndarray
    bar: np.ndarray

    def likes(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The truth of any pairs, clicked or not."""
        affinity = np.einsum("nd,nd->n", self.taste[users], self.traits[items]) + self.quality[items]
        return affinity > self.bar[users]


@dataclass(frozen=True)
class Simulation:
    """A log, the truth about its clicks, and clean test pairs."""

    settings: SimulatorSettings
    preferences: Preferences
    users: np.ndarray
    items: np.ndarray
    times: np.ndarray
    kinds: np.ndarray
    test_users: np.ndarray
    test_items: np.ndarray

    @property
    def noise_share(self) -> float:
        """The realised share of noise."""
        return float((self.kinds != GENUINE).mean())

    def log(self) -> pa.Table:
        """What a recommender is fitted on: user, item and time of each click."""
        return pa.table({"user": _names("u", self.users), "item": _names("i", self.items), "ts": self.times})

    def clicks(self) -> pa.Table:
        """Each click with ``is_noise`` and the kind of noise."""
        names = pa.DictionaryArray.from_arrays(pa.array(self.kinds, pa.int8()), pa.array(KINDS)).dictionary_decode()
        noisy = pa.array(self.kinds != GENUINE)
        return self.log().append_column("is_noise", noisy).append_column("kind", names)

    def truth(self) -> pa.Table:
        """The clean held-out test pairs."""
        return pa.table({"user": _names("u", self.test_users), "item": _names("i", self.test_items)})


def simulate(settings: SimulatorSettings | None = None, tick: Tick = lambda done: None) -> Simulation:
    """Draw preferences and a log from them. ``tick`` gets the share that is done."""
    settings = settings or SimulatorSettings()
    rng = np.random.default_rng(settings.seed)
    preferences = _draw_preferences(settings, rng)
    users, kinds = _draw_slots(settings, rng)
    samplers = _item_samplers(settings, rng)
    items, keys = _fill_slots(preferences, users, kinds, samplers, rng, np.empty(0, np.int64), tick)
    found = items >= 0
    if found.mean() < 0.99:
        raise DataError(
            f"{int((~found).sum())} of {len(items)} clicks found no item to fall on; "
            "add items or lower interactions."
        )
    users, items, kinds = users[found], items[found], kinds[found]
    times = 1_700_000_000 + rng.integers(0, 90 * 24 * 3600, len(users))
    order = np.argsort(times, kind="stable")
    tested = np.sort(rng.choice(settings.users, min(settings.users, settings.test_users), replace=False))
    test_users = np.repeat(tested, settings.test_per_user)
    uniform = [samplers[MISCLICK]] * len(KINDS)
    test_items, _ = _fill_slots(preferences, test_users, np.zeros(len(test_users), np.int8), uniform, rng, keys)
    left = test_items >= 0  # a user of a small catalogue may have clicked nearly all it likes
    return Simulation(
        settings,
        preferences,
        users[order],
        items[order],
        times[order],
        kinds[order],
        test_users[left],
        test_items[left],
    )


def _names(prefix: str, codes: np.ndarray) -> pa.Array:
    distinct, where = np.unique(codes, return_inverse=True)
    names = pa.array([f"{prefix}{code}" for code in distinct])
    return pa.DictionaryArray.from_arrays(pa.array(where, pa.int32()), names).dictionary_decode()


def _draw_preferences(settings: SimulatorSettings, rng: np.random.Generator) -> Preferences:
    taste = rng.normal(size=(settings.users, settings.taste_dims)) / settings.taste_dims**0.5
    traits = rng.normal(size=(settings.items, settings.taste_dims))
    quality = rng.normal(scale=settings.quality_spread, size=settings.items)
    # Given a taste, affinity over items is normal: the threshold that like_rate of them pass has a closed form.
    deviation = np.sqrt((taste**2).sum(1) + settings.quality_spread**2)
    bar = NormalDist().inv_cdf(1 - settings.like_rate) * deviation
    return Preferences(*(array.astype(np.float32) for array in (taste, traits, quality, bar)))


def _draw_slots(settings: SimulatorSettings, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Who clicks how often, and of which kind each click is."""
    most = int(0.5 * settings.like_rate * settings.items)
    if settings.interactions > settings.users * most:
        raise DataError(
            f"{settings.interactions} interactions are too many for {settings.users} users who like about "
            f"{settings.like_rate * settings.items:.0f} items each; at most {settings.users * most} fit: "
            "add users or items."
        )
    activity = rng.lognormal(sigma=settings.activity_spread, size=settings.users)
    quota = np.zeros(settings.users, np.int64)
    while (missing := settings.interactions - int(quota.sum())) > 0:
        open_ = np.where(quota < most, activity, 0.0)
        quota = np.minimum(quota + rng.multinomial(missing, open_ / open_.sum()), most)
    users = np.repeat(np.arange(settings.users, dtype=np.int32), quota)
    if settings.noise == 0:
        return users, np.zeros(len(users), np.int8)
    a, b = settings.noise * settings.carelessness, (1 - settings.noise) * settings.carelessness
    noisy = rng.random(len(users)) < rng.beta(a, b, settings.users)[users]
    shares = [settings.misclick, settings.conformity, settings.promotion]
    kinds = rng.choice(np.array([MISCLICK, CONFORMITY, PROMOTION], np.int8), len(users), p=shares)
    return users, np.where(noisy, kinds, np.int8(GENUINE))


Sampler = Callable[[int], np.ndarray]


def _item_samplers(settings: SimulatorSettings, rng: np.random.Generator) -> list[Sampler]:
    """How each kind of click finds its item."""
    exposure = rng.permutation(np.arange(1.0, settings.items + 1) ** -settings.popularity_slope)
    push = rng.lognormal(sigma=settings.promotion_spread, size=settings.items)
    weights = [exposure, np.ones(settings.items), exposure**settings.conformity_slope, push]

    def sampler(weight: np.ndarray) -> Sampler:
        edges = np.cumsum(weight / weight.sum())
        edges[-1] = 1.0
        return lambda n: np.searchsorted(edges, rng.random(n), side="right").astype(np.int32)

    return [sampler(weight) for weight in weights]


def _fill_slots(
    preferences: Preferences,
    users: np.ndarray,
    kinds: np.ndarray,
    samplers: list[Sampler],
    rng: np.random.Generator,
    taken: np.ndarray,
    tick: Tick = lambda done: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find an item for every open click: liked where genuine, not liked where noise, and no pair twice.

    Returns the items, −1 where the user has none left, and the sorted keys of all pairs taken so far.
    """
    n_items = len(preferences.traits)
    items = np.full(len(users), -1, np.int32)
    open_ = np.arange(len(users))
    for _ in range(MAX_ROUNDS * max(1, len(users) // BLOCK)):
        slots = np.repeat(open_[:BLOCK], PROPOSALS)
        proposed = np.empty(len(slots), np.int32)
        for kind, sampler in enumerate(samplers):
            of_kind = np.flatnonzero(kinds[slots] == kind)
            proposed[of_kind] = sampler(len(of_kind))
        fits = preferences.likes(users[slots], proposed) == (kinds[slots] == GENUINE)
        slots, proposed = slots[fits], proposed[fits]
        keys = users[slots].astype(np.int64) * n_items + proposed
        if len(taken):
            at = np.minimum(np.searchsorted(taken, keys), len(taken) - 1)
            new = taken[at] != keys
            slots, proposed, keys = slots[new], proposed[new], keys[new]
        # one item per slot, then one slot per pair; which of several wins is chance
        slots, first = np.unique(slots, return_index=True)
        keys, first_of_pair = np.unique(keys[first], return_index=True)
        slots, proposed = slots[first_of_pair], proposed[first][first_of_pair]
        items[slots] = proposed
        taken = np.sort(np.concatenate([taken, keys]), kind="stable")
        open_ = np.concatenate([open_[BLOCK:], open_[:BLOCK][items[open_[:BLOCK]] < 0]])
        tick(1 - len(open_) / len(users))
        if not len(open_):
            return items, taken
    return items, taken
