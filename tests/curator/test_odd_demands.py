"""Demands that nobody should make are answered or refused, in bounded price, and the ledger opens again."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import dodona
from dodona import Boolean, Budget, Category, Integer, Schema
from dodona.errors import DodonaError, InvalidRequest, Refused


def opened(columns, rows, *, budget="1000", ledger=None, seed=0):
    """Return a curator over rows drawn evenly."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = {}
    for attribute in columns:
        codes = rng.integers(0, attribute.size, rows)
        match attribute:
            case Integer():
                frame[attribute.name] = codes
            case Boolean():
                frame[attribute.name] = codes == 1
            case _:
                frame[attribute.name] = np.array(attribute.labels)[codes]
    schema, terms = Schema.of("t", *columns, size=rows), Budget(budget, "1e-6")
    if ledger is not None and not ledger.exists():
        dodona.create_ledger(ledger, schema=schema, budget=terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dodona.open(pd.DataFrame(frame), schema=schema, budget=terms, ledger=ledger)


def spent(curator):
    return Fraction(curator.budget.spent)


WIDE = [Integer(name, 0, 199, otherwise=0) for name in "abc"]
KINDS = (
    "SELECT count(*) FROM t WHERE a > {n} AND b < 30",
    "SELECT count(*) FROM t WHERE a = {n} AND c = 3",
    "SELECT sum(a) FROM t WHERE b = {n}",
    "SELECT avg(a) FROM t WHERE c > {n}",
    "SELECT a, count(*) FROM t WHERE b = {n} GROUP BY a",
)


def test_tolerances_from_a_millionth_to_a_million_times_the_size_are_answered_or_refused():
    """Neither a quote nor a question fails in another way, and a refusal costs nothing."""
    curator, refused = opened(WIDE, 10_000), 0
    for number, (exponent, kind) in enumerate((exponent, kind) for exponent in range(-6, 7, 2) for kind in KINDS):
        within, text = 10_000 * 10.0**exponent, kind.format(n=number)
        before = spent(curator)
        answer = fault = None
        try:
            offer = curator.quote(text, within=within)
            answer = curator.ask(text, within=within)
        except (Refused, InvalidRequest) as error:
            fault = error
        if answer is None:
            refused += 1
            assert not fault.charged
            assert spent(curator) == before
        else:
            assert answer.price.share == offer.price.share
            widest = max(cell.within for row in answer.rows for cell in row.estimates)
            assert "avg" in text or widest <= within * (1 + 1e-9)  # an average may turn out wider, and says so
    assert refused < 20


def test_a_tolerance_far_above_the_size_still_buys_what_later_questions_use():
    curator = opened(WIDE, 10_000)
    for number in range(12):
        curator.ask(f"SELECT count(*) FROM t WHERE a = {number}", within=10**9 + number)  # noqa: S608
    assert curator.ask("SELECT count(*) FROM t WHERE a = 150", within=10**9).source in {"derived", "measured"}


def test_demands_that_alternate_cost_no_more_than_twice_what_single_answers_cost(tmp_path):
    """Tight and loose in turn, over two sets of columns: what was bought loosely is topped up, not bought again."""
    curator = opened(WIDE, 10_000, ledger=tmp_path / "t.ledger")
    alone = 0.0
    for number in range(60):
        first, second = ("a", "b") if number % 4 < 2 else ("b", "c")
        text = f"SELECT count(*) FROM t WHERE {first} > {number} AND {second} < {150 - number}"  # noqa: S608
        within = 100 if number % 2 else 1000
        fresh = curator.quote(text, within=within)
        answer = curator.ask(text, within=within)
        assert answer.price.share == fresh.price.share
        alone += float(opened_alone(within))
    assert float(spent(curator)) <= 2 * alone
    again = opened(WIDE, 10_000, ledger=tmp_path / "t.ledger")
    assert spent(again) == spent(curator)
    assert again.ask("SELECT count(*) FROM t WHERE a > 0 AND b < 150", within=1000).price.share == 0


_ALONE = {}


def opened_alone(within):
    """Return the share that one such count takes of an untouched budget."""
    if within not in _ALONE:
        curator = opened(WIDE, 10_000)
        _ALONE[within] = curator.quote("SELECT count(*) FROM t WHERE a > 0 AND b < 150", within=within).price.share
    return _ALONE[within]


def test_a_hundred_wide_columns_asked_together_are_answered_or_refused():
    curator = opened([Integer(f"n{place:03}", 0, 199, otherwise=0) for place in range(100)], 500)
    every = " AND ".join(f"n{place:03} > 1" for place in range(100))
    some = " OR ".join(f"n{place:03} = 7" for place in range(100))
    for text in (f"SELECT count(*) FROM t WHERE {every}", f"SELECT count(*) FROM t WHERE {some}"):  # noqa: S608
        for _ in range(2):
            assert curator.ask(text, within=50).source in {"measured", "replayed"}
    names = ", ".join(f"n{place:03}" for place in range(4))
    with pytest.raises(DodonaError) as refused:
        curator.ask(f"SELECT {names}, count(*) FROM t GROUP BY {names}", within=50)  # noqa: S608
    assert not refused.value.charged


def test_a_thousand_columns_are_asked_in_turn():
    curator = opened([Integer(f"n{place:04}", 0, 19, otherwise=0) for place in range(1000)], 100)
    for place in range(0, 1000, 40):
        text = f"SELECT count(*) FROM t WHERE n{place:04} > 5 AND n{(place * 7 + 1) % 1000:04} < 15"  # noqa: S608
        assert curator.ask(text, within=10).source in {"measured", "derived"}
    every = " AND ".join(f"n{place:04} > 0" for place in range(1, 1000))  # 10^1298 cells
    assert curator.ask(f"SELECT count(*) FROM t WHERE {every}", within=10).source == "measured"  # noqa: S608
    assert curator.ask(f"SELECT avg(n0000) FROM t WHERE {every}", within=5).source == "measured"  # noqa: S608
    with pytest.raises(InvalidRequest, match="planned at once"):
        curator.quote("SELECT " + ", ".join(f"avg(n{place:04})" for place in range(300)) + " FROM t", within="10%")  # noqa: S608


@pytest.mark.parametrize("labels", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_a_column_of_very_many_labels_is_asked(labels):
    curator = opened([Category("c", [f"l{code}" for code in range(labels)]), Boolean("b", otherwise=False)], 200)
    assert curator.ask("SELECT count(*) FROM t WHERE c = 'l5' AND b", within=20).source == "measured"
    assert curator.quote("SELECT c, count(*) FROM t GROUP BY c", within=20).price.share > 0
    assert len(curator.ask("SELECT c, count(*) FROM t GROUP BY c", within=20).rows) == labels + 2
    assert curator.ask("SELECT count(*) FROM t WHERE c IN ('l1', 'l2')", within=40).source in {"derived", "measured"}


def test_conditions_on_sixty_columns_are_answered_at_once_where_residuals_are_known():
    """Whether it follows is seen without a look at all sets of its columns, of which there are 10^18."""
    curator = opened([Integer(f"c{place}", 0, 2, otherwise=0) for place in range(60)], 1_000)
    pairs = [f"c{place} = 1 AND c{place + 1} = 1" for place in range(20)]
    curator.prepare([f"SELECT count(*) FROM t WHERE {pair}" for pair in pairs], within=50)  # noqa: S608  made up here
    where = " AND ".join(f"c{place} = 1" for place in range(60))
    for what in ("count(*)", "sum(c3)"):
        answer = curator.ask(f"SELECT {what} FROM t WHERE {where}", within=50, max_price=1)  # noqa: S608  made up here
        assert answer.source == "measured"
