"""The table of people: one row for each person, with aggregates of that person's counted rows as its columns.

`SELECT avg(n) FROM (SELECT id, count(*) AS n FROM visits GROUP BY id)` is a query over such a table. A person is one
row of it, so a query costs what one row costs, whatever the cap on rows. The columns are bounded by construction: a
value is rounded down to a grid and clamped to its bounds, as a declared column is.

Theorem: person-table
"""

from __future__ import annotations

import hashlib
import re
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Integers
from dodona.query.predicate import EVERYTHING, Axes, Predicate, among_mask, conjunction, evaluate_predicate
from dodona.query.query import ONE, PeopleWeight, QueryValidator, ValueWeight, Weight, evaluate_weight, weight_range
from dodona.schema.attributes import Attribute, Integer, Number, set_fields
from dodona.schema.schema import Domain

Aggregate = Literal["count", "sum", "least", "greatest"]
MOST_CODES = 1 << 20
"""The maximum number of values of one column: a sum with more of them is rounded down to a coarser grid."""
LARGEST_TOTAL = 1 << 61
"""The limit on one person's total, so that no engine overflows."""
_HASHED = 10
_DERIVED = re.compile(rf"person_(count|sum|least|greatest)_[0-9a-f]{{{_HASHED}}}")
_WORDS = {"least": "least value", "greatest": "greatest value"}


@dataclass(frozen=True, slots=True)
class PersonColumn:
    """An aggregate of one person's rows: a count, a sum, or the least or greatest weight.

    Its code is floor((aggregate - lower)/width), clamped to 0 and size - 1. A person without any row in `where` has no
    value; for a count, and wherever the attribute has no `<missing>` cell, its `otherwise` counts instead.
    """

    attribute: Attribute
    """What analysts may compare and add up; its name is derived from the definition."""
    aggregate: Aggregate
    where: Predicate
    """The rows that it covers: those with a value, under its FILTER."""
    weight: Weight
    lower: int
    """The smallest aggregate, in steps of the weight."""
    width: int
    """The number of steps of the weight in one code."""

    @property
    def unit(self) -> Fraction:
        """The value of one step of the weight."""
        step = self.attribute.step if isinstance(self.attribute, Number) else Fraction(1)
        return step / self.width

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest aggregate, in steps of the weight."""
        return self.lower, self.lower + self.width * self.attribute.size - 1

    @property
    def present(self) -> bool:
        """Whether every person has a value."""
        return self.attribute.landing is not None

    @property
    def absent(self) -> int:
        """The code of a person without any row that it covers."""
        return self.attribute.size if self.attribute.landing is None else self.attribute.landing

    @property
    def copied(self) -> str | None:
        """The column whose least or greatest cell it is; None if it is a number that is computed."""
        weight = self.weight
        plain = isinstance(weight, ValueWeight) and (weight.offset, weight.factor, weight.power) == (0, 1, 1)
        extreme = self.aggregate in {"least", "greatest"} and (self.lower, self.width) == (0, 1)
        return weight.attribute if plain and extreme and isinstance(weight, ValueWeight) else None

    def codes(self, axes: Axes, people: Integers, number: int) -> Integers:
        """Return the code of each of `number` people, given the codes and the person number of all rows."""
        shape = people.shape
        meant = np.broadcast_to(evaluate_predicate(self.where, axes), shape)
        weights, owners = np.broadcast_to(evaluate_weight(self.weight, axes), shape)[meant], people[meant]
        if self.aggregate in {"count", "sum"}:
            values = np.zeros(number, dtype=np.int64)
            np.add.at(values, owners, weights)
        else:
            extreme, start = (np.minimum, LARGEST_TOTAL) if self.aggregate == "least" else (np.maximum, -LARGEST_TOTAL)
            values = np.full(number, start, dtype=np.int64)
            extreme.at(values, owners, weights)
        size = self.attribute.size
        values = np.clip((values - self.lower) // self.width, 0, size - 1)
        return np.where(np.bincount(owners, minlength=number) > 0, values, np.int64(self.absent))


@dataclass(frozen=True, slots=True)
class PersonTable:
    """One row for each person with a row in `where`, with these columns of their rows in `where`."""

    where: Predicate
    columns: tuple[PersonColumn, ...] = ()
    domain: Domain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the domain; equal columns are refused, as their names are."""
        object.__setattr__(self, "domain", Domain(tuple(column.attribute for column in self.columns)))

    def validate(self, domain: Domain) -> None:
        """Refuse a table whose definitions do not fit the domain of the rows."""
        fitness = QueryValidator(domain)
        fitness.predicate(self.where)
        for column in self.columns:
            if isinstance(column.weight, PeopleWeight):
                raise InvalidArgument("table", column.attribute.name, "aggregate rows of a person, not people")
            fitness.predicate(column.where)
            fitness.weight(column.weight)
            if _rebuild(column, domain) != column:
                raise InvalidArgument("table", column.attribute.name, "build it with person_column or copied_column")

    def part(self, names: frozenset[str]) -> PersonTable:
        """Return the table with only these columns; the people are the same."""
        return PersonTable(self.where, tuple(column for column in self.columns if column.attribute.name in names))

    def codes(self, axes: Axes, people: Integers) -> dict[str, Integers]:
        """Return the rows of the table as codes, given the codes and the person number of all counted rows."""
        meant = np.broadcast_to(evaluate_predicate(self.where, axes), people.shape)
        known, numbers = np.unique(people[meant], return_inverse=True)
        rows = {name: np.broadcast_to(codes, people.shape)[meant] for name, codes in axes.items()}
        return {column.attribute.name: column.codes(rows, numbers, len(known)) for column in self.columns}

    def rows(self, axes: Axes, people: Integers) -> int:
        """Return the number of rows of the table."""
        meant = np.broadcast_to(evaluate_predicate(self.where, axes), people.shape)
        return len(np.unique(people[meant]))


def person_column(  # noqa: PLR0913  a definition
    aggregate: Aggregate,
    where: Predicate = EVERYTHING,
    weight: Weight = ONE,
    *,
    unit: Fraction = Fraction(1),
    bounds: tuple[int, int],
    width: int | None = None,
    present: bool = False,
) -> PersonColumn:
    """Return an aggregate of a person's rows, clamped to bounds in steps of the weight; a step is worth `unit`.

    With `present` every person has a value; a count always has one. Many values are put on a coarser grid.

    >>> person_column("count", bounds=(0, 4)).attribute.size
    5
    """
    lower, upper = bounds
    if lower > upper or max(abs(lower), abs(upper)) > LARGEST_TOTAL:
        raise InvalidArgument("bounds", bounds, "write whole numbers, the smaller first, below 2^61")
    grid_width = -(-(upper - lower + 1) // MOST_CODES) if width is None else width
    last = max(1, (upper - lower) // grid_width)  # a column has two values at least
    if present and aggregate in {"least", "greatest"}:
        raise InvalidArgument("present", present, "a person may have no row that it covers; leave it out")
    always = present or aggregate == "count"
    name = _column_name(aggregate, where, weight, (lower, grid_width, last, int(always)))
    first, step = lower * unit, grid_width * unit
    whole = first.denominator == step.denominator == 1 and step == 1
    zero = first + step * min(max(-lower // grid_width, 0), last)  # the total of no rows
    if whole:
        attribute: Attribute = Integer(name, int(first), int(first) + last, otherwise=int(zero) if always else None)
    else:
        attribute = Number(name, first, first + step * last, step, otherwise=zero if always else None)
    return PersonColumn(attribute, aggregate, where, weight, lower, grid_width)


def copied_column(attribute: Attribute, aggregate: Aggregate, where: Predicate = EVERYTHING) -> PersonColumn:
    """Return the least or greatest cell of a column among a person's rows that have a value in it.

    For a category the order is that of the declared labels.
    """
    if aggregate not in {"least", "greatest"}:
        raise InvalidArgument("aggregate", aggregate, "write least or greatest")
    covered = conjunction(where, among_mask(attribute, (1 << attribute.size) - 1))
    weight = ValueWeight(attribute.name, attribute.size, 0, 1)
    renamed, always = copy(attribute), attribute.landing is not None
    name = _column_name(aggregate, covered, weight, (0, 1, attribute.size - 1, int(always)))
    set_fields(renamed, name=name, source=None)
    return PersonColumn(renamed, aggregate, covered, weight, 0, 1)


def _rebuild(column: PersonColumn, domain: Domain) -> PersonColumn:
    """Return the column that its definition makes."""
    if column.copied is not None:
        return copied_column(domain[column.copied], column.aggregate, column.where)
    return person_column(
        column.aggregate,
        column.where,
        column.weight,
        unit=column.unit,
        bounds=column.bounds,
        width=column.width,
        present=column.present,
    )


def total_bounds(weight: Weight, rows: int) -> tuple[int, int]:
    """Return the smallest and the largest total of a weight over at most `rows` rows."""
    low, high = weight_range(weight)
    return rows * min(low, 0), rows * max(high, 0)


def _column_name(aggregate: str, where: Predicate, weight: Weight, grid: tuple[int, ...]) -> str:
    """Return a name that differs between definitions and from any alias, so that equal definitions are one column."""
    text = _spell((aggregate, where, weight, grid))
    return f"person_{aggregate}_{hashlib.sha256(text.encode()).hexdigest()[:_HASHED]}"


def name_people_columns(text: str) -> str:
    """Return a text for readers: derived names of columns of people say what they are.

    >>> name_people_columns("avg in person_count_0123456789")
    "avg in a person's count"
    """
    return _DERIVED.sub(lambda matched: f"a person's {_WORDS.get(matched[1], matched[1])}", text)


def _spell(value: object) -> str:
    """Return a value as text; sets of codes may have too many bits for decimal digits."""
    if isinstance(value, int):
        return f"{value:x}"
    if isinstance(value, tuple):
        return f"({' '.join(map(_spell, value))})"
    if is_dataclass(value):
        return f"{type(value).__name__}{_spell(tuple(getattr(value, member.name) for member in fields(value)))}"
    return str(value)
