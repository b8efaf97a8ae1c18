"""What multiplicative weights with the exponential mechanism (MWEM) promise for questions that are all declared."""

from __future__ import annotations

import math

from dodona.accuracy import failure, number_of
from dodona.errors import InvalidArgument

MOST_ROUNDS = 10**6


def mwem_error(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·ln(2kc/β): all answers of the mean hypothesis are within it, as shares of the rows.

    Each of c rounds chooses one of the 2k questions and their opposites by the exponential mechanism at ε, and moves
    the weights by e^{η·f}, η = √(8·ln|X|/c). Nothing else is bought.

    >>> round(mwem_error(10**5, universe=1024, questions=1000, rounds=1154, epsilon=0.013), 4)
    0.082

    Theorem: mwem-accuracy
    """
    learned, choice = _sides(rows, universe, rounds, epsilon)
    asked = number_of(questions, argument="questions")
    return learned + choice * (math.log(2 * asked) + math.log(rounds / failure(confidence)))


def mwem_mean_error(  # noqa: PLR0913  the sides of the promise
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·(ln 2k + G/c), G the 1 - β quantile of the sum of c exponential variables.

    It is the same mechanism: only the mean of what the choices miss counts, and a mean is seldom far off.

    Theorem: mwem-accuracy
    """
    from scipy.special import gammainccinv

    learned, choice = _sides(rows, universe, rounds, epsilon)
    asked = number_of(questions, argument="questions")
    missed = float(gammainccinv(rounds, failure(confidence))) / rounds
    return learned + choice * (math.log(2 * asked) + missed * (1 + 1e-9))


def mwem_step(*, universe: int, rounds: int) -> float:
    """Return the step η = √(8·ln|X|/c) at which the promise holds.

    Theorem: mwem-accuracy
    """
    return math.sqrt(8 * _potential(universe) / number_of(rounds, argument="rounds", upper=MOST_ROUNDS))


def _sides(rows: int, universe: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Return what the weights leave, and the scale of what a choice misses."""
    if not 0 < epsilon < math.inf:
        raise InvalidArgument("epsilon", epsilon, "write what one choice costs, above 0")
    learned = math.sqrt(_potential(universe) / (2 * number_of(rounds, argument="rounds", upper=MOST_ROUNDS)))
    return learned, 2 / (number_of(rows, argument="rows") * epsilon)


def _potential(universe: int) -> float:
    """Return ln|X|, the largest divergence from the even distribution."""
    if number_of(universe, argument="universe", upper=1 << 500) == 1:
        raise InvalidArgument("universe", universe, "write at least 2 cells: one cell holds all rows")
    return math.log(universe)
