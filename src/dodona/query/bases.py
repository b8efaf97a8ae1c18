"""Bases: the integer rows in which the residual of a column is measured.

Its rows have independent noise. Points have even noise on all classes: Helmert rows. Ranges have waves, the slow ones
larger, so that adding up neighbouring classes adds up little noise. The rows of both sum to 0. Values have the column's
own number, and squares its square, so that their sums follow at the price of a count, however many values there are.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dodona.numbers import Integers


class Base(Enum):
    """A base of a column. The values are permanent: they are written into ledgers.

    Theorem: column-base
    """

    POINTS = "points"
    """Helmert rows: every class is equally precise, and they are independent but for their sum."""
    RANGES = "ranges"
    """Waves: neighbouring classes have opposite errors, so that their sums are precise."""
    VALUES = "values"
    """Two rows: the steps of a number from its middle, and 1 where there is no number. No cell is in both of them."""
    NUMBERS = "numbers"
    """One row: the steps of a number from its middle, of a column all of whose cells are numbers."""
    SQUARES = "squares"
    """As values, with twice the square of the steps less the largest square: from one end to the other like steps."""
    NUMBER_SQUARES = "number-squares"
    """As numbers, with the same row of squares."""

    sums: bool
    """Whether it is for sums of the column's own number; its size is then that of the numbers, not of classes."""
    gaps: bool
    """Whether some cells have no number: these have a row of their own."""
    power: int
    """Of the steps that are added up."""

    def __init__(self, word: str) -> None:
        """Decide once, as it is looked at often."""
        self.sums = word not in {"points", "ranges"}
        self.gaps = word in {"values", "squares"}
        self.power = 2 if "squares" in word else 1


def base_length(base: Base, number: int) -> int:
    """Return the number of rows of a base."""
    if base.sums:
        return 2 if base.gaps else 1
    return number - 1


def middle_code(number: int) -> int:
    """Return the code from which steps are counted: in the middle, and of two the even one.

    >>> [middle_code(number) for number in (2, 3, 4, 5, 6)]
    [0, 1, 2, 2, 2]
    """
    return round(Fraction(number - 1, 2))


def farthest_step(number: int) -> int:
    """Return the largest number of steps from the middle."""
    return max(middle_code(number), number - 1 - middle_code(number))


def row_reach(base: Base, number: int) -> int:
    """Return the largest entry of the row of numbers, or of squares.

    >>> row_reach(Base.VALUES, 5), row_reach(Base.SQUARES, 5)
    (2, 4)
    """
    return int(farthest_step(number) ** base.power)


@lru_cache(maxsize=256)
def base_rows(base: Base, number: int) -> Integers:
    """Return the rows of points or ranges over `number` classes: one less, linearly independent, each summing to 0.

    Of sums, return them over the codes of so many numbers; for values also over a last cell, which has none.

    >>> base_rows(Base.POINTS, 3).tolist(), base_rows(Base.VALUES, 3).tolist()
    ([[1, -1, 0], [1, 1, -2]], [[-1, 0, 1, 0], [0, 0, 0, 1]])
    """
    match base:
        case Base.POINTS:
            rows = _helmert_rows(number)
        case Base.RANGES:
            rows = _wave_rows(number)
        case Base.VALUES | Base.NUMBERS | Base.SQUARES | Base.NUMBER_SQUARES:
            rows = _number_rows(base, number)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=256)
def base_squares(base: Base, number: int) -> tuple[int, ...]:
    """Return by what the variance σ² of a residual is multiplied for each row: its noise is σ² times this.

    A Helmert row has its squared length. All waves have the same, so that one noise law serves a whole residual: the
    largest squared length of a column of the rows, so that the price of a row of the table is at most 1/σ². Numbers
    have the square of the largest, for the same reason.
    """
    if base.sums:
        return (row_reach(base, number) ** 2, 1)[: base_length(base, number)]
    if base is Base.POINTS:
        return tuple([step * (step + 1) for step in range(1, number)])
    rows = base_rows(base, number)
    return (int((rows * rows).sum(axis=0).max()),) * len(rows)


@lru_cache(maxsize=256)
def base_reach(base: Base, number: int) -> int:
    """Return the largest sum of the entries of a row, without their signs; sums come as rows already."""
    if base.sums:
        return 1
    return int(np.abs(base_rows(base, number)).sum(axis=1).max())


@lru_cache(maxsize=1 << 10)
def largest_weight(base: Base, number: int) -> Fraction:
    """Return the largest Σ_j b_j(x)²/n_j over classes x: the price of one row of the table at σ² = 1.

    Theorem: column-base
    """
    if base is Base.POINTS:
        return Fraction(number - 1, number)
    if base.sums:
        return Fraction(1)
    rows = base_rows(base, number)
    return Fraction(int((rows * rows).sum(axis=0).max()), base_squares(base, number)[0])


@lru_cache(maxsize=1 << 10)
def least_overlap(base: Base, number: int) -> Fraction:
    """Return the least Σ_j b_j(x)·b_j(y)/n_j over pairs of classes; it is at most 0.

    Theorem: column-base
    """
    if base is Base.POINTS:
        return Fraction(-1, number)
    if base.power > 1:  # the row goes from one end, in the middle, to the other
        return Fraction(-1)
    if base.sums:
        middle = middle_code(number)
        return Fraction(-middle * (number - 1 - middle), farthest_step(number) ** 2)
    rows = base_rows(base, number)
    square = base_squares(base, number)[0]
    if square >= _EXACT:  # every sum below is at most the square, by Cauchy and Schwarz, and so are its parts
        raise OverflowError(square)
    table = rows.astype(np.float64)  # integers below 2^53 are added and multiplied exactly
    return Fraction(int((table.T @ table).min()), square)


_EXACT = 1 << 53


def _number_rows(base: Base, number: int) -> Integers:
    steps = np.arange(number, dtype=np.int64)[None] - middle_code(number)
    if base.power > 1:
        steps = 2 * steps**2 - row_reach(base, number)
    if not base.gaps:
        return steps
    rows = np.zeros((2, number + 1), dtype=np.int64)
    rows[0, :number], rows[1, number] = steps, 1
    return rows


def _helmert_rows(number: int) -> Integers:
    place, step = np.arange(number), np.arange(1, number)[:, None]
    return np.where(place < step, 1, np.where(place == step, -step, 0)).astype(np.int64)


# --- Waves, in integers throughout, so that every machine finds the same rows. ---


_BITS = 40  # of a cosine
_PRECISION = 160
_PI = (314159265358979323846264338327950288419716939937510582 << _PRECISION) // 10**53
_LARGE = 128  # amplitude of the fastest waves, before rounding
_THOUSANDTHS = (1314, 902, 936, 1039, 1026, 976, 986, 1017, 1008, 988, 995, 1010)
"""The precision of the slowest waves beside 1/sin: the best for all ranges, whatever the number of classes."""


def _wave_rows(number: int) -> Integers:
    """Return rounded cosines and sines of all frequencies k, with squared amplitudes proportional to 1/sin(πk/m).

    Ranges of cells are the same as their complements but for the sum, so they are arcs of a circle, and the best noise
    does not change when the circle is turned: its principal axes are waves.
    """
    places, waves = np.arange(number), []
    cosines = np.array([_cosine(place, number) for place in range(number)], dtype=np.int64)
    quarter = np.array([_cosine(4 * place - number, 4 * number) for place in range(number)], dtype=np.int64)
    for frequency in range(1, number // 2 + 1):
        amplitude = _amplitude(frequency, number)
        waves.append(_round_to_zero_sum(amplitude * cosines[frequency * places % number]))
        if 2 * frequency < number:
            waves.append(_round_to_zero_sum(amplitude * quarter[frequency * places % number]))
    return np.array(waves, dtype=np.int64)


def _amplitude(frequency: int, number: int) -> int:
    sine = _cosine(2 * frequency - number, 4 * number)  # sin(πk/m) = cos(2π·(2k - m)/(4m))
    factor = _THOUSANDTHS[frequency - 1] if frequency <= len(_THOUSANDTHS) else 1000
    halved = 2 if 2 * frequency == number else 1  # this wave has no sine beside its cosine
    return math.isqrt((_LARGE**2 * factor << _BITS) // (1000 * halved * sine))


def _round_to_zero_sum(scaled: Integers) -> Integers:
    """Return the numbers in units of 2^40, rounded so that they sum to 0: those with most above are rounded up."""
    below = scaled >> _BITS
    first = np.argsort((below << _BITS) - scaled, kind="stable")
    below[first[: -int(below.sum())]] += 1
    return below


@lru_cache(maxsize=1 << 13)
def _cosine(top: int, bottom: int) -> int:
    """Return cos(2π·top/bottom) in units of 2^-40, rounded, by its series in integers of 160 bits.

    >>> _cosine(1, 6) == 1 << 39
    True
    """
    angle = 2 * _PI * top // bottom
    square = angle * angle >> _PRECISION
    total = term = 1 << _PRECISION
    for order in count(2, 2):
        term = term * square // (order * (order - 1)) >> _PRECISION
        if term == 0:
            break
        total += term if order % 4 == 0 else -term
    return (total + (1 << _PRECISION - _BITS - 1)) >> _PRECISION - _BITS
