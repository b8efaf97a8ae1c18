"""Counts: a whole table of released counts by classes, which every other count over these classes follows from.

Where the number of rows is known too, exactly or by a release, it sharpens all sums: λ of it is put in the place of λ
of the counts, with the λ that leaves the least noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.blend import Blend
from dodona.answer.term import Term
from dodona.belief.facet import Facet, chosen, members_over, weighed
from dodona.belief.measurements import variance_of
from dodona.mechanisms.measurement import Noise
from dodona.query.query import Block
from dodona.query.residual import Classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class Rows:
    """The number of rows: exact and public, or released with noise."""

    value: float
    noise: Noise | None = None

    @property
    def variance(self) -> float:
        """0 where it is exact."""
        return 0.0 if self.noise is None else variance_of(self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Released counts of all combinations of classes, with independent noise of one law in each."""

    classes: tuple[Classes, ...]
    """In the order of the axes."""
    values: NDArray[np.float64] = field(repr=False)
    noise: Noise
    receipt: str
    _sum: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Add them up once."""
        object.__setattr__(self, "values", self.values.reshape([own.number for own in self.classes]))
        object.__setattr__(self, "_sum", float(self.values.sum()))

    @property
    def size(self) -> int:
        """How many counts there are."""
        return self.values.size

    def product(self, facet: Facet, rows: Rows | None) -> tuple[float, Blend] | None:
        """Return a product of sets of classes, with its law; None where it is seen in other classes.

        Theorem: table-of-counts
        """
        if facet.sets is None:
            return None
        sets = dict(zip(facet.classes, facet.sets, strict=True))
        if not sets.keys() <= set(self.classes):
            return None
        table, number = self.values, 1
        for own in self.classes:  # the first axis goes, one attribute after the other
            members = sets.get(own)
            table = table.sum(axis=0) if members is None else table[chosen(own, members)].sum(axis=0)
            number *= own.number if members is None else members.bit_count()
        return self._counted(float(table), number, rows)

    def tell(self, block: Block, rows: Rows | None) -> list[tuple[float, Blend]] | None:
        """Return each answer of a block with its law; None where the block tells a class apart.

        Theorem: table-of-counts
        """
        flat = self.values.reshape(-1)
        members = members_over(block, self.classes)
        if members is not None:
            return [self._counted(_summed(flat, members), int(np.count_nonzero(members)), rows)]
        told = weighed(block, self.classes)
        if told is None:
            return None
        inside = np.bincount(told.groups, weights=told.weights * flat, minlength=told.number).tolist()
        sums = np.bincount(told.groups, weights=told.weights, minlength=told.number).tolist()
        if told.weights.min() >= 0 and told.weights.max() <= 1:
            return [self._counted(own, round(number), rows) for own, number in zip(inside, sums, strict=True)]
        found = []
        for group, (own, total) in enumerate(zip(inside, sums, strict=True)):
            share = _share(self.size, total, variance_of(self.noise), rows)
            value = own + (0.0 if rows is None else share * (rows.value - self._sum))
            found.append((value, self._law_of_sum(told.weights[told.groups == group], share, rows)))
        return found

    def _law_of_sum(self, weights: NDArray[np.int64], share: float, rows: Rows | None) -> Blend:
        """Return the law of a sum of some counts, each times its weight."""
        others = Term.of(share, self.noise, self.size - len(weights))
        return _with_rows(Blend((*Blend.of(weights - share, self.noise).terms, others)), share, rows)

    def _counted(self, inside: float, number: int, rows: Rows | None) -> tuple[float, Blend]:
        """Return the sum of so many of all counts, sharpened by the number of rows, with its law."""
        share = _share(self.size, number, variance_of(self.noise), rows)
        value = inside + (0.0 if rows is None else share * (rows.value - self._sum))
        return value, law_of_count(self.size, number, self.noise, rows)


def _summed(values: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    """Return the sum of some values; memory for a large copy would take longer than the sum."""
    spans = (slice(start, start + _AT_ONCE) for start in range(0, len(values), _AT_ONCE))
    return sum([float(members[span].astype(np.float64) @ values[span]) for span in spans])


@lru_cache(maxsize=1 << 14)
def law_of_count(size: int, number: int, noise: Noise, rows: Rows | None) -> Blend:
    """Return the law of the sum of some of all counts, the number of rows being known or not.

    Theorem: table-of-counts
    """
    share = _share(size, number, variance_of(noise), rows)
    terms = (Term.of(1 - share, noise, number), Term.of(share, noise, size - number))
    return _with_rows(Blend(terms), share, rows)


def _share(size: int, total: float, variance: float, rows: Rows | None) -> float:
    """Return the λ with the least variance Σ(w - λ)²·v + λ²·v₀: it is v·Σw/(N·v + v₀)."""
    if rows is None:
        return 0.0
    return variance * total / (size * variance + rows.variance)


def _with_rows(law: Blend, share: float, rows: Rows | None) -> Blend:
    if rows is None or rows.noise is None or share == 0:
        return law
    return Blend((*law.terms, Term.of(share, rows.noise)))
