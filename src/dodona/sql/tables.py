"""Tables of values: any leaf as a function by its values, and functions of such leaves.

A column of millions of values has a table too, if it is computed for all of them at once: the parts of times, and
numbers that are rounded.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np

from dodona.numbers import Integers
from dodona.query.predicate import (
    Predicate,
    among_mask,
    conjunction,
    disjunction,
    evaluate_predicate,
    pack_bits,
    predicate_attributes,
)
from dodona.query.query import MOST_TABLE, TableWeight
from dodona.schema.attributes import Attribute, Date, Timestamp, code_label, numeric_grid
from dodona.schema.moments import DAY_SECONDS, EPOCH
from dodona.schema.schema import Domain
from dodona.sql.calendar import Interval, bucket_values, date_part_values, moment_part_values
from dodona.sql.scalar import (
    MOST_LEAVES,
    UNKNOWN,
    Computed,
    Constant,
    Formula,
    Leaf,
    Mapped,
    Mismatch,
    Outcome,
    Scalar,
    Subject,
    TooManyCombinations,
    Unknown,
    leaf_columns,
)

MOST_MAPPED = 1 << 18
"""The largest number of values of a column that are listed one by one."""
_MOST_CELLS = 1 << 22
"""The largest number of cells of a column with a table that is computed for all of them at once."""
_LARGEST_PLACE = 1 << 62
_MOST_PAIRS = 1 << 11
"""The largest number of pairs of values of two columns that a CASE lists."""


@lru_cache(maxsize=32)
def _column_outcomes(attribute: Attribute) -> tuple[Outcome, ...]:
    """Return the value of each cell of a column."""
    labels = (code_label(attribute, code) for code in range(attribute.size))
    values: list[Outcome] = [Fraction(label) if type(label) is int else label for label in labels]  # type: ignore[misc]
    return (*values, *_special_outcomes(attribute))


def _special_outcomes(attribute: Attribute) -> tuple[Outcome, ...]:
    """Return the values of `<missing>` and `<outside>`, if a column has these cells."""
    return () if attribute.landing is not None else (None, UNKNOWN)


def tabulate(leaf: Computed) -> Mapped:
    """Return a leaf as a table of its values; refuses one with too many."""
    if isinstance(leaf, Mapped):
        return leaf
    attributes = leaf_columns(leaf)
    shape = tuple(attribute.cells for attribute in attributes)
    _check_size(attributes)
    if isinstance(leaf, Formula):
        return _tabulate_formula(leaf, shape)
    (attribute,) = attributes
    places = np.arange(attribute.cells, dtype=np.int64)
    if leaf.part is not None and isinstance(attribute, Date):
        numbers = date_part_values(attribute, leaf.part).tolist()
        days = leaf.part.startswith("trunc")
        values = [dt.date.fromordinal(max(1, number)) if days else Fraction(number) for number in numbers]
        return Mapped.of(attributes, (*values, *_special_outcomes(attribute)), places)
    outcomes = _column_outcomes(attribute)
    if leaf.plain:
        return Mapped(attributes, outcomes, places)
    moved = [leaf.shift + leaf.scale * Fraction(outcome) if _is_number(outcome) else outcome for outcome in outcomes]  # type: ignore[arg-type]
    return Mapped.of(attributes, moved, places)


def tabulate_moments(attribute: Timestamp, part: str) -> Mapped:
    """Return a part of the times of a column, such as `hour`, or `trunc month` for the first moment."""
    return _tabulate_numbers(
        attribute, moment_part_values(attribute, part), _moment if part.startswith("trunc") else Fraction
    )


def tabulate_buckets(attribute: Timestamp, width: Interval, origin: dt.date | None) -> Mapped | None:
    """Return the first moment of the bucket of each time of a column; None for buckets of months."""
    numbers = bucket_values(attribute, width, origin)
    return None if numbers is None else _tabulate_numbers(attribute, numbers, _moment)


def _moment(seconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=seconds)


def tabulate_rounded(name: str, leaf: Leaf) -> Mapped | None:
    """Return floor, ceil, trunc or round of a straight line in one column; None if the leaf is no such line."""
    line = _line(leaf)
    if line is None:
        return None
    attribute, start, slope = line
    below = math.lcm(start.denominator, slope.denominator)
    first, step = int(start * below), int(slope * below)
    if 4 * (abs(first) + abs(step) * attribute.size + below) > _LARGEST_PLACE:
        return None
    above = first + step * np.arange(attribute.size, dtype=np.int64)
    match name:
        case "floor":
            numbers = above // below
        case "ceil":
            numbers = -(-above // below)
        case "trunc":
            numbers = np.sign(above) * (np.abs(above) // below)
        case _:  # halves are rounded away from 0
            numbers = np.sign(above) * ((2 * np.abs(above) + below) // (2 * below))
    return _tabulate_numbers(attribute, numbers, Fraction)


def _line(leaf: Leaf) -> tuple[Attribute, Fraction, Fraction] | None:
    """Return the column, the value of its first code and what each further one adds, if a leaf is a straight line."""
    if isinstance(leaf, Subject) and leaf.part is None:
        grid = numeric_grid(leaf.attribute)
        return None if grid is None else (leaf.attribute, leaf.shift + leaf.scale * grid[0], leaf.scale * grid[1])
    if isinstance(leaf, Formula) and not leaf.days and len(leaf.columns) == 1 and leaf.degree <= 1:
        (attribute,), terms = leaf.columns, dict(leaf.terms)
        return attribute, terms.get((), Fraction(0)), terms.get(((attribute.name, 1),), Fraction(0))
    return None


def _tabulate_numbers(attribute: Attribute, numbers: Integers, read: Callable[[int], Outcome]) -> Mapped:
    """Return a function of a column that is given as a number for each value, of which it reads the different ones."""
    distinct, first, back = np.unique(numbers, return_index=True, return_inverse=True)
    if len(distinct) > MOST_MAPPED or attribute.cells > _MOST_CELLS:
        _refuse_values(attribute)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    special = _special_outcomes(attribute)
    places = np.concatenate([rank[back], np.arange(len(order), len(order) + len(special))])
    return Mapped((attribute,), (*map(read, distinct[order].tolist()), *special), places)


def _is_number(value: Outcome) -> bool:
    return isinstance(value, Fraction | bool)


def _tabulate_formula(formula: Formula, shape: tuple[int, ...]) -> Mapped:
    """Return the values of a formula: NULL where a column is missing, unknown where one is outside."""
    unit = common_unit([number for _, number in formula.terms])
    steps = {powers: int(number / unit) for powers, number in formula.terms}
    last = {column.name: column.cells for column in formula.columns}
    largest = sum(abs(n) * math.prod(last[name] ** power for name, power in powers) for powers, n in steps.items())
    kind = np.int64 if largest < _LARGEST_PLACE else object
    axes = {
        column.name: np.arange(column.cells)
        .astype(kind)
        .reshape([-1 if column is other else 1 for other in formula.columns])
        for column in formula.columns
    }
    total = np.zeros(shape, dtype=kind)
    for powers, number in steps.items():
        total = total + number * math.prod(axes[name] ** power for name, power in powers)
    distinct, places = np.unique(total, return_inverse=True)
    places = places.reshape(shape)
    for special, codes in enumerate(("outside_code", "missing_code")):  # NULL goes first
        for column in formula.columns:
            places = np.where(axes[column.name] == getattr(column, codes), len(distinct) + special, places)
    outcomes = [*(value_of_number(int(number) * unit, formula) for number in distinct.tolist()), UNKNOWN, None]
    used, first, back = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Mapped.of(formula.columns, [outcomes[place] for place in used[order].tolist()], rank[back].reshape(shape))


def value_of_number(number: Fraction, formula: Formula) -> Constant:
    """Return a number, or the day with this ordinal, with a time if it has one; NULL if the calendar lacks it."""
    if not formula.days:
        return number
    whole = math.floor(number)
    if not 1 <= whole <= dt.date.max.toordinal():
        return None
    if not formula.clock:
        return dt.date.fromordinal(whole)
    seconds = math.floor((number - whole) * DAY_SECONDS)
    return dt.datetime.fromordinal(whole) + dt.timedelta(seconds=seconds)


def apply_function(function: Callable[..., Outcome], leaves: Sequence[Leaf]) -> Leaf:
    """Return the function of some leaves, by a table of its values."""
    attributes = tuple(
        sorted({attribute for leaf in leaves for attribute in leaf_columns(leaf)}, key=lambda attribute: attribute.name)
    )
    if not attributes:
        outcome = function(*leaves)
        return None if isinstance(outcome, Unknown) else outcome
    if len(attributes) > 1:
        _check_size(attributes)
    tables: list[tuple[tuple[Outcome, ...], Integers]] = []
    for leaf in leaves:
        if isinstance(leaf, Subject | Formula | Mapped):
            table = tabulate(leaf)
            inner = [attribute.name for attribute in table.attributes]
            axes = [attribute.cells if attribute.name in inner else 1 for attribute in attributes]
            tables.append((table.outcomes, table.places.reshape(axes)))
        else:
            tables.append(((leaf,), np.zeros([1] * len(attributes), dtype=np.int64)))
    shape = tuple(attribute.cells for attribute in attributes)
    joint, size = np.asarray(0, dtype=np.int64), 1
    for outcomes, places in tables:
        if size * len(outcomes) > _LARGEST_PLACE:  # number those that occur, so that 64 bits hold every place
            found_places, back = np.unique(joint, return_inverse=True)
            joint, size = back.reshape(joint.shape), len(found_places)
        joint, size = joint * len(outcomes) + places, size * len(outcomes)
    joint = np.broadcast_to(joint, shape)
    _, first, back = np.unique(joint, return_index=True, return_inverse=True)
    each = [np.broadcast_to(places, shape).reshape(-1)[first] for _, places in tables]
    arguments = [
        [outcomes[place] for place in indices.tolist()] for (outcomes, _), indices in zip(tables, each, strict=True)
    ]
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
    number, names = (
        math.prod(attribute.cells for attribute in attributes),
        " and ".join(f"`{attribute.name}`" for attribute in attributes),
    )
    if len(attributes) == 1 and number > MOST_MAPPED:
        _refuse_values(attributes[0])
    if len(attributes) > 1 and number > MOST_TABLE:
        what = f"This depends on {number} combinations of {names}; {MOST_TABLE} are listed at most."
        instead = "Write sums, differences and products of columns, or each column by itself"
        sign = "*" if all(numeric_grid(attribute) is not None for attribute in attributes) else "-"
        if sign == "*" or all(isinstance(attribute, Date | Timestamp) for attribute in attributes):
            written = f" {sign} ".join(attribute.name for attribute in attributes)
            instead += f", or compare: CASE WHEN {written} < 7 THEN 'less' ELSE 'more' END"
        raise TooManyCombinations(what, f"{instead}.")


def case_by_outcomes(function: Callable[..., Constant], first: Leaf, second: Leaf) -> Scalar | None:
    """Return a function of two columns as a CASE, where a leaf of each has few values; None where it is no such thing.

    It is NULL if one of them is, and unknown if one is unknown.
    """
    if not isinstance(first, Subject | Mapped) or not isinstance(second, Subject | Mapped):
        return None
    pair = tabulate(first), tabulate(second)
    alike = any(len(table.attributes) > 1 for table in pair) or pair[0].attributes == pair[1].attributes
    if alike or len(pair[0].outcomes) * len(pair[1].outcomes) > _MOST_PAIRS:
        return None
    results: dict[tuple[type, Outcome], dict[int, list[int]]] = {}
    for place, outcome in enumerate(pair[0].outcomes):
        for other_place, other in enumerate(pair[1].outcomes):
            value = strict(function)(outcome, other)
            places = results.setdefault((type(value), value), {})
            places.setdefault(place, []).append(other_place)
    guards = {value: disjunction(*_chosen(pair, places)) for (_, value), places in results.items()}
    numbers = sorted(value for value in guards if isinstance(value, Fraction))
    rest = [value for value in guards if not isinstance(value, Fraction) and value is not None]
    ordered: list[Outcome] = [*numbers, *rest, *((None,) if None in guards else ())]
    unknown = Mapped(pair[0].attributes, (UNKNOWN,), np.zeros_like(pair[0].places))
    leaves: list[Leaf] = [unknown if isinstance(value, Unknown) else value for value in ordered]
    branches = [(guards[value], leaf) for value, leaf in zip(ordered, leaves, strict=True)]
    return Scalar(tuple(branches[:-1]), leaves[-1], apart=True) if len(branches) <= MOST_LEAVES else None


def _chosen(pair: tuple[Mapped, Mapped], places: Mapping[int, list[int]]) -> Iterator[Predicate]:
    """Yield the rows of some pairs of outcomes: those of the first table that go with the same of the second."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, seconds in places.items():
        alike.setdefault(tuple(seconds), []).append(place)
    for others, mine in alike.items():
        sides = zip(pair, (mine, list(others)), strict=True)
        yield conjunction(
            *(among_mask(table.attributes[0], pack_bits(np.isin(table.places, listed))) for table, listed in sides)
        )


def _refuse_values(attribute: Attribute) -> NoReturn:
    """Refuse a function of a column with too many values."""
    what = f"`{attribute.name}` has {attribute.cells} values, too many to list what a function makes of each."
    instead = "Write arithmetic with + - *, or bin(column, width) in GROUP BY."
    if isinstance(attribute, Timestamp):
        instead = (
            f"Group by {attribute.name}, or write it of a longer period, such as date_trunc('hour', {attribute.name})."
        )
    raise Mismatch(what, instead)


def list_parts(scalar: Scalar) -> Scalar:
    """Return a scalar with parts of days as tables of their values, so that they can be added up."""
    return scalar.mapped(lambda leaf: tabulate(leaf) if isinstance(leaf, Subject) and leaf.part is not None else leaf)


def table_weight(leaf: Mapped, numbers: Sequence[int]) -> TableWeight:
    """Return the weight that adds up a number for each outcome; refuses too many combinations."""
    if math.prod(leaf.places.shape) > MOST_TABLE:
        what = f"A sum over {math.prod(leaf.places.shape)} listed values is not measured; {MOST_TABLE} are."
        raise Mismatch(what, "Write a sum, a difference or a product of columns, or add up the column itself.")
    names = tuple(attribute.name for attribute in leaf.attributes)
    return TableWeight(names, leaf.places.shape, tuple(numbers[place] for place in leaf.places.reshape(-1).tolist()))


def tabulate_scalar(scalar: Scalar, domain: Domain) -> Mapped:
    """Return a scalar with its branches as one table of values."""
    if not scalar.branches and isinstance(scalar.otherwise, Mapped):
        return scalar.otherwise
    names = frozenset().union(*(predicate_attributes(guard) for guard, _ in scalar.branches))
    read = [*scalar.leaves, *(Subject(domain[name]) for name in sorted(names))]
    whole = apply_function(lambda *values: values, read)  # type: ignore[arg-type]
    if not isinstance(whole, Mapped):
        raise Mismatch("This is the same in every row.", "Group by a column.")
    shape = whole.places.shape
    axes = {
        attribute.name: np.arange(attribute.cells).reshape(
            [-1 if attribute is other else 1 for other in whole.attributes]
        )
        for attribute in whole.attributes
    }
    chosen = np.full(shape, len(scalar.branches), dtype=np.int64)
    for place, (guard, _) in reversed(tuple(enumerate(scalar.branches))):
        chosen[np.broadcast_to(evaluate_predicate(guard, axes), shape)] = place
    joint, back = np.unique(whole.places * len(scalar.leaves) + chosen, return_inverse=True)
    pairs = [divmod(number, len(scalar.leaves)) for number in joint.tolist()]
    outcomes = [whole.outcomes[place][leaf] for place, leaf in pairs]
    return Mapped.of(whole.attributes, outcomes, back.reshape(shape))


def common_unit(spans: Sequence[Fraction]) -> Fraction:
    """Return the largest unit that divides all spans; 1 if there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)
