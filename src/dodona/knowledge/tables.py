"""Released tables of counts by classes, and every other count that follows from them.

A known number of rows, public or released, reduces the variance of sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import NoiseSum
from dodona.answer.sums import NoiseTerm
from dodona.knowledge.patterns import (
    CountPattern,
    KnownValues,
    class_mask,
    member_classes,
    noise_variance,
    weigh_classes,
)
from dodona.privacy.additive_noise import Noise
from dodona.query.query import Block
from dodona.query.residual import Classes

_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of rows: exact and public, or released with noise."""

    value: float
    noise: Noise | None = None

    @property
    def variance(self) -> float:
        """Its variance; 0 if it is exact."""
        return 0.0 if self.noise is None else noise_variance(self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class CountTable:
    """Released counts of all combinations of classes, with independent noise of the same law."""

    classes: tuple[Classes, ...]
    """In the order of the axes."""
    values: NDArray[np.float64] = field(repr=False)
    noise: Noise
    receipt: str
    _sum: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the total once."""
        object.__setattr__(self, "values", self.values.reshape([classing.number for classing in self.classes]))
        object.__setattr__(self, "_sum", float(self.values.sum()))

    @property
    def size(self) -> int:
        """The number of counts."""
        return self.values.size

    def product(self, pattern: CountPattern, rows: RowCount | None) -> KnownValues | None:
        """Return a product of sets of classes, with its error law; None if it uses other classes.

        Theorem: table-of-counts
        """
        sets = self._sets(pattern)
        if sets is None:
            return None
        table = self.values
        for classing in self.classes:  # contract the first axis, one attribute at a time
            members = sets.get(classing)
            table = table.sum(axis=0) if members is None else table[class_mask(classing, members)].sum(axis=0)
        return self._counted([float(table)], [self._number(sets)], rows)

    def variance_of(self, pattern: CountPattern, rows: RowCount | None) -> float | None:
        """Return the variance of a product of sets of classes; None if it uses other classes."""
        sets = self._sets(pattern)
        return None if sets is None else count_law(self.size, self._number(sets), self.noise, rows).variance

    def _sets(self, pattern: CountPattern) -> dict[Classes, int] | None:
        """Return the set of each class of a product of sets; None if it is none, or uses other classes."""
        if pattern.sets is None:
            return None
        counted = [selection for selection in pattern.sets if isinstance(selection, int)]
        if len(counted) < len(pattern.sets):
            return None
        sets = dict(zip(pattern.classes, counted, strict=True))
        return sets if sets.keys() <= set(self.classes) else None

    def _number(self, sets: dict[Classes, int]) -> int:
        """Return how many counts a product of sets adds up."""
        numbers = (sets[side].bit_count() if side in sets else side.number for side in self.classes)
        return math.prod(numbers)

    def lookup(self, block: Block, rows: RowCount | None) -> KnownValues | None:
        """Return each answer of a block with its error law; None if the block splits a class.

        Theorem: table-of-counts
        """
        flat = self.values.reshape(-1)
        members = member_classes(block, self.classes)
        if members is not None:
            return self._counted([_sum_members(flat, members)], [int(np.count_nonzero(members))], rows)
        weighed = weigh_classes(block, self.classes)
        if weighed is None:
            return None
        inside = np.bincount(weighed.groups, weights=weighed.weights * flat, minlength=weighed.number).tolist()
        sums = np.bincount(weighed.groups, weights=weighed.weights, minlength=weighed.number).tolist()
        if weighed.weights.min() >= 0 and weighed.weights.max() <= 1:
            return self._counted(inside, [round(number) for number in sums], rows)
        values, laws = [], []
        for group, (value, total) in enumerate(zip(inside, sums, strict=True)):
            share = _share(self.size, total, noise_variance(self.noise), rows)
            values.append(self._sharpened(value, share, rows))
            laws.append(self._law_of_sum(weighed.weights[weighed.groups == group], share, rows))
        return KnownValues(values, tuple(laws))

    def _law_of_sum(self, weights: NDArray[np.int64], share: float, rows: RowCount | None) -> NoiseSum:
        """Return the error law of a weighted sum of counts."""
        others = NoiseTerm.of(share, self.noise, self.size - len(weights))
        return _with_rows(NoiseSum((*NoiseSum.of(weights - share, self.noise).terms, others)), share, rows)

    def _counted(self, sums: Sequence[float], numbers: Sequence[int], rows: RowCount | None) -> KnownValues:
        """Return sums of `numbers` counts each, adjusted by the number of rows, with their error laws."""
        variance = noise_variance(self.noise)
        values = [
            self._sharpened(total, _share(self.size, number, variance, rows), rows)
            for total, number in zip(sums, numbers, strict=True)
        ]
        return KnownValues(values, tuple(count_law(self.size, number, self.noise, rows) for number in numbers))

    def _sharpened(self, value: float, share: float, rows: RowCount | None) -> float:
        """Return a sum minus its share of the difference between the total and the number of rows."""
        return value if rows is None else value + share * (rows.value - self._sum)


def _sum_members(values: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    """Return the sum of selected values; copying them would take longer than the sum."""
    spans = (slice(start, start + _AT_ONCE) for start in range(0, len(values), _AT_ONCE))
    return sum([float(members[span].astype(np.float64) @ values[span]) for span in spans])


@lru_cache(maxsize=1 << 14)
def count_law(size: int, number: int, noise: Noise, rows: RowCount | None) -> NoiseSum:
    """Return the error law of the sum of `number` counts, given the number of rows if it is known.

    Theorem: table-of-counts
    """
    share = _share(size, number, noise_variance(noise), rows)
    terms = (NoiseTerm.of(1 - share, noise, number), NoiseTerm.of(share, noise, size - number))
    return _with_rows(NoiseSum(terms), share, rows)


def _share(size: int, total: float, variance: float, rows: RowCount | None) -> float:
    """Return the λ that minimises the variance Σ(w - λ)²·v + λ²·v₀: it is v·Σw/(N·v + v₀)."""
    if rows is None:
        return 0.0
    return variance * total / (size * variance + rows.variance)


def _with_rows(law: NoiseSum, share: float, rows: RowCount | None) -> NoiseSum:
    if rows is None or rows.noise is None or share == 0:
        return law
    return NoiseSum((*law.terms, NoiseTerm.of(share, rows.noise)))
