"""Few possible answers: where a transcript has few possible forms, all questions that may be asked can be counted."""

from __future__ import annotations

import math

from dodona.lab.adaptive.quantity import chance
from dodona.lab.adaptive.splitting import within_of
from dodona.lab.conversion import add_rounding_margin


def tree(queries: int, levels: int) -> float:
    """Return ln of the number of queries an analyst may ever ask who sees one of L levels each time: Σ L^j for j < k.

    Theorem: description-length
    """
    if levels == 1:
        return math.log(queries)
    return add_rounding_margin(queries * math.log(levels) - math.log(levels - 1))


def sparse_tree(queries: int, *, positives: int, levels: int) -> float:
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


def chosen_within(rows: int, *, ways: float, failing: float) -> float:
    """Return how far the sample mean of any of e^ways fixed queries may be from the population mean.

    Theorem: description-length
    """
    return within_of(rows, ways + math.log(2 / chance(failing, argument="failing")))
