"""Residuals, measured: integer Gaussian noise on Helmert rows, as much on each as makes all of them equally sharp."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from dodona.accounting.event import UnevenGaussianEvent
from dodona.domain.domain import Domain
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.pattern import Part, ratio_of
from dodona.query.query import Query

_DIGITS = 40
"""Bits of a scale: a square root that is no fraction is rounded up by less than 2^-39 of itself."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals with a variance each. It is asked, drawn and recorded as any measurement, and has its own price.

    Theorem: residual-measurement
    """

    theorem: ClassVar[str] = "residual-measurement"
    domain: Domain
    parts: tuple[Part, ...]
    query: Query = field(init=False, repr=False, compare=False)
    """One block a row: all rows of the first residual, then those of the next."""
    noises: tuple[Gaussian, ...] = field(init=False, repr=False, compare=False)
    """One for each block, of a scale that is never below √(σ²·N)."""

    def __post_init__(self) -> None:
        """Refuse an empty list and variances that are none."""
        parts = tuple((residual, _variance(variance)) for residual, variance in self.parts)
        object.__setattr__(self, "parts", parts)
        if not parts:
            raise InvalidArgument("parts", self.parts, "write at least one residual with its variance")
        rows = [(residual, variance, row) for residual, variance in parts for row in residual.rows()]
        scales = {square: root_above(square) for square in {variance * row.square for _, variance, row in rows}}
        noises = {square: Gaussian(scale=scale) for square, scale in scales.items()}
        query = Query(self.domain, tuple(residual.block(row) for residual, _, row in rows))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "noises", tuple(noises[variance * row.square] for _, variance, row in rows))

    def event(self, neighbours: Neighbours) -> UnevenGaussianEvent:
        """Return what all of them cost together.

        Theorem: residual-measurement, pattern-price
        """
        ratio = ratio_of(self.parts, neighbours)
        if ratio == 0:
            accepted = "the number of rows is public where rows are replaced; measure a residual of some attribute"
            raise InvalidArgument("parts", "the number of rows alone", accepted)
        return UnevenGaussianEvent(ratio, neighbours)


def root_above(square: Fraction) -> Fraction:
    """Return the square root where it is a fraction, else the next above it with 40 bits.

    >>> root_above(Fraction(9, 4))
    Fraction(3, 2)
    """
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    magnitude = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** (magnitude - _DIGITS)
    return (math.isqrt(int(square / unit**2)) + 1) * unit


def _variance(value: object) -> Fraction:
    if not isinstance(value, Fraction | int) or isinstance(value, bool) or value <= 0:
        raise InvalidArgument("variance", value, "write a fraction above 0")
    return Fraction(value)
