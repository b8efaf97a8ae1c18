"""Answers without noise: sample splitting, and rounding to so few levels that a union bound covers all transcripts."""

from __future__ import annotations

import math

import numpy as np

from dodona.lab.adaptive.certificate import validate_probability, validate_rows
from dodona.lab.conversion import add_rounding_margin
from dodona.numbers import smallest_number

_MOST_SUMMED = 1 << 12
_PARTS = 4  # of each stretch of p between two jumps


def failure_per_query(failing: float, *, queries: int) -> float:
    """Return the failure probability of one answer: rows are fresh, so all hold with probability (1 - p)^k."""
    return -math.expm1(math.log1p(-failing) / queries)


def hoeffding_within(rows: int, *, failing: float) -> float:
    """Return t with 2·((1 - t)/(1 + t))^{mt} = p: how far a mean of m values in [0, 1] may be from its expectation.

    It is below the usual √(ln(2/p)/(2m)).

    Theorem: sample-splitting
    """
    return hoeffding_from_log(rows, math.log(2 / validate_probability(failing, argument="failing")))


def hoeffding_from_log(rows: int, logarithm: float) -> float:
    """Return `hoeffding_within` for a given ln(2/p); 1 where the bound says nothing.

    Theorem: sample-splitting
    """
    count = validate_rows(rows)

    def is_met(gap: float) -> bool:
        return count * gap * (math.log1p(gap) - math.log1p(-gap)) >= logarithm

    if not is_met(1 - 1e-12):
        return 1.0
    return min(1.0, add_rounding_margin(smallest_number(is_met, 0.0, 1 - 1e-12, near=1e-12)))


def binomial_within(rows: int, *, failing: float) -> float:
    """Return how far the mean of m yes/no answers may be from its probability, by the binomial distribution itself.

    Only for queries with values 0 and 1. For very many rows it equals `hoeffding_within`.

    Theorem: sample-splitting
    """
    count, wanted = validate_rows(rows), validate_probability(failing, argument="failing")
    upper = hoeffding_within(count, failing=wanted)
    if count > _MOST_SUMMED:
        return upper
    lower = 0.5 * upper  # the bound is off by less than that, and a smaller answer is not looked for
    return min(
        upper,
        add_rounding_margin(
            smallest_number(lambda gap: worst_tail(count, gap) <= wanted * (1 - 1e-9), lower, upper, near=1e-6)
        ),
    )


def worst_tail(rows: int, gap: float) -> float:
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


def log_transcripts(queries: int, levels: int) -> float:
    """Return ln of the number of queries an analyst may ever ask who sees one of L levels each time: Σ L^j for j < k.

    Theorem: description-length
    """
    if levels == 1:
        return math.log(queries)
    return add_rounding_margin(queries * math.log(levels) - math.log(levels - 1))


def log_sparse_transcripts(queries: int, *, positives: int, levels: int) -> float:
    """Return ln of the same number when only c - 1 earlier answers are unknown: at least ln Σ C(k, i+1)·L^i over i < c.

    Theorem: description-length
    """
    last = min(positives, queries) - 1
    # The ratio of successive terms falls, so terms rise to a peak.
    peak = min(last, max(0, ((queries - 1) * levels - 2) // (levels + 1) + 1))
    largest = math.lgamma(queries + 1) - math.lgamma(peak + 2) - math.lgamma(queries - peak) + peak * math.log(levels)
    ratio = (queries - last) * levels / (last + 1) if peak == last > 0 else 0.0
    terms = min(last + 1.0, ratio / (ratio - 1)) if ratio > 1 else last + 1.0
    # The three logarithms cancel; each carries a few roundings of 2^-53.
    return max(0.0, largest) + math.log(terms) + 1e-14 * math.lgamma(queries + 1) + 1e-9


def union_bound_within(rows: int, *, ways: float, failing: float) -> float:
    """Return how far the sample mean of any of e^ways fixed queries may be from the population mean.

    Theorem: description-length
    """
    return hoeffding_from_log(rows, ways + math.log(2 / validate_probability(failing, argument="failing")))
