"""Polynomials in the codes of several columns: sums, differences and products of columns, with integer coefficients.

They are kept expanded and sorted, so the same polynomial has one form however it was written. A polynomial has a value
only in rows in which all of its columns have one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Booleans, Integers

MOST_DEGREE = 8
"""The largest degree of a term."""
LARGEST_VALUE = 1 << 61
"""The limit on the sum of the absolute values of all terms, so that no engine overflows 64 bits on the way."""
_MOST_CORNERS = 10
_BINARY = 2
Exponents = tuple[int, ...]
Powers = tuple[tuple[str, int], ...]
"""Columns, each with the power of its code."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of terms, each a coefficient times powers of codes."""

    names: tuple[str, ...]
    """The columns that must have a value, sorted; one may occur in no term."""
    sizes: tuple[int, ...]
    """The number of values of each column."""
    cells: tuple[int, ...]
    """The number of cells of each column."""
    terms: tuple[tuple[Exponents, int], ...]
    """The power of each column's code, and the coefficient; sorted, without zeros."""

    def __post_init__(self) -> None:
        """Refuse what is not in the one form, and what could overflow."""
        widths = {len(self.sizes), len(self.cells), *(len(exponents) for exponents, _ in self.terms)}
        if not self.names or widths != {len(self.names)} or any(a >= b for a, b in pairwise(self.names)):
            raise _invalid(self.names, "name at least one column, in order, each once, with a size and a power")
        listed = [exponents for exponents, _ in self.terms]
        numbers = [
            *self.sizes,
            *self.cells,
            *(number for _, number in self.terms),
            *(p for exponents in listed for p in exponents),
        ]
        if any(type(number) is not int for number in numbers) or any(number == 0 for _, number in self.terms):
            raise _invalid(self.terms, "write Python's own whole numbers, and no term of 0")
        if any(a >= b for a, b in pairwise(listed)) or any(
            min(exponents) < 0 or sum(exponents) > MOST_DEGREE for exponents in listed
        ):
            raise _invalid(self.terms, f"write terms in order, each once, of degree 0 to {MOST_DEGREE}")
        if any(
            power > _reduce(power, size)
            for exponents in listed
            for power, size in zip(exponents, self.sizes, strict=True)
        ):
            raise _invalid(self.terms, "write the first power of a code that is 0 or 1")
        if self.magnitude > LARGEST_VALUE:
            raise _invalid(self.magnitude, "the terms of one row may be 2^61 steps in all: declare larger steps")

    @classmethod
    def of(cls, columns: Mapping[str, tuple[int, int]], terms: Mapping[Powers, int]) -> Self:
        """Return a polynomial of columns with their sizes and cells, from the coefficients of its terms.

        >>> Polynomial.of({"b": (3, 5), "a": (9, 11)}, {(("b", 1), ("a", 1)): 2, (): 7}).terms
        (((0, 0), 7), ((1, 1), 2))
        """
        names = tuple(sorted(columns))
        coefficients: dict[Exponents, int] = {}
        for powers, number in terms.items():
            by_name = dict(powers)
            if not any(columns[name][0] == 1 for name, power in powers if power):  # the only code is 0
                exponents = tuple(_reduce(by_name.get(name, 0), columns[name][0]) for name in names)
                coefficients[exponents] = coefficients.get(exponents, 0) + number
        kept = tuple(sorted((exponents, number) for exponents, number in coefficients.items() if number))
        sizes, cells = (tuple(columns[name][place] for name in names) for place in (0, 1))
        return cls(names, sizes, cells, kept)

    @property
    def magnitude(self) -> int:
        """The largest sum of the absolute values of all terms."""
        ends = [size - 1 for size in self.sizes]
        return sum(abs(number) * _monomial(ends, exponents) for exponents, number in self.terms)

    @property
    def degrees(self) -> tuple[int, ...]:
        """The largest power of each column."""
        return tuple(
            max((exponents[place] for exponents, _ in self.terms), default=0) for place in range(len(self.names))
        )

    def bounds(self, spans: Mapping[str, tuple[int, int]] | None = None) -> tuple[int, int]:
        """Return bounds on the value, for codes from the first to the last of each column.

        They are attained if no column occurs in a power: then the value is straight in each code, and largest and
        smallest at corners.
        """
        full = zip(self.names, self.sizes, strict=True)
        ends = [(0, size - 1) if spans is None else spans[name] for name, size in full]
        if max(self.degrees) <= 1 and len(self.names) <= _MOST_CORNERS:
            values = [self.at(corner) for corner in product(*ends)]
            return min(values), max(values)
        low = high = 0
        for exponents, number in self.terms:
            both = [number * _monomial(side, exponents) for side in zip(*ends, strict=True)]
            low, high = low + min(both), high + max(both)  # codes are not negative, so powers rise
        return low, high

    def powers(self) -> list[Powers]:
        """Return the columns of each term, with their powers."""
        named = (zip(self.names, exponents, strict=True) for exponents, _ in self.terms)
        return [tuple([(name, power) for name, power in pairs if power]) for pairs in named]

    def at(self, codes: tuple[int, ...]) -> int:
        """Return the value for codes of all columns."""
        return sum(number * _monomial(codes, exponents) for exponents, number in self.terms)

    def plus(self, number: int) -> Polynomial:
        """Return the sum with a number."""
        return self._with(dict(self.terms), number)

    def negative(self) -> Polynomial:
        """Return the negative."""
        return self._with({exponents: -coefficient for exponents, coefficient in self.terms}, 0)

    def _with(self, terms: dict[Exponents, int], number: int) -> Polynomial:
        constant = (0,) * len(self.names)
        terms[constant] = terms.get(constant, 0) + number
        return replace(
            self,
            terms=tuple(sorted((exponents, coefficient) for exponents, coefficient in terms.items() if coefficient)),
        )


def evaluate_polynomial(polynomial: Polynomial, axes: Mapping[str, Integers]) -> tuple[Integers, Booleans]:
    """Return the values for rows, or for the cells of a product, and where there is one."""
    codes = [np.minimum(axes[name], size - 1) for name, size in zip(polynomial.names, polynomial.sizes, strict=True)]
    held = np.asarray(True)  # noqa: FBT003
    for name, size in zip(polynomial.names, polynomial.sizes, strict=True):
        held = held & (axes[name] < size)
    total: Integers = np.asarray(0, dtype=np.int64)
    for exponents, number in polynomial.terms:
        term: Integers = np.asarray(number, dtype=np.int64)
        for column_codes, power in zip(codes, exponents, strict=True):
            for _ in range(power):
                term = term * column_codes
        total = total + term
    return total, held


def reduce_comparison(polynomial: Polynomial) -> Polynomial:
    """Return the polynomial with the smallest coefficients that is at least 0 in the same rows.

    >>> reduce_comparison(Polynomial(("a",), (9,), (11,), (((0,), -5), ((1,), 2)))).terms
    (((0,), -3), ((1,), 1))
    """
    constant = (0,) * len(polynomial.names)
    others = {exponents: number for exponents, number in polynomial.terms if exponents != constant}
    common = math.gcd(*others.values()) if others else 1
    first = dict(polynomial.terms).get(constant, 0) // common
    return polynomial._with({exponents: number // common for exponents, number in others.items()}, first)  # noqa: SLF001


def _monomial(codes: tuple[int, ...] | list[int], exponents: Exponents) -> int:
    return math.prod([code**power for code, power in zip(codes, exponents, strict=True) if power])


def _reduce(power: int, size: int) -> int:
    """Return the smallest power with the same values: codes of a column with two values are 0 and 1."""
    return min(power, 1) if size <= _BINARY else power


def _invalid(value: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("polynomial", value, accepted)
