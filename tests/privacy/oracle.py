"""Slow and exact: composed privacy by enumeration, and binomial sums with fifty digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from mpmath import mp, mpf

Pairs = Sequence[tuple[float, float]]
"""For each outcome its probability under either table."""


def worst_pair(epsilon: float, delta: float = 0.0) -> Pairs:
    """Return the pair that every (ε, δ)-differentially private pair can be simulated from."""
    kept = (1 - delta) / (1 + math.exp(-epsilon))
    flipped = (1 - delta) / (1 + math.exp(epsilon))
    leaks = [(delta, 0.0), (0.0, delta)] if delta else []
    return [*leaks, (kept, flipped), (flipped, kept)]


def enumerated_delta(mechanisms: Sequence[Pairs], epsilon: float) -> float:
    """Return Σ (P - e^ε·Q)₊ over all sequences of outcomes."""
    return math.fsum(
        max(0.0, math.prod(p for p, _ in outcomes) - math.exp(epsilon) * math.prod(q for _, q in outcomes))
        for outcomes in itertools.product(*mechanisms)
    )


def binomial_delta(groups: Sequence[tuple[Fraction, int]], epsilon: Fraction | float) -> mpf:
    """Return δ(ε) of groups of randomized responses, summed with fifty digits over all numbers of flips."""
    mp.dps = 50
    level = _exact(epsilon)
    laws: list[list[tuple[mpf, mpf]]] = []
    for loss, times in groups:
        each = _exact(loss)
        flip = 1 / (1 + mp.exp(each))
        laws.append(
            [
                (each * (times - 2 * j), mp.binomial(times, j) * flip**j * (1 - flip) ** (times - j))
                for j in range(times + 1)
            ]
        )
    total = mpf(0)
    for atoms in itertools.product(*laws):
        loss = sum((value for value, _ in atoms), mpf(0))
        if loss > level:
            weight = mpf(1)
            for _, probability in atoms:
                weight *= probability
            total += weight * (1 - mp.exp(level - loss))
    return total


def _exact(number: Fraction | float) -> mpf:
    fraction = Fraction(number)
    return mpf(fraction.numerator) / mpf(fraction.denominator)
