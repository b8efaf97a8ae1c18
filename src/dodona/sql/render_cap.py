"""The cap on rows, in SQL: of each person the first rows count, by the codes of all declared columns in their order.

Which of two rows with the same codes counts makes no difference to any answer, so neither does the order of the rows.
"""

from __future__ import annotations

from dodona.errors import InvariantBroken
from dodona.sql.render import Table
from dodona.sql.render_cells import code
from dodona.sql.render_column import Form, reading

PERSON = "p"
"""The column of who a row is of, where rows are codes."""
_PLACE = "place"


def coded(table: Table) -> str:
    """Return SQL for all rows as codes: c0, c1 and so on in the order of the columns, and who each row is of."""
    listed = [f"{code(own)} AS c{place}" for place, own in enumerate(table.readings.values())]
    if table.person is not None:
        listed.append(f"{table.person} AS {PERSON}")
    return f"SELECT {', '.join(listed) or '0 AS nothing'} FROM {table.source}"  # noqa: S608


def counting(table: Table, rows: int) -> str:
    """Return SQL for the rows that count, as codes: of each person so many. Rows of nobody do not count.

    Theorem: people
    """
    if table.person is None:
        raise InvariantBroken("A cap on rows needs to know who a row is of.")
    columns = [f"c{place}" for place in range(len(table.readings))]
    order = f" ORDER BY {', '.join(columns)}" if columns else f" ORDER BY {PERSON}"
    kept = ", ".join([*columns, PERSON])
    return (
        f"SELECT {kept} FROM (SELECT {kept}, row_number() OVER (PARTITION BY {PERSON}{order}) AS {_PLACE} "  # noqa: S608
        f"FROM ({coded(table)}) AS coded WHERE {PERSON} IS NOT NULL) AS ranked WHERE {_PLACE} <= {rows}"
    )


def as_codes(table: Table, source: str) -> Table:
    """Return the table whose rows are codes in a source that has the columns of `coded`."""
    readings = {
        name: reading(own.attribute, f"c{place}", Form.CODE, table.dialect)
        for place, (name, own) in enumerate(table.readings.items())
    }
    return Table(source, readings, table.dialect, None if table.person is None else PERSON)


def capped(table: Table, rows: int) -> Table:
    """Return the table of the rows that count, as a part of each statement."""
    return as_codes(table, f"({counting(table, rows)}) AS capped")
