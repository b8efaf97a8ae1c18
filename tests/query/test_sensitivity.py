"""Sensitivities against every pair of small neighbouring tables."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

KINDS = range(3)
Row = int
Table = tuple[Row, ...]


def neighbours_of(table: Table, relation: Neighbours) -> list[Table]:
    """Every table that differs in one row."""
    shorter = [table[:place] + table[place + 1 :] for place in range(len(table))]
    if relation is Neighbours.ADD_REMOVE:
        return shorter + [(*table, row) for row in KINDS]
    return [(*rest, row) for rest in shorter for row in KINDS]


def histogram(table: Table) -> list[int]:
    return [table.count(kind) for kind in KINDS]


def overlapping(table: Table) -> list[int]:
    """Four counts, all of which a row of kind 2 is in."""
    return [sum(row >= bound for row in table) for bound in (0, 1, 2)] + [table.count(2)]


def one_count(table: Table) -> list[int]:
    return [table.count(1)]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(
    ("query", "stated"),
    [
        (one_count, Sensitivity.count),
        (histogram, Sensitivity.histogram),
        (overlapping, lambda relation: Sensitivity.counts(4, relation)),
    ],
    ids=["count", "histogram", "counts"],
)
def test_the_norms_are_the_largest_over_all_neighbours(query: object, stated: object, relation: Neighbours) -> None:
    """Counts may all move at once only if a row can be in all; those norms are bounds, the others are attained."""
    sensitivity = stated(relation)  # type: ignore[operator]
    changes = [
        [there - here for here, there in zip(query(table), query(other), strict=True)]  # type: ignore[operator]
        for size in range(4)
        for table in itertools.product(KINDS, repeat=size)
        for other in neighbours_of(table, relation)
    ]
    assert max(sum(map(abs, change)) for change in changes) == sensitivity.l1 - (
        0 if query is not overlapping or relation is Neighbours.ADD_REMOVE else 1
    )
    assert max(sum(step**2 for step in change) for change in changes) <= sensitivity.l2_squared
    assert max(abs(step) for change in changes for step in change) == sensitivity.linf
    one_way = all(min(change) >= 0 or max(change) <= 0 for change in changes)
    assert sensitivity.monotone <= one_way
    assert sensitivity.monotone == (relation is Neighbours.ADD_REMOVE)


def test_a_histogram_moves_two_cells_only_when_a_row_is_replaced() -> None:
    add, replace = Sensitivity.histogram(Neighbours.ADD_REMOVE), Sensitivity.histogram(Neighbours.REPLACE)
    assert (add.l1, add.l2_squared, add.linf, add.monotone) == (1, 1, 1, True)
    assert (replace.l1, replace.l2_squared, replace.linf, replace.monotone) == (2, 2, 1, False)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6))
def test_the_norms_of_any_whole_change_are_accepted(change: list[int]) -> None:
    assume(any(change))
    l1, squared, linf = sum(map(abs, change)), sum(step**2 for step in change), max(map(abs, change))
    assert Sensitivity(l1=l1, l2_squared=squared, linf=linf, neighbours=Neighbours.REPLACE).l1 == l1


@pytest.mark.parametrize(
    ("l1", "l2_squared", "linf", "named"),
    [
        (0, 1, 1, "l1"),
        (1, 0, 1, "l2_squared"),
        (1, 1, 0, "linf"),
        (1, 1, 2, "l2_squared"),
        (2, 3, 2, "l2_squared"),
        (10, 5, 1, "l2_squared"),
        (2, 5, 1, "l2_squared"),
        (1.5, 1, 1, "l1"),
        (True, 1, 1, "l1"),
        ("one", 1, 1, "l1"),
        (None, 1, 1, "l1"),
    ],
)
def test_norms_that_no_change_has_are_refused(l1: int, l2_squared: int, linf: int, named: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{named} = "):
        Sensitivity(l1=l1, l2_squared=l2_squared, linf=linf, neighbours=Neighbours.REPLACE)


def test_a_monotone_claim_under_replace_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"monotone = True .*both ways"):
        Sensitivity.scores(1, Neighbours.REPLACE, monotone=True)


@pytest.mark.parametrize("relation", ["replace", "add-remove", None, 0])
def test_a_relation_in_other_words_is_refused(relation: object) -> None:
    """A word that merely equals a relation's value would slip past the check of monotone claims."""
    with pytest.raises(InvalidArgument, match="neighbours = "):
        Sensitivity(l1=1, l2_squared=1, linf=1, neighbours=relation, monotone=True)  # type: ignore[arg-type]


def test_numbers_are_kept_as_integers() -> None:
    sensitivity = Sensitivity(l1=3.0, l2_squared=9, linf=3, neighbours=Neighbours.REPLACE)  # type: ignore[arg-type]
    assert type(sensitivity.l1) is int


def test_scores_may_change_by_as_much_as_integers_reach() -> None:
    assert Sensitivity.scores(1 << 60, Neighbours.REPLACE).linf == 1 << 60
    with pytest.raises(InvalidArgument, match="largest_change = "):
        Sensitivity.scores(0, Neighbours.REPLACE)
    with pytest.raises(InvalidArgument, match="answers = "):
        Sensitivity.counts(0, Neighbours.REPLACE)
