"""Shares, their differences, the agreement of raters, and that of a score with what they say."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from memeloom.train.evaluation.likelihood import Interval

_Z: Final = NormalDist().inv_cdf(0.975)


def wilson(yes: float, count: int) -> Interval:
    """Return the share `yes` of `count` with its 95 % score interval (Wilson, 1927).

    yes: may be a fraction, where raters differ about an item.
    """
    share = yes / count
    shrunk = 1 + _Z**2 / count
    middle = (share + _Z**2 / (2 * count)) / shrunk
    half = _Z / shrunk * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    # Rounding errors may carry the ends past the share where it is 0 or 1.
    return Interval(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


def difference(one: Interval, other: Interval) -> Interval:
    """Return `one` - `other`, shares of independent items, with its 95 % interval from those of both.

    Newcombe, "Interval estimation for the difference between independent proportions", 1998, method 10.
    """
    value = one.value - other.value
    below = math.hypot(one.value - one.low, other.high - other.value)
    above = math.hypot(one.high - one.value, other.value - other.low)
    return Interval(value, value - below, value + above)


def krippendorff(items: Sequence[Sequence[bool]]) -> float | None:
    """Return Krippendorff's alpha of yes and no: 1 is full agreement, 0 that of chance.

    items: the answers about each item, from any number of raters. None if no item has two answers, or all are equal.
    Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
    """
    paired = [answers for answers in items if len(answers) > 1]
    counts = Counter(answer for answers in paired for answer in answers)
    if len(counts) < 2:
        return None
    # Of all pairs of answers about one item, and of all answers, the share that differ.
    observed = sum(2 * sum(answers) * (len(answers) - sum(answers)) / (len(answers) - 1) for answers in paired)
    expected = 2 * counts[True] * counts[False] / (counts.total() - 1)
    return 1 - observed / expected


def auc(scores: Sequence[float], wanted: Sequence[bool]) -> Interval | None:
    """Return the share of pairs of a wanted and another item in which the wanted one has the higher score.

    Ties count as half. The 95 % interval is of Hanley and McNeil, "The meaning and use of the area under a receiver
    operating characteristic (ROC) curve", 1982. None if there are no such pairs.
    """
    values, chosen = np.asarray(scores, np.float64), np.asarray(wanted, np.bool_)
    high, low = values[chosen], values[~chosen]
    pairs = len(high) * len(low)
    if not pairs:
        return None
    ahead = high[:, None] - low[None, :]
    area = float(((ahead > 0) + 0.5 * (ahead == 0)).mean())
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (len(high) - 1) * (q1 - area**2) + (len(low) - 1) * (q2 - area**2)
    half = _Z * math.sqrt(max(variance, 0.0) / pairs)
    return Interval(area, max(area - half, 0.0), min(area + half, 1.0))
