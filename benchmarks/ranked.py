"""Labels in the order of a quality score, worst first: how well it finds the wrong ones, and what chance does.

The measures are ROC-AUC, average precision, and precision at as many labels as are wrong. Each is also found when
every label counts as often as a resample has it (the bootstrap). `parts` gives ROC-AUC and average precision as a
mean over the labels: a label's part is the measure, and what one more such label would change times their number.
So `accord.evaluation.significance.difference` can judge them over seeds and examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import norm

from accord.evaluation.significance import LEVEL, Difference

AUC, AP, AT_WRONG = MEASURES = ("roc_auc", "average_precision", "precision_at_wrong")


class Ranked:
    """Labels in order. Those of one quality share their place."""

    def __init__(self, quality: np.ndarray, wrong: np.ndarray) -> None:
        quality = np.asarray(quality)
        self.order = np.argsort(quality, kind="stable")
        ordered = quality[self.order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        self.ends = np.flatnonzero(last)
        self.place = np.append(0, np.cumsum(last)[:-1])
        """Of each label in order: the number of its group of equal quality."""
        self.wrong = np.asarray(wrong, float)[self.order]

    def measures(self, weights: np.ndarray | None = None) -> dict[str, float]:
        """All measures; of a resample, if the labels count as often as ``weights`` says."""
        own = np.ones(len(self.order)) if weights is None else np.asarray(weights, float)[self.order]
        judged, hit = np.cumsum(own)[self.ends], np.cumsum(own * self.wrong)[self.ends]
        total = hit[-1]
        more_hit, more_missed = np.diff(hit, prepend=0), np.diff(judged - hit, prepend=0)
        area = float((more_missed * (hit - more_hit / 2)).sum()) / (total * (judged[-1] - total))
        some = judged > 0
        precision = float((more_hit[some] * hit[some] / judged[some]).sum()) / total
        first = float(np.interp(total, np.append(0, judged), np.append(0, hit))) / total
        return {AUC: float(area), AP: float(precision), AT_WRONG: float(first)}

    def parts(self) -> dict[str, np.ndarray]:
        """What each label counts in two of the measures, whose mean they have."""
        found, wrong, place = self.measures(), self.wrong, self.place
        judged = self.ends + 1.0
        hit = np.cumsum(wrong)[self.ends]
        count, total = len(wrong), hit[-1]
        clean = count - total
        more_hit, more_missed = np.diff(hit, prepend=0), np.diff(judged - hit, prepend=0)
        of_wrong = (clean - (judged - hit) + more_missed / 2) / clean  # clean labels that come later
        of_clean = (hit - more_hit / 2) / total  # wrong ones that come earlier
        own = np.where(wrong > 0, of_wrong[place], of_clean[place]) - found[AUC]
        area = found[AUC] + own * count / np.where(wrong > 0, total, clean)
        precision = hit / judged
        later, later_missed = (
            np.cumsum(each[::-1])[::-1] for each in (more_hit / judged, more_hit * precision / judged)
        )
        change = wrong * (precision[place] - found[AP]) + wrong * later[place] - later_missed[place]
        values = {AUC: area, AP: found[AP] + change * count / total}
        back = np.argsort(self.order)
        return {name: each[back] for name, each in values.items()}


def ranks(quality: np.ndarray) -> np.ndarray:
    """The place of every label, equal where quality is: all that the measures need, in as few bytes as will do."""
    places = np.unique(np.asarray(quality), return_inverse=True)[1]
    return places.astype(np.uint16 if places.max(initial=0) < 1 << 16 else np.uint32)


def resampled(
    scores: Mapping[str, np.ndarray], wrong: np.ndarray, *, resamples: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """The measures (resamples, measures) of every score when examples are drawn anew, the same for all scores."""
    ordered = {name: Ranked(quality, wrong) for name, quality in scores.items()}
    found = {name: np.empty((resamples, len(MEASURES))) for name in scores}
    rng, count = np.random.default_rng(seed), len(wrong)
    for k in range(resamples):
        weights = np.bincount(rng.integers(0, count, count), minlength=count)
        for name, one in ordered.items():
            found[name][k] = list(one.measures(weights).values())
    return found


def over_examples(gain: float, draws: Sequence[float] | np.ndarray) -> Difference:
    """A difference with an interval of as many bootstrap standard errors as a normal distribution asks for."""
    error = float(np.std(draws, ddof=1))
    if not error:
        return Difference(gain, gain, gain, float(not gain), "examples")
    reach = float(norm.ppf((1 + LEVEL) / 2)) * error
    p = float(2 * norm.sf(abs(gain) / error))
    return Difference(gain, gain - reach, gain + reach, p, "examples")
