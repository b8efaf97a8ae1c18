"""B9 to B12 and B14: beside noisy numbers a response has nothing of the rows."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction

import pandas as pd
import pytest

import dodona
from dodona.answer.answer import Answer
from dodona.curator.curator import Curator
from dodona.errors import DodonaError
from dodona.privacy.budget import Budget
from dodona.query.sensitivity import row_sensitivity
from dodona.schema.schema import Neighbours
from tests.security import scene

BOTH = pytest.mark.parametrize("neighbours", Neighbours)
EVERYONE = pytest.mark.parametrize("person", scene.PERSONS.values(), ids=scene.PERSONS)
ENGINES = pytest.mark.parametrize("engine", ["memory", "duckdb"])
SHOWN = (
    "SELECT count(*) FROM stays",
    "SELECT count(*), sum(stay) AS days, sum(age * 1000) FROM stays WHERE sex = 'other'",
    "SELECT sex, count(*), sum(age) FROM stays GROUP BY sex",
    "SELECT sex, emergency, count(*) FROM stays WHERE age >= 10 GROUP BY sex, emergency",
    "SELECT stay, count(*) FROM stays GROUP BY stay",
    "SELECT date_trunc('month', admitted) AS month, count(*) FROM stays GROUP BY month",
    "SELECT CASE WHEN age < 5 THEN 'young' ELSE 'old' END AS band, count(*) FROM stays GROUP BY band",
    "SELECT sum(CASE WHEN sex = 'female' THEN 100 ELSE -1 END) FROM stays WHERE stay > 4",
)
FAILING = (
    "SELECT sum(1 / age) FROM stays",
    "SELECT count(*) FROM stays WHERE 1 / age > 0",
    "SELECT count(*) FROM stays WHERE CAST(sex AS INTEGER) = 1",
    "SELECT sum(stay * 1e300) FROM stays",
    "SELECT count(*) FROM stays WHERE sex LIKE '%(((('",
    "SELECT sqrt(sum(-age)) FROM stays",
    "SELECT sex FROM stays",
    "SELECT patient FROM stays",
)
CATALOGUE = (
    "EXPLAIN ANALYZE SELECT count(*) FROM stays",
    "DESCRIBE stays",
    "SHOW TABLES",
    "PRAGMA table_info('stays')",
    "SELECT * FROM information_schema.columns",
    "SELECT reltuples FROM pg_class",
    "SELECT count(*) FROM duckdb_tables()",
    "SELECT count(*) FROM read_csv('/etc/passwd')",
    "SELECT mode(sex) FROM stays",
    "SELECT any_value(sex) FROM stays",
    "SELECT string_agg(sex, ',') FROM stays",
)


@EVERYONE
@pytest.mark.parametrize(("neighbours", "delta"), list(zip(Neighbours, ("0", "1e-6"), strict=True)))
def test_b9_every_byte_but_noisy_numbers_is_the_same_on_neighbours(
    neighbours: Neighbours, person: scene.Row, delta: str
):
    first, second = (scene.of(rows, neighbours, delta=delta) for rows in scene.tables(neighbours, person))
    for text in SHOWN:
        outline, other = (scene.outline(asked.ask(text, epsilon="1/10")) for asked in (first, second))
        assert outline == other, text
        assert "#" in outline


@EVERYONE
def test_b9_engines_that_read_the_same_rows_show_the_same_bytes(person: scene.Row):
    rows = (*scene.CROWD, person)
    memory, duckdb = (scene.of(rows, engine=engine) for engine in ("memory", "duckdb"))
    for text in SHOWN[2:5]:
        outline, other = (scene.outline(asked.ask(text, epsilon="1/10")) for asked in (memory, duckdb))
        assert outline == other, text


@BOTH
@EVERYONE
def test_b9_what_would_fail_on_a_row_fails_on_the_text_alone(neighbours: Neighbours, person: scene.Row):
    first, second = (scene.of(rows, neighbours) for rows in scene.tables(neighbours, person))
    for text in (*FAILING, *CATALOGUE):
        charge, other = (scene.charge(asked, text, epsilon="1/10") for asked in (first, second))
        assert charge == other, text


def test_b11_nothing_but_declared_metadata_can_be_asked_for():
    asked = scene.of(scene.CROWD)
    declared = [row.keys for row in asked.ask("SELECT DISTINCT sex FROM stays").rows]
    assert declared == [row.keys for row in scene.of(()).ask("SELECT DISTINCT sex FROM stays").rows]
    for text in CATALOGUE:
        with pytest.raises(DodonaError, match="Nothing was charged") as raised:
            asked.ask(text)
        for row in scene.CROWD:
            assert str(row[3]) not in str(raised.value)
    for text in ("EXPLAIN SELECT count(*) FROM stays", "SELECT count(DISTINCT sex) FROM stays"):
        assert str(asked.ask(text)) == str(scene.of(()).ask(text))
    assert len(asked.history) == 0


@EVERYONE
def test_b11_bounds_groups_prices_and_offers_come_from_the_schema(person: scene.Row):
    """Quotes look at no row at all: they are the same on any table, and so are all declared facts."""
    empty, full = (scene.of(rows) for rows in ([scene.CROWD[0]], [*scene.CROWD, person] * 3))
    assert empty.schema == full.schema
    for text in SHOWN:
        quote, other = (str(asked.quote(text, within="10%")) for asked in (empty, full))
        assert quote == other


@EVERYONE
@pytest.mark.parametrize("kind", ["object", "guessed"])
def test_b11_the_types_that_a_frame_happens_to_have_are_not_shown(person: scene.Row, kind: str):
    """A missing integer turns a column of pandas into floats; the answer does not say so."""
    shown = []
    for rows in (scene.CROWD, (*scene.CROWD, person)):
        frame = pd.DataFrame(scene.columns(rows), dtype=object)
        if kind == "guessed":
            frame["age"], frame["stay"] = pd.to_numeric(frame["age"]), pd.to_numeric(frame["stay"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = dodona.open(frame, schema=scene.schema(), budget=Budget(10, "1e-6", "renyi"))
        shown.append([scene.outline(asked.ask(text, epsilon="1/10")) for text in SHOWN[:3]])
    assert shown[0] == shown[1]


@ENGINES
@BOTH
def test_b10_every_declared_group_is_answered_with_noise_and_no_other(engine: str, neighbours: Neighbours):
    """40 asks of ε = 1: an empty group that is 0 each time has probability below 10^-13."""
    asked = Curator(scene.of(scene.CROWD, neighbours, engine=engine, delta="0")._dataset, rungs=frozenset())
    nonzero = Counter[str]()
    for number in range(40):
        answer = asked.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1, key=str(number))
        assert [row.keys[0] for row in answer.rows] == ["female", "male", "other", "<missing>", "<outside>"]
        nonzero.update(str(row.keys[0]) for row in answer.rows if row.estimates[0].value != 0)
    assert nonzero["other"] > 0
    assert nonzero["<outside>"] > 0


@BOTH
def test_b10_a_key_that_is_not_declared_is_counted_outside_and_never_named(neighbours: Neighbours):
    asked = scene.of([*scene.CROWD, ("Dr. Strangelove", 7, 1.0, None, True)], neighbours)
    answer = asked.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1)
    everything = scene.outline(answer) + repr(asked.history) + "".join(map(repr, asked._dataset.ledger.lines()))
    assert "Strangelove" not in everything


@BOTH
@pytest.mark.parametrize(
    ("aggregate", "added", "replaced"),
    [
        ("sum(age)", 20, 20),
        ("sum(age * 1000)", 20, 20),
        ("sum(age - 10)", 10, 20),
        ("sum(CASE WHEN age = 7 THEN 1000000000 ELSE 0 END)", 10**9, 10**9),
        ("sum(CASE WHEN sex = 'female' THEN 100 ELSE -1 END)", 100, 101),
        ("sum(-stay)", 5, 5),
    ],
)
def test_b12_the_sensitivity_is_that_of_the_expression_inside_the_aggregate(
    neighbours: Neighbours, aggregate: str, added: int, replaced: int
):
    """In the unit of the answer, whatever part of a factor became the unit."""
    query = scene.of(scene.CROWD, neighbours).read(f"SELECT {aggregate} FROM stays").query  # noqa: S608
    (block,) = query.blocks
    moved = row_sensitivity(query, neighbours).l1 * block.unit
    factor = 1000 if "1000)" in aggregate else 1
    assert moved == factor * Fraction(added if neighbours is Neighbours.ADD_REMOVE else replaced)


@BOTH
def test_b14_a_histogram_costs_twice_as_much_where_rows_are_replaced(neighbours: Neighbours):
    asked = scene.of(scene.CROWD, neighbours, delta="0")
    scale = asked.ask("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1).measured.noises[0].scale
    assert scale == (1 if neighbours is Neighbours.ADD_REMOVE else 2)


def told(answer: Answer) -> tuple[str, ...]:
    return tuple(str(row.keys[0]) for row in answer.rows)


@pytest.mark.parametrize(
    "count", [pytest.param(800, marks=pytest.mark.slow), pytest.param(2_000, marks=pytest.mark.soak)]
)
@pytest.mark.distribution
@BOTH
def test_b9_what_having_order_and_limit_show_is_as_private_as_the_counts(neighbours: Neighbours, count: int):
    """800 answers a table at ε = 1, 2,000 in the soak; false alarm 1e-6 for each relation."""
    import numpy as np

    from dodona.lab.audit.bound import certified_epsilon

    text = "SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING count(*) > 1 ORDER BY n DESC LIMIT 2"
    seen: dict[tuple[str, ...], int] = {}
    outputs = []
    for rows in scene.tables(neighbours, scene.PERSONS["the only one of a group"]):
        asked = scene.of(rows, neighbours, delta="0", rungs=frozenset())
        answers = [asked.ask(text, epsilon=1) for _ in range(count)]
        assert {answer.source for answer in answers} == {"measured"}
        outputs.append(np.array([seen.setdefault(told(answer), len(seen)) for answer in answers]))
    assert certified_epsilon(*outputs) <= 1
