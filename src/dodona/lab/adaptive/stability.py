"""Total-variation stability: how much the distribution of a transcript may change when one row is replaced.

Noise here is continuous with standard deviation `scale`, added to means over `rows` values from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.certificate import (
    validate_fraction,
    validate_positive,
    validate_probability,
    validate_queries,
    validate_rows,
)
from dodona.lab.conversion import add_rounding_margin


def gaussian_stability(*, rows: int, scale: float, queries: int = 1) -> float:
    """Return the total variation of Gaussian answers to k adaptive queries: 2Φ(√k/(2mσ)) - 1, exact.

    For one query it is at most 1/(√(2π)·m·σ).

    Theorem: tv-stability
    """
    spread = validate_rows(rows) * validate_positive(scale, argument="scale")
    return min(1.0, add_rounding_margin(math.erf(math.sqrt(validate_queries(queries) / 8) / spread)))


def add_stabilities(stabilities: Iterable[float]) -> float:
    """Return Σε, at most 1: the stability of adaptively chosen ε-stable steps by addition.

    Theorem: tv-stability
    """
    return min(1.0, add_rounding_margin(math.fsum(_validate_stabilities(stabilities))))


def compose_stabilities(stabilities: Iterable[float]) -> float:
    """Return 1 - ∏(1 - ε): the sharp bound, which some steps attain.

    >>> round(compose_stabilities([0.1] * 10), 4)
    0.6513

    Theorem: tv-stability
    """
    fractions = _validate_stabilities(stabilities)
    if 1.0 in fractions:
        return 1.0
    return min(1.0, add_rounding_margin(-math.expm1(math.fsum(math.log1p(-each) for each in fractions))))


def stability_of_privacy(*, epsilon: float, delta: float = 0.0) -> float:
    """Return (e^ε - 1 + 2δ)/(e^ε + 1): the total-variation stability of an (ε, δ)-differentially private mechanism.

    Theorem: tv-stability
    """
    loss = validate_positive(epsilon, argument="epsilon")
    # Divided by e^ε to avoid overflow.
    inverse = math.exp(-loss)
    failure = 2 * validate_fraction(delta, argument="delta") * inverse
    return min(1.0, add_rounding_margin((-math.expm1(-loss) + failure) / (1 + inverse)))


def expected_gap(*, stability: float, rows: int, failing: float) -> float:
    """Return a bound on |E[q(S) - q(D)]| over the mechanism's randomness, except with probability β over the rows.

    It is ε + (2εm + 1)·√(ln(2/β)/(2m)) for a query that results from an ε-stable interaction.

    Theorem: expected-generalization
    """
    stable, count = validate_fraction(stability, argument="stability"), validate_rows(rows)
    root = math.sqrt(math.log(2 / validate_probability(failing, argument="failing")) / (2 * count))
    return add_rounding_margin(stable + (2 * stable * count + 1) * root)


def _validate_stabilities(stabilities: Iterable[float]) -> list[float]:
    fractions = [validate_fraction(each, argument="stability") for each in stabilities]
    if not fractions:
        raise InvalidArgument("stabilities", fractions, "write at least one number from 0 to 1")
    return fractions
