"""Public constraints: what they forbid, cell by cell, and which of them contradict each other."""

from __future__ import annotations

import datetime as dt
from itertools import product

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.knowledge.cells import Support
from dodona.knowledge.constraints import InvalidConstraint, compile_constraints, forbidden_rows, impossible_cells
from dodona.query.predicate import NOTHING, evaluate_predicate
from dodona.schema.attributes import Boolean, Category, Date, Integer
from dodona.schema.schema import Constraint, Schema

CHILD = Constraint(when="age < 15", then="status = 'never married'")


def schema(*constraints: Constraint) -> Schema:
    return Schema.of(
        "people",
        Integer("age", 0, 20),
        Category("status", ["never married", "married", "widowed"]),
        Boolean("pupil"),
        Date("born", dt.date(2024, 1, 1), dt.date(2024, 1, 9)),
        Date("died", dt.date(2024, 1, 1), dt.date(2024, 1, 9)),
        size=100,
        constraints=constraints,
    )


def support(*names: str) -> Support:
    return Support.of(schema().domain.project(names))


def test_cells_that_break_a_constraint_are_impossible_and_unknown_values_are_not():
    impossible = impossible_cells(compile_constraints(schema(CHILD)), support("age", "status"))
    assert impossible is not None
    for age, status in product(range(23), range(5)):  # 21 is missing and 22 outside, and so are 3 and 4
        assert impossible[age, status] == (age < 15 and status in {1, 2, 4}), (age, status)


def test_a_constraint_is_broadcast_over_columns_that_it_does_not_compare():
    narrow = impossible_cells(compile_constraints(schema(CHILD)), support("age", "status"))
    wide = impossible_cells(compile_constraints(schema(CHILD)), support("age", "status", "pupil"))
    assert narrow is not None
    assert wide is not None
    assert wide.shape == (23, 5, 4)
    assert (wide == narrow[:, :, None]).all()


def test_a_constraint_on_more_columns_forbids_what_they_forbid_whatever_else_a_row_has():
    made = compile_constraints(schema(Constraint(never="age < 3 AND (pupil OR coalesce(NOT pupil, TRUE))"), CHILD))
    impossible = impossible_cells(made, support("age"))
    assert impossible is not None
    assert impossible.tolist() == [age < 3 for age in range(23)]
    assert impossible_cells(compile_constraints(schema(CHILD)), support("age")) is None
    assert impossible_cells(compile_constraints(schema(CHILD)), support("pupil")) is None


def test_two_columns_may_be_compared_with_each_other():
    impossible = impossible_cells(compile_constraints(schema(Constraint(never="died < born"))), support("born", "died"))
    assert impossible is not None
    for born, died in product(range(11), range(11)):
        assert impossible[born, died] == (born < 9 and died < 9 and died < born)


def test_rows_are_compared_by_the_constraints_on_their_columns():
    made = compile_constraints(schema(CHILD, Constraint(never="pupil AND status = 'widowed'")))
    assert forbidden_rows(made, ["age"]) == NOTHING
    forbidden = forbidden_rows(made, ["age", "status"])
    codes = {"age": np.array([3, 3, 19]), "status": np.array([0, 1, 1])}
    assert evaluate_predicate(forbidden, codes).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ((CHILD, Constraint(when="age < 10", then="status = 'married'")), "`when age < 15 .*` and `when age < 10 .*`"),
        ((CHILD, Constraint(never="age < 15 AND status = 'never married'")), "contradict each other"),
        ((CHILD, Constraint(when="age >= 10", then="pupil"), Constraint(never="status IS NULL")), None),
        ((Constraint(when="age < 15", then="status = 'married' AND status = 'widowed'"),), "lets no row meet"),
        ((Constraint(when="pupil", then="age < 10"), Constraint(when="pupil", then="age >= 10")), "contradict"),
        ((Constraint(never="age >= 0"), Constraint(never="age IS NULL OR age < 0")), None),
        ((Constraint(when="height > 3", then="pupil"),), "cannot be read: .*height"),
        ((Constraint(never="pupil GROUP BY status"),), "more than a condition"),
        ((Constraint(never="pupil LIMIT 1"),), "more than a condition"),
    ],
)
def test_what_cannot_be_met_or_read_is_refused_and_named(constraints: tuple[Constraint, ...], said: str | None):
    if said is None:
        compile_constraints(schema(*constraints))
        return
    with pytest.raises(InvalidConstraint, match=said):
        compile_constraints(schema(*constraints))


def test_a_pair_may_agree_and_three_together_may_not():
    listed = [Constraint(never="pupil"), Constraint(never="NOT pupil"), Constraint(never="pupil IS NULL")]
    outside = Schema.of("people", Boolean("pupil", otherwise=False), size=9, constraints=listed)
    with pytest.raises(InvalidConstraint, match="No row can meet all"):
        compile_constraints(outside)


@pytest.mark.parametrize("given", [{}, {"when": "a"}, {"then": "a"}, {"when": "a", "then": "b", "never": "c"}])
def test_a_constraint_has_one_of_two_forms(given: dict[str, str]):
    with pytest.raises(InvalidArgument, match="when= and then=, or never="):
        Constraint(**given)


def test_constraints_do_not_change_what_a_ledger_is_bound_to():
    assert schema().digest == schema(CHILD).digest
