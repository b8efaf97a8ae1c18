"""Quotes foresee the widths that are then got, or state a range."""

from __future__ import annotations

from statistics import median_low

import numpy as np
import pyarrow as pa
import pytest

import dodona
from benchmarks.quotes import FACTOR, cases
from dodona.answer.offer import ExpectedAccuracy
from dodona.curator.curator import Curator
from dodona.curator.request import Dataset
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.numbers import format_percent
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Neighbours, Schema
from tests.curator.scene import DEFAULT

SIZE = 8_000
SCHEMA = Schema.of(
    "t",
    Category("g", ["a", "b", "c"], otherwise="a"),
    Boolean("flag"),
    Integer("x", 0, 100, bins=range(0, 101, 10)),
    size=SIZE,
    neighbours=Neighbours.ADD_REMOVE,
)
RARE = 400
COUNTS = "SELECT g, count(*) FROM t GROUP BY g"


def opened() -> Curator:
    """Many rows of a, some of b, and few of c."""
    columns = {
        "g": ["a"] * (SIZE - 5 * RARE) + ["b"] * (4 * RARE) + ["c"] * RARE,
        "flag": [row % 8 == 0 for row in range(SIZE)],
        "x": [(37 * row) % 31 + 20 for row in range(SIZE)],
    }
    terms = LedgerTerms(
        datasets={"t": SCHEMA.digest}, neighbours=SCHEMA.unit.neighbours, budget=Budget(1_000, "1e-6", "zcdp")
    )
    source = MemorySource(SCHEMA, columns, version="1")
    return Curator(
        Dataset(name="t", schema=SCHEMA, source=source, ledger=memory.create_memory_ledger(terms), default=DEFAULT)
    )


AGGREGATES = pytest.mark.parametrize("aggregate", ["avg(x)", "stddev(x)", "var_pop(x)", "median(x)"])


@AGGREGATES
@pytest.mark.parametrize("rest", ["WHERE g = 'c'", "WHERE flag"])
def test_where_nothing_was_released_a_quote_is_a_range(aggregate: str, rest: str):
    curator = opened()
    offer = curator.quote(f"SELECT {aggregate} FROM t {rest}", within=2)  # noqa: S608
    (expected,) = offer.accuracy
    assert expected.low is not None
    assert expected.high is not None
    assert expected.low <= expected.within <= expected.high
    assert "depending on how many rows meet the condition" in str(offer)


def test_a_bundle_is_quoted_with_the_width_that_its_answer_has_and_not_with_the_tolerance():
    curator = opened()
    for rest in ("g = 'a'", "flag", "g = 'b'", "g = 'c'"):
        text = f"SELECT avg(x) FROM t WHERE {rest}"  # noqa: S608
        offer = curator.quote(text, within=3)
        if "This buys more than the answer" in str(offer):
            break
        curator.ask(text, within=3)
    else:
        pytest.fail("no bundle was bought")
    (expected,) = offer.accuracy
    assert expected.low is not None
    assert expected.high is not None
    assert expected.low < 3 < expected.within < expected.high


def test_an_average_of_all_rows_is_quoted_about_as_it_is_planned():
    (expected,) = opened().quote("SELECT avg(x) FROM t", within=2).accuracy
    assert expected.low is expected.high is None
    assert 2 / FACTOR < expected.within <= 2


CAPPED = Schema.of("t", Boolean("flag", otherwise=False), Integer("x", 0, 100), size=40_000, id="p", rows=5)


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
@pytest.mark.parametrize("each", [5, 8, 20, 40])
@pytest.mark.parametrize("aggregate", ["avg(x)", "median(x)"])
def test_rows_beyond_a_cap_are_not_counted_on(aggregate: str, each: int):
    """The declared size is that of all rows: people with 40 each have 5,000 rows that count, and with 5 all of them."""
    rows = np.arange(40_000)
    frame = {"p": rows // each, "flag": rows % 2 == 0, "x": (37 * rows) % 31 + 20}
    curator = dodona.open(pa.table(frame), schema=CAPPED, budget=Budget(1_000, "1e-6"))
    text = f"SELECT {aggregate} FROM t"  # noqa: S608
    (cold,) = curator.quote(text, within=1).accuracy
    assert cold.low is not None
    assert "depending on how many rows count" in str(curator.quote(text, within=1))
    curator.ask("SELECT flag, count(*) FROM t GROUP BY flag", within=200)
    (counted,) = curator.quote(text, within=1).accuracy
    (estimate,) = curator.ask(text, within=1).rows[0].estimates
    width = (estimate.high - estimate.low) / 2
    assert _holds(counted, width)
    if each < 6 * CAPPED.unit.rows:
        assert _holds(cold, width)


def _holds(expected: ExpectedAccuracy, width: float) -> bool:
    if expected.low is None or expected.high is None:
        return expected.within / FACTOR - 1 <= width <= expected.within * FACTOR + 1
    return expected.low / 1.1 - 1 <= width <= expected.high * 1.1 + 1


@pytest.mark.parametrize(
    ("released", "rest"),
    [
        (COUNTS, "WHERE g = 'c'"),
        ("SELECT count(*) FROM t WHERE g = 'c'", "WHERE g = 'c'"),
        ("SELECT count(*) FROM t WHERE flag", "WHERE flag"),
        ("SELECT g, flag, count(*) FROM t GROUP BY g, flag", "WHERE flag AND g = 'a'"),
    ],
)
def test_a_released_count_makes_the_quote_of_an_average_one_number(released: str, rest: str):
    """The noise of the count in an average is under a hundredth of its rows, and hardly moves a width."""
    curator = opened()
    curator.ask(released, within=10)
    asked = f"SELECT avg(x) FROM t {rest}"  # noqa: S608
    (expected,) = curator.quote(asked, epsilon=2).accuracy
    assert expected.low is expected.high is None
    got = curator.ask(asked, epsilon=2).value.within
    assert expected.within / FACTOR <= got <= expected.within * FACTOR


@AGGREGATES
def test_values_that_were_counted_narrow_the_range(aggregate: str):
    """Noise in each bin is below a hundredth of the rows, and in the answer far less: neither moves a width by much."""
    curator = opened()
    asked = f"SELECT {aggregate} FROM t"  # noqa: S608
    before = _range(curator.quote(asked, epsilon=1).accuracy[0])
    curator.ask("SELECT x, count(*) FROM t GROUP BY x", within=10)
    after = _range(curator.quote(asked, epsilon=1).accuracy[0])
    assert after[1] - after[0] <= before[1] - before[0]
    got = curator.ask(asked, epsilon=1).value.within
    assert after[0] - 1 <= got <= after[1] + 1 if aggregate == "median(x)" else after[0] <= got <= after[1]


def _range(expected: ExpectedAccuracy) -> tuple[float, float]:
    if expected.low is None or expected.high is None:
        return expected.within / FACTOR, expected.within * FACTOR
    return expected.low, expected.high


def test_groups_of_released_sizes_are_quoted_from_the_largest_to_the_smallest():
    curator = opened()
    curator.ask(COUNTS, within=20)
    (expected,) = curator.quote("SELECT g, avg(x) FROM t GROUP BY g", epsilon=2).accuracy
    answer = curator.ask("SELECT g, avg(x) FROM t GROUP BY g", epsilon=2)
    widths = [row.estimates[0].within for row in answer.rows if row.cells[0] in {"a", "b", "c"}]
    assert len(widths) == 3
    assert expected.low is not None
    assert expected.high is not None
    assert expected.low <= min(widths)
    assert max(widths) <= expected.high
    assert expected.high <= 3 * expected.low * max(widths) / min(widths)


def test_groups_that_are_told_again_are_quoted_from_the_narrowest_to_the_widest():
    curator = opened()
    asked = "SELECT g, avg(x) FROM t GROUP BY g"
    widths = [row.estimates[0].within for row in curator.ask(asked, epsilon=2).rows]
    offer = curator.quote(asked, epsilon=2)
    assert offer.source == "replayed"
    (expected,) = offer.accuracy
    assert (expected.low, expected.high) == (pytest.approx(min(widths)), pytest.approx(max(widths)))
    assert expected.within == pytest.approx(median_low(widths))
    assert expected.high > 2 * expected.within  # of the smallest group


@AGGREGATES
def test_what_is_told_again_is_quoted_as_it_was_told(aggregate: str):
    curator = opened()
    asked = f"SELECT {aggregate} FROM t WHERE g = 'c'"  # noqa: S608
    got = curator.ask(asked, within=5).value.within
    offer = curator.quote(asked, within=5)
    assert (offer.source, offer.price.share) == ("replayed", 0)
    assert offer.accuracy[0].within == pytest.approx(got)


@pytest.mark.parametrize(
    ("tables", "least"),
    [pytest.param(1, 0.66, marks=pytest.mark.slow), pytest.param(3, 0.8, marks=pytest.mark.soak)],
)
@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_nine_of_ten_quotes_hold_on_random_tables(tables: int, least: float):
    """Of 60 quotes on each seeded table 94% hold or more; that fewer than `least` do is a chance below 10⁻⁷."""
    quotes = list(cases(tables, seed=11))
    assert len(quotes) > 54 * tables
    assert np.mean([case.holds for case in quotes]) >= least


@pytest.mark.parametrize("rest", ["", "WHERE flag", "GROUP BY g"])
def test_a_quotient_of_a_sum_and_a_count_costs_about_what_the_average_costs(rest: str):
    """With one scale of noise on both it cost more than a thousand times as much."""
    key = "g, " if rest.startswith("GROUP") else ""
    average, quotient = (
        opened().quote(f"SELECT {key}{expression} FROM t {rest}", within="2%").price.share  # noqa: S608
        for expression in ("avg(x)", "sum(x) / count(*)")
    )
    assert quotient <= 5 * average


@pytest.mark.parametrize(
    ("quotient", "within"),
    [
        ("sum(x) / count(*)", 2),
        ("count(*) FILTER (WHERE x > 40) / count(*)", "5%"),
        ("stddev(x) / avg(x)", 0.1),
        ("corr(x, flag)", 0.05),
    ],
)
@pytest.mark.parametrize("rest", ["", "WHERE g = 'a'", "WHERE g <> 'c'"])
def test_quotients_and_correlations_are_quoted_as_they_are_then_answered(quotient: str, within: float | str, rest: str):
    """That a width lies outside what was quoted for it is a chance below 10⁻⁶ of this noise."""
    curator = opened()
    curator.ask("SELECT g, flag, count(*) FROM t GROUP BY g, flag", within="1%")
    question = f"SELECT {quotient} FROM t {rest}"  # noqa: S608
    (expected,) = curator.quote(question, within=within, max_price=1).accuracy
    got = curator.ask(question, within=within, max_price=1).value.within
    low, high = expected.low or expected.within / FACTOR, expected.high or expected.within * FACTOR
    assert 0.9 * low <= got <= 1.1 * high


def test_a_known_quotient_is_quoted_by_its_groups_where_one_may_have_no_rows():
    """Of a group without rows the width is quoted that the bounds of the column leave open, from 0 to 100."""
    curator = opened()
    question = "SELECT flag, sum(x) / count(*) FROM t GROUP BY flag"
    curator.ask(question, within="10%")
    offer = curator.quote(question, within="10%")
    (expected,) = offer.accuracy
    assert offer.price.share == 0
    assert expected.low is not None
    assert 0 < expected.low <= expected.within <= expected.high <= 100


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_an_offer_of_a_bundle_names_what_it_makes_free_and_what_one_question_takes_alone():
    schema = Schema.of("t", Boolean("a"), Boolean("b"), size=2_000)
    frame = pa.table({"a": [True, False] * 1_000, "b": [True] * 2_000})
    texts = ["SELECT count(*) FROM t WHERE a", "SELECT count(*) FROM t WHERE b", "SELECT count(*) FROM t WHERE a AND b"]
    with dodona.open(frame, schema=schema, budget=Budget(20, "1e-6"), max_price=1) as table:
        table.ask(texts[0], within=50)
        shown, alone = str(table.quote(texts[1], within=50)), table.quote(texts[1], within=50, fresh=True)
        together = str(table.quote(texts, within=50))
    assert "most later questions about a, b at this accuracy are free" in shown
    assert f"Measured alone, with fresh=True, it would take {format_percent(alone.price.share)}." in shown
    assert "This buys more than the answer" in together
    assert "Measured alone" not in together  # of a long list that would take long to say
