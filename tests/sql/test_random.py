"""Random statements mean what they mean in DuckDB, and cost what a walk through all cells says."""

from random import Random

import numpy as np
import pytest

from dodona.query.canonical import query_digest, to_json
from dodona.query.query import Query, block_weights, product_axes, product_shape
from dodona.query.question import PublicValue, Question
from dodona.query.sensitivity import row_sensitivity
from dodona.query.spelling import from_json
from dodona.schema.schema import Neighbours
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql
from tests.sql.drawing import statement
from tests.sql.oracle import Exact
from tests.sql.scene import SCHEMA, database, rows
from tests.sql.test_accepted import _agree, _meant

MOST_CELLS = 1 << 17


def agrees(seed: int, number: int) -> int:
    """Hold random statements to DuckDB; return how many were answered."""
    draw, answered = Random(seed), 0  # noqa: S311
    for _ in range(number):
        text, other = statement(draw)
        try:
            question = compile_sql(text, SCHEMA)
        except InvalidSql:
            continue
        expected = [_told(question, row) for row in database(outside=False).execute(other).fetchall()]
        try:
            _agree(Exact(question, _meant(text, SCHEMA), rows(outside=False)).rows(), expected)
        except AssertionError as fault:
            raise AssertionError(text) from fault
        assert query_digest(from_json(to_json(question.query), SCHEMA.domain)) == query_digest(question.query)
        answered += 1
    return answered


def _told(question: Question, row: tuple[object, ...]) -> tuple[object, ...]:
    """A row as it may be told: an average of a constant is that, also of no rows, where SQL has NULL and tells so."""
    pairs = zip(question.columns, row, strict=True)
    return tuple(
        column.expression.value if value is None and isinstance(column.expression, PublicValue) else value
        for column, value in pairs
    )


def test_a_random_statement_means_what_it_means_in_duckdb():
    assert agrees(1, 120) >= 90


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_statements_mean_what_they_mean_in_duckdb(seed):
    assert agrees(seed, 1_000) >= 750


def largest_weight(query: Query) -> int:
    """The largest weight of one row in any block, by a walk through all cells that the block reads."""
    largest = 0
    for block in query.blocks:
        names = sorted(block.attributes)
        if np.prod(product_shape(SCHEMA.domain, names)) <= MOST_CELLS:
            largest = max(largest, int(np.abs(block_weights(block, product_axes(SCHEMA.domain, names))).max()))
    return largest


def test_a_random_statement_is_never_priced_below_a_walk_through_its_cells():
    draw = Random(5)  # noqa: S311
    for _ in range(60):
        try:
            query = compile_sql(statement(draw)[0], SCHEMA).query
        except InvalidSql:
            continue
        assert row_sensitivity(query, Neighbours.ADD_REMOVE).linf >= largest_weight(query)
