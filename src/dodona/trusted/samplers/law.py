"""The integer laws that noise is drawn from, as exact thresholds that a uniform number is compared with.

A law gives x the weight exp(-linear·|x| - quadratic·x²). Its magnitude is split as step·top + offset with step a power
of two: `top` is read from a short table, `offset` is uniform and kept with the probability that makes up the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dodona.trusted.samplers.bounds import WORD, More, below_power, power_floor

TABLE_BITS = 63
"""Bits that a table lookup reads of a word; the last bit is the sign."""

_WIDEST_TOP = 32  # largest scale that `top` may have: about 1,400 thresholds, built in a millisecond


@dataclass(frozen=True, slots=True)
class Law:
    """P(x) ∝ exp(-linear·|x| - quadratic·x²) on the integers, or on those ≥ 0 where it is not signed.

    Theorem: exact-samplers
    """

    linear: Fraction
    quadratic: Fraction
    signed: bool
    shift: int
    """The step is 2^shift; with no shift the table holds the law whole."""

    @property
    def words(self) -> int:
        """How many random words one attempt reads."""
        return 2 if self.shift else 1

    def excess(self, top: int, offset: int) -> Fraction:
        """Return what the exponent of step·top + offset has beyond that of step·top."""
        return offset * (self.linear + self.quadratic * ((top << self.shift + 1) + offset))

    def decide(self, words: tuple[int, ...], more: More) -> int | None:
        """Return the integer that these words mean, None where the attempt is rejected, in integers throughout.

        Theorem: exact-samplers
        """
        negative = bool(words[0] & 1)
        word, bits = words[0] >> 1, TABLE_BITS
        while True:
            bounds = thresholds(self, bits)
            top = bisect_right(bounds, word)
            if top == 0 or bounds[top - 1] != word:
                break
            word = word << WORD | more()
            bits += WORD
        if self.shift == 0:
            return -top if self.signed and negative else top
        bits = WORD - self.shift
        offset, fraction = words[1] >> bits, words[1] & ((1 << bits) - 1)
        magnitude = (top << self.shift) + offset
        if not below_power(self.excess(top, offset), fraction, bits, more):
            return None
        if not (self.signed and negative):
            return magnitude
        return -magnitude if magnitude else None  # zero has one sign only


def laplace(scale: Fraction) -> Law:
    """Return the discrete Laplace law: P(x) ∝ exp(-|x|/scale)."""
    return _law(1 / scale, Fraction(0), signed=True)


def geometric(scale: Fraction) -> Law:
    """Return the one-sided law: P(x) ∝ exp(-x/scale) for x ≥ 0."""
    return _law(1 / scale, Fraction(0), signed=False)


def gaussian(variance: Fraction) -> Law:
    """Return the discrete Gaussian law: P(x) ∝ exp(-x²/(2·variance))."""
    return _law(Fraction(0), 1 / (2 * variance), signed=True)


def _law(linear: Fraction, quadratic: Fraction, *, signed: bool) -> Law:
    falls, bends = _WIDEST_TOP * linear, 2 * _WIDEST_TOP**2 * quadratic
    shift = 0
    # The first shift at which falls·2^shift or bends·4^shift is 1 or more, in whole numbers.
    while falls.numerator << shift < falls.denominator and bends.numerator << 2 * shift < bends.denominator:
        shift += 1
    return Law(linear, quadratic, signed, shift)


@lru_cache(maxsize=1024)
def thresholds(law: Law, bits: int) -> tuple[int, ...]:
    """Return floor(2^bits · P(top ≤ k)) for k = 0, 1, … up to the first that is 2^bits - 1.

    Theorem: exact-thresholds
    """
    precision = bits + WORD
    while (found := _certified(law, bits, precision)) is None:
        precision *= 2
    return found


def _certified(law: Law, bits: int, precision: int) -> tuple[int, ...] | None:
    """Return the thresholds if this precision decides every one of them.

    Weights, ratios and sums are intervals [low, high] in units of 2^-precision, low rounded down and high up.
    """
    one = 1 << precision
    small = 1 << precision - bits
    linear, quadratic = law.linear * (1 << law.shift), law.quadratic * (1 << 2 * law.shift)
    ratio_low = power_floor(linear + quadratic, precision)
    ratio_high = ratio_low + 1
    fall_low = power_floor(2 * quadratic, precision)
    fall_high = fall_low + 1 if quadratic else one
    # Where the table is the whole law, a magnitude other than zero stands for two values.
    fold = 2 if law.signed and law.shift == 0 else 1
    low = high = one
    sum_low = sum_high = 0
    sums: list[tuple[int, int]] = []
    while True:
        factor = fold if sums else 1
        sum_low += factor * low
        sum_high += factor * high
        sums.append((sum_low, sum_high))
        low = low * ratio_low >> precision
        high = -(-high * ratio_high >> precision)
        if high < small:
            # Beyond, ratios only fall: a geometric series bounds the rest, and equals it where they stay the same.
            tail_low = fold * (low if quadratic else low * one // (one - ratio_low))
            tail_high = fold * -(-high * one // (one - ratio_high))
            if tail_high < small and tail_high - tail_low < 1 << WORD // 2:
                break
        ratio_low = ratio_low * fall_low >> precision
        ratio_high = -(-ratio_high * fall_high >> precision)
    total_low, total_high = sum_low + tail_low, sum_high + tail_high
    last = (1 << bits) - 1
    found = []
    for sum_low, sum_high in sums:
        # No probability is 1, so no threshold passes the last, however wide the interval.
        threshold = (sum_low << bits) // total_high
        if threshold != min((sum_high << bits) // total_low, last):
            return None
        found.append(threshold)
        if threshold == last:
            break
    return tuple(found)
