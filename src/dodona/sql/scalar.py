"""Scalars: the value of an SQL expression in one row, as a function of the row's cell, and parts of dates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dodona.query.predicate import EVERYTHING, NOTHING, Predicate, among_mask, complement, conjunction, disjunction
from dodona.schema.attributes import CALENDAR_BINS, Attribute, Boolean, Category, Date, period_starts
from dodona.schema.partition import Partition

# --- Scalars: the value of an expression in one row, as a function of the row's cell alone. ---


@dataclass(frozen=True, slots=True)
class Subject:
    """A column: shift + scale·x of a number, a date part, or the unchanged column."""

    attribute: Attribute
    shift: Fraction = Fraction(0)
    scale: Fraction = Fraction(1)
    part: str | None = None
    """The date part: `year`, ... for numbers, `trunc month`, ... for the first day."""

    @property
    def plain(self) -> bool:
        """Whether it is the unchanged column."""
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
    """The leaf of the first branch that holds, otherwise the last one."""

    branches: tuple[tuple[Predicate, Leaf], ...]
    otherwise: Leaf

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, in order."""
        return (*(leaf for _, leaf in self.branches), self.otherwise)

    @property
    def width(self) -> int:
        """The number of cells of the widest column among the leaves; 0 if all are constants."""
        return max((leaf.attribute.cells for leaf in self.leaves if isinstance(leaf, Subject)), default=0)

    def mapped(self, change: Callable[[Leaf], Leaf]) -> Scalar:
        """Return the scalar with each leaf transformed."""
        return Scalar(tuple((guard, change(leaf)) for guard, leaf in self.branches), change(self.otherwise))

    def where(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the rows whose leaf satisfies a test."""
        if len(self.branches) > _MOST_FOLDED:
            return self._flat(test)
        found = test(self.otherwise)
        for guard, leaf in reversed(self.branches):
            found = if_then_else(guard, test(leaf), found)
        return found

    def _flat(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the same rows as a shallow formula, however many branches there are."""
        parts: list[Predicate] = []
        before: Predicate = NOTHING
        for guard, leaf in self.branches:
            parts.append(conjunction(guard, test(leaf), complement(before)))
            before = disjunction(before, guard)
        return disjunction(*parts, conjunction(test(self.otherwise), complement(before)))

    def present(self) -> Predicate:
        """Return the rows in which the scalar has a value."""
        return self.where(leaf_present)


def scalar_from_leaf(leaf: Leaf) -> Scalar:
    """Return a scalar with the same leaf in every row."""
    return Scalar((), leaf)


def if_then_else(guard: Predicate, then: Predicate, otherwise: Predicate) -> Predicate:
    """Return the rows of `then` where the guard holds, and those of `otherwise` elsewhere."""
    if EVERYTHING in {then, otherwise} or NOTHING in {then, otherwise}:  # keep it flat
        if then == otherwise:
            return then
        if then == EVERYTHING:
            return disjunction(guard, otherwise)
        if then == NOTHING:
            return conjunction(complement(guard), otherwise)
        return disjunction(then, complement(guard)) if otherwise == EVERYTHING else conjunction(guard, then)
    return disjunction(conjunction(guard, then), conjunction(complement(guard), otherwise))


def build_case(branches: list[tuple[Predicate, Scalar]], otherwise: Scalar) -> Scalar:
    """Return the scalar of the first branch that holds, or `otherwise` if none does."""
    found: list[tuple[Predicate, Leaf]] = []
    for guard, scalar in branches:
        found.extend((conjunction(guard, inner), leaf) for inner, leaf in scalar.branches)
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


def leaf_present(leaf: Leaf) -> Predicate:
    """Return the rows in which a leaf has a value: aggregates skip `<missing>` and `<outside>`."""
    if isinstance(leaf, Subject):
        return among_mask(leaf.attribute, (1 << leaf.attribute.size) - 1)
    return NOTHING if leaf is None else EVERYTHING


def constant_number(leaf: Leaf) -> Fraction | None:
    """Return a constant as a number, with true as 1; None if it is not a number."""
    if isinstance(leaf, bool):
        return Fraction(leaf)
    return leaf if isinstance(leaf, Fraction) else None


def leaf_truth(leaf: Leaf) -> tuple[Predicate, Predicate] | None:
    """Return where a leaf is true and where it is false; None if it is not boolean."""
    if leaf is None:
        return NOTHING, NOTHING
    if isinstance(leaf, bool):
        return (EVERYTHING, NOTHING) if leaf else (NOTHING, EVERYTHING)
    if isinstance(leaf, Subject) and isinstance(leaf.attribute, Boolean) and leaf.plain:
        return among_mask(leaf.attribute, 0b10), among_mask(leaf.attribute, 0b01)
    return None


# --- Date parts: `year(d)`, `date_trunc('month', d)` and so on for each day of a column. ---


PART_SYNONYMS = {"dayofmonth": "day", "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week"}
"""Alternative names of date parts."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_Numbers = NDArray[np.int64]


@lru_cache(maxsize=64)
def date_part_values(attribute: Date, part: str) -> _Numbers:
    """Return the part of each day in code order: a number, or the first day as an ordinal.

    >>> from datetime import date
    >>> date_part_values(Date("d", date(2024, 1, 30), date(2024, 2, 2)), "month").tolist()
    [1, 1, 2, 2]
    """
    ordinals = np.arange(attribute.lower.toordinal(), attribute.upper.toordinal() + 1, dtype=np.int64)
    found = _PARTS[part](ordinals)
    found.flags.writeable = False
    return found


def date_partition(attribute: Date, unit: str) -> Partition:
    """Return the days grouped by one unit; the first and the last group may be incomplete."""
    found = date_part_values(attribute, f"trunc {unit}")
    cuts = np.flatnonzero(np.diff(found, prepend=found[0] - 1))
    return Partition.cut(attribute, tuple(cuts.tolist()))


def _as_days(ordinals: _Numbers) -> NDArray[np.datetime64]:
    return (ordinals - _EPOCH).astype("datetime64[D]")


def _month(ordinals: _Numbers) -> _Numbers:
    """Return the months since January 1970."""
    return _as_days(ordinals).astype("datetime64[M]").astype(np.int64)


def _weekday(ordinals: _Numbers) -> _Numbers:
    """Return 0 for Monday to 6 for Sunday: the first day of year 1 was a Monday."""
    return (ordinals + 6) % 7


def _week(ordinals: _Numbers) -> _Numbers:
    """Return the ISO 8601 week, which belongs to the year of its Thursday."""
    thursday = ordinals - _weekday(ordinals) + 3
    return (thursday - period_starts(thursday, "year")) // 7 + 1


TRUNCATION_UNITS = tuple(reversed(CALENDAR_BINS))
"""The units that a date may be truncated to."""
_PARTS: dict[str, Callable[[_Numbers], _Numbers]] = {
    "year": lambda days: _as_days(days).astype("datetime64[Y]").astype(np.int64) + 1970,
    "quarter": lambda days: _month(days) % 12 // 3 + 1,
    "month": lambda days: _month(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - period_starts(days, "month") + 1,
    "dow": lambda days: (_weekday(days) + 1) % 7,
    "isodow": lambda days: _weekday(days) + 1,
    "doy": lambda days: days - period_starts(days, "year") + 1,
    **{f"trunc {unit}": partial(period_starts, unit=unit) for unit in TRUNCATION_UNITS},
}
DATE_PARTS = tuple(part for part in _PARTS if not part.startswith("trunc"))
"""Date parts that are numbers."""
