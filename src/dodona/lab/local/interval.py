"""Intervals from the exact distribution of marks: Bin(m, p) + Bin(n - m, q) if m of n trials are for the label."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from dodona.lab.local.channel import SupportProbabilities

# Bounds on the error of a numerical tail: relative, and absolute where the sum is truncated.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-15
_WINDOW = 4.3  # by Hoeffding less than 2·e^(-2·4.3²) < 2·10^-16 lies more than 4.3·√n from the mean of n trials


def table_interval(marks: int, respondents: int, support: SupportProbabilities, failing: float) -> tuple[int, int]:
    """Return the least and the greatest number of respondents with the label that explain the marks.

    Theorem: local-estimates
    """
    trials = support.trials
    probabilities = float(support.keep), float(support.lend)
    opposite = float(1 - support.keep), float(1 - support.lend)
    rare = failing / 2

    def too_many(meaning: int) -> bool:
        """Return whether so few marks would be rare, as they are from some number on."""
        return _is_rare(_at_most(marks, meaning * trials, (respondents - meaning) * trials, probabilities), rare)

    def enough(meaning: int) -> bool:
        """Return whether so many marks would not be rare."""
        gaps = respondents * trials - marks
        return not _is_rare(_at_most(gaps, meaning * trials, (respondents - meaning) * trials, opposite), rare)

    estimate = float(support.share(marks, respondents))
    deviation = respondents * math.sqrt(support.variance(min(max(estimate, 0.0), 1.0), respondents))
    reach = deviation * NormalDist().inv_cdf(1 - rare)
    lowest = _first(enough, respondents, guess=estimate * respondents - reach, step=deviation / 32)
    highest = _first(too_many, respondents, guess=estimate * respondents + reach, step=deviation / 32) - 1
    # If no number explains the marks, return the nearest one.
    return min(lowest, respondents), max(highest, 0)


def population_interval(
    marks: int, respondents: int, support: SupportProbabilities, failing: float
) -> tuple[float, float]:
    """Return an interval for the share in the population that respondents were sampled from independently.

    One mark per respondent is binomial. With several, the interval for the table at half the failure probability is
    widened by a sampling interval at the other half.

    Theorem: local-estimates
    """
    if support.trials > 1:
        least, greatest = table_interval(marks, respondents, support, failing / 2)
        return _clopper_pearson(least, greatest, respondents, failing / 2)
    slope = float(support.keep - support.lend)
    low, high = ((edge - float(support.lend)) / slope for edge in _clopper_pearson(marks, marks, respondents, failing))
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def _is_rare(probability: float, rare: float) -> bool:
    """Return whether a tail is certainly rare, despite rounding."""
    return probability * (1 + _RELATIVE) + _ABSOLUTE <= rare


def _at_most(marks: int, meaning: int, others: int, probabilities: tuple[float, float]) -> float:
    """Return P(Bin(meaning, p) + Bin(others, q) ≤ marks), summed over the part with fewer trials."""
    from scipy.special import betainc
    from scipy.stats import binom

    few, many = sorted(((meaning, probabilities[0]), (others, probabilities[1])))
    half = _WINDOW * math.sqrt(few[0])
    low, high = math.floor(few[0] * few[1] - half), math.ceil(few[0] * few[1] + half)
    part = np.arange(max(low, 0), min(high, few[0]) + 1)
    rest = marks - part
    # P(Bin(n, q) ≤ k) is the incomplete beta function of (n - k, k + 1) at 1 - q, for k from 0 to n - 1.
    known = np.clip(rest, 0, max(many[0] - 1, 0))
    below = betainc(np.maximum(many[0] - known, 1), known + 1, 1 - many[1])
    below = np.where(rest < 0, 0.0, np.where(rest >= many[0], 1.0, below))
    return float(np.sum(binom.pmf(part, few[0], few[1]) * below))


def _first(holds: Callable[[int], bool], respondents: int, *, guess: float, step: float) -> int:
    """Return the least number at which a monotone condition holds; one more than all respondents if there is none."""
    low, high = -1, respondents + 1  # it does not hold at low, and counts as holding at high
    probe, width = min(max(round(guess), 0), respondents), max(1, round(step))
    while high - low > 1:
        if holds(probe):
            high, probe = probe, max(probe - width, (low + probe) // 2)
        else:
            low, probe = probe, min(probe + width, (probe + high + 1) // 2)
        probe, width = min(max(probe, low + 1), high - 1), width * 2
    return high


def _clopper_pearson(least: int, greatest: int, trials: int, failing: float) -> tuple[float, float]:
    """Return the lower end for `least` successes and the upper end for `greatest`."""
    from scipy.stats import beta

    low = beta.ppf(failing / 2, least, trials - least + 1) if least else 0.0
    high = beta.isf(failing / 2, greatest + 1, trials - greatest) if greatest < trials else 1.0
    return float(low), float(high)
