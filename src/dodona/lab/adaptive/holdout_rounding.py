"""A holdout without noise: few corrections, told coarsely (SparseValidate)."""

from __future__ import annotations

import math

from dodona.lab.adaptive.description import chosen_within, sparse_tree
from dodona.lab.adaptive.grid import rough
from dodona.lab.adaptive.holdout_design import HoldoutCase, HoldoutDesign, Method

_FINE = 10**4


def rounding_design(case: HoldoutCase, within: float) -> HoldoutDesign | None:
    """Return the SparseValidate design for an error that tolerates the largest gap; None if the error is out of reach.

    With h the sampling error of every query that may ever be asked, a training answer is within T + h of the population
    and a correction on L levels within 1/(2L) + h. So T = τ - h, and L is the least number with 1/(2L) ≤ T.

    Theorem: reusable-holdout
    """
    levels = _FINE if case.overfits == 1 else 1  # after the only correction nothing is asked, so it may be told finely
    while True:
        ways = sparse_tree(case.queries, positives=case.overfits, levels=levels)
        sampled = chosen_within(case.rows, ways=ways, failing=case.failing)
        # The query and its values on the training rows are both rounded to the grid.
        room = within - sampled - 2 * rough(case.steps)
        if room <= 0.5 / _FINE:
            return None
        needed = math.ceil(0.5 / room)
        if needed <= levels:
            break
        levels = needed
    threshold = math.floor(room * case.whole)
    return HoldoutDesign(
        method=Method.ROUNDING,
        rows=case.rows,
        queries=case.queries,
        overfits=case.overfits,
        within=within,
        corrected=min(within, sampled + 0.5 / levels + rough(case.steps)),
        confidence=1 - case.failing,
        threshold=threshold,
        tolerates=(threshold - 1) / case.whole - 2 * rough(case.steps),
        resolution=case.steps,
        levels=levels,
    )
