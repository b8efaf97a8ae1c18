"""An estimate: a noisy value and the interval that holds the exact one, as often as was promised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from dodona.answer.digits import digits_for, shown

Measure = int | float | Fraction | date
"""What a value may be; dates come from quantiles of dates."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval. Counts and sums are exact numbers; a bound that is not known is infinite.

    >>> print(Estimate(1203, 1150, 1256))
    1203 ± 53
    >>> Estimate(Fraction(5, 2), Fraction(1), Fraction(3)).within
    1.5
    """

    value: Measure | None
    """None where the noise leaves nothing to say, as for a division by a noisy 0."""
    low: Measure
    high: Measure

    @property
    def within(self) -> float:
        """How far the exact value is from this one at most, as often as was promised; days for a date."""
        if self.value is None:
            return math.inf
        return max(_distance(self.low, self.value), _distance(self.value, self.high))

    def __float__(self) -> float:
        return math.nan if self.value is None else as_number(self.value)

    def __str__(self) -> str:
        within = self.within
        if self.value is None or math.isinf(within):
            return f"{shown(self.value, 3)} (from {shown(self.low, 3)} to {shown(self.high, 3)})"
        digits = digits_for(within)
        if isinstance(self.value, date):
            return f"{self.value} (from {self.low} to {self.high})"
        below, above = _distance(self.low, self.value), _distance(self.value, self.high)
        if max(below, above) > 1.1 * min(below, above) + 1e-9:
            return f"{shown(self.value, digits)} (from {shown(self.low, digits)} to {shown(self.high, digits)})"
        whole = isinstance(self.value, int) and within.is_integer()
        return f"{shown(self.value, digits)} ± {shown(int(within) if whole else within, digits)}"


def as_number(measure: Measure) -> float:
    """Return a value as a float; a date counts its days.

    >>> as_number(Fraction(1, 4)), as_number(date(1, 1, 2))
    (0.25, 2.0)
    """
    return float(measure.toordinal()) if isinstance(measure, date) else float(measure)


def _distance(low: Measure, high: Measure) -> float:
    """Return high - low; exact numbers are subtracted before they are rounded."""
    if isinstance(low, int | Fraction) and isinstance(high, int | Fraction):
        return float(high - low)
    return as_number(high) - as_number(low)
