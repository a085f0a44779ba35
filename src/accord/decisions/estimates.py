"""How far a list of flagged labels can be trusted, from a few decisions: estimates with intervals.

What people pick says nothing of what they did not pick. So estimates rest on random checks: each part of the labels
has a random order, and the decisions on its beginning, however they came about, are a random sample. Labels that
were decided worst first, without a gap, are counted as they are, and the sample is then one of the rest. A share p
of wrong ones has the posterior Beta(½ + wrong, ½ + right) (Jeffreys); what is not decided yet is drawn from it.

People err. If some labels were asked again, or of two people, their disagreement d = 2e(1 − e) gives the chance e
that one answer is a slip, and the share of truly wrong ones is (p − e) / (1 − 2e) (Rogan & Gladen, 1978). Errors
that a person makes twice in the same way are not seen in this. Without such answers only what people would decide
is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.decisions.design import Design, Part
from accord.decisions.journal import Decision

LEVEL = 0.90
DRAWS = 4000
AT_END = 1 - LEVEL + 0.01
"""Draws that are put at 0 or 1 where a sample is all right or all wrong."""
FEWEST_AGAIN = 10
"""Answers asked again from which the reviewer's own error is told."""
FEWEST = 5
"""Random checks from which a share is told."""
WORTH = 0.1
"""Looking goes on while at least this share of the next labels is wrong."""
Answers = dict[int, bool | None]
"""Whether each label that was decided is wrong; nothing where the person cannot say."""


@dataclass(frozen=True)
class Value:
    """An estimate and its interval."""

    value: float
    low: float
    high: float

    @staticmethod
    def of(draws: np.ndarray) -> Value:
        low, middle, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
        return Value(float(middle), float(low), float(high))

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def to_show(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Wrong:
    """How many labels of a run are wrong."""

    precision: Value | None
    """The share of the flagged that are wrong."""
    flagged: Value | None
    """The same as a number."""
    below: Value | None
    """Wrong ones that are not flagged."""
    every: Value | None


@dataclass(frozen=True)
class Estimate:
    """What the decisions so far say of all labels."""

    decided: int
    checks: int
    """Random checks among the flagged."""
    would: Wrong
    """What these people would decide."""
    truly: Wrong | None
    """Corrected for their slips, where those are known."""
    error: Value | None
    """The chance that one answer is a slip."""
    asked_again: int
    stop: int | None
    """How many labels to look at, worst first, until fewer than one in ten of the next are wrong."""
    left: float | None
    """Wrong ones beyond it, about."""

    def to_show(self) -> dict[str, Any]:
        """As plain values, with the words that go with them."""
        which = self.would if self.truly is None else self.truly
        shown: dict[str, Any] = {
            name: None if value is None else value.to_show() for name, value in vars(which).items()
        }
        words = "what you would decide" if self.truly is None else "truly wrong, corrected for slips"
        return shown | {
            "words": words,
            "level": LEVEL,
            "decided": self.decided,
            "checks": self.checks,
            "error": None if self.error is None else self.error.to_show(),
            "asked_again": self.asked_again,
            "stop": self.stop,
            "left": self.left,
        }


def estimate(design: Design, decisions: Sequence[Decision]) -> Estimate:
    """From everything that was decided, by one person or several."""
    answers, again, differ = answers_of(design, decisions)
    samples = [Sample.of(part, answers) for part in design.parts]
    rng = _stream(design)
    counts = {part.name: _draws(part, own, rng) for part, own in zip(design.parts, samples, strict=True)}
    sizes = {part.name: len(part.items) for part in design.parts}
    error, truly = None, None
    if again >= FEWEST_AGAIN:
        d = rng.beta(0.5 + differ, 0.5 + again - differ, DRAWS)
        e = (1 - np.sqrt(1 - 2 * np.minimum(d, 0.48))) / 2
        error = Value.of(e)
        truly = _wrong({name: _corrected(draws, sizes[name], e, rng) for name, draws in counts.items()}, sizes)
    stop, left = _stop(_curve(design, samples))
    return Estimate(len(answers), len(samples[0].drawn), _wrong(counts, sizes), truly, error, again, stop, left)


def precision(design: Design, decisions: Sequence[Decision]) -> Value | None:
    """The share of the flagged that these people would call wrong, as `estimate` says it, and no more of it."""
    flagged = design.parts[0]
    draws = _draws(flagged, Sample.of(flagged, answers_of(design, decisions)[0]), _stream(design))
    return None if draws is None or not len(flagged.items) else Value.of(draws / len(flagged.items))


def _stream(design: Design) -> np.random.Generator:
    return np.random.default_rng(int(design.identity[:16], 16) + 1)


def answers_of(design: Design, decisions: Iterable[Decision]) -> tuple[Answers, int, int]:
    """Whether each label is wrong by the last word on it; how many have two answers; how many of these differ."""
    first: dict[tuple[str, int], bool | None] = {}
    again, differ = 0, 0
    for one in decisions:
        says, key = design.says_wrong(one), (one.reviewer, one.item)
        if one.why == "again" and key in first:
            if says is not None and first[key] is not None:
                again, differ = again + 1, differ + (says != first[key])
        else:
            first[key] = says
    by_item: dict[int, list[bool | None]] = {}
    for (_, item), says in first.items():
        by_item.setdefault(item, []).append(says)
    answers: Answers = {}
    for item, own in by_item.items():
        known = [says for says in own if says is not None]
        again, differ = again + max(0, len(known) - 1), differ + sum(says != known[0] for says in known[1:])
        wrong = sum(known)
        answers[item] = None if not known else known[0] if 2 * wrong == len(known) else 2 * wrong > len(known)
    return answers, again, differ


@dataclass(frozen=True)
class Sample:
    """What is known of a part: the places, worst first, and answers of labels that were decided."""

    counted: list[tuple[int, bool]]
    """Worst first without a gap; those where the person was unsure are left out."""
    drawn: list[tuple[int, bool]]
    """A random sample of the rest."""
    rest: int
    """How many labels are not counted."""

    @staticmethod
    def of(part: Part, answers: Answers) -> Sample:
        decided = np.fromiter((item in answers for item in part.items.tolist()), bool, len(part.items))
        begun = len(decided) if decided.all() else int((~decided).argmax())
        rank = {item: place for place, item in enumerate(part.items.tolist()) if decided[place]}
        drawn = list[tuple[int, bool]]()
        for item in part.drawn.tolist():
            if item not in answers:
                break
            if rank[item] >= begun and (says := answers[item]) is not None:
                drawn.append((rank[item], says))
        counted = [(k, says) for k in range(begun) if (says := answers[int(part.items[k])]) is not None]
        return Sample(counted, drawn, len(part.items) - len(counted))

    @property
    def wrong(self) -> int:
        return sum(says for _, says in self.drawn)


def _draws(part: Part, sample: Sample, rng: np.random.Generator) -> np.ndarray | None:
    """Draws of the number of wrong labels of a part; nothing where too few are decided at random."""
    size, wrong = len(sample.drawn), sample.wrong
    if not len(part.items):
        return np.zeros(DRAWS)
    if sample.rest > size and size < FEWEST:
        return None
    shares = rng.beta(0.5 + wrong, 0.5 + size - wrong, DRAWS)
    if wrong in (0, size):  # then the interval reaches to the end (Brown, Cai & DasGupta, 2001)
        shares[: round(AT_END * DRAWS)] = float(wrong > 0)
    left = sample.rest - size
    known = sum(says for _, says in sample.counted) + wrong
    return known + (rng.binomial(left, shares) if left else np.zeros(DRAWS))


def _corrected(
    draws: np.ndarray | None, size: int, error: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """The number of truly wrong labels, from the number that would be called wrong."""
    if draws is None or not size:
        return draws
    slips = rng.normal(size=DRAWS) * np.sqrt(size * error * (1 - error))
    return np.clip((draws + slips - size * error) / (1 - 2 * error), 0, size)


def _wrong(counts: dict[str, np.ndarray | None], sizes: dict[str, int]) -> Wrong:
    flagged, rest = counts["flagged"], [counts[name] for name in counts if name != "flagged"]
    known = [draws for draws in rest if draws is not None]
    below = np.sum(known, axis=0) if len(known) == len(rest) else None
    every = None if below is None or flagged is None else flagged + below
    precision = None if flagged is None or not sizes["flagged"] else Value.of(flagged / sizes["flagged"])
    numbers = (None if draws is None else Value.of(draws) for draws in (flagged, below, every))
    return Wrong(precision, *numbers)


# -- where to stop, and where to flag --------------------------------------------------------------------


def wrong_by_rank(design: Design, answers: Answers) -> np.ndarray | None:
    """The chance that each label is wrong, in the order of looking at them; nothing where too little is known.

    A logistic curve over the logarithm of the rank, fitted to what was drawn at random and what was looked at worst
    first, each with the weight of the labels for which it stands.
    """
    return _curve(design, [Sample.of(part, answers) for part in design.parts])


def _curve(design: Design, samples: Sequence[Sample]) -> np.ndarray | None:
    from sklearn.linear_model import LogisticRegression

    known = list[tuple[int, bool, float]]()
    begin = 0
    for part, sample in zip(design.parts, samples, strict=True):
        known += [(begin + place, says, 1.0) for place, says in sample.counted]
        weight = max(1, sample.rest) / max(1, len(sample.drawn))
        known += [(begin + place, says, weight) for place, says in sample.drawn]
        begin += len(part.items)
    wrong = np.array([says for _, says, _ in known], bool)
    if len(wrong) < 2 * FEWEST or wrong.all() or not wrong.any():
        return None
    weights = np.array([weight for *_, weight in known])
    ranks = np.array([rank for rank, *_ in known])
    curve = LogisticRegression(C=10.0).fit(_steps(ranks), wrong, sample_weight=weights / weights.mean())
    return np.minimum.accumulate(curve.predict_proba(_steps(np.arange(begin)))[:, 1])


def _steps(ranks: np.ndarray) -> np.ndarray:
    return np.log1p(ranks)[:, None]


def _stop(chances: np.ndarray | None) -> tuple[int | None, float | None]:
    if chances is None:
        return None, None
    stop = int((chances >= WORTH).sum())
    return stop, float(chances[stop:].sum())


# -- in words --------------------------------------------------------------------------------------------


def rows_of(shown: dict[str, Any]) -> list[list[str]]:
    """What `Estimate.to_show` says, as far as it is known: words, the estimate, and the ends of its interval."""
    known = [(words, shown[name], form) for name, words, form in WORDS if shown[name] is not None]
    return [[words, *(form.format(own[key]) for key in ("value", "low", "high"))] for words, own, form in known]


WORDS = (
    ("precision", "share of the flagged that are wrong", "{:.1%}"),
    ("flagged", "wrong ones among the flagged", "{:.0f}"),
    ("below", "wrong ones among the others", "{:.0f}"),
    ("every", "wrong ones in all", "{:.0f}"),
    ("error", "chance that one answer is a slip", "{:.1%}"),
)
