"""Intervals for questions that were chosen because of the numbers they reuse.

A derived answer is a combination Σ w·y of numbers y that were told. Its usual interval is the quantile of the noise in
it, for weights w that were chosen without looking at y. Whoever looks first, and asks about the largest half of 64
groups, picks the weights by the noise, and then that interval says nothing. Here are bounds of Σ w·z that hold for all
weights at once, whenever and however they are chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.answer.band import Band, combined
from dodona.answer.blend import Bell, Blend, Law
from dodona.answer.claim import Checked, Guessed
from dodona.answer.measured import Measured, Noise
from dodona.answer.term import Term
from dodona.errors import InvalidRequest
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.expression import Arithmetic, Certain, Expression, Literal, Total

if TYPE_CHECKING:
    from dodona.answer.derived import Evidence

_EVENTS = 4  # a bound of squares, one of sums, and one for each draw of either law: each gets its part of what may fail
_ROUNDING = 1 + 1e-9  # scales and factors are doubles here
_ONLY = (
    "Intervals for any choice are known for counts, sums and arithmetic of them that were told or follow from that. "
    "Ask this question with fresh=True: it is then measured with new noise alone."
)


@dataclass(frozen=True, slots=True)
class Draws:
    """How many numbers were told so far, by the law of their noise."""

    laplace: int = 0
    gaussian: int = 0

    def plus(self, other: Draws) -> Draws:
        """Return both together."""
        return Draws(self.laplace + other.laplace, self.gaussian + other.gaussian)

    def __bool__(self) -> bool:
        return self.laplace + self.gaussian > 0


def draws_of(noises: Iterable[tuple[Noise, int]]) -> Draws:
    """Return how many draws these are, given by their noises and how many values have each."""
    found = Draws()
    for noise, times in noises:
        found = found.plus(Draws(laplace=times) if isinstance(noise, Laplace) else Draws(gaussian=times))
    return found


def own_draws(measured: Measured) -> Draws:
    """Return the draws of one measurement."""
    blocks = measured.question.query.blocks
    return draws_of((noise, block.values) for noise, block in zip(measured.noises, blocks, strict=True))


@dataclass(frozen=True, slots=True)
class Reach:
    """What bounds the noise in every combination, but with probability `failing`: at any time, for all weights at once.

    Theorem: any-choice
    """

    squares: float
    """Of Gaussian draws Σ (z/σ)² is at most its square."""
    sums: float
    """Of Laplace draws Σ |z|/b is at most this."""
    each: tuple[float, float]
    """Of each draw |z|/b, and |z|/σ, is at most this."""

    def within(self, law: Law) -> float:
        """Return how far off a value with this law may be, whatever it was chosen by."""
        match law:
            case Laplace() | Gaussian():
                return self._terms((Term.of(1.0, law),))
            case Blend(terms):
                return self._terms(terms)
            case Bell(variance, _):
                return math.sqrt(variance) * self.squares * _ROUNDING
            case Checked() | Guessed():
                raise InvalidRequest(_ONLY)
            case _:
                assert_never(law)

    def _terms(self, terms: tuple[Term, ...]) -> float:
        """Return the bound of a sum of draws: of each law by all of them together, or one by one."""
        found = 0.0
        for name, own in (("Laplace", self.each[0]), ("Gaussian", self.each[1])):
            scaled = [(term.factor * term.scale, term.times) for term in terms if term.law == name]
            if not scaled:
                continue
            together = self.sums * max(size for size, _ in scaled)
            if name == "Gaussian":
                together = self.squares * math.sqrt(sum(size**2 * times for size, times in scaled))
            found += min(together, own * sum(size * times for size, times in scaled))
        return found * _ROUNDING


@lru_cache(maxsize=256)
def reach_of(draws: Draws, failing: float) -> Reach:
    """Return what bounds all combinations of so many draws; what may fail is divided so that it holds at any time.

    Theorem: any-choice
    """
    part = failing / _EVENTS
    return Reach(
        squares=math.sqrt(_squares(max(draws.gaussian, 1), part)),
        sums=_sums(max(draws.laplace, 1), part),
        each=(_one(max(draws.laplace, 1), part, power=1.0), _one(max(draws.gaussian, 1), part, power=0.5)),
    )


def any_choice_band(expression: Expression, evidence: Evidence, reach: Reach) -> Band:
    """Return values and intervals that hold for every question at once, so that arithmetic needs no further share."""
    match expression:
        case Total(block):
            unit = float(evidence.question.query.blocks[block].unit)
            value = evidence.numbers(block).reshape(-1) * unit
            laws = (evidence.noises[block],) if isinstance(evidence, Measured) else evidence.laws[block]
            if evidence.question.query.blocks[block].values != evidence.groups:
                raise InvalidRequest(_ONLY)
            known = {law: reach.within(law) * unit for law in dict.fromkeys(laws)}
            within = np.array([known[law] for law in laws], dtype=np.float64)
            return Band(value, value - within, value + within)
        case Literal(Fraction() as number) | Certain(number):
            return Band.constant(float(number), evidence.groups)
        case Arithmetic(operator, left, right):
            return combined(operator, any_choice_band(left, evidence, reach), any_choice_band(right, evidence, reach))
        case _:
            raise InvalidRequest(_ONLY)


def _level(draws: int, failing: float) -> tuple[int, float]:
    """Return the power of two above so many draws, and its part of what may fail: 1/2 + 1/6 + 1/12 + … = 1."""
    level = draws.bit_length()
    return 1 << level, failing / (level * (level + 1))


def _squares(draws: int, failing: float) -> float:
    """Return what Σ (z/σ)² of so many discrete Gaussians stays below, at any time of this level."""
    most, part = _level(draws, failing)
    log = math.log(1 / part)
    total = most + 2 * math.sqrt(most * log) + 2 * log  # near the best for `most` draws; any choice is sound
    slope = (1 - most / total) / 2
    return (log - draws / 2 * math.log1p(-2 * slope)) / slope


def _sums(draws: int, failing: float) -> float:
    """Return what Σ |z|/b of so many discrete Laplace draws stays below, at any time of this level."""
    most, part = _level(draws, failing)
    log = math.log(1 / part)
    slope = 1 - most / (most + math.sqrt(2 * most * log) + log)
    return (log - draws * math.log1p(-slope)) / slope


def _one(draws: int, failing: float, *, power: float) -> float:
    """Return what |z|/b, or for a power of a half |z|/σ, of each of so many draws stays below."""
    most, part = _level(draws, failing)
    log = math.log(2 * most / part)
    return log if power == 1 else math.sqrt(2 * log)
