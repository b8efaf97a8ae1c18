"""Scalars: the value of an SQL expression in one row, as a function of the row's cells. Values are exact.

Without CASE it is a leaf: a constant; a `Subject`, one column or a straight line in it; a `Formula`, a sum of products
of columns; or a `Mapped`, any function of a few columns, by a table of its values. With CASE each branch has a leaf.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from sqlglot import exp

from dodona.numbers import Booleans, Integers
from dodona.query.polynomial import Polynomial, Powers
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Predicate,
    among_combinations,
    among_mask,
    complement,
    conjunction,
    count_parts,
    disjunction,
    pack_bits,
)
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Timestamp
from dodona.sql.calendar import Interval
from dodona.sql.scope import LARGEST_CONDITION, Scope

# --- The kinds of leaves. ---


class Mismatch(Exception):
    """Values that do not go together: what is wrong, and what to write instead."""


class TooManyCombinations(Mismatch):
    """Columns have more combinations of values than a table lists."""


class Unknown:
    """What is not NULL and not known either: the value of a row outside the declared ones."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
Constant = Fraction | str | bool | dt.date | Interval | None
"""None is NULL."""
Outcome = Constant | Unknown


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
        return not isinstance(self.attribute, Category | Date | Timestamp)


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of products of columns: exact coefficients by the powers of codes. NULL where a column has no value."""

    columns: tuple[Attribute, ...]
    """Sorted by name; a column may occur in no term."""
    terms: tuple[tuple[Powers, Fraction], ...]
    """Sorted, without zeros."""
    days: bool = False
    """Whether the values are days, by their ordinals, and not numbers."""
    clock: bool = False
    """Whether these days have a time of day, as a fraction."""

    @classmethod
    def of(
        cls,
        columns: Iterable[Attribute],
        terms: Mapping[Powers, Fraction],
        *,
        days: bool = False,
        clock: bool = False,
    ) -> Formula:
        """Return a formula of columns in any order."""
        known = {column.name: column for column in columns}
        kept = tuple(sorted((powers, number) for powers, number in terms.items() if number))
        return cls(tuple(known[name] for name in sorted(known)), kept, days, clock)

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
        same = np.array([seen.setdefault((type(outcome), outcome), len(seen)) for outcome in outcomes], dtype=np.int64)
        return cls(attributes, tuple(outcome for _, outcome in seen), same[places])

    def where(self, test: Callable[[Outcome], bool]) -> Predicate:
        """Return the rows whose outcome satisfies a test."""
        flags = np.array([test(outcome) for outcome in self.outcomes], dtype=np.bool_)
        return self._rows(flags[self.places])

    def each(self) -> dict[tuple[type, Outcome], Predicate]:
        """Return the rows of each outcome, by its type and value; `where` would look at all others for each."""
        return {
            (type(outcome), outcome): self._rows(self.places == place) for place, outcome in enumerate(self.outcomes)
        }

    def _rows(self, chosen: Booleans) -> Predicate:
        if len(self.attributes) == 1:
            return among_mask(self.attributes[0], pack_bits(chosen))
        return among_combinations(self.attributes, chosen)


# A time is a day too, to Python.
Leaf = Subject | Formula | Mapped | Fraction | str | bool | dt.date | Interval | None
Computed = Subject | Formula | Mapped


def is_unknown(leaf: Leaf) -> bool:
    """Whether a leaf is the value of a row outside the declared ones, in every row."""
    return isinstance(leaf, Mapped) and leaf.outcomes == (UNKNOWN,)


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
            return leaf.where(lambda outcome: outcome is not None and outcome is not UNKNOWN)
        case Subject() | Formula():
            columns = leaf_columns(leaf)
            return conjunction(*(among_mask(column, (1 << column.size) - 1) for column in columns))
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
            return leaf.where(lambda outcome: outcome is True), leaf.where(lambda outcome: outcome is False)
        case _:
            return None


def constant_number(leaf: Leaf) -> Fraction | None:
    """Return a constant as a number, with true as 1; None if it is not a number."""
    if isinstance(leaf, bool):
        return Fraction(leaf)
    return leaf if isinstance(leaf, Fraction) else None


def as_number(value: Constant) -> Fraction:
    """Return a constant as a number, with true as 1."""
    if isinstance(value, bool | Fraction):
        return Fraction(value)
    raise Mismatch("This takes a number.", "Write a column of numbers.")


def as_whole(value: Constant) -> int:
    """Return a constant as a whole number."""
    number = as_number(value)
    if number.denominator != 1 or abs(number) > 1 << 53:
        raise Mismatch("This takes a whole number here.", "Write one such as 2.")
    return int(number)


_KINDS: dict[type, str] = {
    Fraction: "number",
    bool: "boolean",
    dt.date: "date",
    dt.datetime: "timestamp",
    str: "text",
    Interval: "interval",
}


def leaf_kind(leaf: Leaf) -> str | None:
    """Return number, date, boolean, text or interval; None for NULL, and for values of several kinds."""
    match leaf:
        case Subject(attribute):
            if leaf.part is not None:
                return "date" if leaf.part.startswith("trunc") else "number"
            kind = "text" if attribute.kind == "category" else attribute.kind
            kind = "number" if kind in {"integer", "number"} else kind
            return "number" if kind == "boolean" and not leaf.plain else kind
        case Formula():
            return "timestamp" if leaf.clock else "date" if leaf.days else "number"
        case Mapped():
            kinds = {type(outcome) for outcome in leaf.outcomes if outcome is not None and outcome is not UNKNOWN}
            return _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
        case _:
            return _KINDS.get(type(leaf))


# --- Literals: numbers, days, times, and texts that stand for them, parsed exactly. ---


LARGEST_BITS = 1_200
"""The maximum size of numerators and denominators in constant arithmetic: doubles need 1,075 bits."""
_NUMBER = re.compile(r"([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ](?P<time>[0-2][0-9]:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)(Z|[+]00(:?00)?)?)?"
)


def is_small(value: Fraction) -> bool:
    """Whether a number is still short enough for further arithmetic."""
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= LARGEST_BITS


def parse_number(text: str) -> Fraction | None:
    """Parse a number exactly; None if it is not a number or has too many digits.

    >>> parse_number("0.1"), parse_number("1e3"), parse_number("1e999"), parse_number("0x10")
    (Fraction(1, 10), Fraction(1000, 1), None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        number = Fraction(Decimal(text))
    except (InvalidOperation, ValueError):
        return None
    return number if is_small(number) else None


def parse_signed(text: str) -> Fraction:
    """Parse a number in quotes, with or without a sign."""
    bare = text.strip()
    size = parse_number(bare.removeprefix("-").removeprefix("+"))
    if size is None:
        raise Mismatch(f"'{text[:40]}' is no number.", "Write digits, without quotes.")
    return -size if bare.startswith("-") else size


def parse_moment(text: str) -> tuple[dt.date, bool]:
    """Parse a day, or an ISO 8601 time in UTC: the day, and whether the time is later than its first moment."""
    parts = _MOMENT.fullmatch(text.strip())
    try:
        if parts is not None:
            return dt.date.fromisoformat(parts["day"]), bool((parts["time"] or "").strip("0:."))
    except ValueError:
        pass
    raise Mismatch(f"'{text[:40]}' is no day.", "Write year, month and day, such as '2024-01-31'.")


def parse_time(text: str) -> dt.datetime:
    """Parse a time, in UTC; a day is its first moment."""
    parse_moment(text)  # what is no such text is refused there
    moment = dt.datetime.fromisoformat(text.strip())
    return moment.replace(tzinfo=None)


def parse_date(text: str) -> dt.date:
    """Parse a date literal."""
    day, later = parse_moment(text)
    if later:
        raise Mismatch(f"'{text[:40]}' has a time of day.", "Write the day alone, such as '2024-01-31'.")
    return day


def literal_constant(scope: Scope, node: exp.Expr) -> Constant:
    """Return the value of a literal."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.args.get("is_string"):
        return str(node.this)
    number = parse_number(str(node.this))
    if number is None:
        what = f"`{str(node.this)[:60]}` is no number that is read."
        raise scope.fault(node, what, "Write digits, such as 12.5 or 1e3.")
    return number


# --- Scalars: the value of an expression in one row, as a function of the row's cell alone. ---


_MOST_FOLDED = 8
MOST_LEAVES = 256
"""The largest number of branches of a value that is combined with another."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """The leaf of the first branch that holds, otherwise the last one."""

    branches: tuple[tuple[Predicate, Leaf], ...]
    otherwise: Leaf
    apart: bool = False
    """Whether no row meets two of the conditions."""

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, in order."""
        return (*(leaf for _, leaf in self.branches), self.otherwise)

    @property
    def width(self) -> int:
        """The number of cells of the widest column among the leaves; 0 if all are constants."""
        return max(leaf_width(leaf) for leaf in self.leaves)

    def mapped(self, change: Callable[[Leaf], Leaf]) -> Scalar:
        """Return the scalar with each leaf transformed."""
        return Scalar(tuple((guard, change(leaf)) for guard, leaf in self.branches), change(self.otherwise), self.apart)

    def where(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the rows whose leaf satisfies a test."""
        if self.apart or len(self.branches) > _MOST_FOLDED:
            return self._flat(test)
        predicate = test(self.otherwise)
        for guard, leaf in reversed(self.branches):
            predicate = if_then_else(guard, test(leaf), predicate)
        return predicate

    def _flat(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the same rows as a shallow formula, however many branches there are."""
        parts: list[Predicate] = []
        before: Predicate = NOTHING
        size = 0
        for guard, leaf in self.branches:
            parts.append(conjunction(guard, test(leaf), *(() if self.apart else (complement(before),))))
            before = disjunction(before, guard)
            size += count_parts((parts[-1],) if self.apart else (parts[-1], before), most=LARGEST_CONDITION)
            if size > 2 * LARGEST_CONDITION:
                raise Mismatch("This condition is too large.", "Write fewer branches of CASE.")
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
    pairs: list[tuple[Predicate, Leaf]] = []
    for guard, scalar in branches:
        pairs.extend((conjunction(guard, inner), leaf) for inner, leaf in scalar.branches)
        pairs.append((guard, scalar.otherwise))
    pairs.extend(otherwise.branches)
    last = otherwise.otherwise
    kept = []
    for guard, leaf in pairs:
        if guard == EVERYTHING:
            last = leaf
            break
        if guard != NOTHING:
            kept.append((guard, leaf))
    while kept and kept[-1][1] == last and type(kept[-1][1]) is type(last):
        kept.pop()
    return Scalar(tuple(kept), last)


def combine(function: Callable[..., Leaf], scalars: Sequence[Scalar]) -> Scalar:
    """Return the scalar of a function of the leaves of several scalars, whichever branches hold."""
    if math.prod(len(scalar.leaves) for scalar in scalars) > MOST_LEAVES:
        raise Mismatch("Long CASEs are combined here.", "Write one CASE around the whole expression.")

    def rest(chosen: tuple[Leaf, ...]) -> Scalar:
        if len(chosen) == len(scalars):
            return scalar_from_leaf(function(*chosen))
        scalar = scalars[len(chosen)]
        branches = [(guard, rest((*chosen, leaf))) for guard, leaf in scalar.branches]
        return build_case(branches, rest((*chosen, scalar.otherwise)))

    return rest(())


_Result = TypeVar("_Result")


def locate_mismatch(scope: Scope, node: exp.Expr, test: Callable[[], _Result]) -> _Result:
    """Run a test; if it finds a mismatch, raise an error that points at the node."""
    try:
        return test()
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


def constant_value(scalar: Scalar) -> Fraction | None:
    """Return the number that a scalar equals in every row; None if there is none."""
    return None if scalar.branches else constant_number(scalar.otherwise)


ZERO = scalar_from_leaf(Fraction(0))
