"""The span of integer vectors, exactly: whether a vector is a combination of others, and which one.

Arithmetic modulo a prime finds which vectors are independent, and the first digit of a combination in base p. Further
digits follow one by one (Dixon 1982) until they show fractions, which are then held to the vectors in whole numbers: so
"in the span" is never an accident, neither of rounding nor of the prime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIME = 2**31 - 1
_MOST_DIGITS = 256

Sparse = Mapping[int, int]
"""Entries that are not 0, by the number of their column."""


class Span:
    """Independent integer vectors, one added after the other, with what combines them, modulo a prime."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.basis: list[Sparse] = []
        """The independent vectors."""
        self._reduced = np.zeros((8, 8), dtype=np.int64)  # each with 1 at its pivot and 0 at those before it
        self._combined = np.zeros((8, 8), dtype=np.int64)  # how it is made of the vectors
        self._pivots = np.zeros(8, dtype=np.int64)
        self.work = 0
        """How many numbers were multiplied to take the vectors in."""

    @property
    def rank(self) -> int:
        """How many independent vectors there are."""
        return len(self.basis)

    @property
    def pivots(self) -> NDArray[np.int64]:
        """Columns that tell all vectors of the span apart."""
        return self._pivots[: self.rank]

    def add(self, vector: Sparse) -> bool:
        """Take a vector; return whether it is independent of those before it, modulo the prime."""
        self._grow(max(vector, default=0) + 1)
        left, combination = self._reduce(vector)
        self.work += int(np.count_nonzero(combination)) * (len(left) + len(combination))
        places = np.flatnonzero(left)
        if len(places) == 0:
            return False
        pivot = int(places[-1])  # later columns are newer, so that fewer vectors have them
        inverse = pow(int(left[pivot]), -1, PRIME)
        rank = self.rank
        combination[rank] = 1
        self._reduced[rank] = left * inverse % PRIME
        self._combined[rank] = combination * inverse % PRIME
        self._pivots[rank] = pivot
        self.basis.append(vector)
        return True

    def combination(self, target: Sparse) -> list[Fraction] | None:
        """Return the numbers with Σ number·vector = target exactly; None where there are none.

        Theorem: derivation
        """
        if max(target, default=0) >= self._reduced.shape[1]:
            return None
        rest, found, power = dict(target), [0] * self.rank, 1
        for digit in range(_MOST_DIGITS):
            solved = self._solved(rest)
            if solved is None:
                return None
            for place, number in solved.items():
                found[place] += number * power
            power *= PRIME
            rest = {column: value // PRIME for column, value in self._less(rest, solved).items()}
            if digit & (digit - 1) == 0 or not rest:  # after 1, 2, 3, 5, 9, … digits
                numbers = _fractions(found, power)
                if numbers is not None and self._holds(numbers, target):
                    return numbers
        return None

    def _solved(self, target: Sparse) -> dict[int, int] | None:
        """Return the combination modulo the prime, as numbers nearest to 0."""
        left, combination = self._reduce(target)
        if left.any():
            return None
        numbers = -combination[: self.rank] % PRIME
        numbers = np.where(numbers > PRIME // 2, numbers - PRIME, numbers)
        places = np.flatnonzero(numbers)
        return dict(zip(places.tolist(), numbers[places].tolist(), strict=True))

    def _less(self, target: Sparse, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return target - Σ number·vector."""
        found = dict(target)
        for place, number in numbers.items():
            for column, value in self.basis[place].items():
                found[column] = found.get(column, 0) - number * value
        return {column: value for column, value in found.items() if value}

    def _holds(self, numbers: Sequence[Fraction], target: Sparse) -> bool:
        common = math.lcm(*(number.denominator for number in numbers))
        whole = {place: int(number * common) for place, number in enumerate(numbers) if number}
        return not self._less({column: common * value for column, value in target.items()}, whole)

    def _reduce(self, vector: Sparse) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what is left of a vector after all that the span has of it, and minus the combination it has."""
        left = np.zeros(self._reduced.shape[1], dtype=np.int64)
        for column, value in vector.items():
            left[column] = value % PRIME
        combination = np.zeros(self._combined.shape[1], dtype=np.int64)
        place = 0
        while True:
            ahead = np.flatnonzero(left[self._pivots[place : self.rank]])
            if len(ahead) == 0:
                return left, combination
            place += int(ahead[0])
            factor = left[self._pivots[place]]
            left = (left - factor * self._reduced[place]) % PRIME
            combination = (combination - factor * self._combined[place]) % PRIME
            place += 1

    def _grow(self, columns: int) -> None:
        rank, (rows, width) = self.rank, self._reduced.shape
        if rank == rows:
            self._combined = np.pad(self._combined, ((0, rows), (0, rows)))
            self._pivots = np.pad(self._pivots, (0, rows))
            self._reduced = np.pad(self._reduced, ((0, rows), (0, 0)))
        if columns > width:
            self._reduced = np.pad(self._reduced, ((0, 0), (0, max(columns, 2 * width) - width)))


def _fractions(found: Sequence[int], power: int) -> list[Fraction] | None:
    """Return fractions of small terms that are these numbers modulo the power, with one common denominator."""
    bound = math.isqrt(power // 2)
    common = 1
    for number in found:
        common *= _denominator(number * common % power, power, bound)
        if common > bound:
            return None
    numbers = []
    for number in found:
        top = number * common % power
        top = top - power if top > power // 2 else top
        if abs(top) > bound * common:
            return None
        numbers.append(Fraction(top, common))
    return numbers


def _denominator(number: int, power: int, bound: int) -> int:
    """Return the least denominator of a fraction that is this number modulo the power, by Euclid's algorithm."""
    before, after, first, second = power, number, 0, 1
    while after > bound:
        quotient = before // after
        before, after = after, before - quotient * after
        first, second = second, first - quotient * second
    return abs(second) or 1
