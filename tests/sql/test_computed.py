"""Computed columns: expressions with declared bounds, by name and by expression."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dodona
from dodona import Budget, Category, ComputedColumn, Integer, Number, Schema
from dodona.dataset.file import DatasetFile
from dodona.engines.duckdb import DuckDBSource
from dodona.errors import InvalidArgument
from dodona.query.canonical import query_digest
from dodona.query.question import Question
from dodona.query.sensitivity import row_sensitivity
from dodona.query.statement import Statement
from dodona.schema.toml import InvalidFile
from dodona.sql.compile import read_statement
from dodona.sql.scope import InvalidSql
from dodona.trusted.gate import unseal
from tests.dataset.scene import TOML

COLUMNS = (Category("region", ["a", "b"]), Integer("quantity", 1, 1000), Number("price", 0, 2000, "0.5"))
REVENUE = ComputedColumn("revenue", "quantity * price", 10, "500")
PLAIN = Schema.of("orders", *COLUMNS, size=1_000)
SCHEMA = Schema.of("orders", *COLUMNS, size=1_000, computed=[REVENUE])


def question(sql: str, schema: Schema = SCHEMA) -> Question:
    parsed = read_statement(sql, schema)
    return parsed.parts[0] if isinstance(parsed, Statement) else parsed


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(revenue) FROM orders",
        "SELECT sum(quantity * price) FROM orders",
        "SELECT sum(o.price * o.quantity) AS s FROM orders o",
        "SELECT sum(Revenue) FROM (SELECT * FROM orders) AS x",
        "SELECT sum((quantity + 0) * price) FROM orders",
    ],
)
def test_a_name_and_its_expression_are_one_question_at_the_price_of_the_bounds(sql: str) -> None:
    compiled = question(sql)
    assert query_digest(compiled.query) == query_digest(question("SELECT sum(revenue) FROM orders").query)
    for relation in ("add-remove", "replace"):
        unit = Schema.of("orders", *COLUMNS, size=1_000, neighbours=relation).unit
        assert row_sensitivity(compiled.query, unit.neighbours).linf * compiled.query.blocks[0].unit == 500


def test_an_answer_says_that_rows_beyond_count_as_the_bound() -> None:
    for sql in ("SELECT avg(revenue) FROM orders", "SELECT avg(price * quantity) FROM orders"):
        assert question(sql).warnings == (
            "revenue is quantity * price, declared from 10 to 500: a row beyond counts as the bound.",
        )
    assert question("SELECT sum(quantity * price) FROM orders", PLAIN).warnings == ()
    assert question("SELECT sum(2 * quantity * price) FROM orders").warnings == ()  # another expression


def test_sums_conditions_and_statements_mean_the_clamped_expression() -> None:
    rows = {
        "region": ["a", "a", "b", "b", None, "a"],
        "quantity": [1, 100, 3, 7, 2, None],
        "price": [2.0, 50.0, 20.5, 11.0, 100.0, 3.0],
    }
    frame = pd.DataFrame(rows).astype({"quantity": "Int64"})
    source = DuckDBSource.frame(SCHEMA, frame)
    clamped = "least(greatest(quantity * price, 10), 500)"
    with duckdb.connect() as connection:
        connection.register("orders", frame)
        for value, where in (
            (f"sum({clamped})", "TRUE"),
            ("count(*)", f"{clamped} > 60"),
            (f"sum({clamped})", f"{clamped} < 90"),
        ):
            present = "quantity IS NOT NULL"  # least and greatest of DuckDB leave NULL out
            expected = connection.execute(f"SELECT {value} FROM orders WHERE {present} AND {where}").fetchone()  # noqa: S608
            sql = f"SELECT {value} FROM orders WHERE {where}".replace(clamped, "revenue")  # noqa: S608
            asked = question(sql).query
            exact = unseal(source.exact(asked))[0] * asked.blocks[0].unit
            assert expected is not None
            assert exact == Fraction(expected[0])


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_computed_column_is_asked_and_described() -> None:
    frame = pd.DataFrame({"region": ["a", "b"] * 500, "quantity": [2] * 1000, "price": [40.0] * 1000})
    shop = dodona.open(frame, schema=SCHEMA, budget=Budget(100, "1e-6"), max_price="100%")
    answer = shop.ask("SELECT avg(revenue) FROM orders", within=5)
    assert 70 < answer.value.value < 90
    share = shop.ask(
        "WITH x AS (SELECT region, sum(revenue) AS s FROM orders GROUP BY 1) SELECT region, s / sum(s) OVER () FROM x",
        epsilon=10,
    )
    assert len(share.rows) == 4
    assert "Column revenue, computed: quantity * price, from 10 to 500" in str(shop.describe())


def test_a_ledger_is_not_bound_to_computed_columns() -> None:
    assert SCHEMA.digest == PLAIN.digest
    assert SCHEMA.extends(PLAIN)


@pytest.mark.parametrize(
    ("name", "expression", "lower", "upper", "match"),
    [
        ("price", "quantity * 2", 0, 1, "a column has this name"),
        ("x", "", 0, 1, "write an expression"),
        ("x", "quantity", 1, 1, "above lower"),
        ("x", "quantity", 0, "many", "exact number"),
        ("not a name", "quantity", 0, 1, "name"),
    ],
)
def test_what_cannot_be_a_computed_column_is_refused(
    name: str, expression: str, lower: int, upper: object, match: str
) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Schema.of("orders", *COLUMNS, size=9, computed=[ComputedColumn(name, expression, lower, upper)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("quantity * pric", "There is no column `pric`"),
        ("sum(price)", "An aggregate stands"),
        ("price / quantity", "have 4011006 ratios"),
        ("region", "compared"),
        ("price FROM orders WHERE region = 'a' --", "no expression of a row"),
        ("price, quantity", "no expression of a row"),
    ],
)
def test_an_expression_that_is_not_known_is_refused_where_it_is_used(expression: str, match: str) -> None:
    schema = Schema.of("orders", *COLUMNS, size=9, computed=[ComputedColumn("wrong", expression, 0, 1)])
    with pytest.raises(InvalidSql, match=match) as refused:
        read_statement("SELECT sum(wrong) FROM orders", schema)
    assert refused.value.column == 12
    assert read_statement("SELECT sum(price) FROM orders", schema)


def test_the_dataset_file_declares_computed_columns(tmp_path: Path) -> None:
    added = '\n[computed.decades]\nexpression = "age * 10"\nlower = 0\nupper = "500.5"\n'
    place = tmp_path / "stays.toml"
    place.write_text(TOML + added, encoding="utf-8")
    (column,) = DatasetFile.read(place).schema.computed
    assert column == ComputedColumn("decades", "age * 10", 0, "500.5")
    place.write_text(TOML + added.replace("upper", "uper").replace("lower = 0", "lower = 'x'"), encoding="utf-8")
    with pytest.raises(InvalidFile) as refused:
        DatasetFile.read(place)
    for words in ("computed.decades.lower", "computed.decades.upper", "computed.decades.uper"):
        assert words in str(refused.value)


def test_what_a_refused_ratio_says_to_write_is_answered() -> None:
    with pytest.raises(InvalidSql, match="ratios") as refused:
        read_statement("SELECT avg(price / quantity) FROM orders", PLAIN)
    first, second = refused.value.instead.removeprefix("Write ").split(
        " for the ratio of the totals, or compare products, as in "
    )
    for part in (first, second.split(" for the share")[0]):
        assert read_statement(f"SELECT {part} FROM orders", PLAIN)  # noqa: S608  what the refusal said


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT tens, count(*) FROM orders GROUP BY tens", ["tens", "count"]),
        ("SELECT Tens AS t, count(*) FROM orders GROUP BY 1 ORDER BY t", ["t", "count"]),
        ("SELECT count(*) FROM orders GROUP BY tens", ["count"]),
    ],
)
def test_groups_are_made_by_a_computed_column(sql: str, columns: list[str]) -> None:
    tens = ComputedColumn("tens", "floor(quantity / 100)", 0, 10)
    compiled = question(sql, Schema.of("orders", *COLUMNS, size=1_000, computed=[tens]))
    assert [column.name for column in compiled.columns] == columns
    by_hand = question("SELECT count(*) FROM orders GROUP BY floor(quantity / 100)", PLAIN)
    assert query_digest(compiled.query) == query_digest(by_hand.query)
