from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

import pytest

from dodona.query.expression import Total
from dodona.sql.compile import compile_sql
from tests.sql.oracle import Exact
from tests.sql.pairs import blocks
from tests.sql.scene import SCHEMA, database, rows

PAGE = blocks("accepted.sql")
APART = re.compile(r"null|missing|distinct|coalesce|group by|<=>", re.IGNORECASE)
"""Where NULL and an outside number mean different things, DuckDB cannot tell them apart."""


def test_the_page_has_at_least_200_statements():
    assert len({text for text, _ in PAGE}) >= 200


@pytest.mark.parametrize(("text", "notes"), PAGE, ids=[text[:80] for text, _ in PAGE])
def test_an_accepted_statement_means_what_it_means_in_duckdb(text, notes):
    other = next((note.removeprefix("duckdb: ") for note in notes if note.startswith("duckdb: ")), text)
    for outside in (False, True) if APART.search(text + other) is None else (False,):
        answered = Exact(compile_sql(text, SCHEMA), _meant(text), rows(outside=outside)).rows()
        expected = database(outside=outside).execute(other).fetchall()
        assert len(answered) == len(expected)
        for one, two in zip(sorted(map(_row, answered)), sorted(map(_row, expected)), strict=True):
            assert [text for text, _ in one] == [text for text, _ in two]
            assert [number for _, number in one] == pytest.approx([number for _, number in two], rel=1e-9, abs=1e-9)


def _meant(text):
    """Return the block that counts the rows that WHERE means, in the statement's groups."""
    counted = compile_sql(
        re.sub(r"\s+FROM\s+(\"?stays)", r"\n, count(*) FROM \1", text, count=1, flags=re.IGNORECASE), SCHEMA
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
