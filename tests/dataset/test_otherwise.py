"""From a declaration to an answer, where columns have no `<missing>` and `<outside>`."""

from __future__ import annotations

import datetime as dt
import itertools

import pandas as pd
import pytest

import dodona
from dodona.dataset.opening import make_up_columns
from dodona.engines.memory import MemorySource
from dodona.ledger.errors import LedgerOfAnother
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema
from dodona.trusted.gate import unseal
from tests.dataset.scene import TOML, written

SCHEMA = Schema.of(
    "stays",
    Category("sex", ["female", "male"], otherwise="male"),
    Integer("age", 0, 99, otherwise=0),
    Number("stay", 0, 8, "0.25", otherwise=1),
    Date("admitted", dt.date(2024, 1, 1), dt.date(2024, 2, 29), otherwise=dt.date(2024, 2, 1)),
    Boolean("urgent", otherwise=False),
    size=4_000,
)
FRAME = pd.DataFrame(
    {
        "sex": [("female", "male", None, "unknown")[row % 4] for row in range(4_000)],
        "age": [None if row % 10 == 0 else float(row % 100) for row in range(4_000)],
        "stay": [None if row % 2 else 3.0 for row in range(4_000)],
        "admitted": [None if row % 4 else dt.date(2024, 1, 15) for row in range(4_000)],
        "urgent": [(True, False, None, None)[row % 4] for row in range(4_000)],
    }
)


@pytest.fixture
def stays():
    with pytest.warns(UserWarning, match="forgotten"):
        curator = dodona.open(FRAME, schema=SCHEMA, budget=dodona.Budget(2_000, 0, "pure"), max_price=1)
    with curator:
        yield curator


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT sex, count(*) FROM stays GROUP BY sex", [("female", 1_000), ("male", 3_000)]),
        ("SELECT urgent, count(*) FROM stays GROUP BY urgent", [(False, 3_000), (True, 1_000)]),
        ("SELECT month(admitted) AS m, count(*) FROM stays GROUP BY m", [(1, 1_000), (2, 3_000)]),
    ],
)
def test_groups_are_the_declared_ones_and_hold_all_rows(stays, text: str, expected) -> None:
    answer = stays.ask(text, epsilon=50)
    rows = [(row[0], round(float(row[1]))) for row in answer.to_pandas().iloc[:, :2].itertuples(index=False)]
    assert rows == expected


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("SELECT avg(stay) FROM stays", 1.99, 2.01),
        ("SELECT median(age) FROM stays", 43, 47),
        ("SELECT count(age) FROM stays", 3_999, 4_001),
        ("SELECT count(*) FROM stays WHERE age IS NOT NULL AND urgent IS NOT NULL", 3_999, 4_001),
        ("SELECT stddev_pop(stay) FROM stays", 0.97, 1.03),
    ],
)
def test_aggregates_have_a_value_in_every_row(stays, text: str, low: float, high: float) -> None:
    value = stays.ask(text, epsilon=100).value
    assert low <= float(value.value) <= high


def test_quantiles_of_complete_columns_can_be_quoted_by_accuracy(stays) -> None:
    assert stays.quote("SELECT sex, median(age) FROM stays GROUP BY sex", within=10).price.share > 0


@pytest.mark.parametrize(
    "change", [("upper = 99", "upper = 99\notherwise = 0"), ('"male"]', '"male"]\notherwise = "male"')]
)
def test_to_name_a_value_after_the_ledger_was_made_is_another_schema(change: tuple[str, str], tmp_path) -> None:
    path = written(tmp_path)
    dodona.create_ledger(path)
    path.write_text(TOML.replace(*change), encoding="utf-8")
    with pytest.raises(LedgerOfAnother, match="schema"):
        dodona.open(path, analyst="ada")


def test_a_dataset_file_with_complete_columns_is_served(tmp_path) -> None:
    path = written(tmp_path, TOML.replace('"male"]', '"male"]\notherwise = "male"').replace('"1"', '"100"'))
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        answer = stays.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=20)
    assert list(answer.to_pandas()["sex"]) == ["female", "male"]


def test_made_up_rows_have_every_value_and_nothing_else() -> None:
    rows = make_up_columns(SCHEMA)
    assert not any(value is None for value in itertools.chain.from_iterable(rows.values()))
    for attribute in SCHEMA.domain:
        assert set(encode(attribute, rows[attribute.name]).tolist()) == set(range(attribute.size))
    counted = unseal(MemorySource(SCHEMA, rows).exact(Query.marginal(SCHEMA.domain, ["sex", "urgent"])))
    assert sum(counted) == 4_000
    assert min(counted) > 0
