"""Discrete noise laws as exact thresholds for uniform random words.

A law gives x the weight exp(-linear·|x| - quadratic·x²). Thresholds are computed in decimal arithmetic of increasing
precision, so that sampling is exact, and are stored in tables that the kernels read.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

# --- Exact comparisons with exponentials and logarithms. ---


NextWord = Callable[[], int]
"""Returns the next 64 bits of a uniform number whose first bits did not decide."""

WORD = 64
"""Bits in a random word."""


def decimal_context(digits: int) -> Context:
    """Return a decimal context with this many digits and practically unlimited exponents."""
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)


def power_floor(exponent: Fraction, bits: int) -> int:
    """Return floor(2^bits · e^-exponent), exactly, for an exponent ≥ 0.

    Theorem: exact-thresholds
    """
    if exponent == 0:
        return 1 << bits
    if exponent >= bits:  # e > 2, so the power is below 2^-bits
        return 0
    digits = bits * 31 // 100 + 25  # 2^bits < 10^(0.31 bits): leaves at least twenty digits after the point
    while True:
        context = decimal_context(digits)
        power = context.exp(context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator)))
        scaled = context.multiply(power, Decimal(1 << bits))
        # Quotient, exponential and product each have a relative rounding error of at most 10^(1-digits)/2; that of the
        # quotient is multiplied by the exponent (< bits).
        margin = context.multiply(scaled, Decimal((0, tuple(map(int, str(bits + 4))), 1 - digits)))
        low = context.subtract(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        high = context.add(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        if low == high:
            return int(low)
        digits *= 2


def below_power(exponent: Fraction, word: int, bits: int, more: NextWord) -> bool:
    """Return whether the uniform number with the first bits `word` is below e^-exponent: a Bernoulli draw.

    Theorem: exact-thresholds
    """
    return is_below(partial(power_floor, exponent), word, bits, more)


def is_below(floor: Callable[[int], int], word: int, bits: int, more: NextWord) -> bool:
    """Return whether the uniform number with the first bits `word` is below p, where floor(bits) = ⌊2^bits·p⌋."""
    while (threshold := floor(bits)) == word:
        word = word << WORD | more()
        bits += WORD
    return word < threshold


# --- The integer noise laws, as exact thresholds for uniform numbers. ---


TABLE_BITS = 63
"""Bits of a word that a table lookup reads; the last bit is the sign."""

WIDEST_TOP = 32
"""The largest scale of the coarse part of a value: about 1,400 thresholds, built in a millisecond."""


@dataclass(frozen=True, slots=True)
class DiscreteLaw:
    """P(x) ∝ exp(-linear·|x| - quadratic·x²) on the integers, or on the non-negative integers if unsigned.

    Theorem: exact-samplers
    """

    linear: Fraction
    quadratic: Fraction
    signed: bool
    shift: int
    """The step is 2^shift; with shift 0 the table contains the whole law."""

    @property
    def words(self) -> int:
        """The number of random words per attempt."""
        return 2 if self.shift else 1

    @property
    def rejects(self) -> bool:
        """Whether an attempt may be rejected."""
        return self.shift > 0

    def excess(self, top: int, offset: int) -> Fraction:
        """Return the exponent of step·top + offset minus that of step·top."""
        return offset * (self.linear + self.quadratic * ((top << self.shift + 1) + offset))

    def decide(self, words: tuple[int, ...], more: NextWord) -> int | None:
        """Return the integer for these words, or None if the attempt is rejected; integer arithmetic throughout.

        Theorem: exact-samplers
        """
        negative = bool(words[0] & 1)
        word, bits = words[0] >> 1, TABLE_BITS
        while True:
            bounds = law_thresholds(self, bits)
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
        return -magnitude if magnitude else None  # zero has only one sign


def laplace_law(scale: Fraction) -> DiscreteLaw:
    """Return the discrete Laplace law: P(x) ∝ exp(-|x|/scale)."""
    return _make_law(1 / scale, Fraction(0), signed=True)


def geometric_law(scale: Fraction) -> DiscreteLaw:
    """Return the one-sided law: P(x) ∝ exp(-x/scale) for x ≥ 0."""
    return _make_law(1 / scale, Fraction(0), signed=False)


def gaussian_law(variance: Fraction) -> DiscreteLaw:
    """Return the discrete Gaussian law: P(x) ∝ exp(-x²/(2·variance))."""
    return _make_law(Fraction(0), 1 / (2 * variance), signed=True)


def _make_law(linear: Fraction, quadratic: Fraction, *, signed: bool) -> DiscreteLaw:
    falls, bends = WIDEST_TOP * linear, 2 * WIDEST_TOP**2 * quadratic
    shift = 0
    # The first shift at which falls·2^shift or bends·4^shift is at least 1, in integer arithmetic.
    while falls.numerator << shift < falls.denominator and bends.numerator << 2 * shift < bends.denominator:
        shift += 1
    return DiscreteLaw(linear, quadratic, signed, shift)


@lru_cache(maxsize=1024)
def law_thresholds(law: DiscreteLaw, bits: int) -> tuple[int, ...]:
    """Return floor(2^bits · P(top ≤ k)) for k = 0, 1, … up to the first that is 2^bits - 1.

    Theorem: exact-thresholds
    """
    precision = bits + WORD
    while (thresholds := _certified(law, bits, precision)) is None:
        precision *= 2
    return thresholds


def _certified(law: DiscreteLaw, bits: int, precision: int) -> tuple[int, ...] | None:
    """Return the thresholds if this precision decides all of them, else None.

    Weights, ratios and sums are intervals [low, high] in units of 2^-precision, low rounded down and high up.
    """
    unity = 1 << precision
    small = 1 << precision - bits
    linear, quadratic = law.linear * (1 << law.shift), law.quadratic * (1 << 2 * law.shift)
    ratio_low = power_floor(linear + quadratic, precision)
    ratio_high = ratio_low + 1
    fall_low = power_floor(2 * quadratic, precision)
    fall_high = fall_low + 1 if quadratic else unity
    # If the table holds the whole law, a nonzero magnitude stands for two values.
    fold = 2 if law.signed and law.shift == 0 else 1
    low = high = unity
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
            # Ratios never increase from here: a geometric series bounds the rest, and equals it if they are constant.
            tail_low = fold * (low if quadratic else low * unity // (unity - ratio_low))
            tail_high = fold * -(-high * unity // (unity - ratio_high))
            if tail_high < small and tail_high - tail_low < 1 << WORD // 2:
                break
        ratio_low = ratio_low * fall_low >> precision
        ratio_high = -(-ratio_high * fall_high >> precision)
    total_low, total_high = sum_low + tail_low, sum_high + tail_high
    last = (1 << bits) - 1
    thresholds = []
    for sum_low, sum_high in sums:
        # No probability is 1, so no threshold exceeds the last, however wide the interval.
        threshold = (sum_low << bits) // total_high
        if threshold != min((sum_high << bits) // total_low, last):
            return None
        thresholds.append(threshold)
        if threshold == last:
            break
    return tuple(thresholds)


# --- A law prepared for drawing: its thresholds as words, and a guide table into them. ---


GUIDE_BITS = 12
"""The number of leading bits of a word that select a guide cell."""

REJECTED = -(1 << 63)
"""Marks a rejected attempt in a block of values; no law here reaches it."""

SERIES_TERMS = 16
"""Terms of the series for e^-x in the filter, where x is below 0.7."""

# Doubles decide only outside this band around the true value; rounding uses at most a sixteenth (page exact-samplers).
BAND = 2.0**-45


@dataclass(frozen=True, slots=True, eq=False)
class LawTable:
    """The tables of the kernels: 63-bit thresholds, the guide, and exponents as doubles for the certified filter."""

    law: DiscreteLaw
    bounds: NDArray[np.uint64]
    guide: NDArray[np.int16]
    """The outcome of every word with these leading bits, or -1 if a threshold lies among them."""
    linear: float
    quadratic: float
    band: float


@lru_cache(maxsize=1024)
def prepare_table(law: DiscreteLaw) -> LawTable:
    """Return the table of a law, cached."""
    bounds, guide = guide_table(law)
    return LawTable(law, bounds, guide, float(law.linear), float(law.quadratic), BAND + 2.0 ** (law.shift - 64))


@lru_cache(maxsize=1024)
def guide_table(law: DiscreteLaw) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
    """Return the thresholds of a law as words, and the guide into them."""
    bounds = np.array(law_thresholds(law, TABLE_BITS), dtype=np.uint64)
    inside = np.bincount((bounds >> np.uint64(TABLE_BITS - GUIDE_BITS)).astype(np.int64), minlength=1 << GUIDE_BITS)
    return bounds, np.where(inside == 0, np.cumsum(inside), -1).astype(np.int16)
