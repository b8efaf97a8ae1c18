"""What a question costs beside the engine: one count, ten thousand in one batch, and reading SQL."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, cast

import duckdb
import numpy as np

from benchmarks import clock, table
from dodona.answer.estimate import to_float
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.duckdb_session import connect, declared_table, parquet_sql
from dodona.query.predicate import among_mask, as_box, conjunction, unpack_bits
from dodona.query.query import Query
from dodona.sql.compile import compile_sql

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.answer.answer import Answer
    from dodona.trusted.source import Source

COUNTS = 200
BATCH = 10_000
BATCHES = 5
TEXTS = 300
_WAYS = 3
_TEXT = "SELECT count(*) FROM {} WHERE age >= {} AND cost < {} AND emergency"

Figures = dict[str, object]


class Engine:
    """A connection that knows how much CPU time its statements took."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take an open connection."""
        self._connection = connection
        self.seconds = 0.0

    def execute(self, text: str) -> Engine:
        """Leave a statement for the fetch, so that both are timed together."""
        self._text = text
        return self

    def fetchnumpy(self) -> object:
        """Return the columns of the statement's answer."""
        fetched: list[object] = []
        self.seconds = clock.once(lambda: fetched.append(self._connection.execute(self._text).fetchnumpy()))
        return fetched[0]


def count_overhead(path: Path, *, counts: int = COUNTS) -> Figures:
    """Return the median CPU milliseconds of a count through `ask`, less what the engine took for its statement.

    Every question is another one, so none is told again. Plain DuckDB is given the same text, in turns with ours.
    """
    plain, connection = duckdb.connect(), connect()
    engine = Engine(connection)
    read = declared_table(connection, table.COUNTED, parquet_sql(connection, [str(path)], path.parent))
    source = DuckDBSource(cast("duckdb.DuckDBPyConnection", engine), table.COUNTED, read, version="1")
    ours = table.curator(table.COUNTED, source)
    pairs = [(age, cost) for cost, age in product(range(1_000, 10_000, 500), range(5, 105, 5))][: counts + 10]
    asked, alone, beside = [], [], []
    for age, cost in pairs:
        text = _TEXT.format(f"read_parquet('{path}')", age, cost)
        alone.append(clock.once(lambda: plain.execute(text).fetchone()))  # noqa: B023  it is done at once
        asked.append(clock.once(lambda: ours.ask(_TEXT.format("stays", age, cost)).value))  # noqa: B023
        beside.append(asked[-1] - engine.seconds)
    timings = {"ask": asked, "duckdb": alone, "beside the engine": beside}
    figures = {name: round(median(times[10:]) * 1e3, 3) for name, times in timings.items()}
    return {"count_overhead_ms": figures["beside the engine"], "count_ms": figures}


def batch(source: Source, *, batches: int = BATCHES) -> tuple[Figures, list[tuple[Query, Answer]]]:
    """Return the median CPU seconds of 10,000 counts in one `ask_many`, and the last answers."""
    seconds: list[float] = []
    again: list[float] = []
    last: list[tuple[Query, Answer]] = []
    table.curator(table.NARROW, source).ask_many(conjunctions(100, seed=99), within="5%")
    for number in range(batches):
        ours = table.curator(table.NARROW, source)
        for times, seed in ((seconds, 2 * number), (again, 2 * number + 1)):
            asked, answers = conjunctions(BATCH, seed=seed), list[Sequence["Answer"]]()
            gc.collect()
            times.append(clock.once(lambda: answers.append(ours.ask_many(asked, within="5%"))))  # type: ignore[arg-type]  # noqa: B023  now
            last = list(zip(asked, answers[0], strict=True))
    return {
        "batch_10k_cpu_s": round(median(seconds), 3),
        "batch_10k_cpu_s_all": {"fresh": round(median(seconds), 3), "after another batch": round(median(again), 3)},
    }, last


def conjunctions(count: int, *, seed: int) -> list[Query]:
    """Return three-way conjunctions of one or two cells of a column each."""
    random = np.random.default_rng(seed)
    domain = table.NARROW.domain
    columns = [random.choice(table.COLUMNS, _WAYS, replace=False).tolist() for _ in range(count)]
    sets = random.choice([0b0001, 0b0010, 0b0101, 0b0110, 0b1001, 0b1010], (count, _WAYS)).tolist()
    return [
        Query.count(
            domain, conjunction(*(among_mask(domain[f"c{place}"], codes) for place, codes in zip(*pair, strict=True)))
        )
        for pair in zip(columns, sets, strict=True)
    ]


def held(answered: Sequence[tuple[Query, Answer]], cells: NDArray[np.int64]) -> float:
    """Return the share of answers whose interval holds the number of rows, which is summed here by itself."""
    kept = 0
    marginals: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for query, answer in answered:
        parts = as_box(query.blocks[0].where) or ()
        places = tuple(int(part.attribute.removeprefix("c")) for part in parts)
        if places not in marginals:
            marginals[places] = cells.sum(axis=tuple(place for place in range(table.COLUMNS) if place not in places))
        exact = marginals[places][np.ix_(*(unpack_bits(part.codes, part.cells) for part in parts))].sum()
        estimate = answer.rows[0].estimates[0]
        kept += to_float(estimate.low) <= exact <= to_float(estimate.high)
    return kept / len(answered)


def parsing() -> Figures:
    """Return the CPU milliseconds from text to question: of a count and of a GROUP BY, each text another one."""
    texts = {
        "count": "SELECT count(*) FROM stays WHERE age >= {} AND cost < {}",
        "group by": "SELECT emergency, count(*) AS n, avg(cost) FROM stays WHERE age < {} AND cost > {} "
        "GROUP BY emergency ORDER BY n DESC",
    }
    medians = {}
    for name, text in texts.items():
        seconds = [
            clock.once(partial(compile_sql, text.format(number % 100, 17 * number), table.COUNTED))
            for number in range(TEXTS)
        ]
        medians[name] = round(median(seconds[TEXTS // 10 :]) * 1e3, 3)
    return {"parse_ms": max(medians.values()), "parse_ms_all": medians}
