"""Tables of people: one row a person, priced as one row, with the same meaning however they are written."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.canonical import query_digest, to_json
from dodona.query.person_table import PersonColumn, PersonTable, copied_column, person_column, total_bounds
from dodona.query.predicate import EVERYTHING, among
from dodona.query.query import Block, CaseWeight, ConstantWeight, PeopleWeight, Query, ValueWeight, block_weights
from dodona.query.sensitivity import row_sensitivity, unit_sensitivity
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours, Unit
from tests.house.shares import examples
from tests.query.drawing import Row, blocks, contribution, is_meant, predicates

BOTH = pytest.mark.parametrize("relation", list(Neighbours))
SMALL = Domain((Boolean("urgent"), Integer("age", 0, 2, otherwise=0)))
ROWS = [
    dict(zip(SMALL.names, codes, strict=True))
    for codes in itertools.product(*(range(attribute.cells) for attribute in SMALL))
]
MOST = 2
AGE = ValueWeight("age", 3, -1, 1)
"""age - 1, so that a sum may be negative."""


def columns() -> st.SearchStrategy[PersonColumn]:
    where = predicates(SMALL)
    return st.one_of(
        where.map(lambda own: person_column("count", own, bounds=(0, MOST))),
        where.map(lambda own: person_column("sum", own, AGE, bounds=total_bounds(AGE, MOST))),
        where.map(lambda own: person_column("sum", own, AGE, bounds=(-1, 1))),
        where.map(lambda own: person_column("sum", own, AGE, unit=Fraction(1, 2), bounds=(-2, 2), width=2)),
        where.map(lambda own: copied_column(SMALL["urgent"], "least", own)),
        where.map(lambda own: copied_column(SMALL["age"], "greatest", own)),
    )


@st.composite
def tables(draw: st.DrawFn) -> PersonTable:
    count = person_column("count", draw(predicates(SMALL)), bounds=(0, MOST))
    other = draw(columns().filter(lambda own: own != count))
    return PersonTable(draw(predicates(SMALL)), (count, other))


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Blocks over one or two tables of people, beside blocks over rows and counts of people."""
    parts: list[Block] = []
    for table in draw(st.lists(tables(), min_size=1, max_size=2)):
        inner = draw(st.lists(blocks(table.domain), min_size=1, max_size=2))
        parts += [Block(block.where, block.keys, block.weight, block.unit, table) for block in inner]
    parts += draw(st.lists(blocks(SMALL), max_size=1))
    if draw(st.booleans()):
        parts.append(Block(draw(predicates(SMALL)), (), PeopleWeight()))
    return Query(SMALL, tuple(parts))


def person_row(table: PersonTable, rows: tuple[Row, ...]) -> Row | None:
    """The row of a person in a table of people, straight from the words of its page; None if there is none."""
    meant = [row for row in rows if is_meant(table.where, row)]
    if not meant:
        return None
    codes: Row = {}
    for column in table.columns:
        weights = [
            contribution(Block(column.where, (), column.weight), row)[1] for row in meant if is_meant(column.where, row)
        ]
        if not weights:
            codes[column.attribute.name] = column.absent
            continue
        total = {"count": sum, "sum": sum, "least": min, "greatest": max}[column.aggregate](weights)
        codes[column.attribute.name] = min(max((total - column.lower) // column.width, 0), column.attribute.size - 1)
    return codes


def answers(query: Query, rows: tuple[Row, ...]) -> Counter[tuple[int, tuple[int, ...]]]:
    """What one person's rows add to every answer."""
    totals: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for number, block in enumerate(query.blocks):
        if block.table is not None:
            person = person_row(block.table, rows)
            listed = () if person is None else (person,)
            plain = Block(block.where, block.keys, block.weight)
        elif isinstance(block.weight, PeopleWeight):
            totals[number, ()] = int(any(is_meant(block.where, row) for row in rows))
            continue
        else:
            listed, plain = rows, block
        for group, weight in (contribution(plain, row) for row in listed):
            totals[number, group] += weight
    return totals


def people() -> list[tuple[Row, ...]]:
    return [rows for number in range(MOST + 1) for rows in itertools.combinations_with_replacement(ROWS, number)]


@BOTH
@given(query=queries())
@settings(max_examples=examples(40), deadline=None)
def test_no_person_moves_answers_about_people_farther_than_priced(relation: Neighbours, query: Query):
    priced = unit_sensitivity(query, Unit(neighbours=relation, size=100, id="who", rows=MOST))
    tables = [answers(query, rows) for rows in people()]
    nobody: Counter[tuple[int, tuple[int, ...]]] = Counter()
    pairs = (
        ((table, nobody) for table in tables)
        if relation is Neighbours.ADD_REMOVE
        else itertools.combinations(tables, 2)
    )
    for table, other in pairs:
        steps = [table[place] - other[place] for place in table.keys() | other.keys()] or [0]
        assert sum(map(abs, steps)) <= priced.l1
        assert sum(step * step for step in steps) <= priced.l2_squared
        assert max(map(abs, steps)) <= priced.linf
        if priced.monotone:
            assert min(steps) >= 0 or max(steps) <= 0


@BOTH
def test_people_by_number_of_rows_cost_what_one_row_costs_whatever_the_cap(relation: Neighbours):
    table = PersonTable(EVERYTHING, (person_column("count", bounds=(1, 200)),))
    by_number = Query(SMALL, (Block(keys=(Partition.of(table.domain.attributes[0]),), table=table),))
    priced = unit_sensitivity(by_number, Unit(neighbours=relation, size=100, id="who", rows=200))
    assert (priced.l1, priced.linf) == (1 if relation is Neighbours.ADD_REMOVE else 2, 1)


@given(query=queries())
@settings(max_examples=examples(60), deadline=None)
def test_a_query_about_people_is_read_back_with_the_same_meaning(query: Query):
    again = from_json(to_json(query), SMALL)
    assert again == query
    assert query_digest(again) == query_digest(query)


def test_the_digest_tells_definitions_apart_and_nothing_else():
    def asked(*own: PersonColumn, where=EVERYTHING) -> str:
        table = PersonTable(where, own)
        inner = Block(among(own[0].attribute, [1]), table=table)
        return query_digest(Query(SMALL, (inner,)))

    urgent = among(SMALL["urgent"], [1])
    count = person_column("count", bounds=(0, 4))
    assert asked(count) == asked(person_column("count", bounds=(0, 4)))
    others = [
        asked(person_column("count", bounds=(0, 5))),
        asked(person_column("count", urgent, bounds=(0, 4))),
        asked(person_column("sum", EVERYTHING, AGE, bounds=(0, 4))),
        asked(count, where=urgent),
    ]
    assert len({asked(count), *others}) == 5


@given(table=tables(), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_codes_are_what_the_definition_says(table: PersonTable, data: st.DataObject):
    rows = data.draw(st.lists(st.tuples(st.sampled_from(ROWS), st.integers(0, 3)), max_size=8))
    axes = {name: np.array([row[name] for row, _ in rows], dtype=np.int64) for name in SMALL.names}
    who = np.array([person for _, person in rows], dtype=np.int64)
    codes = table.codes(axes, who)
    by_hand = [
        person_row(table, tuple(row for row, owner in rows if owner == person)) for person in sorted(set(who.tolist()))
    ]
    kept = [row for row in by_hand if row is not None]
    assert table.rows(axes, who) == len(kept)
    for name in table.domain.names:
        assert codes[name].tolist() == [row[name] for row in kept]


def test_a_total_beyond_its_bounds_counts_as_the_bound():
    table = PersonTable(EVERYTHING, (person_column("sum", EVERYTHING, AGE, bounds=(-1, 1)),))
    axes = {"urgent": np.zeros(5, dtype=np.int64), "age": np.array([2, 2, 0, 0, 1], dtype=np.int64)}
    (codes,) = table.codes(axes, np.array([0, 0, 1, 1, 2], dtype=np.int64)).values()
    assert codes.tolist() == [2, 0, 1]


def test_a_sum_with_many_values_is_put_on_a_coarser_grid():
    column = person_column("sum", weight=AGE, bounds=(0, 10**9))
    assert column.attribute.size <= 1 << 20
    assert column.bounds[1] >= 10**9


def test_a_table_of_people_fits_its_rows_or_is_refused():
    forged = PersonColumn(Integer("n", 0, 1), "count", EVERYTHING, ConstantWeight(1), 0, 1)
    with pytest.raises(InvalidArgument, match="person_column"):
        Query(SMALL, (Block(table=PersonTable(EVERYTHING, (forged,))),))
    other = PersonTable(among(Boolean("planned"), [1]), ())
    with pytest.raises(InvalidArgument, match="planned"):
        Query(SMALL, (Block(table=other),))
    with pytest.raises(InvalidArgument, match="people"):
        Query(SMALL, (Block(weight=PeopleWeight(), table=PersonTable(EVERYTHING)),))
    with pytest.raises(InvalidArgument):
        person_column("greatest", weight=CaseWeight((), ConstantWeight(1)), bounds=(0, 1), present=True)


def test_a_table_of_people_is_nothing_that_rows_or_cells_decide():
    query = Query(SMALL, (Block(table=PersonTable(EVERYTHING)),))
    with pytest.raises(InvalidArgument, match="people"):
        row_sensitivity(query, Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidArgument, match="people"):
        block_weights(query.blocks[0], {})
    with pytest.raises(InvalidArgument, match="tell people apart"):
        unit_sensitivity(query, Unit.each_row(Neighbours.ADD_REMOVE))
