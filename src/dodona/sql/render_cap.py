"""The cap on rows, in SQL: of each person who has more rows than count, the rows with the smallest keyed hashes do.

A hash is of the key, the row's codes, how many equal rows of that person came before it, and the person as text. All
engines know MD5 and write these as the same text, so that all of them keep the same rows. Privacy does not rest on the
hash: which rows of a person count depends on the rows of that person and on the key alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from dodona.domain.schema import Schema
from dodona.errors import InvariantBroken
from dodona.sql.render import Statement, Table
from dodona.sql.render_cells import code
from dodona.sql.render_column import Form, reading
from dodona.sql.render_dialect import Dialect, number_literal

PERSON = "p"
"""The column of who a row is of, where rows are codes."""
FRACTION = 2.0**32
"""An id that is no whole number is written with this many parts of one."""
FARTHEST = 2.0**63
"""A double from here on is written as one word."""
FAR = "far"
_PLACE, _MANY, _EQUAL, _HASH = "place", "many", "equal", "hash"


def coded(table: Table) -> str:
    """Return SQL for all rows as codes: c0, c1 and so on in the order of the columns, and who each row is of."""
    listed = [f"{code(own)} AS c{place}" for place, own in enumerate(table.readings.values())]
    if table.person is not None:
        listed.append(f"{table.person} AS {PERSON}")
    return f"SELECT {', '.join(listed) or '0 AS nothing'} FROM {table.source}"  # noqa: S608


def counting(table: Table, rows: int, key: bytes) -> str:
    """Return SQL for the rows that count, as codes: of each person so many. Rows of nobody do not count.

    Theorem: people
    """
    _hold_person(table)
    columns = _columns(table)
    kept = ", ".join([*columns, PERSON])
    hashed = f"CASE WHEN {_MANY} > {rows} THEN {_hashed(table, columns, key)} ELSE '' END"
    counted = (
        f"SELECT {kept}, count(*) OVER (PARTITION BY {PERSON}) AS {_MANY}, {_repeats(columns)} AS {_EQUAL} "  # noqa: S608
        f"FROM ({coded(table)}) AS coded WHERE {PERSON} IS NOT NULL"
    )
    return _first(f"SELECT {kept}, {hashed} AS {_HASH} FROM ({counted}) AS counted", columns, rows)  # noqa: S608


def counting_of_codes(table: Table, source: str, rows: int, key: bytes) -> str:
    """Return SQL for the rows that count of a table that has the columns of `coded`: the same rows as `counting`.

    Where it is cheap to read rows several times, only those of people who have more than count are sorted and hashed.

    Theorem: people
    """
    _hold_person(table)
    columns = _columns(table)
    kept = ", ".join([*columns, PERSON])
    busy = f"SELECT {PERSON} FROM {source} WHERE {PERSON} IS NOT NULL GROUP BY 1 HAVING count(*) > {rows}"  # noqa: S608
    others = f"SELECT {kept} FROM {source} WHERE {PERSON} IS NOT NULL AND {PERSON} NOT IN ({busy})"  # noqa: S608
    counted = f"SELECT {kept}, {_repeats(columns)} AS {_EQUAL} FROM {source} WHERE {PERSON} IN ({busy})"  # noqa: S608
    hashed = f"SELECT {kept}, {_hashed(table, columns, key)} AS {_HASH} FROM ({counted}) AS counted"  # noqa: S608
    return f"{others} UNION ALL {_first(hashed, columns, rows)}"


def _hold_person(table: Table) -> None:
    if table.person is None:
        raise InvariantBroken("A cap on rows needs to know who a row is of.")


def _columns(table: Table) -> list[str]:
    return [f"c{place}" for place in range(len(table.readings))]


def _repeats(columns: Sequence[str]) -> str:
    """Return SQL for the number of a row among the equal rows of one person: which of them has which makes no odds."""
    alike = ", ".join([PERSON, *columns])
    return f"row_number() OVER (PARTITION BY {alike} ORDER BY {PERSON})"


def _hashed(table: Table, columns: Sequence[str], key: bytes) -> str:
    text, small = table.dialect.text, table.dialect.small
    parts = [f"'{key.hex()}'", *(text.format(small.format(own)) for own in (*columns, _EQUAL))]
    return table.dialect.md5.format(" || ' ' || ".join([*parts, table.person_text.format(PERSON)]))


def _first(hashed: str, columns: Sequence[str], rows: int) -> str:
    """Return SQL for the rows with the smallest hashes; equal hashes of different rows are ordered by their codes."""
    kept, order = ", ".join([*columns, PERSON]), ", ".join([_HASH, *columns])
    return (
        f"SELECT {kept} FROM (SELECT {kept}, row_number() OVER (PARTITION BY {PERSON} ORDER BY {order}) AS {_PLACE} "  # noqa: S608
        f"FROM ({hashed}) AS hashed) AS ranked WHERE {_PLACE} <= {rows}"
    )


def person_text(form: Form | None, dialect: Dialect) -> str:
    """Return the pattern that writes an id of a form as text: the same for equal ids, and the same on all engines.

    Different ids may be written alike, as times of one day are. It is for the hash: people are told apart by the id.
    """
    match form:
        case Form.TEXT:
            return "{0}"
        case Form.DOUBLE | Form.DECIMAL:
            own = dialect.double.format("({0})")
            whole, part = f"floor({own})", f"floor(({own} - floor({own})) * {number_literal(FRACTION)})"
            whole, part = (dialect.text.format(dialect.small.format(number)) for number in (whole, part))
            edge = number_literal(FARTHEST)
            return (
                f"CASE WHEN {own} >= {edge} OR {own} <= -{edge} THEN '{FAR}' WHEN {own} = floor({own}) THEN {whole} "
                f"ELSE {whole} || '.' || {part} END"
            )
        case Form.TIME:
            return dialect.text.format(dialect.day_of_time)
        case Form.ZONED:
            return dialect.text.format(dialect.day_of_zoned)
        case _:
            return dialect.text


def as_codes(table: Table, source: str) -> Table:
    """Return the table whose rows are codes in a source that has the columns of `coded`."""
    readings = {
        name: reading(own.attribute, f"c{place}", Form.CODE, table.dialect)
        for place, (name, own) in enumerate(table.readings.items())
    }
    return Table(source, readings, table.dialect, None if table.person is None else PERSON, table.person_text)


def kept_digest(schema: Schema, version: str, key: bytes) -> str:
    """Return what rows that are kept belong to: a schema, a version and the key of a ledger, which it does not tell."""
    return hashlib.sha256(b"\0".join([b"kept rows", schema.digest.encode(), version.encode(), key])).hexdigest()


def kept_columns(table: Table) -> list[str]:
    """Return the columns of a table that keeps the rows that count: codes, and who each row is of."""
    return [*_columns(table), PERSON]


def kept_table(schema: Schema, source: str, dialect: Dialect, text: str) -> Table:
    """Return how rows that are kept are read; `text` is the pattern that writes an id."""
    readings = {own.name: reading(own, f"c{place}", Form.CODE, dialect) for place, own in enumerate(schema.domain)}
    return Table(source, readings, dialect, PERSON, text)


def crowd(table: Table) -> Statement:
    """Return the statement for the largest number of rows that a person has, and for how many rows are nobody's."""
    own = f"SELECT count({PERSON}) AS n, count(*) AS held FROM {table.source} GROUP BY {PERSON}"  # noqa: S608
    figures = [table.dialect.small.format(f"coalesce({text}, 0)") for text in ("max(n)", "sum(held - n)")]
    return Statement(f"SELECT 0 AS g, {figures[0]} AS s0, {figures[1]} AS s1 FROM ({own}) AS own", 1, ((1,), (1,)))  # noqa: S608


def capped(table: Table, rows: int, key: bytes) -> Table:
    """Return the table of the rows that count, as a part of each statement."""
    return as_codes(table, f"({counting(table, rows, key)}) AS capped")
