"""N1 to N8: what leaves is an integer number of steps, whatever numbers are in the table or in the request."""

from __future__ import annotations

import ast
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.errors import DodonaError, InvalidRequest
from dodona.lab.audit.bound import certified_epsilon, certified_mu
from dodona.lab.audit.cases.scene import last_event
from dodona.query.query import Block, Query, column_weight
from dodona.schema.attributes import Integer, Number
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted import gate, source
from dodona.trusted.gate import unseal
from tests.security import scene

BOTH = pytest.mark.parametrize("neighbours", Neighbours)
ENGINES = pytest.mark.parametrize("engine", ["memory", "duckdb"])
TEXTS = (
    "SELECT count(*) FROM stays WHERE age > 3",
    "SELECT sex, count(*), sum(stay), sum(age * 1000) FROM stays GROUP BY sex",
    "SELECT avg(stay), stddev(age), median(stay) FROM stays",
    "SELECT stay, emergency, sum(age) FROM stays GROUP BY stay, emergency",
)


@BOTH
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_n1_every_count_and_sum_is_a_whole_number_of_steps(neighbours: Neighbours, delta: str):
    asked = scene.of(scene.CROWD, neighbours, delta=delta)
    question = asked.read("SELECT count(*), sum(stay), sum(age * 1000) FROM stays WHERE sex = 'female'")
    units = [block.unit for block in question.query.blocks]
    for answer in asked.ask_many([question] * 100, epsilon=100, fresh=True):  # type: ignore[list-item]
        assert all(type(value) is int for value in list(answer.measured.values))
        for cell, unit in zip(answer.rows[0].estimates, units, strict=True):
            assert isinstance(cell.value, int | Fraction)
            assert (cell.value / unit).denominator == 1


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.distribution
@BOTH
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_n1_n2_no_bit_of_the_double_that_is_shown_tells_more_than_the_price(neighbours: Neighbours, delta: str):
    """10,000 sums a table, 40 features, α = 10^-8 for each: false alarm below 10^-6 in all."""
    text, times = "SELECT sum(stay) FROM stays", 500
    outputs, certified = [], certified_epsilon if delta == "0" else certified_mu
    for rows in scene.tables(neighbours, ("female", 1, 5.0, None, True)):
        values: list[float] = []
        for _ in range(20):
            asked = scene.of(rows, neighbours, delta=delta)
            answers = asked.ask_many([asked.read(text)] * times, epsilon=times, fresh=True)  # type: ignore[list-item]
            values += [float(answer.value) for answer in answers]
        outputs.append(np.array(values).view(np.int64))
    event = last_event(asked._dataset.ledger)
    rho = float(event.rho()) / times
    price = 1.0 if delta == "0" else math.sqrt(2 * rho) * (1 + 2 * rho / 22)  # as in the audit of Gaussian noise
    for bits in range(1, 21):
        for shift in (0, 43):  # the lowest bits, and the lowest of the first ten and the exponent
            shown = ((numbers >> shift) % (1 << bits) for numbers in outputs)
            assert certified(*shown, error=1e-8) <= price, (shift, bits)


def test_n3_nothing_in_trusted_can_draw_a_double():
    folder = Path(gate.__file__).parent
    assert Path(source.__file__).parent == folder
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not {name.split(".")[0] for name in imported} & {"random", "scipy", "secrets", "statistics"}, path
        assert not read & {"default_rng", "laplace_", "normal", "standard_normal", "gauss", "normalvariate"}, path


EDGES = [31, 53, 63]


@ENGINES
@pytest.mark.parametrize("bits", EDGES)
@pytest.mark.parametrize("sign", [1, -1])
def test_n4_a_sum_at_the_edge_of_a_word_moves_by_one_row_and_no_more(engine: str, bits: int, sign: int):
    """Eight rows reach the edge exactly; the ninth passes it."""
    root, power = (1 << 20, 3) if bits == 63 else (1 << (bits - 3), 1)
    ends = sorted((sign * root, sign * (root - 9)))
    domain = Schema.of("t", Integer("x", *ends), size=9)
    weight, unit = column_weight(domain.domain["x"], power=power)
    query = Query(domain.domain, (Block(weight=weight, unit=unit),))
    totals = []
    for rows in range(7, 10):
        values = [sign * root] * rows
        data = (
            MemorySource(domain, {"x": values})
            if engine == "memory"
            else DuckDBSource.frame(domain, pd.DataFrame({"x": values}), threads=1)
        )
        totals.append(int(gate.read_exact(data, query)[0]))
    assert [total * unit for total in totals] == [rows * (sign * root) ** power for rows in range(7, 10)]


@ENGINES
def test_n5_a_row_moves_a_sum_by_its_own_value_however_large_the_others_are(engine: str):
    """200 random neighbours with magnitudes from the step to 2^45 steps."""
    generator = np.random.default_rng(5)
    declared = Schema.of("t", Number("x", 0, 10**6, "1/8"), size=50)
    query = Query.sum(declared.domain, "x")
    for _ in range(200 if engine == "memory" else 3):
        values = np.exp(generator.uniform(np.log(1e-3), np.log(1e9), 50))
        values[generator.integers(0, 50)] = 2.0**53
        row = float(values[-1])
        totals = [
            int(
                gate.read_exact(
                    MemorySource(declared, {"x": column})
                    if engine == "memory"
                    else DuckDBSource.frame(declared, pd.DataFrame({"x": column}), threads=1),
                    query,
                )[0]
            )
            for column in (values, values[:-1])
        ]
        assert totals[0] - totals[1] == min(math.floor(row * 8), 8 * 10**6)


def exact(told: source.Source, text: str) -> list[int]:
    return list(map(int, unseal(told.exact(scene.of(scene.CROWD).read(text).query))))


def test_n6_neither_the_order_of_rows_nor_the_number_of_threads_moves_an_answer():
    generator = random.Random(6)  # noqa: S311  orders of rows
    rows = [*scene.CROWD, *scene.PERSONS.values()] * 100
    expected = [exact(scene.source(rows), text) for text in TEXTS]
    for threads in (1, 2, 8):
        generator.shuffle(rows)
        frame = pd.DataFrame(scene.columns(rows), dtype=object)
        for data in (scene.source(rows), DuckDBSource.frame(scene.schema(), frame, threads=threads)):
            assert [exact(data, text) for text in TEXTS] == expected


SPECIAL = [
    ("stay", math.nan, None),
    ("stay", math.inf, 5.0),
    ("stay", -math.inf, 0.0),
    ("stay", -0.0, 0.0),
    ("stay", 5e-324, 0.0),
    ("stay", 1e308, 5.0),
    ("stay", 2.4999999999999996, 2.5),  # less than a millionth of a step below
    ("stay", 2.4999, 2.25),
    ("age", math.nan, None),
    ("age", 10**400, 20),
    ("age", -(10**400), 0),
    ("age", 7.999999, 7),
    ("age", -0.0, 0),
    ("age", Decimal("NaN"), None),
    ("sex", math.nan, None),
    ("sex", "", "nobody"),
    ("sex", "female ", "nobody"),
    ("emergency", math.nan, None),
    ("emergency", 1, True),
    ("admitted", pd.NaT, None),
]


@ENGINES
@pytest.mark.parametrize(("column", "value", "documented"), SPECIAL, ids=lambda value: repr(value)[:12])
def test_n7_a_special_value_counts_as_what_is_documented(engine: str, column: str, value: object, documented: object):
    place = scene.NAMES.index(column)
    ordinary = scene.PERSONS["an ordinary row"]
    tables = [[*scene.CROWD, (*ordinary[:place], field, *ordinary[place + 1 :])] for field in (value, documented)]
    data, other = (scene.source(rows, engine=engine) for rows in tables)
    for text in TEXTS:
        assert exact(data, text) == exact(other, text), text


MEANT = [
    ("0.1", "1/10"),
    (0.1, "1/10"),
    (Decimal("0.10"), "1/10"),
    (Fraction(1, 10), "1/10"),
    ("1e-3", "1/1000"),
    (1, "1"),
]
REFUSED = [
    1e-320,
    5e-324,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    0,
    -0.0,
    -1,
    "0",
    "-0.1",
    "1e-999",
    "1e999999999",
    "nan",
    "inf",
    "",
    "0x1",
    "1_000",
    "１",
    "1/0",
    "1//2",
    "0.1.2",
    "9" * 500,
    True,
    [1],
    b"1",
]


@pytest.mark.parametrize(("written", "meant"), MEANT, ids=repr)
def test_n8_a_price_means_its_shortest_decimal_exactly(written: object, meant: str):
    first, second = (scene.of(scene.CROWD, delta="0") for _ in range(2))
    text = "SELECT count(*) FROM stays"
    event = scene.charge(first, text, epsilon=written)
    assert event == scene.charge(second, text, epsilon=meant)
    assert event.epsilon == Fraction(meant)  # type: ignore[union-attr]


@pytest.mark.parametrize("written", REFUSED, ids=lambda value: repr(value)[:12])
def test_n8_a_price_without_an_exact_meaning_is_refused_and_nothing_is_charged(written: object):
    asked = scene.of(scene.CROWD)
    ways = (
        lambda: asked.ask("SELECT count(*) FROM stays", epsilon=written),  # type: ignore[arg-type]
        lambda: asked.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=written),  # type: ignore[arg-type]
        lambda: asked.above(3, epsilon=written),  # type: ignore[arg-type]
    )
    for way in ways:
        with pytest.raises(InvalidRequest, match="Nothing was charged"):
            way()
    assert asked.budget.spent == 0


@pytest.mark.parametrize(
    "written", [math.nan, -1, 0, math.inf, "nan%", "-1%", "", "0%", "1e-400%", True, [50, 50], "x"], ids=repr
)
def test_n8_a_tolerance_without_a_meaning_is_refused_and_nothing_is_charged(written: object):
    asked = scene.of(scene.CROWD)
    with pytest.raises(DodonaError, match="Nothing was charged"):
        asked.ask("SELECT count(*) FROM stays", within=written)  # type: ignore[arg-type]
    assert asked.budget.spent == 0


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_n8_a_question_never_costs_more_than_the_price_that_was_written(delta: str):
    """Where the noise for a price is wider than any that is drawn, the question is refused."""
    asked = scene.of(scene.CROWD, delta=delta)
    text = "SELECT sum(CASE WHEN age = 7 THEN 1000000000000001 ELSE 1 END) FROM stays"
    with pytest.raises(InvalidRequest, match="Nothing was charged"):
        asked.ask(text, epsilon="1/1000")
    assert asked.budget.spent == 0


def test_n8_charges_add_up_exactly_and_are_never_rounded_down():
    """Eighty prices over nine orders of magnitude; the ledger's total is their sum as fractions."""
    generator = random.Random(8)  # noqa: S311  prices
    asked = scene.of(scene.CROWD, delta="0")
    kept, total = asked._dataset.ledger, Fraction(0)
    for number in range(80):
        written = f"{generator.randrange(1, 10**6)}e-{generator.randrange(4, 11)}"
        answer = asked.ask("SELECT count(*) FROM stays", epsilon=written, key=str(number))
        event = kept.releases()[-1][0].event
        assert event.epsilon is not None
        assert kept.share(event) >= event.epsilon / 10**4 > 0
        total += answer.price.share
    assert kept.state().spent == total
