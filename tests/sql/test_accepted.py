from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

import pytest

from dodona.query.question import Total
from dodona.sql.compile import compile_sql
from tests.sql.oracle import Exact
from tests.sql.pairs import blocks
from tests.sql.scene import COMPLETE, SCHEMA, complete_database, complete_rows, database, rows

PAGE = blocks("accepted.sql")
WITHOUT_CELLS = [pair for pair in PAGE if "<missing>" not in pair[0] and "<outside>" not in pair[0]]
APART = re.compile(r"null|missing|distinct|coalesce|greatest|least|concat|group by|<=>", re.IGNORECASE)
"""Where NULL and an outside number mean different things, DuckDB cannot tell them apart."""


def test_the_page_has_at_least_200_statements():
    assert len({text for text, _ in PAGE}) >= 200


@pytest.mark.parametrize(("text", "notes"), PAGE, ids=[text[:80] for text, _ in PAGE])
def test_an_accepted_statement_means_what_it_means_in_duckdb(text, notes):
    other = next((note.removeprefix("duckdb: ") for note in notes if note.startswith("duckdb: ")), text)
    for outside in (False, True) if APART.search(text + other) is None else (False,):
        answered = Exact(compile_sql(text, SCHEMA), _meant(text, SCHEMA), rows(outside=outside)).rows()
        _agree(answered, database(outside=outside).execute(other).fetchall())


def means_the_same_of_complete_columns(text, notes):
    """Hold a statement to DuckDB on a table in which nothing is NULL, by a schema that says so."""
    other = next((note.removeprefix("duckdb: ") for note in notes if note.startswith("duckdb: ")), text)
    answered = Exact(compile_sql(text, COMPLETE), _meant(text, COMPLETE), complete_rows()).rows()
    _agree(answered, complete_database().execute(other).fetchall())


@pytest.mark.parametrize(("text", "notes"), WITHOUT_CELLS[::6], ids=[text[:80] for text, _ in WITHOUT_CELLS[::6]])
def test_a_statement_about_complete_columns_means_what_it_means_in_duckdb(text, notes):
    means_the_same_of_complete_columns(text, notes)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize(("text", "notes"), WITHOUT_CELLS, ids=[text[:80] for text, _ in WITHOUT_CELLS])
def test_every_statement_about_complete_columns_means_what_it_means_in_duckdb(text, notes):
    means_the_same_of_complete_columns(text, notes)


def _agree(answered, expected):
    assert len(answered) == len(expected)
    for row, two in zip(sorted(map(_row, answered)), sorted(map(_row, expected)), strict=True):
        assert [text for text, _ in row] == [text for text, _ in two]
        assert [number for _, number in row] == pytest.approx([number for _, number in two], rel=1e-9, abs=1e-9)


def _meant(text, schema):
    """Return the block that counts the rows that WHERE means, in the statement's groups."""
    counted = compile_sql(
        re.sub(r"\s+FROM\s+(\"?stays)", r"\n, count(*) FROM \1", text, count=1, flags=re.IGNORECASE), schema
    )
    last = counted.columns[-1].expression
    assert isinstance(last, Total)
    return counted.query.blocks[last.block]


def _row(values):
    return tuple(_plain(value) for value in values)


def _plain(value):
    """Return a value as a pair that sorts and compares: a number, or a text."""
    if isinstance(value, bool | str | dt.date):
        text = str(value).lower().removesuffix(" 00:00:00")
        return (text, 0.0) if not re.fullmatch("[0-9]+", text) else ("", float(text))
    if value is None:
        return "<missing>", 0.0
    return "", round(float(value), 9) if isinstance(value, Fraction | float | int) else float(value)
