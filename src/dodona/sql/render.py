"""Rendering: from a query's blocks to SQL whose answers are the exact sums.

Everything is made from the same predicates, weights and keys that the weights over the domain are made from; that the
two agree is tested on every backend. Sums are of whole numbers, in types that cannot overflow: a statement's columns
are limbs, and `Statement.scales` says what each is worth. No statement can fail because of a value in the table.

Theorem: rendering
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from dodona.domain.attribute import Category, Integer
from dodona.domain.partition import Partition
from dodona.errors import InvariantBroken
from dodona.query.bits import bits
from dodona.query.predicate import EVERYTHING, Among, And, Jointly, Or, Predicate
from dodona.query.query import Block, Key
from dodona.query.weight import ONE, Cases, Constant, People, Value, Weight
from dodona.sql.render_cells import FALSE, TRUE, at_least, by_cell, code, condition, present_code, there
from dodona.sql.render_column import Form, Reading
from dodona.sql.render_dialect import Dialect, whole_literal

LIMB = 2**62
_FEW = 32  # numbers that stand in a list
_ZERO = np.uint8(ord("0"))


@dataclass(frozen=True, slots=True)
class Table:
    """What a query is asked of: SQL that can stand after FROM, and how each column is read."""

    source: str = field(repr=False)  # it may hold the key of the cap
    readings: Mapping[str, Reading]
    dialect: Dialect
    person: str | None = None
    """SQL for who a row is of, NULL where it is nobody's; None where each row is protected by itself."""
    person_text: str = "{0}"
    """A pattern that writes `person` as text, the same for equal people: for hashes, never to tell people apart."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with one row a group: its number, then for each weight the limbs of the sum.

    Groups without rows may be left out.
    """

    sql: str = field(repr=False)  # it may hold the key of the cap
    groups: int
    scales: tuple[tuple[int, ...], ...]
    """For each weight, what one unit of each of its columns is worth."""


def statement(table: Table, where: Predicate, keys: Sequence[Key], weights: Sequence[Weight]) -> Statement:
    """Return the statement that answers blocks with one condition and the same keys, one sum for each weight."""
    totals = [_sum(table, weight, where=None) for weight in weights]
    scales = tuple(total.scales for total in totals)
    chosen = f" WHERE {predicate(table, where)}" if where != EVERYTHING else ""
    if not keys:
        columns = [column for total in totals for column in total.columns(total.sql, table.dialect)]
        return Statement(f"SELECT 0 AS g, {_named(columns)} FROM {table.source}{chosen}", 1, scales)  # noqa: S608
    groups = math.prod(key.groups for key in keys)
    # Texts are grouped as they are, and the few different ones are mapped to codes after that; so are whole numbers of
    # which each is a group of its own, where nothing else is grouped by.
    later = [_by_text(table, key) or (len(keys) == 1 and _by_number(table, key)) for key in keys]
    inner = [_raw(table, key) if own else _group(table, key) for key, own in zip(keys, later, strict=True)]
    outer = [_outer(table, key, f"k{place}") if later[place] else f"k{place}" for place, key in enumerate(keys)]
    if not any(later):
        inner, outer = [_number([key.groups for key in keys], inner)], ["k0"]
        keys = keys[:1]
    parts = ", ".join(f"{text} AS k{place}" for place, text in enumerate(inner))
    by = ", ".join(str(place + 1) for place in range(len(keys)))  # by place: the table may have a column named k0
    listed = ", ".join(f"{total.sql} AS t{place}" for place, total in enumerate(totals))
    grouped = f"SELECT {parts}, {listed} FROM {table.source}{chosen} GROUP BY {by}"  # noqa: S608
    if len(outer) == 1 and outer[0] == "k0":
        columns = [text for place, total in enumerate(totals) for text in total.columns(f"t{place}", table.dialect)]
        return Statement(f"SELECT k0 AS g, {_named(columns)} FROM ({grouped}) AS grouped", groups, scales)  # noqa: S608
    columns = [text for place, total in enumerate(totals) for text in total.columns(f"sum(t{place})", table.dialect)]
    number = _number([key.groups for key in keys], outer)
    sql = f"SELECT {number} AS g, {_named(columns)} FROM ({grouped}) AS grouped GROUP BY 1"  # noqa: S608
    return Statement(sql, groups, scales)


def people(table: Table, where: Predicate, keys: Sequence[Key]) -> Statement:
    """Return the statement that counts in each group the different people who have a row there."""
    if table.person is None:
        raise InvariantBroken("People are counted where the table does not tell them apart.")
    chosen = f" WHERE {predicate(table, where)}" if where != EVERYTHING else ""
    groups = math.prod(key.groups for key in keys)
    number = _number([key.groups for key in keys], [_group(table, key) for key in keys]) if keys else "0"
    rows = f"SELECT {number} AS g, {table.person} AS who FROM {table.source}{chosen}"  # noqa: S608
    counted = table.dialect.small.format("count(DISTINCT who)")
    by = " GROUP BY g" if keys else ""
    first = "g" if keys else "0 AS g"
    return Statement(f"SELECT {first}, {counted} AS s0 FROM ({rows}) AS meant{by}", groups, ((1,),))  # noqa: S608


def conditional(table: Table, blocks: Sequence[Block]) -> Statement:
    """Return one statement for many blocks without keys, each with its own condition."""
    totals = [_sum(table, block.weight, where=predicate(table, block.where)) for block in blocks]
    scales = tuple(total.scales for total in totals)
    columns = [column for total in totals for column in total.columns(total.sql, table.dialect)]
    return Statement(f"SELECT 0 AS g, {_named(columns)} FROM {table.source}", 1, scales)  # noqa: S608


def predicate(table: Table, where: Predicate) -> str:
    """Return SQL that is true exactly for the rows meant; false or NULL for the others."""
    match where:
        case Among(name):
            return condition(table.readings[name], where)
        case Jointly():
            return _combined(table, where)
        case And(parts):
            return f"({' AND '.join(predicate(table, part) for part in parts)})" if parts else TRUE
        case Or(parts):
            return f"({' OR '.join(predicate(table, part) for part in parts)})" if parts else FALSE
        case _:
            assert_never(where)


def _combined(table: Table, where: Jointly) -> str:
    """Return that the number of a row's combination of cells is in a list, or that its bit is set where there are many.

    The code of a cell is never NULL, so neither is the number.
    """
    number = _number(where.shape, [code(table.readings[name]) for name in where.names])
    members = bits(where.codes, math.prod(where.shape))
    chosen = np.flatnonzero(members).tolist()
    if len(chosen) <= _FEW:
        return f"({number} IN ({', '.join(map(str, chosen))}))" if chosen else FALSE
    return table.dialect.bit.format(f"'{(members + _ZERO).tobytes().decode('ascii')}'", number)


def histogram(table: Table, names: Sequence[str]) -> Statement:
    """Return the statement that counts rows by their cell in the product of attributes, row-major in this order."""
    keys = [Partition.every(table.readings[name].attribute, 1) for name in names]
    return statement(table, EVERYTHING, keys, [ONE])


def digest(table: Table, names: Sequence[str]) -> Statement:
    """Return the statement that counts rows and adds up a hash of each: of its cells, and of who it is of."""
    dialect = table.dialect
    parts = [dialect.text.format(code(table.readings[name])) for name in names]
    if table.person is not None:
        parts.append(f"coalesce({table.person_text.format(table.person)}, '')")
    cells = " || ',' || ".join(parts) or "''"
    total = _Total(f"coalesce(sum({dialect.wide.format(dialect.hashed.format(cells))}), 0)", 1, wide=True)
    columns = ["count(*)", *total.columns(total.sql, dialect)]
    return Statement(f"SELECT 0 AS g, {_named(columns)} FROM {table.source}", 1, ((1,), total.scales))  # noqa: S608


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"{text} AS s{place}" for place, text in enumerate(columns))


def _number(sizes: Sequence[int], own: Sequence[str]) -> str:
    """Return SQL for the place in a product of some sizes, row-major."""
    found = f"({own[0]})"
    for size, text in zip(sizes[1:], own[1:], strict=True):
        found = f"({found} * {size} + ({text}))"
    return found


def _by_text(table: Table, key: Key) -> bool:
    if not isinstance(key, Partition):
        return False
    own = table.readings[key.attribute]
    return isinstance(own.attribute, Category) and own.form is Form.TEXT


def _by_number(table: Table, key: Key) -> bool:
    if not isinstance(key, Partition) or not key.single:
        return False
    own = table.readings[key.attribute]
    return isinstance(own.attribute, Integer) and own.form is Form.WHOLE and own.value == own.raw


def _raw(table: Table, key: Key) -> str:
    return table.readings[key.attribute].raw if isinstance(key, Partition) else _group(table, key)


def _outer(table: Table, key: Key, name: str) -> str:
    """Return SQL for the group of a value that was grouped under a name."""
    if not isinstance(key, Partition):
        return name
    own = table.readings[key.attribute]
    return _partitioned(Reading(own.attribute, own.dialect, own.form, name, name, f"{name} IS NULL", total=True), key)


def _group(table: Table, key: Key) -> str:
    """Return SQL for the number of the group that a key puts a row into."""
    if isinstance(key, Partition):
        return _partitioned(table.readings[key.attribute], key)
    branches = (f"WHEN {predicate(table, part)} THEN {place}" for place, (_, part) in enumerate(key.branches))
    return f"CASE {' '.join(branches)} ELSE {len(key.branches)} END" if key.branches else "0"


def _partitioned(reading: Reading, key: Partition) -> str:
    if key.single:
        return code(reading)
    width = key.cuts[1] if len(key.cuts) > 1 else key.size
    if key.cuts == tuple(range(0, key.size, width)):
        own = reading.dialect.quotient.format(present_code(reading), width)
    else:
        own = _searched(reading, key.cuts, 0, len(key.cuts))
    return _by_group(reading, own, key)


def _by_group(reading: Reading, own: str, key: Partition) -> str:
    size, groups, landing = reading.attribute.size, len(key.cuts), reading.attribute.landing
    if landing is not None:
        return by_cell(reading, own, size=groups, landing=bisect(key.cuts, landing) - 1)
    if reading.form is Form.CODE:
        return f"CASE WHEN {reading.value} < {size} THEN {own} ELSE {reading.value} - {size} + {groups} END"
    return by_cell(reading, own, size=groups, landing=None)


def _searched(reading: Reading, cuts: Sequence[int], first: int, after: int) -> str:
    """Return a tree of comparisons for the group among those from first up to after: as deep as the logarithm."""
    if after - first == 1:
        return str(first)
    middle = (first + after) // 2
    upper, lower = _searched(reading, cuts, middle, after), _searched(reading, cuts, first, middle)
    return f"CASE WHEN {at_least(reading, cuts[middle])} THEN {upper} ELSE {lower} END"


@dataclass(frozen=True, slots=True)
class _Total:
    """One aggregate: SQL for a whole number, what it is worth, and whether it may be too large for 64 bits."""

    sql: str
    worth: int
    wide: bool

    @property
    def scales(self) -> tuple[int, ...]:
        return (self.worth * LIMB, self.worth) if self.wide else (self.worth,)

    def columns(self, total: str, dialect: Dialect) -> list[str]:
        """Return the total, or a sum of totals, as columns of 64 bits."""
        if not self.wide:
            return [dialect.small.format(total)]
        limb = dialect.wide.format(str(LIMB))
        return [dialect.small.format(part.format(total, limb)) for part in (dialect.quotient, dialect.remainder)]


def _sum(table: Table, weight: Weight, *, where: str | None) -> _Total:
    """Return the sum of a weight, over the rows of a condition where there is one."""
    dialect = table.dialect
    if isinstance(weight, Constant):
        return _Total("count(*)" if where is None else dialect.count_if.format(where), weight.number, wide=False)
    text = _weighed(table, weight)
    if where is not None:
        text = f"CASE WHEN {where} THEN {text} ELSE 0 END"
    return _Total(f"coalesce(sum({dialect.wide.format(text)}), 0)", 1, wide=True)


def _weighed(table: Table, weight: Weight) -> str:
    """Return SQL for a row's weight. A query holds no weight above 2^61, so all steps to it fit into 64 bits."""
    cast = table.dialect.small
    match weight:
        case Constant(number):
            return cast.format(whole_literal(number))
        case Value(name, _, offset, factor, power):
            reading = table.readings[name]
            own = cast.format(f"({present_code(reading)})")
            base = f"({cast.format(whole_literal(offset))} + {cast.format(whole_literal(factor))} * {own})"
            product = " * ".join([base] * power) if power else cast.format("1")
            landing = reading.attribute.landing
            rest = 0 if landing is None else (offset + factor * landing) ** power
            return f"CASE WHEN {there(reading)} THEN {product} ELSE {cast.format(whole_literal(rest))} END"
        case Cases(branches, otherwise):
            parts = (f"WHEN {predicate(table, part)} THEN {_weighed(table, own)}" for part, own in branches)
            last = _weighed(table, otherwise)
            return f"CASE {' '.join(parts)} ELSE {last} END" if branches else last
        case People():
            raise InvariantBroken("People are counted by a statement of their own.")
        case _:
            assert_never(weight)
