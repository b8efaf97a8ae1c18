"""Round bounds: a draft rounds outward, so that it tells less about the largest and the smallest value."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from dodona.accounting.event import ExponentialEvent
from dodona.domain.neighbours import Neighbours
from dodona.mechanisms.exponential import Exponential
from dodona.query.sensitivity import Sensitivity

_POINTS = 1_000
_FINEST_POWER = Fraction(1, 16)  # finer powers of two have too many digits to be called round
_FEW = 10
_FIVE = Fraction(5)


def outward(least: Fraction, most: Fraction, *, whole: bool) -> tuple[Fraction, Fraction]:
    """Return bounds around two numbers, round at the size of what lies between them.

    >>> [str(bound) for bound in outward(Fraction(3), Fraction(97), whole=True)]
    ['0', '100']
    >>> [str(bound) for bound in outward(Fraction("0.02"), Fraction("41.3"), whole=False)]
    ['0', '50']
    """
    span = most - least or abs(most) or Fraction(1)
    unit = _power_of_ten(span)
    if whole:
        unit = _FIVE if span < _FEW else max(unit, Fraction(1))
    lower, upper = least // unit * unit, -(-most // unit) * unit
    return Fraction(lower), Fraction(upper if upper > lower else lower + unit)


def round_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return a round step with about a thousand points from lower to upper: 2^-k where that is short, else 1, 2 or 5.

    Steps of 1/2, 1/4 and so on from a whole number are exact in doubles.

    >>> str(round_step(Fraction(0), Fraction(400))), str(round_step(Fraction(0), Fraction(7000)))
    ('1/2', '10')
    """
    ideal = (upper - lower) / _POINTS
    if lower.denominator == upper.denominator == 1 and _FINEST_POWER <= ideal < 1:
        step = Fraction(1)
        while step / 2 >= ideal:
            step /= 2
        return step
    unit = _power_of_ten(ideal)
    return next(step for step in (unit, 2 * unit, 5 * unit, 10 * unit) if step >= ideal)


def whole_years(first: dt.date, last: dt.date) -> tuple[dt.date, dt.date]:
    """Return the first day of a year and the last day of a year.

    >>> [str(day) for day in whole_years(dt.date(2020, 3, 2), dt.date(2024, 11, 30))]
    ['2020-01-01', '2024-12-31']
    """
    return first.replace(month=1, day=1), last.replace(month=12, day=31)


def about(count: int) -> int:
    """Return a number with two digits that count, at least 1.

    >>> about(198_412), about(0), about(47)
    (200000, 1, 47)
    """
    digits = max(0, len(str(count)) - 2)
    return max(1, round(count, -digits))


CAPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
"""The caps on rows that a draft may propose: public, whatever the rows are."""
CAP_EPSILON = Fraction(1, 10)
"""What a proposed cap tells about anybody, at most."""
_FULLY = 20  # all rows of 19 in 20 people are to count
CAP_SCALE = 2 * _FULLY / CAP_EPSILON


def cap_scores(crowds: list[tuple[int, int]]) -> list[int]:
    """Return how well each cap keeps all rows of 19 in 20 people: 20 times those who have more, against all of them.

    `crowds` says how many people have one row, two rows and so on. One person moves a score by 20 at most, so that a
    choice by these scores, at the scale `CAP_SCALE`, costs `CAP_EPSILON`.

    >>> dict(zip(CAPS, cap_scores([(1, 90), (4, 10)]), strict=True))[1]
    -100

    Theorem: choice-privacy
    """
    people = sum(number for _, number in crowds)
    return [-abs(_FULLY * sum(number for own, number in crowds if own > size) - people) for size in CAPS]


def cap_event(neighbours: Neighbours) -> ExponentialEvent:
    """Return what one choice of a cap costs, which the ledger begins with.

    >>> cap_event(Neighbours.ADD_REMOVE).epsilon == CAP_EPSILON
    True

    Theorem: choice-privacy
    """
    return Exponential(scale=CAP_SCALE).event(Sensitivity.scores(_FULLY, neighbours))


def _power_of_ten(number: Fraction) -> Fraction:
    """Return the largest power of ten that is not above a positive number, exactly."""
    power = len(str(int(number))) - 1 if number >= 1 else -len(str(int(1 / number)))
    found = Fraction(10) ** power
    return found * 10 if found * 10 <= number else found
