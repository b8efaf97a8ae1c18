"""What words mean, found slowly and independently of the product: mpmath at hundreds of digits, and plain integers.

`Meaning` is the map from words to integers. A magnitude's cumulative probability comes from its closed form, or from a
direct sum, and a uniform number is compared with it as a prefix of bits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul

import mpmath

More = Callable[[], int]

DEPTH = 63 + 64 * 4
"""Bits of the cumulative probabilities that are kept: ties may go four words deep."""

real = mpmath.MPContext()
real.prec = DEPTH + 400
_SLACK = real.ldexp(1, -DEPTH - 360)  # a trillion times what rounding can do to a probability, relative to it


def rational(number: Fraction) -> mpmath.mpf:
    return real.mpf(number.numerator) / number.denominator


def fixed(probability: mpmath.mpf, bits: int) -> int:
    """Return floor(2^bits · probability), and fail where hundreds of digits do not settle it."""
    low, high = (int(real.floor(real.ldexp(probability * (1 + side * _SLACK), bits))) for side in (-1, 1))
    assert low == high or probability in {0, 1}, "not settled"
    return int(real.floor(real.ldexp(probability, bits)))


@dataclass(frozen=True)
class Noise:
    """A law by name: laplace, geometric or gaussian, with its scale."""

    name: str
    scale: Fraction

    def exponent(self, magnitude: int) -> Fraction:
        """Return a with P(magnitude) ∝ e^-a."""
        ratio = Fraction(magnitude) / self.scale
        return ratio * ratio / 2 if self.name == "gaussian" else ratio

    @property
    def signed(self) -> bool:
        return self.name != "geometric"

    @cached_property
    def shift(self) -> int:
        """Halvings that bring the scale to 32 or less."""
        shift = 0
        while self.scale > 32 << shift:
            shift += 1
        return shift


@dataclass
class Meaning:
    """The map from words to integers of one law."""

    noise: Noise
    cumulative: list[int] = field(init=False)
    """floor(2^DEPTH · P(top ≤ k)) for k = 0, 1, … until only the last unit is missing."""
    _levels: dict[int, list[int]] = field(init=False, default_factory=dict)
    _powers: dict[tuple[int, int], tuple[mpmath.mpf, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.cumulative = [fixed(p, DEPTH) for p in self._probabilities()]

    def _probabilities(self) -> Iterable[mpmath.mpf]:
        noise, shift = self.noise, self.noise.shift
        whole = noise.signed and shift == 0  # the table is the law itself: two values for a magnitude but 0
        if noise.name == "gaussian":
            weights = []
            while not weights or weights[-1] > real.ldexp(1, -DEPTH - 300):
                weights.append(real.exp(-rational(noise.exponent(len(weights) << shift))))
            sums = list(accumulate(weights))
            if whole:
                sums = [2 * s - 1 for s in sums]
            probabilities = [s / sums[-1] for s in sums]
        else:
            ratio = real.exp(-rational(Fraction(1 << shift) / noise.scale))
            tail = 2 / (1 + ratio) if whole else real.mpf(1)
            last = math.ceil(float((DEPTH + 4) * 0.7 * float(noise.scale) / 2**shift)) + 3
            probabilities = [1 - tail * power for power in accumulate([ratio] * last, mul)]
        for p in probabilities:
            if 1 - p < real.ldexp(1, -DEPTH - 2):
                return
            yield p

    def level(self, bits: int) -> list[int]:
        """Return the cumulative probabilities as bits-bit words."""
        if bits not in self._levels:
            self._levels[bits] = [c >> DEPTH - bits for c in self.cumulative]
        return self._levels[bits]

    def top(self, word: int, more: More) -> int:
        """Return how many cumulative probabilities the uniform number that begins with these 63 bits has reached."""
        bits = 63
        while True:
            level = self.level(bits)
            reached = bisect_right(level, word)
            # One more lies past all that are kept: it begins with ones only.
            equal = (reached and level[reached - 1] == word) or word == (1 << bits) - 1
            if not equal:
                return reached
            word, bits = word << 64 | more(), bits + 64

    def power(self, top: int, offset: int) -> tuple[mpmath.mpf, int]:
        """Return e^-excess of an offset beyond a top, and the same as a DEPTH-bit word (2^DEPTH where it is 1)."""
        key = (top, offset)
        if key not in self._powers:
            base = top << self.noise.shift
            excess = self.noise.exponent(base + offset) - self.noise.exponent(base)
            power = real.exp(-rational(excess))
            self._powers[key] = power, fixed(power, DEPTH)
        return self._powers[key]

    def accepted(self, top: int, offset: int, fraction: int, more: More) -> bool:
        """Return whether the uniform number that begins with this fraction lies below e^-excess."""
        bits = 64 - self.noise.shift
        _, power = self.power(top, offset)
        while (threshold := power >> DEPTH - bits) == fraction:
            fraction, bits = fraction << 64 | more(), bits + 64
        return fraction < threshold

    def value(self, words: Sequence[int], more: More) -> int | None:
        """Return the integer that these words mean, or None where the attempt is rejected."""
        sign = -1 if self.noise.signed and words[0] % 2 else 1
        shift = self.noise.shift
        top = self.top(words[0] // 2, more)
        if shift == 0:
            return sign * top
        step = 2 ** (64 - shift)
        offset, fraction = divmod(words[1], step)
        magnitude = top * 2**shift + offset
        if not self.accepted(top, offset, fraction, more):
            return None
        return None if sign < 0 and magnitude == 0 else sign * magnitude


@lru_cache(maxsize=64)
def meaning_of(noise: Noise) -> Meaning:
    return Meaning(noise)


# A contest: the largest of draw - gap, where the draws are revealed bit by bit.


def _draw(uniform: mpmath.mpf, *, gumbel: bool) -> mpmath.mpf:
    if uniform == 0:
        return real.inf
    if not gumbel:
        return -real.log(uniform)
    return -real.inf if uniform == 1 else -real.log(-real.log(1 - uniform))


def best(gaps: Sequence[Fraction], words: Sequence[int], more: More, *, gumbel: bool) -> int:
    """Return the index of the largest draw - gap; those that may still win reveal 64 more bits in turn."""
    alive = list(enumerate(words))
    bits = 64
    while True:
        cells = {
            index: tuple(
                _draw(real.ldexp(real.mpf(edge), -bits), gumbel=gumbel) - rational(gaps[index])
                for edge in (word + 1, word)
            )
            for index, word in alive
        }
        floor = max(low for low, _ in cells.values())
        alive = [(index, word) for index, word in alive if cells[index][1] >= floor]
        if len(alive) == 1:
            return alive[0][0]
        alive = [(index, word << 64 | more()) for index, word in alive]
        bits += 64
        assert bits <= 64 * 6, "deeper than the oracle's precision"
