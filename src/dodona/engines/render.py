"""Render the blocks of a query as SQL statements whose results are the exact sums.

Sums too large for 64 bits are split into limbs, so no engine rounds or overflows. Also renders the data owner's checks.

Theorem: rendering
"""

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from dodona.engines import cells
from dodona.engines.dialects import Dialect, whole_literal
from dodona.errors import InvariantBroken
from dodona.query import query as queries
from dodona.query.person_table import PersonColumn, PersonTable
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import EVERYTHING, Among, And, Jointly, NonNegative, Or, Predicate, unpack_bits
from dodona.query.query import ONE, Block, CaseWeight, ConstantWeight, Key, PeopleWeight, ValueWeight, Weight
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.partition import Partition

# --- Rendering: from a query's blocks to SQL that returns the exact sums. ---


LIMB = 2**62
_FEW = 32  # numbers that are written as a list
_ZERO = np.uint8(ord("0"))


@dataclass(frozen=True, slots=True)
class Table:
    """The target of a query: SQL for the FROM clause, and how each column is read."""

    source: str = field(repr=False)  # it may hold the key of the cap
    readings: Mapping[str, cells.ColumnReading]
    dialect: Dialect
    person: str | None = None
    """SQL for the person id of a row, NULL if it has none; None if each row is protected individually."""
    person_text: str = "{0}"
    """A pattern that writes `person` as text, identically for equal people: for hashes, never to identify people."""


@dataclass(frozen=True, slots=True)
class GroupedSql:
    """SQL with one row per group: its number, then for each weight the limbs of the sum.

    Groups without rows may be missing.
    """

    sql: str = field(repr=False)  # it may hold the key of the cap
    groups: int
    scales: tuple[tuple[int, ...], ...]
    """For each weight, the value of one unit of each of its columns."""


def sum_statement(table: Table, where: Predicate, keys: Sequence[Key], weights: Sequence[Weight]) -> GroupedSql:
    """Return the statement for blocks with one condition and the same keys, one sum per weight."""
    totals = [_weight_sum(table, weight, where=None) for weight in weights]
    scales = tuple(total.scales for total in totals)
    chosen = f" WHERE {predicate_sql(table, where)}" if where != EVERYTHING else ""
    if not keys:
        columns = [column for total in totals for column in total.columns(total.sql, table.dialect)]
        return GroupedSql(f"SELECT 0 AS g, {_name_columns(columns)} FROM {table.source}{chosen}", 1, scales)  # noqa: S608
    groups = math.prod(key.groups for key in keys)
    # Texts are grouped unchanged, and the few distinct ones are mapped to codes afterwards; so are integers that each
    # form a group, if there is no other key.
    later = [_by_text(table, key) or (len(keys) == 1 and _by_number(table, key)) for key in keys]
    inner = [
        _raw_key_sql(table, key) if wait else _group_sql(table, key) for key, wait in zip(keys, later, strict=True)
    ]
    named = [(key, f"k{place}") for place, key in enumerate(keys)]
    outer = [_outer_group_sql(table, *pair) if wait else pair[1] for pair, wait in zip(named, later, strict=True)]
    if not any(later):
        inner, outer = [_product_index_sql([key.groups for key in keys], inner)], ["k0"]
        keys = keys[:1]
    parts = ", ".join(f"{text} AS k{place}" for place, text in enumerate(inner))
    by = ", ".join(str(place + 1) for place in range(len(keys)))  # by position: the table may have a column named k0
    listed = ", ".join(f"{total.sql} AS t{place}" for place, total in enumerate(totals))
    grouped = f"SELECT {parts}, {listed} FROM {table.source}{chosen} GROUP BY {by}"  # noqa: S608
    if len(outer) == 1 and outer[0] == "k0":
        columns = [text for place, total in enumerate(totals) for text in total.columns(f"t{place}", table.dialect)]
        return GroupedSql(f"SELECT k0 AS g, {_name_columns(columns)} FROM ({grouped}) AS grouped", groups, scales)  # noqa: S608
    columns = [text for place, total in enumerate(totals) for text in total.columns(f"sum(t{place})", table.dialect)]
    number = _product_index_sql([key.groups for key in keys], outer)
    sql = f"SELECT {number} AS g, {_name_columns(columns)} FROM ({grouped}) AS grouped GROUP BY 1"  # noqa: S608
    return GroupedSql(sql, groups, scales)


def people_statement(table: Table, where: Predicate, keys: Sequence[Key]) -> GroupedSql:
    """Return the statement that counts the distinct people with a row in each group."""
    if table.person is None:
        raise InvariantBroken("People are counted where the table does not tell them apart.")
    chosen = f" WHERE {predicate_sql(table, where)}" if where != EVERYTHING else ""
    groups = math.prod(key.groups for key in keys)
    number = _product_index_sql([key.groups for key in keys], [_group_sql(table, key) for key in keys]) if keys else "0"
    rows = f"SELECT {number} AS g, {table.person} AS who FROM {table.source}{chosen}"  # noqa: S608
    counted = table.dialect.small.format("count(DISTINCT who)")
    by = " GROUP BY g" if keys else ""
    first = "g" if keys else "0 AS g"
    return GroupedSql(f"SELECT {first}, {counted} AS s0 FROM ({rows}) AS meant{by}", groups, ((1,),))  # noqa: S608


def person_rows(table: Table, people: PersonTable) -> Table:
    """Return the table of people over counted rows, as a subquery: a code for each column, and no id.

    Totals are below 2^61, so they fit into 64 bits; they are clamped before the division, which is of whole numbers.

    Theorem: person-table, rendering
    """
    if table.person is None:
        raise InvariantBroken("A table of people is made where the table does not tell them apart.")
    chosen = f" WHERE {predicate_sql(table, people.where)}" if people.where != EVERYTHING else ""
    pairs = [_person_aggregates(table, column) for column in people.columns]
    totals = [
        f"{text} AS {name}{place}" for place, pair in enumerate(pairs) for text, name in zip(pair, "an", strict=True)
    ]
    grouped = f"SELECT {', '.join(totals) or '0 AS nothing'} FROM {table.source}{chosen} GROUP BY {table.person}"  # noqa: S608
    codes = [_person_code_sql(column, place, table.dialect) for place, column in enumerate(people.columns)]
    listed = ", ".join(f"{text} AS c{place}" for place, text in enumerate(codes)) or "0 AS nothing"
    readings = {
        column.attribute.name: cells.read_column(column.attribute, f"c{place}", cells.ColumnForm.CODE, table.dialect)
        for place, column in enumerate(people.columns)
    }
    return Table(f"(SELECT {listed} FROM ({grouped}) AS totals) AS people", readings, table.dialect)  # noqa: S608


def _person_aggregates(table: Table, column: PersonColumn) -> tuple[str, str]:
    """Return SQL for the aggregate of a person's rows, and for how many rows it covers."""
    where, weight = predicate_sql(table, column.where), _weight_sql(table, column.weight)
    function = {"count": "sum", "sum": "sum", "least": "min", "greatest": "max"}[column.aggregate]
    aggregate = f"{function}(CASE WHEN {where} THEN {weight} END)"
    return table.dialect.small.format(f"coalesce({aggregate}, 0)"), table.dialect.count_if.format(where)


def _person_code_sql(column: PersonColumn, place: int, dialect: Dialect) -> str:
    """Return SQL for the code of a person's aggregate."""
    lower, upper = column.bounds
    clamped = f"least(greatest(a{place}, {whole_literal(lower)}), {whole_literal(upper)}) - {whole_literal(lower)}"
    code = dialect.quotient.format(f"({clamped})", column.width) if column.width > 1 else f"({clamped})"
    return dialect.small.format(f"CASE WHEN n{place} = 0 THEN {column.absent} ELSE {code} END")


def conditional_statement(table: Table, blocks: Sequence[Block]) -> GroupedSql:
    """Return one statement for many blocks without keys, each with its own condition."""
    totals = [_weight_sum(table, block.weight, where=predicate_sql(table, block.where)) for block in blocks]
    scales = tuple(total.scales for total in totals)
    columns = [column for total in totals for column in total.columns(total.sql, table.dialect)]
    return GroupedSql(f"SELECT 0 AS g, {_name_columns(columns)} FROM {table.source}", 1, scales)  # noqa: S608


def predicate_sql(table: Table, where: Predicate) -> str:
    """Return SQL that is true exactly for the selected rows; false or NULL for the others."""
    match where:
        case Among(name):
            return cells.among_sql(table.readings[name], where)
        case Jointly():
            return _combinations_sql(table, where)
        case NonNegative(polynomial):
            return f"({_polynomial_sql(table, polynomial, '{0} >= 0', cells.FALSE)})"
        case And(parts):
            return f"({' AND '.join(predicate_sql(table, part) for part in parts)})" if parts else cells.TRUE
        case Or(parts):
            return f"({' OR '.join(predicate_sql(table, part) for part in parts)})" if parts else cells.FALSE
        case _:
            assert_never(where)


def _combinations_sql(table: Table, where: Jointly) -> str:
    """Test whether a row's combination number is in a list or, if there are many, whether its bit is set.

    The code of a cell is never NULL, so neither is the number.
    """
    number = _product_index_sql(where.shape, [cells.code_sql(table.readings[name]) for name in where.names])
    members = unpack_bits(where.codes, math.prod(where.shape))
    chosen = np.flatnonzero(members).tolist()
    if len(chosen) <= _FEW:
        return f"({number} IN ({', '.join(map(str, chosen))}))" if chosen else cells.FALSE
    return table.dialect.bit.format(f"'{(members + _ZERO).tobytes().decode('ascii')}'", number)


def _polynomial_sql(table: Table, polynomial: Polynomial, pattern: str, rest: str) -> str:
    """Return SQL that gives the pattern of a polynomial's value, and `rest` where a column has no value.

    CASE keeps the arithmetic away from rows outside the bounds. Within them no sum of terms exceeds 2^61.
    """
    cast, held, codes = table.dialect.small, list[str](), list[str]()
    for name in polynomial.names:
        reading = table.readings[name]
        if reading.attribute.landing is None:
            held.append(cells.present_sql(reading))
            codes.append(cast.format(f"({cells.present_code_sql(reading)})"))
        else:  # every row has a value
            codes.append(cast.format(f"({cells.code_sql(reading)})"))
    terms = []
    for exponents, number in polynomial.terms:
        factors = [code for code, power in zip(codes, exponents, strict=True) for _ in range(power)]
        terms.append(" * ".join([cast.format(whole_literal(number)), *factors]))
    value = pattern.format(f"({' + '.join(terms) or cast.format('0')})")
    return f"CASE WHEN {' AND '.join(held)} THEN {value} ELSE {rest} END" if held else value


def histogram_statement(table: Table, names: Sequence[str]) -> GroupedSql:
    """Return the statement that counts rows by their cell in the product of attributes, row-major in this order."""
    keys = [Partition.every(table.readings[name].attribute, 1) for name in names]
    return sum_statement(table, EVERYTHING, keys, [ONE])


def digest_statement(table: Table) -> GroupedSql:
    """Return the statement that counts rows and sums a hash of each row's cells and person."""
    dialect = table.dialect
    parts = [dialect.text.format(cells.code_sql(reading)) for reading in table.readings.values()]
    if table.person is not None:
        parts.append(f"coalesce({table.person_text.format(table.person)}, '')")
    text = " || ',' || ".join(parts) or "''"
    total = _Sum(f"coalesce(sum({dialect.wide.format(dialect.hashed.format(text))}), 0)", 1, wide=True)
    columns = ["count(*)", *total.columns(total.sql, dialect)]
    return GroupedSql(f"SELECT 0 AS g, {_name_columns(columns)} FROM {table.source}", 1, ((1,), total.scales))  # noqa: S608


def _name_columns(columns: Sequence[str]) -> str:
    return ", ".join(f"{text} AS s{place}" for place, text in enumerate(columns))


def _product_index_sql(sizes: Sequence[int], indices: Sequence[str]) -> str:
    """Return SQL for the row-major index in a product of these sizes."""
    index = f"({indices[0]})"
    for size, text in zip(sizes[1:], indices[1:], strict=True):
        index = f"({index} * {size} + ({text}))"
    return index


def _by_text(table: Table, key: Key) -> bool:
    if not isinstance(key, Partition):
        return False
    reading = table.readings[key.attribute]
    return isinstance(reading.attribute, Category) and reading.form is cells.ColumnForm.TEXT


def _by_number(table: Table, key: Key) -> bool:
    if not isinstance(key, Partition) or not key.single:
        return False
    reading = table.readings[key.attribute]
    return (
        isinstance(reading.attribute, Integer)
        and reading.form is cells.ColumnForm.WHOLE
        and reading.value == reading.raw
    )


def _raw_key_sql(table: Table, key: Key) -> str:
    return table.readings[key.attribute].raw if isinstance(key, Partition) else _group_sql(table, key)


def _outer_group_sql(table: Table, key: Key, name: str) -> str:
    """Return SQL for the group of a value that was grouped under a name."""
    if not isinstance(key, Partition):
        return name
    reading = replace(table.readings[key.attribute], raw=name, value=name, missing=f"{name} IS NULL", total=True)
    return _partition_sql(reading, key)


def _group_sql(table: Table, key: Key) -> str:
    """Return SQL for the group number of a row under a key."""
    if isinstance(key, Partition):
        return _partition_sql(table.readings[key.attribute], key)
    branches = (f"WHEN {predicate_sql(table, part)} THEN {place}" for place, (_, part) in enumerate(key.branches))
    return f"CASE {' '.join(branches)} ELSE {len(key.branches)} END" if key.branches else "0"


def _partition_sql(reading: cells.ColumnReading, key: Partition) -> str:
    if key.single:
        return cells.code_sql(reading)
    width = key.cuts[1] if len(key.cuts) > 1 else key.size
    if key.cuts == tuple(range(0, key.size, width)):
        group = reading.dialect.quotient.format(cells.present_code_sql(reading), width)
    else:
        group = _binary_search_sql(reading, key.cuts, 0, len(key.cuts))
    return _code_group_sql(reading, group, key)


def _code_group_sql(reading: cells.ColumnReading, group: str, key: Partition) -> str:
    size, groups, landing = reading.attribute.size, len(key.cuts), reading.attribute.landing
    if landing is not None:
        return cells.cell_sql(reading, group, size=groups, landing=bisect(key.cuts, landing) - 1)
    if reading.form is cells.ColumnForm.CODE:
        return f"CASE WHEN {reading.value} < {size} THEN {group} ELSE {reading.value} - {size} + {groups} END"
    return cells.cell_sql(reading, group, size=groups, landing=None)


def _binary_search_sql(reading: cells.ColumnReading, cuts: Sequence[int], first: int, after: int) -> str:
    """Return a balanced tree of comparisons for the group from first up to, not including, after."""
    if after - first == 1:
        return str(first)
    middle = (first + after) // 2
    upper, lower = _binary_search_sql(reading, cuts, middle, after), _binary_search_sql(reading, cuts, first, middle)
    return f"CASE WHEN {cells.at_least_sql(reading, cuts[middle])} THEN {upper} ELSE {lower} END"


@dataclass(frozen=True, slots=True)
class _Sum:
    """One aggregate: SQL for an integer, the value of a unit, and whether it may exceed 64 bits."""

    sql: str
    worth: int
    wide: bool

    @property
    def scales(self) -> tuple[int, ...]:
        return (self.worth * LIMB, self.worth) if self.wide else (self.worth,)

    def columns(self, total: str, dialect: Dialect) -> list[str]:
        """Return the total, or a sum of totals, as 64-bit columns."""
        if not self.wide:
            return [dialect.small.format(total)]
        limb = dialect.wide.format(str(LIMB))
        return [dialect.small.format(part.format(total, limb)) for part in (dialect.quotient, dialect.remainder)]


def _weight_sum(table: Table, weight: Weight, *, where: str | None) -> _Sum:
    """Return the sum of a weight, optionally restricted to a condition."""
    dialect = table.dialect
    if isinstance(weight, ConstantWeight):
        return _Sum("count(*)" if where is None else dialect.count_if.format(where), weight.number, wide=False)
    text = _weight_sql(table, weight)
    if where is not None:
        text = f"CASE WHEN {where} THEN {text} ELSE 0 END"
    return _Sum(f"coalesce(sum({dialect.wide.format(text)}), 0)", 1, wide=True)


def _weight_sql(table: Table, weight: Weight) -> str:
    """Return SQL for a row's weight. No weight in a query exceeds 2^61, so intermediate results fit into 64 bits."""
    cast = table.dialect.small
    match weight:
        case ConstantWeight(number):
            return cast.format(whole_literal(number))
        case ValueWeight(name, _, offset, factor, power):
            reading = table.readings[name]
            code = cast.format(f"({cells.present_code_sql(reading)})")
            base = f"({cast.format(whole_literal(offset))} + {cast.format(whole_literal(factor))} * {code})"
            product = " * ".join([base] * power) if power else cast.format("1")
            landing = reading.attribute.landing
            rest = 0 if landing is None else (offset + factor * landing) ** power
            return f"CASE WHEN {cells.present_sql(reading)} THEN {product} ELSE {cast.format(whole_literal(rest))} END"
        case queries.TableWeight(names, shape, numbers):
            place = _product_index_sql(shape, [cells.code_sql(table.readings[name]) for name in names])
            return cast.format(table.dialect.element.format(", ".join(map(str, numbers)), place))
        case queries.PolynomialWeight(polynomial):
            return _polynomial_sql(table, polynomial, "{0}", cast.format("0"))
        case CaseWeight(branches, otherwise):
            parts = (
                f"WHEN {predicate_sql(table, part)} THEN {_weight_sql(table, branch)}" for part, branch in branches
            )
            last = _weight_sql(table, otherwise)
            return f"CASE {' '.join(parts)} ELSE {last} END" if branches else last
        case PeopleWeight():
            raise InvariantBroken("People are counted by a statement of their own.")
        case _:
            assert_never(weight)


# --- The owner's checks of the rows before serving, in one statement that every engine runs. ---


COLUMN_FIGURES = ("missing", "outside", "below", "above", "between")
"""The counts of each column, in this order."""


def check_statement(table: Table, rows: int) -> GroupedSql:
    """Return the statement for all rows, rows without an id, people, counted rows, then the counts of each column.

    If rows are protected individually, there are no people, and all rows count.
    """
    dialect = table.dialect
    figures = ["count(*)", *_people_figures(table, rows)]
    for reading in table.readings.values():
        figures += [dialect.count_if.format(text) for text in _column_conditions(reading)]
    return _counts_statement(table, figures)


def unread_statement(table: Table) -> GroupedSql:
    """Return the statement that counts, for each column with `<outside>`, rows with a declared and an undeclared value.

    Columns without `<outside>` are omitted: they do not distinguish the two.
    """
    pairs = ((cells.present_sql(reading), cells.outside_sql(reading)) for reading in readings_with_outside(table))
    return _counts_statement(table, [table.dialect.count_if.format(text) for pair in pairs for text in pair])


def _counts_statement(table: Table, figures: Sequence[str]) -> GroupedSql:
    counts = [table.dialect.small.format(f"coalesce({text}, 0)") for text in figures]  # NULL if nothing is counted
    return GroupedSql(f"SELECT 0 AS g, {_name_columns(counts)} FROM {table.source}", 1, ((1,),) * len(figures))  # noqa: S608


def readings_with_outside(table: Table) -> list[cells.ColumnReading]:
    """Return the columns with an `<outside>` cell."""
    return [reading for reading in table.readings.values() if reading.attribute.landing is None]


def _people_figures(table: Table, rows: int) -> list[str]:
    if table.person is None:
        return ["0", "0", "count(*)"]
    crowds = f"SELECT count(*) AS n FROM {table.source} WHERE ({table.person}) IS NOT NULL GROUP BY {table.person}"  # noqa: S608
    kept = f"(SELECT sum(CASE WHEN n > {rows} THEN {rows} ELSE n END) FROM ({crowds}) AS crowds)"  # noqa: S608
    return [table.dialect.count_if.format(f"({table.person}) IS NULL"), f"count(DISTINCT {table.person})", kept]


def left_out_sql(table: Table, rows: int, most: int) -> str:
    """Return SQL for a table with one row per person: how many of their rows a cap leaves out, up to `most`."""
    row_counts = f"SELECT count(*) AS n FROM {table.source} WHERE ({table.person}) IS NOT NULL GROUP BY {table.person}"  # noqa: S608
    cut = f"CASE WHEN n <= {rows} THEN 0 WHEN n - {rows} < {most} THEN n - {rows} ELSE {most} END"
    return f"(SELECT {table.dialect.small.format(cut)} AS c0 FROM ({row_counts}) AS crowds) AS left_out"  # noqa: S608


def _column_conditions(reading: cells.ColumnReading) -> tuple[str, str, str, str, str]:
    """Return where a value is missing, undeclared, below its bounds, above its bounds, and between two steps.

    A number below or above is clamped to the bound, and one between steps to the lower one; a day below or above is
    outside.
    """
    if reading.form is cells.ColumnForm.CODE:  # a column that can only hold NULL
        return f"{reading.raw} IS NULL", cells.FALSE, cells.FALSE, cells.FALSE, cells.FALSE
    attribute = reading.attribute
    match attribute:
        case Category() | Boolean():
            return reading.missing, cells.outside_sql(reading), cells.FALSE, cells.FALSE, cells.FALSE
        case Integer() | Number() | Date() | Timestamp():
            below = f"{reading.value} < {cells.bound_literal(reading, 0)}"
            above = f"{reading.value} >= {cells.bound_literal(reading, attribute.size)}"
            if reading.form is cells.ColumnForm.DOUBLE:  # engines order NaN above all numbers
                above = f"({above} AND NOT {reading.dialect.not_a_number.format(reading.value)})"
            between = cells.FALSE
            if isinstance(attribute, Number):
                between = f"(NOT ({below} OR {above}) AND {cells.between_steps_sql(reading, attribute)})"
            return reading.missing, cells.outside_sql(reading), below, above, between
