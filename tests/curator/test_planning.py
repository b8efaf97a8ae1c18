"""Plans of many questions: the noise of each is what it would have alone."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dodona.curator.planner import MAX_PLANNED_COLUMNS, Planner
from dodona.curator.request import Request
from dodona.errors import InvalidRequest
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.privacy.conversion import standalone_epsilon
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.query.question import Question, question_from_query
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql

SCHEMA = Schema.of("stays", Integer("age", 0, 110), Category("sex", ["female", "male"]), Boolean("urgent"), size=50_000)


def planner() -> Planner:
    budget = Budget(1, "1e-6", "renyi")
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={"stays": SCHEMA.digest}, neighbours=SCHEMA.unit.neighbours, budget=budget)
    )
    return Planner(SCHEMA.unit, budget, ledger.share_each)


def counts(number: int) -> list[Query]:
    return [
        Query.count(SCHEMA.domain, among(SCHEMA.domain["age"], range(first, 111))) for first in range(1, number + 1)
    ]


def selected(*columns: str, schema: Schema = SCHEMA) -> Question:
    return compile_sql(f"SELECT {', '.join(columns)} FROM {schema.table}", schema)  # noqa: S608  written here


@pytest.mark.parametrize("within", [50, "1%"])
def test_counts_and_sums_of_a_batch_may_be_as_far_off_as_each_of_them_alone(within) -> None:
    request = Request(within=within, epsilon=None, confidence=0.95)
    asked = tuple(question_from_query(query) for query in [*counts(5), Query.sum(SCHEMA.domain, "age"), *counts(3)])
    together = planner().plan(asked, request).measurement.noises
    law = type(together[0])
    alone = [law.for_accuracy(_target(within, question)) for question in asked]
    assert list(together) == alone


def _target(within, question):
    from dodona.curator.request import resolve_tolerance
    from dodona.privacy.accuracy import Accuracy

    tolerance = resolve_tolerance(question, question.columns[0], within, size=SCHEMA.unit.size)
    return Accuracy(within=tolerance / float(question.query.blocks[0].unit), confidence=0.95)


def test_a_few_counts_for_a_price_cost_that_price_and_many_get_the_law_that_is_better_for_them() -> None:
    request = Request(within=None, epsilon=Fraction(1, 2), confidence=0.95)
    few, many = (planner().plan(tuple(map(question_from_query, counts(number))), request) for number in (2, 80))
    assert len(set(few.measurement.noises)) == len(set(many.measurement.noises)) == 1
    assert few.event.epsilon is not None
    assert Fraction(499, 1000) <= few.event.epsilon <= Fraction(1, 2)
    assert isinstance(many.measurement.noises[0], Gaussian)
    assert 0.49 <= standalone_epsilon(many.event, Fraction("1e-6")) <= 0.5


def test_for_a_price_the_law_with_the_smaller_error_is_drawn_among_those_that_the_call_may_pay_for() -> None:
    question = (question_from_query(counts(1)[0]),)
    request = Request(within=None, epsilon=Fraction("0.9"), confidence=0.95)
    budget = Budget(1, "1e-6", "zcdp")
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={"stays": SCHEMA.digest}, neighbours=SCHEMA.unit.neighbours, budget=budget)
    )
    zcdp = Planner(SCHEMA.unit, budget, ledger.share_each)
    fits = zcdp.plan(question, request)
    assert isinstance(fits.measurement.noises[0], Gaussian)
    assert fits.share <= 1
    dear = zcdp.plan(question, replace(request, max_price=Fraction(1, 50)))
    assert dear.share == fits.share  # none fits: the cheaper one
    all_fit = zcdp.plan(question, replace(request, max_price=Fraction(100)))
    assert isinstance(all_fit.measurement.noises[0], Laplace)
    assert all_fit.share > 10


def test_a_question_of_several_columns_among_counts_keeps_its_own_plan() -> None:
    request = Request(within="1%", epsilon=None, confidence=0.95)
    mean = compile_sql("SELECT avg(age) FROM stays", SCHEMA)
    asked = (question_from_query(counts(1)[0]), mean, question_from_query(counts(2)[1]))
    together = planner().plan(asked, request).measurement
    assert len(together.noises) == len(together.query.blocks) == 4
    assert together.noises[1:3] == planner().plan((mean,), request).measurement.noises
    assert together.noises[0] == together.noises[3] == planner().plan(asked[:1], request).measurement.noises[0]


def test_columns_that_differ_in_their_conditions_alone_get_the_noise_that_each_gets_alone() -> None:
    request = Request(within=2, epsilon=None, confidence=0.95)
    texts = [
        f"avg(age) FILTER (WHERE age >= {low}), stddev(age) FILTER (WHERE age < {low + 9})" for low in (10, 20, 30)
    ]
    question = selected(*texts, "median(age)")
    together = planner().plan((question,), request).measurement.noises
    alone = [planner().plan((selected(text),), request) for text in texts]
    expected = [noise for planned in alone for noise in planned.measurement.noises]
    assert {str(noise) for noise in expected} <= {str(noise) for noise in together}


def test_more_columns_than_are_planned_in_a_few_seconds_are_refused_before_any_is_planned() -> None:
    request = Request(within="1%", epsilon=None, confidence=0.95)
    columns = [Integer(f"c{place:03}", 0, 100) for place in range(MAX_PLANNED_COLUMNS + 1)]
    schema = Schema.of("wide", *columns, size=50_000)
    wide = selected(*(f"avg({column.name})" for column in columns), schema=schema)
    with pytest.raises(InvalidRequest, match=f"{MAX_PLANNED_COLUMNS + 1} different averages.* Ask for fewer columns"):
        planner().plan((wide,), request)
    with pytest.raises(InvalidRequest, match="different averages"):
        planner().plan((wide,), Request(within=None, epsilon=Fraction(1, 2), confidence=0.95))
    medians = selected(*(f"median({column.name})" for column in columns[:26]), schema=schema)
    with pytest.raises(InvalidRequest, match="or 25 quantiles"):
        planner().plan((medians,), request)
    filtered = [f"avg(c000) FILTER (WHERE c001 >= {low})" for low in range(101)]
    asked = selected(*filtered, schema=schema)
    assert len(planner().plan((asked,), request).measurement.noises) == len(asked.query.blocks)
