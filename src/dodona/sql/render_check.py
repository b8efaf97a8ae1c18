"""What an owner may want to know of the rows before they are served, in one statement that every engine runs.

Its answers are exact and about people: they are for the owner alone.
"""

from __future__ import annotations

from dodona.domain.attribute import Boolean, Category, Date, Integer, Number
from dodona.sql.render import Statement, Table
from dodona.sql.render_cells import FALSE, bound, outside, there
from dodona.sql.render_column import Form, Reading

COLUMN_FIGURES = ("missing", "outside", "below", "above")
"""What is counted of each column, in this order."""


def check(table: Table, rows: int) -> Statement:
    """Return the statement: all rows, those of nobody, people, rows that count, then the figures of each column.

    Where rows are protected by themselves, nobody has no rows, there are no people, and all rows count.
    """
    dialect = table.dialect
    figures = ["count(*)", *_people(table, rows)]
    for own in table.readings.values():
        figures += [dialect.count_if.format(text) for text in _conditions(own)]
    counts = (dialect.small.format(f"coalesce({text}, 0)") for text in figures)  # NULL where there is nothing to count
    listed = ", ".join(f"{text} AS s{place}" for place, text in enumerate(counts))
    return Statement(f"SELECT 0 AS g, {listed} FROM {table.source}", 1, ((1,),) * len(figures))  # noqa: S608


def unread(table: Table) -> Statement:
    """Return the statement that tells, of each column with `<outside>`, how many rows have a value and how many none.

    Columns without `<outside>` are left out: there nothing tells the two apart.
    """
    figures = list[str]()
    for own in told_apart(table):
        figures += [table.dialect.count_if.format(there(own)), table.dialect.count_if.format(outside(own))]
    counts = (table.dialect.small.format(f"coalesce({text}, 0)") for text in figures)
    listed = ", ".join(f"{text} AS s{place}" for place, text in enumerate(counts))
    return Statement(f"SELECT 0 AS g, {listed} FROM {table.source}", 1, ((1,),) * len(figures))  # noqa: S608


def told_apart(table: Table) -> list[Reading]:
    """Return the columns that have a cell for what is outside."""
    return [own for own in table.readings.values() if own.attribute.landing is None]


def _people(table: Table, rows: int) -> list[str]:
    if table.person is None:
        return ["0", "0", "count(*)"]
    crowds = f"SELECT count(*) AS n FROM {table.source} WHERE ({table.person}) IS NOT NULL GROUP BY {table.person}"  # noqa: S608
    kept = f"(SELECT sum(CASE WHEN n > {rows} THEN {rows} ELSE n END) FROM ({crowds}) AS crowds)"  # noqa: S608
    return [table.dialect.count_if.format(f"({table.person}) IS NULL"), f"count(DISTINCT {table.person})", kept]


def crowds(table: Table, rows: int, most: int) -> str:
    """Return SQL for a table with one row for each person: how many of their rows a cap leaves out, up to `most`."""
    own = f"SELECT count(*) AS n FROM {table.source} WHERE ({table.person}) IS NOT NULL GROUP BY {table.person}"  # noqa: S608
    cut = f"CASE WHEN n <= {rows} THEN 0 WHEN n - {rows} < {most} THEN n - {rows} ELSE {most} END"
    return f"(SELECT {table.dialect.small.format(cut)} AS c0 FROM ({own}) AS crowds) AS left_out"  # noqa: S608


def _conditions(reading: Reading) -> tuple[str, str, str, str]:
    """Return where a value is missing, where it is none of the attribute's, and where it is below or above its bounds.

    A number below or above is drawn to the bound; a day below or above is outside.
    """
    if reading.form is Form.CODE:  # a column that can only hold NULL
        return f"{reading.raw} IS NULL", FALSE, FALSE, FALSE
    attribute = reading.attribute
    match attribute:
        case Category() | Boolean():
            return reading.missing, outside(reading), FALSE, FALSE
        case Integer() | Number() | Date():
            below = f"{reading.value} < {bound(reading, 0)}"
            above = f"{reading.value} >= {bound(reading, attribute.size)}"
            if reading.form is Form.DOUBLE:  # engines hold NaN to be above all numbers
                above = f"({above} AND NOT {reading.dialect.not_a_number.format(reading.value)})"
            return reading.missing, outside(reading), below, above
