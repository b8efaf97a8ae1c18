"""Rounded normal noise: a normal number whose digits are revealed as needed, times the scale, rounded to an integer.

One table of the standard normal law serves every scale. A number is |Z| = (top + u)/32: a coarse part from the table
and a uniform part u, kept with the probability that makes its density the normal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.trusted.samplers.law import (
    BAND,
    WORD,
    DiscreteLaw,
    NextWord,
    guide_table,
    power_floor,
)

CELLS = 32
"""Cells of the coarse part in one standard deviation."""

STANDARD = DiscreteLaw(Fraction(0), Fraction(1, 2 * CELLS**2), signed=False, shift=0)
"""The law of the coarse part: P(top) ∝ exp(-(top/32)²/2)."""

_LEAST_DIGITS = 32


@dataclass(frozen=True, slots=True)
class RoundedNormalLaw:
    """The law of round(scale · Z), Z standard normal, for a rational scale.

    Theorem: exact-rounded-normal
    """

    scale: Fraction

    @property
    def words(self) -> int:
        """The number of random words per attempt."""
        return 2

    @property
    def rejects(self) -> bool:
        """Whether an attempt may be rejected."""
        return True

    @property
    def digits(self) -> int:
        """Bits of the second word that begin u; the others begin the number that decides on keeping it.

        Ties in either are decided by exact arithmetic. They are about equally rare, at most one in five thousand.
        """
        return _LEAST_DIGITS + (int(self.scale) // CELLS).bit_length() // 2

    def decide(self, words: tuple[int, ...], more: NextWord) -> int | None:
        """Return the integer for these words, or None if the attempt is rejected; integer arithmetic throughout.

        Theorem: exact-rounded-normal
        """
        top = STANDARD.decide(words[:1], more)
        if top is None:  # never: a law with one table rejects nothing
            return None
        digits = self.digits
        bits = WORD - digits
        place, chance = words[1] >> bits, words[1] & ((1 << bits) - 1)
        while True:
            # e^-excess falls as u grows, so the two ends of what is known of u bound it.
            if chance < power_floor(_excess(top, Fraction(place + 1, 1 << digits)), bits):
                break
            if chance > power_floor(_excess(top, Fraction(place, 1 << digits)), bits):
                return None
            place, digits = place << WORD | more(), digits + WORD
            chance, bits = chance << WORD | more(), bits + WORD
        while True:
            step = 2 * self.scale.numerator
            whole = 2 * CELLS * self.scale.denominator << digits
            position = step * ((top << digits) + place) + whole // 2
            magnitude = position // whole
            if (position + step - 1) // whole == magnitude:  # wherever u lies in its interval, which is open above
                return -magnitude if words[0] & 1 else magnitude
            place, digits = place << WORD | more(), digits + WORD


def _excess(top: int, place: Fraction) -> Fraction:
    """Return the exponent of the normal density at (top + place)/32 minus that at top/32."""
    return place * (2 * top + place) * STANDARD.quadratic


Numbers = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RoundedTable:
    """The standard table, and a scale as numbers for the kernels; for many columns, those of each scale."""

    bounds: NDArray[np.uint64]
    guide: NDArray[np.int16]
    digits: np.uint64 | NDArray[np.uint64]
    unit: Numbers
    """The value of the last digit of u."""
    whole: int | NDArray[np.int64]
    """The integer part of a thirty-second of the scale."""
    rest: Numbers
    """Its other part."""
    step: Numbers
    """Both as one double."""
    band: float
    """Doubles decide on keeping u only outside this band."""
    below: Numbers
    """A position this little above a half-integer may be below it: the rounding errors of doubles."""
    above: Numbers
    """A position this little below a half-integer may be above it: these, and the digits of u not yet revealed."""

    @classmethod
    def of(cls, laws: Sequence[RoundedNormalLaw], which: NDArray[np.int64]) -> Self:
        """Return the table of many columns: for each, the number of its law."""
        numbers = np.array([_numbers(law) for law in laws]).reshape(-1, 8).T[:, which]
        digits, whole = numbers[0].astype(np.uint64), numbers[2].astype(np.int64)
        band = float(numbers[5].max(initial=0.0))  # a wider band only leaves more to exact arithmetic
        bounds, guide = guide_table(STANDARD)
        return cls(bounds, guide, digits, numbers[1], whole, numbers[3], numbers[4], band, numbers[6], numbers[7])


@lru_cache(maxsize=1 << 12)
def prepare_rounded(law: RoundedNormalLaw) -> RoundedTable:
    """Return what the kernels need of a law, cached."""
    digits, unit, whole, *others = _numbers(law)
    bounds, guide = guide_table(STANDARD)
    return RoundedTable(bounds, guide, np.uint64(digits), unit, int(whole), *others)


@lru_cache(maxsize=1 << 12)
def _numbers(law: RoundedNormalLaw) -> tuple[float, ...]:
    """Return the numbers of a table; all integers among them are below 2^53."""
    step, digits = law.scale / CELLS, law.digits
    whole, unit = int(step), 2.0**-digits
    error = (float(step) + 512) * 2.0**-50  # twice the rounding errors or more (page exact-rounded-normal)
    band = BAND + 2.0 ** (digits - WORD) + unit
    above = error + float(step) * unit
    return float(digits), unit, float(whole), float(step - whole), float(step), band, error, above
