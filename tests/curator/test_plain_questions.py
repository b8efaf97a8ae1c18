"""Plain questions in plain orders, under all accountants and both relations: each is answered at its price."""

import gc
from itertools import combinations, product

import pytest

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidRequest, Refused
from dodona.ledger import memory
from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.query.predicate import among_mask, conjunction
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Integer, Number
from dodona.schema.schema import Neighbours, Schema
from tests.curator.scene import DEFAULT, columns, ledger, schema

ROWS = 1_000
ACCOUNTANTS = ["pure", "zcdp", "renyi", "either"]
RELATIONS = ["add-remove", "replace"]


def flags(relation="add-remove"):
    """Three flags and a small number."""
    named = [Boolean(name) for name in "abc"]
    return Schema.of("t", *named, Integer("x", 0, 9), size=ROWS, neighbours=Neighbours(relation))


def wide(relation="add-remove"):
    """Three columns of 200 values, and a flag."""
    named = [Integer(name, 0, 199) for name in "def"]
    return Schema.of("t", *named, Boolean("a"), size=ROWS, neighbours=Neighbours(relation))


def opened(declared, accountant="renyi", *, epsilon=10, rows=ROWS):
    columns = {
        attribute.name: [
            (row * (place + 3) // 2) % 2 == 0 if isinstance(attribute, Boolean) else row % attribute.size
            for row in range(rows)
        ]
        for place, attribute in enumerate(declared.domain)
    }
    budget = Budget(epsilon, 0 if accountant == "pure" else "1e-6", accountant)
    terms = LedgerTerms(datasets={"t": declared.digest}, neighbours=declared.unit.neighbours, budget=budget)
    source = MemorySource(declared, columns, version="1")
    return Curator(
        Dataset(name="t", schema=declared, source=source, ledger=memory.create_memory_ledger(terms), default=DEFAULT)
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("within", [20, "1%", 300])
def test_all_rows_are_counted_after_a_conjunction(accountant, relation, within):
    curator = opened(flags(relation), accountant)
    curator.ask("SELECT count(*) FROM t WHERE a AND b AND c", within=within)
    offered = curator.quote("SELECT count(*) FROM t", within=within)
    before = curator.budget.spent
    answer = curator.ask("SELECT count(*) FROM t", within=within)
    assert answer.value.within <= (10 if within == "1%" else within)
    assert curator.budget.spent - before == answer.price.share == offered.price.share


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("asked", [{"within": 20}, {"within": "1%"}, {"epsilon": 1}])
def test_where_the_size_is_public_the_first_question_may_be_for_it_and_is_free(accountant, asked):
    curator = opened(flags("replace"), accountant)
    assert curator.quote("SELECT count(*) FROM t", **asked).price.share == 0
    answer = curator.ask("SELECT count(*) FROM t", **asked)
    assert (answer.value.value, answer.value.within) == (ROWS, 0)
    assert curator.ask("SELECT sum(5) FROM t", **asked).value.value == 5 * ROWS
    assert curator.budget.spent == 0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("accountant", ["pure", "renyi"])
def test_several_wide_columns_leave_a_dataset_answerable(accountant, relation):
    curator = opened(wide(relation), accountant, epsilon=100)
    conditions = ("d = 4 AND a", "e = 4 AND a", "f = 4 AND a", "d < 9 AND e > 3 AND f = 3", "f = 4 AND NOT a")
    for condition in conditions:
        assert curator.ask(f"SELECT count(*) FROM t WHERE {condition}", within=50).value.within <= 50  # noqa: S608
    together = [f"SELECT count(*) FROM t WHERE d = {code} AND e = {code} AND f = {code}" for code in range(5)]  # noqa: S608
    assert all(answer.value.within <= 50 for answer in curator.ask_many(together, within=50))


def test_a_count_of_a_large_batch_is_its_question_its_values_and_its_answer():
    """Further objects of each would start a full garbage collection in every batch of some ten thousand."""
    declared = Schema.of("t", *[Boolean(f"c{place}") for place in range(8)], size=ROWS)
    queries = [
        Query.count(declared.domain, conjunction(*map(among_mask, columns, codes)))
        for columns in combinations(declared.domain, 3)
        for codes in product((0b01, 0b10), repeat=3)
    ]
    curator = opened(declared, epsilon=100)
    assert {answer.source for answer in curator.ask_many(queries, within=100)} == {"measured"}
    gc.collect()
    before = len(gc.get_objects())
    answers = curator.ask_many(queries, within=100)
    for _ in range(3):  # tuples of numbers are let go by the second collection
        gc.collect()
    kept = len(gc.get_objects()) - before
    assert {answer.source for answer in answers} == {"derived"}
    assert 2.9 * 448 <= kept <= 3.2 * 448


@pytest.mark.parametrize("hidden", ["ORDER BY avg(x)", "HAVING avg(x) > 3", "ORDER BY median(x)", "ORDER BY stddev(x)"])
def test_what_only_orders_or_filters_groups_is_asked_for_too(hidden):
    curator = opened(flags(), epsilon=100)
    curator.ask("SELECT a, x, count(*) FROM t GROUP BY a, x", within=20)  # all counts of `a` follow from it
    answer = curator.ask(f"SELECT a, count(*) FROM t GROUP BY a {hidden}", within=200)  # noqa: S608
    assert answer.source == "measured"
    assert all(row.estimates[0].within <= 200 for row in answer.rows)


CONSTANTS = {
    "avg(x) FROM t WHERE x = 3": 3,
    "avg(5) FROM t": 5,
    "stddev(x) FROM t WHERE x = 3": 0,
    "var_pop(7) FROM t WHERE a": 0,
    "avg(CASE WHEN a THEN 1 ELSE 0 END) FROM t WHERE a": 1,
    "count(*) FILTER (WHERE a) / count(*) FROM t WHERE a": 1,
    "2 * avg(x) - 1 FROM t WHERE x = 3": 5,
    "count(*) FROM t WHERE x = 3 AND x = 4": 0,
    "sum(0) FROM t": 0,
    "sum(x * 0) FROM t": 0,
    "sum(x) FROM t WHERE x = 0": 0,
    "sum(CASE WHEN x = 2 THEN x - 2 END) FROM t": 0,
    "regr_avgx(a, x) FROM t WHERE x = 3": 3,
}


@pytest.mark.parametrize("asked", [{"within": 1}, {"within": "1%"}, {"epsilon": 1}])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("question", CONSTANTS)
def test_what_the_question_decides_is_told_exactly_and_for_nothing(question, relation, asked):
    curator = opened(flags(relation), "either")
    assert curator.quote(f"SELECT {question}", **asked).price.share == 0
    answer = curator.ask(f"SELECT {question}", **asked)
    assert (float(answer.value), answer.value.within, answer.price.share) == (CONSTANTS[question], 0, 0)
    assert curator.budget.spent == 0


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("shown", ["avg(5), count(*)", "stddev(x), count(*)", "count(*), avg(x)", "avg(x), max(x)"])
def test_a_question_by_price_costs_what_was_allowed(accountant, shown):
    curator = opened(flags(), accountant, epsilon=1_000)
    answer = curator.ask(f"SELECT {shown} FROM t WHERE x = 3 AND a", epsilon="1/2")  # noqa: S608
    assert 0.45 <= answer.price.epsilon <= 0.5001
    assert curator.history


def test_groups_keep_their_constants_beside_what_is_measured():
    curator = opened(flags())
    answer = curator.ask("SELECT a, avg(x), count(*) FROM t WHERE x = 3 GROUP BY a", within="2%")
    assert {float(row.estimates[0]) for row in answer.rows} == {3.0}
    assert all(0 < row.estimates[1].within <= 20 for row in answer.rows)
    alone = curator.ask("SELECT a, avg(x) AS m FROM t WHERE x = 3 GROUP BY a HAVING avg(x) > 2 ORDER BY avg(x)")
    assert [float(row.estimates[0]) for row in alone.rows] == [3.0] * len(answer.rows)
    assert alone.price.share == 0


MIXED = "SELECT a, count(*) AS n, avg(x) AS average FROM t GROUP BY a"


@pytest.mark.parametrize("within", [{"n": 40, "average": 1}, {"N": 40, "average": "10%"}, [40, 1], ("4%", "10%")])
def test_each_column_has_a_tolerance_of_its_own(within):
    curator = opened(flags())
    expected = {accuracy.column: accuracy.within for accuracy in curator.quote(MIXED, within=within).accuracy}
    assert expected["n"] <= 40
    assert expected["average"] <= 1
    answer = curator.ask(MIXED, within=within)
    assert all(row.estimates[0].within <= 40 for row in answer.rows)
    assert curator.ask(MIXED, within=within).source == "replayed"


def test_names_are_for_all_questions_that_are_asked_together():
    answers = opened(flags()).ask_many([MIXED, "SELECT count(*) AS n FROM t WHERE b"], within={"n": 40, "average": 1})
    assert answers[1].value.within <= 40


@pytest.mark.parametrize(
    ("within", "words"),
    [
        (50, "different units (n in rows, average in x)"),
        ({"n": 50}, "a tolerance for each column"),
        ({"n": 50, "average": 1, "mean": 1}, "'mean' is no column"),
        ([50], "a tolerance for each column"),
        ([50, 1, 1], "a tolerance for each column"),
        ({"n": "many", "average": 1}, "such as '1%'"),
        ({"n": 50, "average": 0}, "such as '1%'"),
    ],
)
def test_tolerances_that_do_not_fit_the_columns_are_refused_with_what_to_write(within, words):
    curator = opened(flags())
    with pytest.raises(InvalidRequest) as refused:
        curator.ask(MIXED, within=within)
    assert words in str(refused.value)
    assert "Nothing was charged." in str(refused.value)
    assert curator.budget.spent == 0


@pytest.mark.parametrize(
    "shown",
    ["count(*), count(*) FILTER (WHERE b)", "avg(x), median(x), stddev(x)", "avg(x), 2 * avg(x)", "sum(x), sum(x) + 1"],
)
def test_one_number_is_enough_for_columns_of_one_unit(shown):
    assert opened(flags(), epsilon=100).quote(f"SELECT {shown} FROM t", within=3).price.share > 0  # noqa: S608


def test_counts_in_one_call_have_each_its_own_tolerance_by_name():
    texts = ["SELECT count(*) AS loose FROM t WHERE b", "SELECT count(*) AS tight FROM t WHERE NOT b"]
    for order in (texts, texts[::-1]):
        answers = opened(flags()).ask_many(order, within={"loose": 400, "tight": 40})
        within = {answer.columns[0]: answer.value.within for answer in answers}
        assert within["tight"] <= 40 < within["loose"] <= 400


def test_a_budget_that_is_short_offers_a_wider_tolerance_for_each_column():
    curator = opened(flags(), epsilon="0.05")
    with pytest.raises(BudgetExhausted, match=r"within \{'n': .*, 'average': "):
        curator.ask(MIXED, within={"n": 40, "average": "1%"})


def test_a_group_that_its_condition_leaves_empty_is_no_contradiction_to_the_model():
    """Its noisy count is taken for a share above 0, whatever the noise is."""
    kept = ledger(Budget(1, 0, "pure"))
    source = MemorySource(schema(), columns())
    asked = Curator(Dataset(name="stays", schema=schema(), source=source, ledger=kept, default=DEFAULT, after="model"))
    asked.ask("SELECT sex, count(*) FROM stays WHERE (sex, emergency) IN (('male', TRUE)) GROUP BY sex", epsilon=1)
    assert asked.ask("SELECT count(*) FROM stays WHERE emergency", within=20).source == "model"


@pytest.mark.parametrize(
    "text", ["regr_avgy(age, stay) FROM stays WHERE age < 0", "covar_pop(age, stay) FROM stays WHERE stay < 0"]
)
def test_what_is_about_no_row_is_null_and_free(text):
    asked = Curator(
        Dataset(
            name="stays", schema=schema(), source=MemorySource(schema(), columns()), ledger=ledger(), default=DEFAULT
        )
    )
    answer = asked.ask(f"SELECT {text}", epsilon=1)
    assert (answer.rows[0].cells, answer.price.share) == ((None,), 0)
    assert not asked.history


GROUPED = {
    "SELECT x, count(*) FROM t WHERE x BETWEEN 3 AND 5 GROUP BY x": [3, 4, 5],
    "SELECT x, count(*) FROM t WHERE x IN (1, 7) AND a GROUP BY x ORDER BY x DESC": [7, 1],
    "SELECT bin(x, 5) AS k, count(*) FROM t WHERE x < 5 GROUP BY bin(x, 5)": 1,
    "SELECT CASE WHEN x < 3 THEN 'few' WHEN x < 6 THEN 'some' ELSE 'many' END, count(*) FROM t WHERE x > 4 GROUP BY 1": 2,  # noqa: E501
    "SELECT a, x, count(*) FROM t WHERE a AND x = 2 GROUP BY a, x": 1,
    "SELECT x, count(*) FROM t WHERE (a, x) IN ((TRUE, 1), (FALSE, 8)) GROUP BY x": [1, 8],
    "SELECT x, count(*) FILTER (WHERE x = 1) FROM t WHERE x < 3 GROUP BY x": [0, 1, 2],
    "SELECT x, count(*) FROM t WHERE x = 1 AND x = 2 GROUP BY x": 0,
    "SELECT a, count(*) FROM t GROUP BY a": 4,
}


@pytest.mark.parametrize("question", GROUPED)
def test_groups_that_no_row_can_be_in_are_not_shown(question):
    answer = opened(flags(), epsilon=100).ask(question, within="5%")
    expected = GROUPED[question]
    if isinstance(expected, int):
        assert len(answer.rows) == expected
    else:
        assert [row.keys[-1] for row in answer.rows] == expected


@pytest.mark.parametrize("upper", ["7.3", "6.1", "2.5", "9.1"])
def test_a_value_is_in_its_interval_to_the_last_digit(upper):
    declared = Schema.of("t", Number("y", "0.1", upper, "0.3"), Boolean("a"), size=40)
    columns = {"y": [0.1] * 20 + [float(upper)] * 20, "a": [True] * 20 + [False] * 20}
    budget = Budget(100, "1e-6", "renyi")
    terms = LedgerTerms(datasets={"t": declared.digest}, neighbours=declared.unit.neighbours, budget=budget)
    source = MemorySource(declared, columns, version="1")
    curator = Curator(
        Dataset(name="t", schema=declared, source=source, ledger=memory.create_memory_ledger(terms), default=DEFAULT)
    )
    answer = curator.ask("SELECT a, avg(y) FROM t GROUP BY a", epsilon="0.001")  # far too noisy to say anything
    for row in answer.rows:  # an end is the bound itself, or well inside it
        low, high = row.estimates[0].low, row.estimates[0].high
        assert low == 0.1 or low > 0.1 + 1e-9
        assert high == float(upper) or high < float(upper) - 1e-9
    for seen in (answer, answer.population):
        assert all(estimate.low <= estimate.value <= estimate.high for row in seen.rows for estimate in row.estimates)


def test_a_quotient_of_nothing_and_nothing_is_free_and_has_no_value():
    curator = opened(flags())
    question = "SELECT sum(x) / count(*) FROM t WHERE x = 3 AND x = 4"
    assert "free" in str(curator.quote(question, within=50))
    answer = curator.ask(question, within=50)
    assert (answer.value.value, answer.price.share) == (None, 0)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_what_is_asked_twice_in_one_call_is_measured_once(accountant):
    once, twice = opened(flags(), accountant), opened(flags(), accountant)
    (alone,) = once.ask_many(["SELECT avg(x), count(*) FROM t"], epsilon=1, max_price=1)
    first, second = twice.ask_many(["SELECT avg(x), count(*) FROM t"] * 2, epsilon=1, max_price=1)
    assert first is second
    assert first.price.share == alone.price.share == twice.budget.spent
    again = twice.ask_many(["SELECT avg(x), count(*) FROM t"] * 2, epsilon=1, max_price=1)
    assert {answer.source for answer in again} == {"replayed"}


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("text", ["median(x)", "quantile(x, 0.9)", "median(x) + 2 * median(y)", "median(b)"])
def test_a_quantile_of_few_values_is_answered_at_any_percentage(accountant, text):
    """A hundredth of a narrow column is less than the step between two of its values, which no noise can be within."""
    declared = Schema.of("t", Integer("x", 0, 9), Integer("y", 0, 99), Integer("b", 0, 1), size=ROWS)
    curator, asked = opened(declared, accountant), f"SELECT {text} FROM t"  # noqa: S608  one of those above
    for within in (None, "1%", "0.001%"):
        assert curator.quote(asked, within=within).price.share < 1
    answer = curator.ask(asked, within="1%", max_price="100%")
    assert answer.price.share == curator.budget.spent
    with pytest.raises(Refused, match="the best is within"):
        curator.quote("SELECT median(x) FROM t", within=0.4)
