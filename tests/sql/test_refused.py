from __future__ import annotations

import pytest

from dodona.errors import InvalidRequest
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql
from tests.sql.pairs import blocks
from tests.sql.scene import SCHEMA

PAGE = blocks("refused.sql")


def test_the_page_has_at_least_200_statements():
    assert len({text for text, _ in PAGE}) >= 200


@pytest.mark.parametrize(("text", "notes"), PAGE, ids=[text[:80] for text, _ in PAGE])
def test_a_refused_statement_is_refused_at_its_place_and_says_why(text, notes):
    place, _, fragment = notes[-1].partition(" ")
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, SCHEMA)
    fault = caught.value
    assert f"{fault.line}:{fault.column}" == place
    assert fault.what == fragment
    assert len(fault.instead) > 5
    assert str(fault).endswith("Nothing was charged.")


@pytest.mark.parametrize(("text", "notes"), PAGE[::7], ids=[text[:80] for text, _ in PAGE[::7]])
def test_the_message_shows_the_line_with_a_caret_below_the_place(text, notes):
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, SCHEMA)
    head, line, caret, *_ = str(caught.value).split("\n")
    assert head == f"Line {caught.value.line}, column {caught.value.column}:"
    assert line[4:].strip() == text.split("\n")[caught.value.line - 1].strip()
    assert caret == " " * (caught.value.column + 3) + "^"
    assert notes


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("SELECT count(*) FORM stays", "Did you mean FROM?"),
        ("SELECT count(*) FROM stays WEHRE age > 3", "Did you mean WHERE?"),
        ("SELECT sex, count(*) FROM stays GRUOP BY sex", "Did you mean GROUP?"),
        ("SELECT sex, count(*) FROM stays GROUP BY sex HAVNIG count(*) > 3", "Did you mean HAVING?"),
        ("SELECT sex count(*) FROM stays", "Look for a missing comma, quote or bracket."),
        ("SHOW TABLES", "Tables and columns are shown by describe() in Python and by the command `dodona describe`."),
        ("SELECT count(*) FROM stays WHERE isnan(stay)", "Write column IS NULL."),
    ],
)
def test_a_refusal_says_what_to_write(text, instead):
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, SCHEMA)
    assert caught.value.instead == instead


def test_a_long_line_is_cut_around_the_place():
    text = "SELECT count(*) FROM stays WHERE " + "age > 3 AND " * 40 + "height > 3" + " AND age > 3" * 40
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, SCHEMA)
    _, line, caret, *_ = str(caught.value).split("\n")
    assert len(line) < 120
    assert line[caret.index("^") :].startswith("height > 3")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '\x1b[31m\x07', nothing FROM stays",
        'SELECT count(*) FROM stays WHERE "\x1b[31m" > 3',
        "SELECT count(*) FROM stays WHERE \ud800 > 3",
        "SELECT \x07(age) FROM stays",
        "SELECT count(*) FROM stays \x1b \x1b",
    ],
)
def test_no_control_character_of_the_text_comes_back(text):
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, SCHEMA)
    assert all(letter.isprintable() or letter == "\n" for letter in str(caught.value))


@pytest.mark.parametrize("text", [None, 3, b"SELECT count(*) FROM stays", ["SELECT"]])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(InvalidRequest, match="write SQL as a text"):
        compile_sql(text, SCHEMA)


def test_a_text_of_comments_alone_is_refused():
    with pytest.raises(InvalidSql, match="Only SELECT"):
        compile_sql("-- nothing\n/* at all */", SCHEMA)


def test_a_text_longer_than_100000_characters_is_refused():
    with pytest.raises(InvalidSql, match="100001 characters"):
        compile_sql("SELECT count(*) FROM stays".ljust(100_001), SCHEMA)
    assert compile_sql("SELECT count(*) FROM stays".ljust(100_000), SCHEMA).query.values == 1
