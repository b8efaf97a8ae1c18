"""Beliefs and derivations over columns without `<missing>` and `<outside>`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.knowledge.cells import Support
from dodona.knowledge.derive import derive
from dodona.knowledge.patterns import BlockMeasurement, block_vectors
from dodona.privacy.additive_noise import Laplace
from dodona.query.column import columns
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.knowledge.explicit import bits, matrix
from tests.query.drawing import blocks

DOMAIN = Domain((Boolean("urgent", otherwise=False), Category("sex", ["f", "m"], otherwise="m"), Integer("age", 0, 1)))
COMPLETE = Domain((Boolean("urgent", otherwise=False), Integer("age", 0, 3, bins=[0, 2, 3], otherwise=3)))
NOISE = Laplace(scale=2)


def rank(rows: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(rows)) if rows.size else 0


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None)
@given(
    st.sampled_from([DOMAIN, COMPLETE]).flatmap(
        lambda domain: st.tuples(st.just(domain), st.lists(blocks(domain), min_size=1, max_size=3), blocks(domain))
    )
)
def test_just_what_follows_from_what_was_told_is_derived(drawn) -> None:
    """A block follows where its weights over all cells are combinations of those that were told."""
    domain, released, asked = drawn
    support = Support.of(domain)
    known = np.concatenate([matrix(block, support) for block in released])
    follows = rank(np.concatenate([known, matrix(asked, support)])) == rank(known)
    releases = [BlockMeasurement(block, (0,) * block.values, NOISE) for block in released]
    assert (derive(Query(domain, (asked,)), releases) is not None) == follows


@settings(max_examples=examples(80), deadline=None)
@given(blocks(COMPLETE), blocks(COMPLETE))
def test_two_questions_have_one_vector_just_if_they_are_the_same(first: Block, second: Block) -> None:
    support = Support.of(COMPLETE)
    same = np.array_equal(matrix(first, support), matrix(second, support))
    assert (block_vectors(first, COMPLETE) == block_vectors(second, COMPLETE)) == same


def test_the_rest_of_a_complete_column_follows_from_the_total_and_the_others() -> None:
    urgent = columns(DOMAIN).urgent == True  # noqa: E712
    releases = [
        BlockMeasurement(Query.count(DOMAIN).blocks[0], (30,), NOISE),
        BlockMeasurement(Block(urgent), (12,), NOISE),
    ]
    estimates = derive(Query.count(DOMAIN, ~urgent), releases)
    assert estimates is not None
    assert estimates[0].value == 18
    calm = columns(DOMAIN).urgent == False  # noqa: E712
    assert calm == ~urgent


def test_the_values_of_complete_columns_are_all_cells() -> None:
    domain = Domain(tuple(Boolean(f"b{place:02}", otherwise=False) for place in range(8)))
    assert Support.of(domain) == Support.values(domain)
    assert Support.of(domain).size == Support.values(bits(8)).size == 256
