"""Leaves: the value of an SQL expression in one row, without CASE, as a function of the row's cells.

A leaf is a constant; a `Subject`, one column or a straight line in it; a `Formula`, a sum of products of columns; or a
`Mapped`, any function of a few columns, by a table of its values. Values are exact.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from dodona.numbers import Integers
from dodona.query.polynomial import MOST_DEGREE, Polynomial, Powers
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Predicate,
    among_combinations,
    among_mask,
    conjunction,
    pack_bits,
)
from dodona.query.query import MOST_TABLE
from dodona.schema.attributes import Attribute, Boolean, Category, Date, code_label, numeric_grid
from dodona.sql.calendar import Interval, date_part_values

# --- The kinds of leaves. ---


class Mismatch(Exception):
    """Values that do not go together: what is wrong, and what to write instead."""


class _Unknown:
    """What is not NULL and not known either: the value of a row outside the declared ones."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
Constant = Fraction | str | bool | dt.date | Interval | None
"""None is NULL."""
Outcome = Constant | _Unknown
MOST_MAPPED = 1 << 18
"""The largest number of cells of a column whose values are listed one by one."""


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


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of products of columns: exact coefficients by the powers of codes. NULL where a column has no value."""

    columns: tuple[Attribute, ...]
    """Sorted by name; a column may occur in no term."""
    terms: tuple[tuple[Powers, Fraction], ...]
    """Sorted, without zeros."""
    days: bool = False
    """Whether the values are days, by their ordinals, and not numbers."""

    @classmethod
    def of(cls, columns: Iterable[Attribute], terms: Mapping[Powers, Fraction], *, days: bool = False) -> Formula:
        """Return a formula of columns in any order."""
        known = {column.name: column for column in columns}
        kept = tuple(sorted((powers, number) for powers, number in terms.items() if number))
        return cls(tuple(known[name] for name in sorted(known)), kept, days)

    @property
    def degree(self) -> int:
        """The largest number of factors of a term."""
        return max((sum(power for _, power in powers) for powers, _ in self.terms), default=0)

    def polynomial(self, unit: Fraction, offset: Fraction = Fraction(0)) -> Polynomial:
        """Return the formula less an offset, in integer multiples of a unit."""
        terms = dict(self.terms)
        terms[()] = terms.get((), Fraction(0)) - offset
        return Polynomial.of(
            {column.name: (column.size, column.cells) for column in self.columns},
            {powers: int(number / unit) for powers, number in terms.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A public function of one column or of a few, by a table: the outcome for each combination of cells."""

    attributes: tuple[Attribute, ...]
    """Sorted by name."""
    outcomes: tuple[Outcome, ...]
    """Without duplicates, in the order in which they first occur."""
    places: Integers
    """For each combination of cells, the position of its outcome; one axis per attribute."""

    @classmethod
    def of(cls, attributes: tuple[Attribute, ...], outcomes: Sequence[Outcome], places: Integers) -> Mapped:
        """Return a function, after merging equal outcomes."""
        seen: dict[tuple[type, Outcome], int] = {}
        same = np.array([seen.setdefault((type(one), one), len(seen)) for one in outcomes], dtype=np.int64)
        return cls(attributes, tuple(one for _, one in seen), same[places])

    def where(self, test: Callable[[Outcome], bool]) -> Predicate:
        """Return the rows whose outcome satisfies a test."""
        flags = np.array([test(one) for one in self.outcomes], dtype=np.bool_)
        chosen = flags[self.places]
        if len(self.attributes) == 1:
            return among_mask(self.attributes[0], pack_bits(chosen))
        return among_combinations(self.attributes, chosen)


Leaf = Subject | Formula | Mapped | Fraction | str | bool | dt.date | Interval | None
Computed = Subject | Formula | Mapped


def leaf_columns(leaf: Leaf) -> tuple[Attribute, ...]:
    """Return the columns that a leaf depends on."""
    match leaf:
        case Subject(attribute):
            return (attribute,)
        case Formula(columns):
            return columns
        case Mapped(attributes):
            return attributes
        case _:
            return ()


def leaf_width(leaf: Leaf) -> int:
    """Return the number of cells that a leaf is compared in: those of its widest column, or of its table."""
    if isinstance(leaf, Mapped):
        return leaf.places.size
    return max((column.cells for column in leaf_columns(leaf)), default=0)


def leaf_present(leaf: Leaf) -> Predicate:
    """Return the rows in which a leaf has a value: aggregates skip `<missing>` and `<outside>`."""
    match leaf:
        case Mapped():
            return leaf.where(lambda one: one is not None and one is not UNKNOWN)
        case Subject() | Formula():
            columns = leaf_columns(leaf)
            return conjunction(*(among_mask(own, (1 << own.size) - 1) for own in columns))
        case _:
            return NOTHING if leaf is None else EVERYTHING


def leaf_truth(leaf: Leaf) -> tuple[Predicate, Predicate] | None:
    """Return where a leaf is true and where it is false; None if it is not boolean."""
    match leaf:
        case None:
            return NOTHING, NOTHING
        case bool():
            return (EVERYTHING, NOTHING) if leaf else (NOTHING, EVERYTHING)
        case Subject(Boolean() as attribute) if leaf.plain:
            return among_mask(attribute, 0b10), among_mask(attribute, 0b01)
        case Mapped() if leaf_kind(leaf) in {"boolean", None}:
            return leaf.where(lambda one: one is True), leaf.where(lambda one: one is False)
        case _:
            return None


def constant_number(leaf: Leaf) -> Fraction | None:
    """Return a constant as a number, with true as 1; None if it is not a number."""
    if isinstance(leaf, bool):
        return Fraction(leaf)
    return leaf if isinstance(leaf, Fraction) else None


_KINDS: dict[type, str] = {Fraction: "number", bool: "boolean", dt.date: "date", str: "text", Interval: "interval"}


def leaf_kind(leaf: Leaf) -> str | None:
    """Return number, date, boolean, text or interval; None for NULL, and for values of several kinds."""
    match leaf:
        case Subject(attribute):
            if leaf.part is not None:
                return "date" if leaf.part.startswith("trunc") else "number"
            own = {"category": "text", "date": "date", "boolean": "boolean"}.get(attribute.kind, "number")
            return "number" if own == "boolean" and not leaf.plain else own
        case Formula():
            return "date" if leaf.days else "number"
        case Mapped():
            kinds = {type(one) for one in leaf.outcomes if one is not None and one is not UNKNOWN}
            return _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
        case _:
            return _KINDS.get(type(leaf))


# --- Tables: any leaf as a function by its values, and functions of such leaves. ---


@lru_cache(maxsize=32)
def _column_outcomes(attribute: Attribute) -> tuple[Outcome, ...]:
    """Return the value of each cell of a column."""
    special: tuple[Outcome, ...] = () if attribute.landing is not None else (None, UNKNOWN)
    labels = (code_label(attribute, code) for code in range(attribute.size))
    values: list[Outcome] = [Fraction(own) if type(own) is int else own for own in labels]  # type: ignore[misc]
    return (*values, *special)


def tabulate(leaf: Computed) -> Mapped:
    """Return a leaf as a table of its values; refuses one with too many."""
    if isinstance(leaf, Mapped):
        return leaf
    attributes = leaf_columns(leaf)
    shape = tuple(own.cells for own in attributes)
    _check_size(attributes)
    if isinstance(leaf, Formula):
        return _tabulate_formula(leaf, shape)
    (attribute,) = attributes
    places = np.arange(attribute.cells, dtype=np.int64)
    if leaf.part is not None and isinstance(attribute, Date):
        numbers = date_part_values(attribute, leaf.part).tolist()
        days = leaf.part.startswith("trunc")
        values = [dt.date.fromordinal(max(1, number)) if days else Fraction(number) for number in numbers]
        return Mapped.of(attributes, (*values, *_column_outcomes(attribute)[attribute.size :]), places)
    outcomes = _column_outcomes(attribute)
    if leaf.plain:
        return Mapped(attributes, outcomes, places)
    moved = [leaf.shift + leaf.scale * Fraction(own) if _is_number(own) else own for own in outcomes]  # type: ignore[arg-type]
    return Mapped.of(attributes, moved, places)


def _is_number(value: Outcome) -> bool:
    return isinstance(value, Fraction | bool)


def _tabulate_formula(formula: Formula, shape: tuple[int, ...]) -> Mapped:
    """Return the values of a formula: NULL where a column is missing, unknown where one is outside."""
    outcomes: list[Outcome] = []
    for codes in np.ndindex(shape):
        named = {own.name: code for own, code in zip(formula.columns, codes, strict=True)}
        if any(own.missing_code == named[own.name] for own in formula.columns):
            outcomes.append(None)
        elif any(own.outside_code == named[own.name] for own in formula.columns):
            outcomes.append(UNKNOWN)
        else:
            terms = (n * math.prod(named[name] ** power for name, power in powers) for powers, n in formula.terms)
            outcomes.append(value_of_number(sum(terms, Fraction(0)), days=formula.days))
    return Mapped.of(formula.columns, outcomes, np.arange(len(outcomes), dtype=np.int64).reshape(shape))


def value_of_number(number: Fraction, *, days: bool) -> Constant:
    """Return a number, or the day with this ordinal; NULL if the calendar does not have it."""
    if not days:
        return number
    whole = math.floor(number)
    return dt.date.fromordinal(whole) if 1 <= whole <= dt.date.max.toordinal() else None


def apply_function(function: Callable[..., Outcome], leaves: Sequence[Leaf]) -> Leaf:
    """Return the function of some leaves, by a table of its values."""
    attributes = tuple(sorted({own for leaf in leaves for own in leaf_columns(leaf)}, key=lambda own: own.name))
    if not attributes:
        found = function(*leaves)
        return None if isinstance(found, _Unknown) else found
    _check_size(attributes)
    tables: list[tuple[tuple[Outcome, ...], Integers]] = []
    for leaf in leaves:
        if isinstance(leaf, Subject | Formula | Mapped):
            own = tabulate(leaf)
            inner = [one.name for one in own.attributes]
            shape = [one.cells if one.name in inner else 1 for one in attributes]
            tables.append((own.outcomes, own.places.reshape(shape)))
        else:
            tables.append(((leaf,), np.zeros([1] * len(attributes), dtype=np.int64)))
    joint = np.asarray(0, dtype=np.int64)
    for outcomes, places in tables:
        joint = joint * len(outcomes) + places
    joint = np.broadcast_to(joint, tuple(own.cells for own in attributes))
    distinct, back = np.unique(joint, return_inverse=True)
    each = np.unravel_index(distinct, [len(outcomes) for outcomes, _ in tables])
    arguments = [[outcomes[place] for place in own.tolist()] for (outcomes, _), own in zip(tables, each, strict=True)]
    results = [function(*values) for values in zip(*arguments, strict=True)]
    return Mapped.of(attributes, results, back.reshape(joint.shape))


def strict(function: Callable[..., Constant]) -> Callable[..., Outcome]:
    """Return the function that is NULL if an argument is, and unknown if one is unknown."""

    def checked(*values: Outcome) -> Outcome:
        if any(value is None for value in values):
            return None
        return UNKNOWN if any(value is UNKNOWN for value in values) else function(*values)

    return checked


def _check_size(attributes: Sequence[Attribute]) -> None:
    """Refuse a table with too many combinations of cells."""
    number, names = math.prod(own.cells for own in attributes), " and ".join(f"`{own.name}`" for own in attributes)
    if len(attributes) == 1 and number > MOST_MAPPED:
        what = f"{names} has {number} values, too many to list what a function makes of each."
        raise Mismatch(what, "Write arithmetic with + - *, or bin(column, width) in GROUP BY.")
    if len(attributes) > 1 and number > MOST_TABLE:
        what = f"This depends on {number} combinations of {names}; {MOST_TABLE} are listed at most."
        raise Mismatch(what, "Write sums, differences and products of columns, or each column by itself.")


# --- Formulas: arithmetic that stays a sum of products of columns. ---


LARGEST_BITS = 1_200
"""The maximum size of numerators and denominators in constant arithmetic: doubles need 1,075 bits."""
_TOO_LONG = ("This number grows too long.", "Write the result itself.")


def is_small(value: Fraction) -> bool:
    """Whether a number is still short enough for further arithmetic."""
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= LARGEST_BITS


def formula_of(leaf: Leaf) -> Formula | None:  # noqa: PLR0911  one for each kind
    """Return a number or a day as a formula; None if it is neither, or not a sum of products of columns."""
    match leaf:
        case Formula():
            return leaf
        case Subject(attribute) if leaf.part is None:
            if isinstance(attribute, Date):
                terms = {(): Fraction(attribute.lower.toordinal()), ((attribute.name, 1),): Fraction(1)}
                return Formula.of([attribute], terms, days=True)
            found = numeric_grid(attribute)
            if found is None:
                return None
            terms = {(): leaf.shift + leaf.scale * found[0], ((attribute.name, 1),): leaf.scale * found[1]}
            return Formula.of([attribute], terms)
        case Subject() | Mapped() | None:
            return None
        case dt.date():
            return Formula.of((), {(): Fraction(leaf.toordinal())}, days=True)
        case _:
            number = constant_number(leaf)
            return None if number is None else Formula.of((), {(): number})


def leaf_of(formula: Formula) -> Leaf:
    """Return a formula as the simplest leaf."""
    if not all(is_small(number) for _, number in formula.terms):
        raise Mismatch(*_TOO_LONG)
    if not formula.columns:
        return value_of_number(dict(formula.terms).get((), Fraction(0)), days=formula.days)
    if len(formula.columns) == 1 and not formula.days and formula.degree <= 1:
        (attribute,) = formula.columns
        terms, grid = dict(formula.terms), numeric_grid(attribute)
        if grid is not None:
            scale = terms.get(((attribute.name, 1),), Fraction(0)) / grid[1]
            return Subject(attribute, terms.get((), Fraction(0)) - scale * grid[0], scale)
    if formula.degree > MOST_DEGREE:
        raise Mismatch("Too many columns are multiplied.", f"Write products of at most {MOST_DEGREE} factors.")
    return formula


def add(left: Formula, right: Formula, sign: int) -> Formula:
    """Return the sum or the difference of two formulas."""
    if left.days and right.days and sign > 0:
        raise Mismatch("Two days are added.", "Add a number of days to a day, or subtract one day from another.")
    if right.days and not left.days and sign < 0:
        raise Mismatch("A day is subtracted from a number.", "Subtract a number of days from a day.")
    terms = dict(left.terms)
    for powers, number in right.terms:
        terms[powers] = terms.get(powers, Fraction(0)) + sign * number
    return Formula.of((*left.columns, *right.columns), terms, days=left.days != right.days)


def multiply(left: Formula, right: Formula) -> Formula:
    """Return the product of two formulas."""
    if left.days or right.days:
        raise Mismatch("A day is multiplied.", "Multiply numbers only.")
    terms: dict[Powers, Fraction] = {}
    for first, one in left.terms:
        for second, other in right.terms:
            powers = dict(first)
            for name, power in second:
                powers[name] = powers.get(name, 0) + power
            both = tuple(sorted(powers.items()))
            terms[both] = terms.get(both, Fraction(0)) + one * other
    return Formula.of((*left.columns, *right.columns), terms)


def scaled(formula: Formula, factor: Fraction) -> Formula:
    """Return a formula times a number."""
    return replace(formula, terms=tuple((powers, number * factor) for powers, number in formula.terms if factor))


def common_unit(spans: Sequence[Fraction]) -> Fraction:
    """Return the largest unit that divides all spans; 1 if there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)
