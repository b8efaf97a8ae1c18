"""The cap on rows per person: which rows count, in SQL and in numpy.

If a person has more rows than the cap, those with the smallest keyed hashes count; both versions choose the same rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dodona.engines.cells import ColumnForm, ColumnReading, SourceUnfit, code_sql, read_column
from dodona.engines.dialects import Dialect, number_literal
from dodona.engines.render import GroupedSql, Table
from dodona.errors import InvalidArgument, InvariantBroken
from dodona.numbers import Booleans, Integers
from dodona.schema.attributes import Attribute
from dodona.schema.encoding import RawColumn, is_missing
from dodona.schema.schema import ROW_OF, Schema, row_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- The cap in SQL: of a person with more rows than the cap, those with the smallest keyed hashes count. ---


PERSON_COLUMN = "p"
"""The column that identifies people in coded rows."""
FRACTION = 2.0**32
"""A fractional id is written with this many parts of one."""
FARTHEST = 2.0**63
"""Doubles from here on are written as one word."""
FAR = "far"
_PLACE, _MANY, _EQUAL, _HASH = "place", "many", "equal", "hash"


def coded_rows_sql(table: Table) -> str:
    """Return SQL for all rows as codes: c0, c1 and so on in column order, and the person of each."""
    listed = [f"{code_sql(reading)} AS c{place}" for place, reading in enumerate(table.readings.values())]
    if table.person is not None:
        listed.append(f"{table.person} AS {PERSON_COLUMN}")
    return f"SELECT {', '.join(listed) or '0 AS nothing'} FROM {table.source}"  # noqa: S608


def capped_rows_sql(table: Table, rows: int, key: bytes) -> str:
    """Return SQL for the counted rows, as codes: at most `rows` per person. Rows without an id do not count.

    Theorem: people
    """
    _require_person(table)
    return _capped_sql(table, coded_rows_sql(table), _columns(table.readings), rows, key)


def _capped_sql(table: Table, coded: str, columns: Sequence[str], rows: int, key: bytes) -> str:
    """Return SQL for at most `rows` coded rows of each person."""
    kept = ", ".join([*columns, PERSON_COLUMN])
    hashed = f"CASE WHEN {_MANY} > {rows} THEN {_hashed_rows_sql(table, columns, key)} ELSE '' END"
    counted = (
        f"SELECT {kept}, count(*) OVER (PARTITION BY {PERSON_COLUMN}) AS {_MANY}, "  # noqa: S608
        f"{_repeat_number_sql(columns)} AS {_EQUAL} "
        f"FROM ({coded}) AS coded WHERE {PERSON_COLUMN} IS NOT NULL"
    )
    return _smallest_hashes_sql(f"SELECT {kept}, {hashed} AS {_HASH} FROM ({counted}) AS counted", columns, rows)  # noqa: S608


def capped_codes_sql(table: Table, source: str, rows: int, key: bytes) -> str:
    """Return SQL for the counted rows of a table of coded rows: the same rows as `capped_rows_sql` returns.

    If reading rows several times is cheap, only those of people above the cap are sorted and hashed.

    Theorem: people
    """
    _require_person(table)
    columns = _columns(table.readings)
    kept = ", ".join([*columns, PERSON_COLUMN])
    busy = f"SELECT {PERSON_COLUMN} FROM {source} WHERE {PERSON_COLUMN} IS NOT NULL GROUP BY 1 HAVING count(*) > {rows}"  # noqa: S608
    others = f"SELECT {kept} FROM {source} WHERE {PERSON_COLUMN} IS NOT NULL AND {PERSON_COLUMN} NOT IN ({busy})"  # noqa: S608
    equal = _repeat_number_sql(columns)
    counted = f"SELECT {kept}, {equal} AS {_EQUAL} FROM {source} WHERE {PERSON_COLUMN} IN ({busy})"  # noqa: S608
    hashed = f"SELECT {kept}, {_hashed_rows_sql(table, columns, key)} AS {_HASH} FROM ({counted}) AS counted"  # noqa: S608
    return f"{others} UNION ALL {_smallest_hashes_sql(hashed, columns, rows)}"


def _require_person(table: Table) -> None:
    if table.person is None:
        raise InvariantBroken("A cap on rows needs a column that identifies people.")


def _columns(declared: Sized) -> list[str]:
    return [f"c{place}" for place in range(len(declared))]


def _repeat_number_sql(columns: Sequence[str]) -> str:
    """Return SQL that numbers the equal rows of one person; the order among them does not matter."""
    alike = ", ".join([PERSON_COLUMN, *columns])
    return f"row_number() OVER (PARTITION BY {alike} ORDER BY {PERSON_COLUMN})"


def _hashed_rows_sql(table: Table, columns: Sequence[str], key: bytes) -> str:
    text, small = table.dialect.text, table.dialect.small
    parts = [f"'{key.hex()}'", *(text.format(small.format(column)) for column in (*columns, _EQUAL))]
    return table.dialect.md5.format(" || ' ' || ".join([*parts, table.person_text.format(PERSON_COLUMN)]))


def _smallest_hashes_sql(hashed: str, columns: Sequence[str], rows: int) -> str:
    """Return SQL for the rows with the smallest hashes; ties between different rows are ordered by their codes."""
    kept, order = ", ".join([*columns, PERSON_COLUMN]), ", ".join([_HASH, *columns])
    return (
        f"SELECT {kept} FROM ("  # noqa: S608
        f"SELECT {kept}, row_number() OVER (PARTITION BY {PERSON_COLUMN} ORDER BY {order}) AS {_PLACE} "
        f"FROM ({hashed}) AS hashed) AS ranked WHERE {_PLACE} <= {rows}"
    )


def id_text_pattern(form: ColumnForm | None, dialect: Dialect) -> str:
    """Return the pattern that writes an id as text, identically for equal ids and on all engines.

    Different ids may give the same text, such as times on one day. The text is only hashed: the id identifies people.
    """
    match form:
        case ColumnForm.TEXT:
            return "{0}"
        case ColumnForm.DOUBLE | ColumnForm.DECIMAL:
            sql = dialect.double.format("({0})")
            whole, part = f"floor({sql})", f"floor(({sql} - floor({sql})) * {number_literal(FRACTION)})"
            whole, part = (dialect.text.format(dialect.small.format(number)) for number in (whole, part))
            edge = number_literal(FARTHEST)
            return (
                f"CASE WHEN {sql} >= {edge} OR {sql} <= -{edge} THEN '{FAR}' WHEN {sql} = floor({sql}) THEN {whole} "
                f"ELSE {whole} || '.' || {part} END"
            )
        case ColumnForm.TIME:
            return dialect.text.format(dialect.day_of_time)
        case ColumnForm.ZONED:
            return dialect.text.format(dialect.day_of_zoned)
        case _:
            return dialect.text


def coded_table(table: Table, source: str) -> Table:
    """Return the table for a source of coded rows with the columns of `coded_rows_sql`."""
    readings = _coded_readings((reading.attribute for reading in table.readings.values()), table.dialect)
    return Table(source, readings, table.dialect, None if table.person is None else PERSON_COLUMN, table.person_text)


def kept_digest(schema: Schema, version: str, key: bytes) -> str:
    """Return a digest that binds stored rows to a schema, a version and a ledger's key, without revealing the key."""
    return hashlib.sha256(b"\0".join([b"kept rows", schema.digest.encode(), version.encode(), key])).hexdigest()


def kept_columns(declared: Sized) -> list[str]:
    """Return the columns of a table of stored counted rows: codes, and the person of each row."""
    return [*_columns(declared), PERSON_COLUMN]


def kept_table(schema: Schema, source: str, dialect: Dialect, text: str) -> Table:
    """Return how stored rows are read; `text` is the pattern that writes an id."""
    return Table(source, _coded_readings(schema.domain, dialect), dialect, PERSON_COLUMN, text)


def _coded_readings(attributes: Iterable[Attribute], dialect: Dialect) -> dict[str, ColumnReading]:
    coded = ((f"c{place}", attribute) for place, attribute in enumerate(attributes))
    return {attribute.name: read_column(attribute, raw, ColumnForm.CODE, dialect) for raw, attribute in coded}


def excess_statement(schema: Schema, table: Table) -> GroupedSql:
    """Return the statement for how many rows too many stored rows have of a person, and how many without an id.

    With several tables, each has its own cap: rows of one table beyond it are too many, however few the others have.
    """
    origin, most = "0", str(schema.unit.rows)
    if schema.linked:
        code, labels = code_sql(table.readings[ROW_OF]), row_labels(schema.table, schema.linked)
        codes = {
            linked.name: [n for n, label in enumerate(labels) if label.split("+")[0] == linked.name]
            for linked in schema.linked
        }
        cases = [
            f"WHEN {code} IN ({', '.join(map(str, table_codes))}) THEN {n}"
            for n, table_codes in enumerate(codes.values(), 1)
        ]
        origin = f"CASE {' '.join(cases)} ELSE 0 END"
        most = f"CASE origin {' '.join(f'WHEN {n} THEN {cap}' for n, (_, cap) in enumerate(schema.unit.caps))} END"
    rows = f"SELECT {PERSON_COLUMN}, {origin} AS origin FROM {table.source}"  # noqa: S608
    crowds = f"SELECT origin, count({PERSON_COLUMN}) AS n, count(*) AS held FROM ({rows}) AS kept_rows"  # noqa: S608
    figures = [table.dialect.small.format(f"coalesce({text}, 0)") for text in (f"max(n - {most})", "sum(held - n)")]
    subquery = f"({crowds} GROUP BY {PERSON_COLUMN}, origin) AS crowds"
    return GroupedSql(f"SELECT 0 AS g, {figures[0]} AS s0, {figures[1]} AS s1 FROM {subquery}", 1, ((1,), (1,)))  # noqa: S608


def capped_table(table: Table, rows: int, key: bytes) -> Table:
    """Return the table of the counted rows, as a subquery of each statement."""
    return coded_table(table, f"({capped_rows_sql(table, rows, key)}) AS capped")


# --- Several tables of the same people, as one table of coded rows. ---


def linked_rows_sql(schema: Schema, tables: Sequence[Table], key: bytes) -> str:
    """Return SQL for the counted rows of a table and of those linked to it, as codes and the person of each.

    Of a linked table with one row of a person, that row is chosen first; its columns then stand in each of the
    person's rows. A column that a row does not have is missing. Each table has its own cap, so a person has no more
    rows than all caps together, and which rows these are depends on that person's rows alone.

    Theorem: linked-tables
    """
    parts = [_LinkedPart(*pair) for pair in zip(unlinked_schemas(schema), tables, strict=True)]
    single = {part.name: part.counted_sql(key) for part in parts[1:] if part.schema.unit.rows == 1}
    return " UNION ALL ".join(_linked_part_sql(schema, part, single, key) for part in parts)


def unlinked_schemas(schema: Schema) -> list[Schema]:
    """Return the schema of each table by itself: the main one, then the linked ones."""
    return [schema.own, *map(schema.of_linked, schema.linked)]


def linked_table(schema: Schema, tables: Sequence[Table], key: bytes, source: str | None = None) -> Table:
    """Return the table of the counted rows of all tables: a subquery, or a source that holds them."""
    relation = f"({linked_rows_sql(schema, tables, key)}) AS counted" if source is None else source
    dialect = tables[0].dialect
    return Table(relation, _coded_readings(schema.domain, dialect), dialect, PERSON_COLUMN, "{0}")


def counted_table(schema: Schema, tables: Sequence[Table], key: bytes) -> Table:
    """Return the table of the rows that count, as a subquery of each statement where people are protected."""
    if schema.unit.id is None:
        return tables[0]
    return linked_table(schema, tables, key) if schema.linked else capped_table(tables[0], schema.unit.rows, key)


def repeated_statement(schema: Schema, table: Table) -> GroupedSql:
    """Return the statement that counts the people with more rows in a table than count."""
    row_counts = (
        f"SELECT count(*) AS n FROM ({_LinkedPart(schema, table).rows_sql}) AS own WHERE {PERSON_COLUMN} IS NOT NULL"  # noqa: S608
    )
    crowds = f"SELECT 1 AS one FROM ({row_counts} GROUP BY {PERSON_COLUMN}) AS crowds WHERE n > {schema.unit.rows}"  # noqa: S608
    number = table.dialect.small.format("count(*)")
    return GroupedSql(f"SELECT 0 AS g, {number} AS s0 FROM ({crowds}) AS few", 1, ((1,),))  # noqa: S608


def repeated_tables(
    schema: Schema, tables: Sequence[Table], fetch: Callable[[GroupedSql], list[Integers]]
) -> list[str]:
    """Return the linked tables that should have one row of a person and have more of some: for the owner only."""
    linked = list(zip(unlinked_schemas(schema), tables, strict=True))[1:]
    return [
        table_schema.table
        for table_schema, table in linked
        if table_schema.unit.rows == 1 and fetch(repeated_statement(table_schema, table))[1][0] > 0
    ]


@dataclass(frozen=True, slots=True)
class _LinkedPart:
    """One of several tables: its own columns, and how they are read."""

    schema: Schema
    table: Table

    @property
    def name(self) -> str:
        return self.schema.table

    @property
    def rows_sql(self) -> str:
        """SQL for all of its rows, as codes. People are known by their text, which all tables have in common."""
        _require_person(self.table)
        if self.table.person_text not in {"{0}", self.table.dialect.text}:
            raise SourceUnfit(
                f"People are told apart in {self.name} by a column that is no text and no whole number. Where tables "
                "are linked, the same person must be written alike in all of them: cast the id to a text in a view."
            )
        listed = [f"{code_sql(reading)} AS c{place}" for place, reading in enumerate(self.table.readings.values())]
        who = self.table.person_text.format(self.table.person)
        return f"SELECT {', '.join([*listed, f'{who} AS {PERSON_COLUMN}'])} FROM {self.table.source}"  # noqa: S608

    def counted_sql(self, key: bytes) -> str:
        """SQL for its rows that count."""
        bare = replace(self.table, person_text="{0}")
        return _capped_sql(bare, self.rows_sql, _columns(self.table.readings), self.schema.unit.rows, key)


def _linked_part_sql(schema: Schema, part: _LinkedPart, single: Mapping[str, str], key: bytes) -> str:
    """Return SQL for the counted rows of one table, with the columns of all."""
    others = [name for name in single if name != part.name]
    owners = dict.fromkeys(part.schema.domain.names, part.name)
    owners |= {
        attribute.name: linked.name for linked in schema.linked if linked.name in others for attribute in linked.domain
    }
    aliases = {part.name: "own", **{name: f"j{place}" for place, name in enumerate(others)}}
    places = {
        linked.name: {column: place for place, column in enumerate(linked.domain.names)} for linked in schema.linked
    }
    places[part.name] = {column: place for place, column in enumerate(part.schema.domain.names)}
    listed = []
    for number, attribute in enumerate(schema.domain):
        absent = attribute.size if attribute.landing is None else attribute.landing
        owner = owners.get(attribute.name)
        if attribute.name == ROW_OF:
            text = _row_of_sql(schema, part.name, [(name, aliases[name]) for name in others])
        elif owner is None:
            text = str(absent)
        else:
            text = f"coalesce({aliases[owner]}.c{places[owner][attribute.name]}, {absent})"
        listed.append(f"{part.table.dialect.small.format(text)} AS c{number}")
    joins = "".join(
        f" LEFT JOIN ({single[name]}) AS {aliases[name]} ON own.{PERSON_COLUMN} = {aliases[name]}.{PERSON_COLUMN}"
        for name in others
    )
    return (
        f"SELECT {', '.join(listed)}, own.{PERSON_COLUMN} AS {PERSON_COLUMN} "  # noqa: S608
        f"FROM ({part.counted_sql(key)}) AS own{joins}"
    )


def _row_of_sql(schema: Schema, name: str, others: Sequence[tuple[str, str]]) -> str:
    """Return SQL for the code of the table that a row is from, with the tables in which the person has a row."""
    labels = row_labels(schema.table, schema.linked)
    ordered = [linked.name for linked in schema.linked if linked.name in dict(others)]
    first = labels.index(name)
    bits = [
        f"CASE WHEN {dict(others)[table_name]}.{PERSON_COLUMN} IS NULL THEN 0 ELSE {1 << place} END"
        for place, table_name in enumerate(ordered)
    ]
    return " + ".join([str(first), *bits])


# --- The cap in numpy: the same rows as in SQL. ---


KEY_BYTES = 32


def cap_key(schema: Schema, key: bytes | None) -> bytes:
    """Return the key that selects the counted rows of a person; required if people are protected."""
    if schema.unit.id is None:
        return b""
    if key is None or len(key) != KEY_BYTES:
        accepted = f"where people are protected, give {KEY_BYTES} bytes: the ledger has them as cap_key"
        raise InvalidArgument("key", None if key is None else "<key>", accepted)
    return key


def rows_within_cap(schema: Schema, codes: Mapping[str, Integers], people: RawColumn, key: bytes) -> Booleans:
    """Return which rows count: all of a person within the cap, otherwise those with the smallest hashes.

    The hash covers the key, the codes of all declared columns, the row's number among that person's equal rows, and the
    person as text. So it depends on that person's rows alone, and which of two rows with the same codes counts makes no
    difference to any answer. Rows whose id is NULL or NaN do not count, as they might be anyone's.

    Theorem: people
    """
    number = number_people(people)
    columns = [codes[name] for name in schema.domain.names]
    rows = np.bincount(number[number >= 0], minlength=1)
    kept = number >= 0
    several = np.flatnonzero(kept & (rows[number] > schema.unit.rows))
    texts = id_texts(number, people, several)
    order = several[np.lexsort((*(column[several] for column in reversed(columns)), number[several]))]
    hashes = _hashes(number[order], [column[order] for column in columns], texts, key)
    order = order[np.lexsort((*(column[order] for column in reversed(columns)), hashes, number[order]))]
    ranked = number[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, dtype=np.int64)
    place = np.arange(len(ranked)) - np.repeat(first, np.diff(np.r_[first, len(ranked)]))
    kept[order] = place < schema.unit.rows
    return kept


def _hashes(number: Integers, columns: Sequence[Integers], texts: Mapping[int, str], key: bytes) -> NDArray[np.bytes_]:
    """Return the hash of each row; equal rows of a person must be adjacent."""
    hashes, before, equal = list[str](), None, 0
    for row in zip(number.tolist(), *(column.tolist() for column in columns), strict=True):
        equal = equal + 1 if row == before else 1
        before = row
        text = " ".join([key.hex(), *map(str, row[1:]), str(equal), texts[row[0]]])
        hashes.append(hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest())
    return np.array(hashes, dtype="S32")


def id_texts(number: Integers, people: RawColumn, rows: Integers) -> dict[int, str]:
    """Return the person of each of these rows as text, one text for all equal ids: 1 and 1.0 are one person."""
    texts = dict[int, str]()
    for place in rows.tolist():
        text = id_text(people[place])
        known = texts.setdefault(int(number[place]), text)
        if text < known:
            texts[int(number[place])] = text
    return texts


def id_text(who: object) -> str:  # noqa: PLR0911  one for each kind
    """Return an id as text, as `id_text_pattern` writes it on every engine.

    >>> id_text(7), id_text(7.0), id_text(-0.5), id_text("p7"), id_text(date(2024, 1, 31))
    ('7', '7', '-1.2147483648', 'p7', '2024-01-31')
    """
    value = who.item() if isinstance(who, np.generic) else who
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            if not abs(value) < FARTHEST:
                return FAR
            whole = math.floor(value)
            return str(whole) if value == whole else f"{whole}.{math.floor((value - whole) * FRACTION)}"
        case Decimal():
            whole_number = value == value.to_integral_value() and value.as_tuple().exponent == 0
            return str(value) if whole_number else id_text(float(value))
        case bytes():
            return value.hex()
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).date().isoformat()
        case date():
            return value.isoformat()
        case _:
            return str(value)


def number_people(people: RawColumn) -> Integers:
    """Return a number for each distinct person; -1 if there is no id."""
    seen: dict[object, int] = {}
    listed = people.tolist() if isinstance(people, np.ndarray) else list(people)
    with suppress(TypeError):
        return np.array([-1 if is_missing(who) else seen.setdefault(who, len(seen)) for who in listed], dtype=np.int64)
    raise SourceUnfit(
        "The column that identifies people has values that cannot be compared, such as lists. Use numbers or texts."
    )
