from __future__ import annotations

import random
import time

import pytest

from dodona.errors import InvalidRequest
from dodona.query.question import Question
from dodona.query.statement import Statement
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql
from dodona.sql.statement import check_statement, read_statement
from tests.sql.scene import COMPLETE, SCHEMA
from tests.sql.soup import statement, text

LONGEST = 60.0
"""Processor seconds after which a text counts as one that hangs the compiler; most take a thousandth of one."""


def feed(seed: int, texts: int, *, schema: Schema = SCHEMA) -> tuple[int, int]:
    """Return how many texts were accepted and refused; anything else than these two comes out as it is."""
    generator = random.Random(seed)  # noqa: S311  made-up texts from a stated seed
    accepted = refused = 0
    for _ in range(texts):
        question = text(generator)
        begin = time.process_time()
        try:
            found: Question | InvalidRequest = compile_sql(question, schema)
        except InvalidRequest as fault:
            found = fault
        if isinstance(found, Question):
            accepted += 1
        else:
            assert not found.charged
            refused += 1
        assert time.process_time() - begin < LONGEST, question
    return accepted, refused


def test_of_1000_odd_texts_each_is_accepted_or_refused():
    accepted, refused = feed(1, 1_000)
    assert accepted > 10
    assert refused > 500


def test_of_300_odd_texts_about_complete_columns_each_is_accepted_or_refused():
    accepted, refused = feed(3, 300, schema=COMPLETE)
    assert accepted > 3
    assert refused > 150


@pytest.mark.slow
def test_of_4000_odd_texts_each_is_accepted_or_refused():
    accepted, refused = feed(2, 4_000)
    assert accepted > 40
    assert refused > 2_000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_of_a_million_odd_texts_each_is_accepted_or_refused(seed):
    accepted, refused = feed(seed, 100_000)
    assert accepted > 1_000
    assert refused > 50_000


def feed_statements(seed: int, texts: int) -> tuple[int, int]:
    """Return how many statements were accepted and refused; anything else than these two comes out as it is."""
    generator = random.Random(seed)  # noqa: S311  made-up texts from a stated seed
    accepted = refused = 0
    for _ in range(texts):
        asked = statement(generator)
        fault: InvalidRequest | None = None
        try:
            found = read_statement(asked, SCHEMA)
            if isinstance(found, Statement) and found.sql:
                check_statement(found)
        except InvalidRequest as refusal:
            fault = refusal
        except Exception as crash:
            raise AssertionError(asked) from crash
        accepted, refused = accepted + (fault is None), refused + (fault is not None)
        assert fault is None or (not fault.charged and str(fault).endswith("Nothing was charged.")), asked
    return accepted, refused


def test_of_300_odd_statements_each_is_accepted_or_refused():
    accepted, refused = feed_statements(1, 300)
    assert accepted > 30
    assert refused > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
def test_of_a_million_odd_statements_each_is_accepted_or_refused(seed):
    accepted, refused = feed_statements(seed, 50_000)
    assert accepted > 5_000
    assert refused > 10_000
