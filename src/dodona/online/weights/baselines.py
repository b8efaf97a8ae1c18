"""What other mechanisms promise for the same questions: independent noise, and a synthetic table."""

from __future__ import annotations

import math

from dodona.accounting.order import zcdp_limit
from dodona.accuracy import failure, number_of
from dodona.exact import Exact
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.scale import delta_of, epsilon_of, rounded_scale_up

_MOST_ROWS = 10**9


def laplace_noise(*, questions: int, epsilon: Exact) -> Laplace:
    """Return the noise of each of k counts for pure ε in all: Lap(k/ε).

    Theorem: laplace-privacy
    """
    return Laplace(scale=number_of(questions, argument="questions") / epsilon_of(epsilon))


def gaussian_noise(*, questions: int, epsilon: Exact, delta: Exact) -> Gaussian:
    """Return the noise of each of k counts for (ε, δ) in all, by zCDP: σ = √(k/2ρ).

    Theorem: gaussian-rho
    """
    limit = float(zcdp_limit(epsilon_of(epsilon), delta_of(delta)))
    return Gaussian(scale=rounded_scale_up(math.sqrt(number_of(questions, argument="questions") / (2 * limit))))


def laplace_guarantee(rows: int, *, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the largest error of k Laplace counts as a share of the rows, about k·ln(k/β)/(nε).

    Theorem: laplace-accuracy
    """
    return laplace_noise(questions=questions, epsilon=epsilon).accuracy(confidence, answers=questions).within / rows


def gaussian_guarantee(rows: int, *, questions: int, epsilon: Exact, delta: Exact, confidence: float = 0.95) -> float:
    """Return the largest error of k Gaussian counts as a share of the rows.

    Theorem: gaussian-accuracy
    """
    noise = gaussian_noise(questions=questions, epsilon=epsilon, delta=delta)
    return noise.accuracy(confidence, answers=questions).within / rows


def blr_guarantee(rows: int, *, universe: int, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the error of the mechanism of Blum, Ligett and Roth: the exponential mechanism over tables of m rows.

    Some table is within a = √(ln(2k)/2m), and the choice is worse by at most (2/(nε))·(ln of the number of tables +
    ln(1/β)); m is chosen. Tables are multisets of cells. It cannot be run but for the smallest universes.

    Theorem: synthetic-table
    """
    asked, cells = number_of(questions, argument="questions"), number_of(universe, argument="universe", upper=1 << 500)
    factor = 2 / (number_of(rows, argument="rows") * float(epsilon_of(epsilon)))
    failing = failure(confidence)

    def error(size: int) -> float:
        near = math.sqrt(math.log(2 * asked) / (2 * size)) * (1 + 1e-12)
        return near + factor * (multisets(cells, size) - math.log(failing))

    low, high = 1, _MOST_ROWS
    while high - low > 2:  # noqa: PLR2004  the error falls, and then rises
        third = (high - low) // 3
        low, high = (low + third, high) if error(low + third) > error(high - third) else (low, high - third)
    return min(error(size) for size in range(low, high + 1))


def blr_theorem(rows: int, *, universe: int, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the error that the notes state: (256·ln k·ln|X|/(εn))^{1/3} + 8·ln(1/β)/(εn) (theorem 5).

    Theorem: synthetic-table
    """
    scale = float(epsilon_of(epsilon)) * number_of(rows, argument="rows")
    both = math.log(number_of(questions, argument="questions")) * math.log(universe)
    return math.cbrt(256 * both / scale) - 8 * math.log(failure(confidence)) / scale


def multisets(cells: int, size: int) -> float:
    """Return the logarithm of how many tables of so many rows there are, whatever their order: C(|X| + m - 1, m).

    >>> round(math.exp(multisets(3, 2)))
    6
    """
    if cells > 10**6 * size:  # a product of m factors near |X|, rounded up: lgamma would lose the difference
        return size * math.log(cells + size) - math.lgamma(size + 1)
    return math.lgamma(cells + size) - math.lgamma(size + 1) - math.lgamma(cells)
