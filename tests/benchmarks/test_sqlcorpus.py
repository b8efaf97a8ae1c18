"""The corpus of statements: nine of ten are to be answered, and those that show rows are refused."""

import pytest

from benchmarks import sqlcorpus
from dodona.errors import InvalidRequest
from dodona.query.statement import Statement
from dodona.sql.compile import read_statement
from dodona.sql.statement import check_statement

CORPUS = sqlcorpus.corpus()
LEAST = 0.9
"""The share of answerable statements that must be answered."""


def answered(text: str) -> bool:
    try:
        asked = read_statement(text, sqlcorpus.SCHEMA)
        if isinstance(asked, Statement) and asked.sql:
            check_statement(asked)
    except InvalidRequest:
        return False
    return True


def test_the_corpus_has_at_least_150_statements() -> None:
    assert len({text for text, _ in CORPUS}) >= 150


def test_enough_of_the_answerable_statements_are_answered() -> None:
    outcomes = [answered(text) for text, answerable in CORPUS if answerable]
    assert sum(outcomes) / len(outcomes) >= LEAST


@pytest.mark.parametrize("text", [text for text, answerable in CORPUS if not answerable])
def test_what_is_not_answerable_is_refused(text: str) -> None:
    assert not answered(text)
