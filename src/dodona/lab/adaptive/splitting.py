"""Sample splitting: each question gets rows of its own, and no noise."""

from __future__ import annotations

import math

import numpy as np

from dodona.lab.adaptive.quantity import chance, rows_of
from dodona.lab.conversion import add_rounding_margin
from dodona.privacy.bounds import smallest_number

_MOST_SUMMED = 1 << 12
_PARTS = 4  # of each stretch of p between two jumps


def each_failing(failing: float, *, queries: int) -> float:
    """Return the failure probability of one answer: rows are fresh, so all hold with probability (1 - p)^k."""
    return -math.expm1(math.log1p(-failing) / queries)


def hoeffding_within(rows: int, *, failing: float) -> float:
    """Return t with 2·((1 - t)/(1 + t))^{mt} = p: how far a mean of m values in [0, 1] may be from its expectation.

    It is below the usual √(ln(2/p)/(2m)).

    Theorem: sample-splitting
    """
    return within_of(rows, math.log(2 / chance(failing, argument="failing")))


def within_of(rows: int, logarithm: float) -> float:
    """Return `hoeffding_within` for a given ln(2/p); 1 where the bound says nothing.

    Theorem: sample-splitting
    """
    count = rows_of(rows)

    def met(gap: float) -> bool:
        return count * gap * (math.log1p(gap) - math.log1p(-gap)) >= logarithm

    if not met(1 - 1e-12):
        return 1.0
    return min(1.0, add_rounding_margin(smallest_number(met, 0.0, 1 - 1e-12, near=1e-12)))


def binomial_within(rows: int, *, failing: float) -> float:
    """Return how far the mean of m yes/no answers may be from its probability, by the binomial distribution itself.

    Only for queries with values 0 and 1. For very many rows it equals `hoeffding_within`.

    Theorem: sample-splitting
    """
    count, wanted = rows_of(rows), chance(failing, argument="failing")
    upper = hoeffding_within(count, failing=wanted)
    if count > _MOST_SUMMED:
        return upper
    lower = 0.5 * upper  # the bound is off by less than that, and a smaller answer is not looked for
    return min(
        upper,
        add_rounding_margin(
            smallest_number(lambda gap: worst(count, gap) <= wanted * (1 - 1e-9), lower, upper, near=1e-6)
        ),
    )


def worst(rows: int, gap: float) -> float:
    """Return a bound on P(|X/m - p| > t) for X ~ Bin(m, p) over all p.

    Between two jumps of the bounds on X, the upper tail grows with p and the lower tail falls. On each part of such an
    interval, the sum is at most the upper tail at its right end plus the lower tail at its left end.

    Theorem: sample-splitting
    """
    from scipy.special import bdtr, bdtrc

    whole = np.arange(rows + 1) / rows
    # By symmetry, p up to 1/2 is enough.
    jumps = np.unique(np.clip(np.concatenate([whole - gap, whole + gap, [0.0, 0.5]]), 0.0, 0.5))
    parts = np.linspace(jumps[:-1], jumps[1:], _PARTS + 1)
    left, right = parts[:-1], parts[1:]
    middle = (jumps[:-1] + jumps[1:]) / 2
    above = np.ceil(rows * (middle + gap))
    below = np.floor(rows * (middle - gap))
    upper = np.where(above <= rows, bdtrc(np.clip(above - 1, -1, rows), rows, right), 0.0)
    lower = np.where(below >= 0, bdtr(np.clip(below, 0, rows), rows, left), 0.0)
    return float((upper + lower).max())
