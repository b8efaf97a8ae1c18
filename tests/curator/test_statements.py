"""Statements of two halves through a curator: one plan, one charge, and intervals through what is computed."""

import datetime as dt
import json
import math

import pyarrow as pa
import pytest

import dodona
from dodona.answer import outer
from dodona.answer.computed import ComputedAnswer
from dodona.answer.estimate import Estimate
from dodona.answer.recorded import RecordedAnswer
from dodona.answer.released import released_rows
from dodona.curator.curator import Curator
from dodona.curator.desk import PriceAboveMaximum
from dodona.curator.request import Dataset
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidRequest
from dodona.ledger.errors import KeyReused
from dodona.ledger.memory import create_memory_ledger
from dodona.ledger.opening import LedgerTerms
from dodona.numbers import format_percent
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Category, Date
from dodona.schema.schema import Schema
from tests.curator.scene import DEFAULT, columns, curator, schema

SHARE = "SELECT sex, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY sex"
TWO = (
    "WITH a AS (SELECT sex, count(*) AS n FROM stays WHERE age > 30 GROUP BY sex), "
    "b AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex) "
    "SELECT a.sex, a.n / b.n AS share, b.n - a.n AS rest FROM a JOIN b ON a.sex = b.sex"
)


def column(answer: ComputedAnswer, name: str) -> list[object]:
    place = answer.columns.index(name)
    return [row.cells[place] for row in answer.rows]


def test_all_questions_of_a_statement_are_charged_together_once() -> None:
    with curator() as asked:
        quoted = asked.quote(TWO, within="2%")
        answer = asked.ask(TWO, within="2%")
        assert isinstance(answer, ComputedAnswer)
        assert len(answer.parts) == 2
        assert answer.price.share == quoted.price.share == asked.budget.spent > 0
        assert len({part.receipt for part in answer.parts}) == 1
        assert [charge.text for charge in asked.history] == [TWO]


def test_months_of_a_statement_are_drawn_along_the_time_and_null_is_written_below() -> None:
    day = Schema.of("stays", Date("day", dt.date(2024, 1, 1), dt.date(2024, 6, 30)), size=600)
    days = pa.table({"day": [dt.date(2024, 1 + row % 6, 1) for row in range(600)]})
    text = (
        "SELECT m, n / sum(n) OVER () AS y FROM "
        "(SELECT date_trunc('month', day) AS m, count(*) AS n FROM stays GROUP BY 1) AS x ORDER BY m"
    )
    with pytest.warns(UserWarning, match="in memory"):
        asked = dodona.open(days, schema=day, budget=Budget(9, 0, "pure"))
    axes = asked.ask(text, epsilon="0.1").plot()
    asked.close()
    assert len(axes.lines) == 6
    assert axes.get_xlabel().count("NULL: ") == 2


def test_a_statement_that_was_asked_is_free_and_says_the_same_again() -> None:
    with curator() as asked:
        first = asked.ask(SHARE, within="2%")
        again = asked.ask(SHARE, within="2%")
        assert again.price.share == 0
        assert again.source == "replayed"
        assert again.rows == first.rows  # the redraws are seeded by what was released
        free = asked.ask_if_free(SHARE, within="2%")
        assert free is not None
        assert free.rows == first.rows


def test_another_computation_on_the_same_answers_is_free() -> None:
    with curator() as asked:
        asked.ask(SHARE, within="2%")
        more = asked.ask("SELECT max(n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x", within="2%")
        assert more.price.share == 0


def test_a_key_charges_a_statement_once_and_recalls_it() -> None:
    with curator() as asked:
        first = asked.ask(TWO, within="2%", key="k")
        again = asked.ask(TWO, within="2%", key="k")
        recalled = asked.recall("k")
        assert recalled is not None
        assert [answer.rows for answer in recalled] == [first.rows]
        assert again.rows == first.rows
        assert asked.budget.spent == first.price.share
        with pytest.raises(KeyReused):
            asked.ask("SELECT count(*) FROM stays WHERE age > 77", within="2%", key="k")


def test_statements_and_questions_are_asked_together() -> None:
    with curator() as asked:
        texts = ["SELECT count(*) FROM stays", SHARE, TWO, SHARE]
        quoted = asked.quote(texts, within="2%")
        answers = asked.ask_many(texts, within="2%")
        assert [type(answer).__name__ for answer in answers] == ["Answer", *["ComputedAnswer"] * 3]
        assert answers[1].rows == answers[3].rows
        assert asked.budget.spent == quoted.price.share


def test_a_price_above_the_maximum_is_refused_and_costs_nothing() -> None:
    with curator() as asked:
        with pytest.raises(PriceAboveMaximum):
            asked.ask(TWO, within="0.001%", max_price="1e-9")
        assert asked.budget.spent == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sex, sum(sex) OVER () FROM stays GROUP BY sex",
        "SELECT n, m FROM (SELECT count(*) AS n FROM stays) AS x",
        "SELECT n FROM (SELECT count(*) AS n FROM stays) AS x WHERE n > DATE '2020-01-01'",
    ],
)
def test_what_cannot_be_computed_is_refused_before_anything_is_charged(text: str) -> None:
    with curator() as asked:
        for call in (asked.ask, asked.quote, asked.ask_if_free):
            with pytest.raises(InvalidRequest, match="Nothing was charged"):
                call(text, within="2%")
        assert asked.budget.spent == 0


def test_explain_is_a_quote_and_costs_nothing() -> None:
    with curator() as asked:
        offer = asked.quote(SHARE, within="2%")
        answer = asked.ask(f"EXPLAIN {SHARE}", within="2%")
        said = "\n".join(str(row.cells[0]) for row in answer.rows)
        assert f"Price: {offer.price}" in said
        assert asked.budget.spent == 0
        for text in (SHARE, "SELECT count(*) FROM stays"):
            free = asked.quote(f"EXPLAIN {text}", within="2%", max_price=0)
            assert (free.price.share, free.affordable) == (0, True)
            assert format_percent(asked.quote(text, within="2%").price.share) in free.explanation
        assert RecordedAnswer.from_json(answer.to_json()).rows == answer.rows


def test_a_released_value_keeps_its_exact_interval_and_what_is_linear_gets_one() -> None:
    with curator() as asked:
        plain = asked.ask("SELECT sex, count(*) AS n FROM stays GROUP BY sex", within="2%")
        text = (
            "SELECT sex, n, 2 * n AS twice, n - lag(n) OVER (ORDER BY sex) AS change, sum(n) OVER () AS total "
            "FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x ORDER BY sex NULLS LAST"
        )
        answer = asked.ask(text, within="2%")
        single = plain.rows[0].estimates[0].within
        assert not any(answer.approximate)
        assert [cell.within for cell in column(answer, "n")] == [single] * 4
        assert [cell.within for cell in column(answer, "twice")] == [2 * single] * 4
        change, total = column(answer, "change"), column(answer, "total")
        assert change[0] is None
        assert 1.3 * single < change[1].within < 1.5 * single  # √2, on the integers
        assert 1.9 * single < total[0].within < 2.1 * single


def test_anything_else_has_an_approximate_interval_that_says_so() -> None:
    with curator() as asked:
        answer = asked.ask(SHARE, within="2%")
        assert dict(zip(answer.columns, answer.approximate, strict=True)) == {"sex": False, "n": False, "share": True}
        assert any("share" in warning and "1,000 redraws" in warning for warning in answer.warnings)
        assert "redraws" in answer.theorem
        read = json.loads(answer.to_json())
        assert [entry.get("approximate", False) for entry in read["columns"]] == [False, False, True]
        back = RecordedAnswer.from_json(answer.to_json())
        assert back.rows == answer.rows
        assert back.approximate == answer.approximate


def test_a_rank_and_a_text_have_no_interval_and_the_answer_says_so() -> None:
    text = (
        "SELECT sex, rank() OVER (ORDER BY count(*) DESC) AS place, "
        "CASE WHEN count(*) > 300 THEN 'many' ELSE 'few' END AS size FROM stays GROUP BY sex"
    )
    with curator() as asked:
        answer = asked.ask(text, within="2%")
        assert answer.estimated == (False, False, False)
        assert any(warning.startswith("place: this depends on the order") for warning in answer.warnings)
        assert any(warning.startswith("size: decided by noisy values") for warning in answer.warnings)


def test_interval_ends_are_shown_as_columns() -> None:
    text = "SELECT sum(stay) AS s, DP_INTERVAL_LOW(s) AS low, DP_INTERVAL_HIGH(s) AS high FROM stays"
    with curator() as asked:
        answer = asked.ask(text, within="2%")
        estimate, low, high = answer.rows[0].cells
        assert isinstance(estimate, Estimate)
        assert (low, high) == (estimate.low, estimate.high)
        assert low < high


def test_interval_ends_are_shown_for_each_group() -> None:
    shown = "sex, count(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high"
    with curator() as asked:
        answer = asked.ask(f"SELECT {shown} FROM stays GROUP BY sex", within="2%")  # noqa: S608  a constant
        for row in answer.rows:
            _, estimate, low, high = row.cells
            assert isinstance(estimate, Estimate)
            assert math.isfinite(low)
            assert (low, high) == (estimate.low, estimate.high)


def test_a_count_keeps_its_exact_interval_beside_what_is_computed_from_it() -> None:
    text = "SELECT sex, count(*) AS n, 2 * count(*) AS twice, sum(count(*)) OVER () AS s FROM stays GROUP BY sex"
    with curator() as asked:
        plain = asked.ask("SELECT sex, count(*) AS n FROM stays GROUP BY sex", within=40)
        answer = asked.ask(text, within=200)
        assert not any("approximate" in note for note in answer.warnings)
        for before, row in zip(plain.rows, answer.rows, strict=True):
            n, twice = row.cells[1], row.cells[2]
            assert isinstance(n, Estimate)
            assert isinstance(twice, Estimate)
            assert float(twice.high) - float(twice.low) == pytest.approx(2 * (float(n.high) - float(n.low)))
            assert (n.low, n.high) == (before.cells[1].low, before.cells[1].high)


def test_intervals_together_are_wider_and_those_of_chosen_rows_are_refused() -> None:
    with curator() as asked:
        answer = asked.ask(SHARE, within="2%")
        for row, both in zip(answer.rows, answer.simultaneous().rows, strict=True):
            for single, together in zip(row.estimates, both.estimates, strict=True):
                assert together.within > single.within
        for read in (answer.any_choice, lambda: answer.population):
            with pytest.raises(InvalidRequest, match="computed from answers"):
                read()


def test_a_division_by_a_noisy_zero_is_null_and_a_tolerance_names_a_column() -> None:
    with curator() as asked:
        nested = "SELECT n, n / (n - n) AS nothing FROM (SELECT count(*) AS n FROM stays) AS x"
        assert column(asked.ask(nested, within={"n": 20}), "nothing") == [None]
        with pytest.raises(InvalidRequest, match="no column of estimates"):
            asked.ask(nested, within={"m": 20})


def test_the_outer_half_sees_no_row_of_the_table() -> None:
    """A row is planted whose label occurs nowhere else; the outer half is asked for everything it can see."""
    planted = columns()
    planted["sex"] = [*planted["sex"][:-1], "zebra"]
    with curator(source=MemorySource(schema(), planted, version="1")) as asked:
        text = "SELECT * FROM (SELECT sex, avg(age) AS age, count(*) AS n FROM stays GROUP BY sex) AS x"
        answer = asked.ask(text, within="10%")
        assert isinstance(answer, ComputedAnswer)
        seen = [pa.table(released_rows(part)).to_pylist() for part in answer.parts]
        assert {row["k0"] for row in seen[0]} == {"female", "male", None, "<outside>"}
        assert "zebra" not in answer.to_json() + json.dumps(seen)
        for table in ("stays", "information_schema.tables", "duckdb_tables()"):
            try:
                rows = outer.run(f"SELECT * FROM {table}", {}).to_pylist()  # noqa: S608  only here
            except InvalidRequest:
                rows = []
            assert "zebra" not in json.dumps(rows, default=str)
            assert table != "stays" or rows == []


def test_one_statement_does_not_see_the_relations_of_another() -> None:
    assert outer.run("SELECT * FROM released_0", {"released_0": pa.table({"a": [1]})}).num_rows == 1
    with pytest.raises(InvalidRequest, match="does not exist"):
        outer.run("SELECT * FROM released_0", {})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM sqlite_scan('x.db', 't')",
    ],
)
def test_the_outer_database_reads_no_file_even_if_asked_directly(sql: str) -> None:
    with pytest.raises(InvalidRequest):
        outer.run(sql, {})


def test_a_run_that_takes_too_long_is_ended() -> None:
    endless = "SELECT count(*) AS n FROM range(100000000000) AS a, range(100000000) AS b"
    with pytest.raises(InvalidRequest, match="took more than"):
        outer.run(endless, {}, seconds=0.2)


def test_a_day_keeps_its_interval_through_the_outer_half() -> None:
    days = Date("admitted", dt.date(2024, 1, 1), dt.date(2024, 12, 31))
    declared = Schema.of("stays", Category("sex", ("female", "male")), days, size=1_000)
    rows = {
        "sex": ["female", "male"] * 500,
        "admitted": [dt.date(2024, 1, 1) + dt.timedelta(row % 366) for row in range(1_000)],
    }
    budget = Budget(100, "1e-6", "renyi")
    terms = LedgerTerms(datasets={"stays": declared.digest}, neighbours=declared.unit.neighbours, budget=budget)
    kept = create_memory_ledger(terms)
    source = MemorySource(declared, rows, version="1")
    opened = Dataset(name="stays", schema=declared, source=source, ledger=kept, default=DEFAULT)
    with Curator(opened) as asked:
        text = "SELECT x.sex, x.day FROM (SELECT sex, median(admitted) AS day FROM stays GROUP BY sex) AS x"
        plain = asked.ask("SELECT sex, median(admitted) AS day FROM stays GROUP BY sex", within=60)
        answer = asked.ask(text, within=60)
        assert [row.cells[1] for row in answer.rows] == [row.cells[1] for row in plain.rows]
        assert isinstance(answer.rows[0].estimates[0].low, dt.date)


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_count_of_groups_that_noise_decides_is_a_whole_number_with_an_interval():
    """Of six groups at the limit each is decided by chance alone in one run of twenty: all of them in one of 10^7."""
    names = list("pqrstu")
    kinds = Schema.of("t", Category("b", names, otherwise="p"), size=3_000)
    curator = dodona.open(pa.table({"b": names * 500}), schema=kinds, budget=Budget(4, "1e-6"))
    inner = "SELECT b, count(*) AS n FROM t GROUP BY b HAVING count(*) > 500"
    answer = curator.ask(f"SELECT count(*) AS k FROM ({inner})", within=40)  # noqa: S608  written here
    cell = answer.rows[0].estimates[0]
    assert all(type(end) is int for end in (cell.value, cell.low, cell.high))
    assert cell.low < cell.high


BY_EMERGENCY = "SELECT emergency, count(*) AS n FROM stays GROUP BY emergency"
TOLD_APART = "SELECT emergency, emergency = '<outside>' AS undeclared, count(*) AS n FROM stays GROUP BY ALL"


@pytest.mark.parametrize(
    "around", ["{}", "SELECT *, n / sum(n) OVER () AS share FROM ({}) AS x"], ids=["plain", "outer"]
)
def test_two_rows_with_null_in_a_typed_key_are_noted_unless_a_further_key_tells_them_apart(around: str) -> None:
    note = "Where keys have types, <missing> and <outside> of `emergency` are two rows with NULL."
    with curator() as asked:
        alike = asked.ask(around.format(BY_EMERGENCY), within="2%")
        assert alike.to_arrow()["emergency"].to_pylist()[-2:] == [None, None]
        assert any(one.startswith(note) for one in alike.warnings)
        apart = asked.ask(around.format(TOLD_APART), within="2%").to_arrow()
        assert apart.select(["emergency", "undeclared"]).to_pylist()[-2:] == [
            {"emergency": None, "undeclared": None},
            {"emergency": None, "undeclared": True},
        ]
        for text in (TOLD_APART, BY_EMERGENCY.replace("GROUP", "WHERE emergency GROUP")):
            told = asked.ask(around.format(text), within="2%")
            assert not any("two rows with NULL" in one for one in told.warnings)


def test_rows_without_null_have_no_note_on_it() -> None:
    with curator() as asked:
        answer = asked.ask(BY_EMERGENCY + " HAVING emergency IS NOT NULL", within="2%")
        assert not any("two rows with NULL" in one for one in answer.warnings)


BY_YEAR = """SELECT date_trunc('year', admitted) AS first, year(admitted) AS year,
to_char(admitted, '"in" YYYY') AS words, count(*) AS n FROM stays WHERE admitted >= '2023-01-01' GROUP BY 1, 2, 3"""


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
@pytest.mark.parametrize("around", ["{}", "SELECT *, n / year AS part FROM ({}) AS x"], ids=["plain", "outer"])
def test_functions_of_one_column_that_make_the_same_groups_keep_their_own_values(around: str) -> None:
    days = [dt.date(2022 + row % 3, 1, 1) for row in range(3_000)]
    declared = Schema.of("stays", Date("admitted", days[0], dt.date(2024, 12, 31)), size=3_000)
    frame = pa.table({"admitted": days})
    with dodona.open(frame, schema=declared, budget=Budget(100, "1e-6"), max_price="100%") as asked:
        answer = asked.ask(around.format(BY_YEAR), epsilon=1)
        shown = answer.to_arrow().select(["first", "year", "words"]).to_pylist()
        years = [(dt.date(year, 1, 1), year, f"in {year}") for year in (2023, 2024)]
        assert [tuple(row.values()) for row in shown] == years
        back = RecordedAnswer.from_json(answer.to_json())
        assert back.to_arrow().select(["first", "year", "words"]).to_pylist() == shown
