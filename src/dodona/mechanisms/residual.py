"""Residuals, measured: integer Gaussian noise on Helmert rows, as much on each as makes all of them equally sharp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dodona.accounting.event import UnevenGaussianEvent
from dodona.domain.domain import Domain
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.pattern import Part, ratio_of
from dodona.query.canonical import digest
from dodona.query.query import Query
from dodona.query.residual import Residual, block_of, residual_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME = "helmert"
_DIGITS = 40
"""Bits of a scale: a square root that is no fraction is rounded up by less than 2^-39 of itself."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals with a variance each. Their marginals are asked for; Helmert rows of these get noise and are recorded.

    Theorem: residual-measurement
    """

    theorem: ClassVar[str] = "residual-measurement"
    domain: Domain
    parts: tuple[Part, ...]
    label: str = field(default="", compare=False)
    """A word that the receipt carries, for whoever reads it again."""
    query: Query = field(init=False, repr=False, compare=False)
    """One block a residual: the counts of all combinations of its classes."""
    noises: tuple[Gaussian, ...] = field(init=False, repr=False, compare=False)
    """One for each Helmert row, those of the first residual first, of a scale that is never below √(σ²·N)."""

    def __post_init__(self) -> None:
        """Refuse an empty list and variances that are none."""
        parts = tuple((residual, _variance(variance)) for residual, variance in self.parts)
        object.__setattr__(self, "parts", parts)
        if not parts:
            raise InvalidArgument("parts", self.parts, "write at least one residual with its variance")
        known: dict[Fraction, Gaussian] = {}
        noises: list[Gaussian] = []
        for residual, variance in parts:
            lengths = [row.square for row in residual.rows()]
            own = {}
            for length in dict.fromkeys(lengths):
                square = variance * length
                if square not in known:
                    known[square] = Gaussian(scale=root_above(square))
                own[length] = known[square]
            noises += [own[length] for length in lengths]
        query = Query(self.domain, tuple(block_of(residual, self.domain) for residual, _ in parts))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "noises", tuple(noises))

    @property
    def purpose(self) -> str:
        """What a receipt for it says: another than for the marginals themselves."""
        return " ".join(filter(None, (_NAME, digest(self.query), self.label)))

    @property
    def mechanism(self) -> str:
        """The variances as a text that `residuals_from` reads."""
        return ", ".join(f"{_NAME} {variance}" for _, variance in self.parts)

    def turned(self, counts: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """Return the Helmert rows of the marginals, in the order of the noises: whole numbers, exactly."""
        found, start = [], 0
        for residual, _ in self.parts:
            size = math.prod(own.number for own in residual.classes)
            found.append(residual.turned(counts[start : start + size]))
            start += size
        return np.concatenate(found)

    def event(self, unit: Unit) -> UnevenGaussianEvent:
        """Return what all of them cost together.

        Theorem: residual-measurement, pattern-price, people
        """
        return event_of(self.parts, unit)


def event_of(parts: Sequence[Part], unit: Unit) -> UnevenGaussianEvent:
    """Return what residuals with these variances cost together, before their noise is made.

    Theorem: residual-measurement, pattern-price, people
    """
    ratio = ratio_of(parts, unit)
    if ratio == 0:
        accepted = "the number of rows is public where rows are replaced; measure a residual of some attribute"
        raise InvalidArgument("parts", "the number of rows alone", accepted)
    return UnevenGaussianEvent(ratio, unit.neighbours)


def residuals_from(mechanism: str, query: Query) -> Residuals | None:
    """Return the residuals that were measured under a mechanism's text; None where it is another mechanism's."""
    words = [run.split(" ") for run in mechanism.split(", ")]
    if any(len(own) != 2 or own[0] != _NAME for own in words) or len(words) != len(query.blocks):  # noqa: PLR2004
        return None
    parts: list[tuple[Residual, Fraction]] = []
    for (_, variance), block in zip(words, query.blocks, strict=True):
        parts.append((residual_of(block, query.domain), Fraction(variance)))
    return Residuals(query.domain, tuple(parts))


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
