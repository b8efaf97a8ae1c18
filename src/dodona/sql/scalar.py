"""Scalars: the value of an expression in one row, as a rule that the row's cell alone decides.

A scalar is a list of branches, of which the first that holds gives the leaf: a constant, NULL, or a column (perhaps
times a number plus a number, or a part of a date).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dodona.domain.attribute import Attribute, Boolean, Category, Date, cells
from dodona.query.predicate import EVERYTHING, NOTHING, Predicate, both, complement, either, masked


@dataclass(frozen=True, slots=True)
class Subject:
    """A column: shift + scale·x of a number, a part of a date, or the column as it is."""

    attribute: Attribute
    shift: Fraction = Fraction(0)
    scale: Fraction = Fraction(1)
    part: str | None = None
    """The part of a date: `year`, ... for numbers, `trunc month`, ... for the first day."""

    @property
    def plain(self) -> bool:
        """Whether it is the column as it is."""
        return self.part is None and self.shift == 0 and self.scale == 1

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers; false and true count as 0 and 1."""
        if self.part is not None:
            return not self.part.startswith("trunc")
        return not isinstance(self.attribute, Category | Date)


Constant = Fraction | str | bool | dt.date | None
"""None is NULL."""
Leaf = Subject | Fraction | str | bool | dt.date | None


_MOST_FOLDED = 8


@dataclass(frozen=True, slots=True)
class Scalar:
    """The leaf of the first branch that holds, else the last one."""

    branches: tuple[tuple[Predicate, Leaf], ...]
    otherwise: Leaf

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, in order."""
        return (*(leaf for _, leaf in self.branches), self.otherwise)

    @property
    def width(self) -> int:
        """How many cells the widest column has that it may be; 0 where it is always a constant."""
        return max((cells(leaf.attribute) for leaf in self.leaves if isinstance(leaf, Subject)), default=0)

    def mapped(self, change: Callable[[Leaf], Leaf]) -> Scalar:
        """Return the scalar with each leaf changed."""
        return Scalar(tuple((guard, change(leaf)) for guard, leaf in self.branches), change(self.otherwise))

    def where(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the rows whose leaf passes a test."""
        if len(self.branches) > _MOST_FOLDED:
            return self._flat(test)
        found = test(self.otherwise)
        for guard, leaf in reversed(self.branches):
            found = chosen(guard, test(leaf), found)
        return found

    def _flat(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the same rows as a formula that is not deep, however many branches there are."""
        parts: list[Predicate] = []
        before: Predicate = NOTHING
        for guard, leaf in self.branches:
            parts.append(both(guard, test(leaf), complement(before)))
            before = either(before, guard)
        return either(*parts, both(test(self.otherwise), complement(before)))

    def present(self) -> Predicate:
        """Return the rows in which it has a value."""
        return self.where(present)


def of_leaf(leaf: Leaf) -> Scalar:
    """Return the scalar that is the same rule for every row."""
    return Scalar((), leaf)


def chosen(guard: Predicate, then: Predicate, otherwise: Predicate) -> Predicate:
    """Return the rows of `then` where the guard holds, and those of `otherwise` where it does not."""
    if EVERYTHING in {then, otherwise} or NOTHING in {then, otherwise}:  # keep it flat
        if then == otherwise:
            return then
        if then == EVERYTHING:
            return either(guard, otherwise)
        if then == NOTHING:
            return both(complement(guard), otherwise)
        return either(then, complement(guard)) if otherwise == EVERYTHING else both(guard, then)
    return either(both(guard, then), both(complement(guard), otherwise))


def cases(branches: list[tuple[Predicate, Scalar]], otherwise: Scalar) -> Scalar:
    """Return the scalar that is that of the first branch that holds."""
    found: list[tuple[Predicate, Leaf]] = []
    for guard, scalar in branches:
        found.extend((both(guard, inner), leaf) for inner, leaf in scalar.branches)
        found.append((guard, scalar.otherwise))
    found.extend(otherwise.branches)
    last = otherwise.otherwise
    kept = []
    for guard, leaf in found:
        if guard == EVERYTHING:
            last = leaf
            break
        if guard != NOTHING:
            kept.append((guard, leaf))
    while kept and kept[-1][1] == last and type(kept[-1][1]) is type(last):
        kept.pop()
    return Scalar(tuple(kept), last)


def present(leaf: Leaf) -> Predicate:
    """Return the rows in which a leaf has a value: aggregates skip `<missing>` and `<outside>`."""
    if isinstance(leaf, Subject):
        return masked(leaf.attribute, (1 << leaf.attribute.size) - 1)
    return NOTHING if leaf is None else EVERYTHING


def number(leaf: Leaf) -> Fraction | None:
    """Return a constant as a number: true is 1. None where it is none."""
    if isinstance(leaf, bool):
        return Fraction(leaf)
    return leaf if isinstance(leaf, Fraction) else None


def truth(leaf: Leaf) -> tuple[Predicate, Predicate] | None:
    """Return where a leaf is true and where it is false; None where it is no truth value."""
    if leaf is None:
        return NOTHING, NOTHING
    if isinstance(leaf, bool):
        return (EVERYTHING, NOTHING) if leaf else (NOTHING, EVERYTHING)
    if isinstance(leaf, Subject) and isinstance(leaf.attribute, Boolean) and leaf.plain:
        return masked(leaf.attribute, 0b10), masked(leaf.attribute, 0b01)
    return None
