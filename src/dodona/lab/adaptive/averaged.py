"""The mean of the noise given the transcript, which is less spread than the noise itself.

An answer is the conditional mean of the query over the rows plus the conditional mean of the noise, given the
transcript. These functions bound the second term: P(|E[Z | π]| > a for some answer) ≤ β. Units are those of the scale.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from dodona.lab.adaptive.certificate import validate_positive, validate_probability, validate_queries
from dodona.lab.conversion import add_rounding_margin
from dodona.numbers import minimize_unimodal, smallest_number

_NORMAL = NormalDist()


def averaged_gaussian(*, scale: float, answers: int, failing: float) -> float:
    """Return σ·φ(z)/p with p = β/(2k) = Φ(-z): the mean of normal noise in its worst fraction p of cases.

    Discrete Gaussian noise of the same scale adds at most one step.

    Theorem: averaged-noise
    """
    often = validate_probability(failing, argument="failing") / (2 * validate_queries(answers))
    return add_rounding_margin(validate_positive(scale, argument="scale") * _NORMAL.pdf(_NORMAL.inv_cdf(often)) / often)


def averaged_laplace(*, scale: float, answers: int, failing: float) -> float:
    """Return b·(1 + ln(k/β)): the same bound for Laplace noise; discrete noise adds at most one step.

    Theorem: averaged-noise
    """
    width = validate_positive(scale, argument="scale")
    return add_rounding_margin(
        width * (1 + math.log(validate_queries(answers) / validate_probability(failing, argument="failing")))
    )


def averaged_verdicts(*, threshold: float, question: float, thresholds: int, questions: int, failing: float) -> float:
    """Return a with P(E[max τ + max ν | π] > a) ≤ β, for Laplace draws τ (thresholds) and ν (questions).

    Discrete noise adds at most two steps.

    Theorem: averaged-noise
    """
    often = validate_probability(failing, argument="failing")
    base, first, second = _tails(threshold, question, thresholds, questions)

    def bound(depth: float) -> float:
        return depth + _excess(depth, first, second) / often

    reach = max(first, second)
    return add_rounding_margin(
        base + bound(minimize_unimodal(bound, 0.0, 50 * reach + reach * -math.log(often), near=1e-6 * reach))
    )


def largest_verdict(*, threshold: float, question: float, thresholds: int, questions: int, failing: float) -> float:
    """Return a with P(max τ + max ν > a) ≤ β: how far noise alone may move a comparison with the threshold.

    Discrete noise adds at most two steps.

    Theorem: averaged-noise
    """
    often = validate_probability(failing, argument="failing")
    base, first, second = _tails(threshold, question, thresholds, questions)
    high = 1000 * max(first, second)
    return add_rounding_margin(
        base + smallest_number(lambda away: _beyond(away, first, second) <= often, 0.0, high, near=1e-9)
    )


def _tails(threshold: float, question: float, thresholds: int, questions: int) -> tuple[float, float, float]:
    """Return the start and the scales of two exponential tails that dominate those of the maxima."""
    first, second = validate_positive(threshold, argument="threshold"), validate_positive(question, argument="question")
    # P(max of m > x) ≤ (m/2)·e^{-x/b} for x ≥ 0. Below b·ln(m/2) we use 1, and m is at least 2.
    base = first * math.log(max(2, thresholds) / 2) + second * math.log(max(2, questions) / 2)
    if abs(first - second) < 1e-6 * second:  # the formulas divide by the difference; a larger scale is no less safe
        first = second * (1 + 1e-6)
    return base, first, second


def _beyond(depth: float, first: float, second: float) -> float:
    """Return P(bE + b'E' > z) for two independent exponential variables."""
    return (first * math.exp(-depth / first) - second * math.exp(-depth / second)) / (first - second)


def _excess(depth: float, first: float, second: float) -> float:
    """Return E(bE + b'E' - z)₊."""
    return (first**2 * math.exp(-depth / first) - second**2 * math.exp(-depth / second)) / (first - second)
