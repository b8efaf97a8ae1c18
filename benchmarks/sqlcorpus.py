"""SQL as analysts and their tools write it: how much of a corpus is answered, how fast it is read and computed.

The corpus is `sqlcorpus.sql`, over a made-up table of orders. A statement counts as answered if it is read and its
outer half runs on made-up values of all groups; nothing is measured. Coverage of intervals is in `sqlcoverage`.
"""

from __future__ import annotations

import datetime as dt
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks import sqlcoverage
from benchmarks.report import Row
from dodona.answer.answer import Answer, table_view
from dodona.answer.computed import ComputedAnswer
from dodona.errors import InvalidRequest
from dodona.privacy.additive_noise import Gaussian
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.statement import Statement
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.schema import PublicTable, Schema
from dodona.sql.compile import compile_sql, read_statement
from dodona.sql.statement import check_statement

_REGIONS = ("north", "south", "east", "west", "abroad")
SCHEMA = Schema.of(
    "orders",
    Category("region", _REGIONS),
    Category("product", tuple(f"p{number:02}" for number in range(1, 16))),
    Category("channel", ("web", "shop", "phone")),
    Integer("quantity", 1, 20),
    Integer("age", 0, 99),
    Number("unit_price", 0, 200, "0.5"),
    Number("discount", 0, 1, "0.01"),
    Date("order_date", dt.date(2023, 1, 1), dt.date(2024, 12, 31)),
    Date("shipped", dt.date(2023, 1, 1), dt.date(2025, 1, 31)),
    Boolean("returned"),
    size=200_000,
    id="customer_id",
    rows=10,
    public=[
        PublicTable.of(
            "regions",
            "region",
            [
                {"region": name, "country": "abroad" if name == "abroad" else "home", "manager": f"m{place}"}
                for place, name in enumerate(_REGIONS)
            ],
        )
    ],
)
ROWS = 1_000
NOTE = (
    "A statement is answered if it is read and what it computes runs; those marked as refused must be refused. Reading "
    "is from the text to questions and SQL, without caches; computing is the outer half over 1,000 released rows."
)
_RUNS = 9
_WIDE = """
SELECT age, day, n, n / sum(n) OVER () AS share, n - lag(n) OVER (ORDER BY age, day) AS change
FROM (SELECT age, day, count(*) AS n FROM visits GROUP BY age, day) AS x
"""

Say = Callable[[str], None]


def corpus() -> list[tuple[str, bool]]:
    """Return the statements, and whether each is to be answered."""
    statements = []
    for block in (Path(__file__).parent / "sqlcorpus.sql").read_text("utf-8").split("\n\n"):
        lines = block.strip("\n").split("\n")
        text = "\n".join(line for line in lines if not line.startswith("-- "))
        if text:
            statements.append((text, not any(line.startswith("-- refused:") for line in lines)))
    return statements


def measure(say: Say) -> dict[str, object]:
    """Return the share of answerable statements that are answered, and times in the unit that a name ends with."""
    say("the corpus")
    statements = corpus()
    refused: dict[str, str] = {}
    plain = answered = 0
    wrongly, times, halves = [], [], []
    for text, answerable in statements:
        plain += answerable and _is_answered(text, compile_sql) is None
        _is_answered(text, read_statement)
        begin = time.process_time()
        why = _is_answered(text + " ", read_statement)  # a text of its own, so that it is not remembered
        times.append(1000 * (time.process_time() - begin))
        if why is None:
            begin = time.process_time()
            why = _is_answered(text, _checked)
            halves.append(1000 * (time.process_time() - begin))
        answered += answerable and why is None
        if answerable and why is not None:
            refused[text] = why
        if not answerable and why is None:
            wrongly.append(text)
    all_answerable = sum(answerable for _, answerable in statements)
    figures: dict[str, object] = {
        "statements": len(statements),
        "answerable": all_answerable,
        "answered": round(answered / all_answerable, 4),
        "answered_as_one_select": round(plain / all_answerable, 4),
        "wrongly_answered": wrongly,
        "compile_ms": round(statistics.median(times), 2),
        "rehearse_ms": round(statistics.median(halves), 2),
    }
    say("the outer half at 1,000 rows")
    figures |= _outer_half()
    say("coverage of intervals through the outer half")
    return figures | {"coverage": sqlcoverage.measure(), "refused": refused}


def reading_ms() -> float:
    """Return the median CPU time of reading a statement of the corpus, without caches."""
    times = []
    for text, _ in corpus():
        begin = time.process_time()
        _is_answered(f"{text}\n", read_statement)  # a text of its own, so that it is not remembered
        times.append(1000 * (time.process_time() - begin))
    return statistics.median(times)


def _checked(text: str, schema: Schema) -> None:
    asked = read_statement(text, schema)
    if isinstance(asked, Statement) and asked.sql:
        check_statement(asked)


def _is_answered(text: str, read: Callable[[str, Schema], object]) -> str | None:
    """Return why a statement is refused; None if it is not."""
    try:
        read(text, SCHEMA)
    except InvalidRequest as fault:
        return str(fault).splitlines()[-1]
    return None


def _outer_half() -> dict[str, object]:
    """Return how long the outer half takes over 1,000 released rows, and its intervals."""
    days = Date("day", dt.date(2024, 1, 1), dt.date(2024, 1, 8))
    schema = Schema.of("visits", Integer("age", 0, 97), days, size=200_000)
    asked = read_statement(_WIDE, schema)
    if not isinstance(asked, Statement):
        raise TypeError
    question = asked.parts[0]
    noisy = np.random.default_rng(1).integers(0, 400, question.query.values)
    measured = MeasuredValues(question, [int(value) for value in noisy], (Gaussian(scale=10),))
    part = Answer(measured=measured, price=FREE, view=table_view(0.95, 200_000))
    rows, computing, intervals = len(part.rows), [], []
    for _ in range(_RUNS):
        begin = time.process_time()
        answer = ComputedAnswer.compute(asked, (part,))
        computing.append(1000 * (time.process_time() - begin))
    begin = time.process_time()
    _ = answer.rows
    intervals.append(1000 * (time.process_time() - begin))
    return {
        "outer_rows": rows,
        "outer_ms": round(statistics.median(computing), 2),
        "intervals_ms": round(intervals[0], 1),
    }


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    rows = [
        Row("answered, of the answerable", "", cast("float", figures["answered"]), None, "more"),
        Row("answered as one plain SELECT", "", cast("float", figures["answered_as_one_select"]), None, "more"),
        Row("reading a statement", "ms", cast("float", figures["compile_ms"]), None, "less"),
        Row("rehearsing its outer half", "ms", cast("float", figures["rehearse_ms"]), None, "less"),
        Row("the outer half, 1,000 rows", "ms", cast("float", figures["outer_ms"]), None, "less"),
        Row("its intervals, 1,000 rows", "ms", cast("float", figures["intervals_ms"]), None, "less"),
    ]
    held = cast("dict[str, float]", figures["coverage"])
    return [*rows, *(Row(f"coverage, {name}", "", value, None, "more") for name, value in held.items())]
