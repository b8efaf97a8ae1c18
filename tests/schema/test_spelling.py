"""The rules of spelling hold in DuckDB as in Python: its expressions accept the same texts and its casts agree."""

import datetime as dt
import re

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.schema.encoding import DATE_TEXT, DAY_TEXT, FALSE_TEXT, NUMBER_TEXT, TRUE_TEXT

TEXTS = st.one_of(
    st.text(max_size=8),
    st.text("0123456789.eE+-_ \t\n\r\f\x0b\x1c\xa0xinfINFatyNA", max_size=12),
    st.from_regex(r"\s?[+-]?[0-9]{0,30}\.?[0-9]{0,30}([eE][+-]?[0-9]{1,4})?\s?", fullmatch=True),
    st.from_regex(
        r"\s?[0-9]{4}[-/][0-9]{1,2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?Z?)?\s?", fullmatch=True
    ),
    st.from_regex(r"\s?(?i:true|false|t|f|yes|no|y|n|1|0|inf|infinity|nan)\s?", fullmatch=True),
    st.dates().map(str),
    st.floats().map(str),
)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        yield connection


def test_the_rules_have_no_backslash_so_that_they_can_stand_in_any_database() -> None:
    assert not any("\\" in rule for rule in (NUMBER_TEXT, DATE_TEXT, DAY_TEXT, TRUE_TEXT, FALSE_TEXT))


@given(text=TEXTS)
def test_duckdb_accepts_the_same_texts_and_casts_them_to_the_same_values(database, text: str) -> None:
    question = ", ".join(f"regexp_full_match($1, ${place})" for place in range(2, 6))
    rules = [NUMBER_TEXT, DATE_TEXT, TRUE_TEXT, FALSE_TEXT]
    row = database.execute(f"SELECT {question}", [text, *rules]).fetchone()
    assert list(row) == [re.fullmatch(rule, text) is not None for rule in rules]
    if row[0]:
        (cast,) = database.execute("SELECT CAST($1 AS DOUBLE)", [text]).fetchone()
        assert repr(cast) == repr(float(text)) or cast != cast  # noqa: PLR0124
        assert (cast != cast) == ("nan" in text.lower())  # noqa: PLR0124
    if row[1]:
        (cast,) = database.execute(
            "SELECT TRY_CAST(regexp_extract($1, $2) AS DATE)::VARCHAR", [text, DAY_TEXT]
        ).fetchone()
        assert (cast if cast is None or "BC" not in cast else None) == day(text)


def day(text: str) -> str | None:
    """The day of a text, if the calendar has it."""
    try:
        return str(dt.date.fromisoformat(re.search(DAY_TEXT, text).group()))
    except ValueError:
        return None
