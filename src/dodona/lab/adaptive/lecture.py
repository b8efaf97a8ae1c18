"""The lecture's calculators for total-variation stability, with constants: noise, sample size, and Laplace's ε.

They bound the expected gap between sample and population for the query that an analyst arrives at after k answers. The
certificates bound the error of every answer and need less noise; these functions show what the lecture proves.
"""

from __future__ import annotations

import math

from dodona.errors import Refused
from dodona.lab.adaptive.certificate import (
    MOST_ROWS,
    validate_positive,
    validate_probability,
    validate_queries,
    validate_rows,
)
from dodona.lab.adaptive.stability import expected_gap, gaussian_stability, stability_of_privacy
from dodona.lab.composition import advanced, mechanism_group
from dodona.numbers import smallest_integer, smallest_number

_NEAR = 1e-12
_WIDEST = 1e12


def noise_for(*, rows: int, queries: int, within: float, failing: float) -> float:
    """Return the least standard deviation of Gaussian noise that keeps the expected gap within a bound.

    It is of the order √k·√(ln(1/β)/m)/τ by the exact total variation used here, and k·√(ln(1/β)/m)/τ by adding it up
    over queries.

    Theorem: expected-generalization
    """
    count, asked, wanted = (
        validate_rows(rows),
        validate_queries(queries),
        validate_probability(within, argument="within"),
    )
    often = validate_probability(failing, argument="failing")

    def is_met(scale: float) -> bool:
        return gaussian_gap(rows=count, queries=asked, scale=scale, failing=often) <= wanted

    if not is_met(_WIDEST):
        _refuse(count, wanted, often)
    return smallest_number(is_met, 1e-15, _WIDEST, near=_NEAR, geometric=True)


def gaussian_gap(*, rows: int, queries: int, scale: float, failing: float) -> float:
    """Return the expected gap after `queries` Gaussian answers.

    Theorem: expected-generalization
    """
    stability = gaussian_stability(rows=rows, scale=scale, queries=queries)
    return expected_gap(stability=stability, rows=rows, failing=failing)


def lecture_noise(*, rows: int, queries: int, within: float, failing: float) -> float:
    """Return the lecture's σ with constants: k·(1 + 3√(m·ln(2/β)/2))/(√(2π)·m·τ), where that is at most k/√(2π).

    Theorem: expected-generalization
    """
    count, asked, wanted = (
        validate_rows(rows),
        validate_queries(queries),
        validate_probability(within, argument="within"),
    )
    root = math.sqrt(count * math.log(2 / validate_probability(failing, argument="failing")) / 2)
    noise = asked * (1 + 3 * root) / (math.sqrt(2 * math.pi) * count * wanted)
    if noise > asked / math.sqrt(2 * math.pi):
        _refuse(count, wanted, failing)
    return noise


def rows_for(*, queries: int, scale: float, within: float, failing: float) -> int:
    """Return the least number of rows at which Gaussian noise of this scale keeps the expected gap within a bound.

    It grows as k·ln(1/β)/τ², and as k²·ln(1/β)/τ² if total variation is added up over queries.

    Theorem: expected-generalization
    """
    asked, spread = validate_queries(queries), validate_positive(scale, argument="scale")
    wanted, often = validate_probability(within, argument="within"), validate_probability(failing, argument="failing")

    def enough(rows: int) -> bool:
        return gaussian_gap(rows=rows, queries=asked, scale=spread, failing=often) <= wanted

    if not enough(MOST_ROWS):
        raise Refused(f"No number of rows up to {MOST_ROWS} is enough. Write more noise, or a larger `within`.")
    return smallest_integer(enough, 0, MOST_ROWS)


def laplace_epsilon(*, rows: int, queries: int, within: float, failing: float) -> float:
    """Return the largest ε per Laplace answer that keeps the expected gap within a bound.

    It uses advanced composition with the best slack and the stability of privacy. Of the order τ/√(k·m).

    Theorem: expected-generalization
    """
    count, asked, wanted = (
        validate_rows(rows),
        validate_queries(queries),
        validate_probability(within, argument="within"),
    )
    often = validate_probability(failing, argument="failing")

    def is_exceeded(epsilon: float) -> bool:
        stability = laplace_stability(epsilon=epsilon, queries=asked)
        return expected_gap(stability=stability, rows=count, failing=often) > wanted

    if is_exceeded(1e-11):
        _refuse(count, wanted, often)
    return smallest_number(is_exceeded, 1e-11, 1e2, near=_NEAR, geometric=True) * (1 - 1e-9)


def laplace_stability(*, epsilon: float, queries: int) -> float:
    """Return the stability of k ε-differentially private answers: the smaller of basic and advanced composition.

    Theorem: tv-stability
    """
    loss, asked = validate_positive(epsilon, argument="epsilon"), validate_queries(queries)
    stabilities = [stability_of_privacy(epsilon=loss * asked)]
    each = mechanism_group(repr(loss), times=asked)
    for power in range(1, 40):
        slack = 0.5**power
        pair = advanced((each,), slack=slack)
        if pair.epsilon > 0:
            stabilities.append(stability_of_privacy(epsilon=float(pair.epsilon), delta=slack))
    return min(stabilities)


def _refuse(rows: int, within: float, failing: float) -> None:
    floor = expected_gap(stability=0.0, rows=rows, failing=failing)
    raise Refused(
        f"A gap of {within:.3g} is out of reach with {rows} rows: without any question it may be {floor:.3g}. "
        "Write a larger `within`, or sample more rows."
    )
