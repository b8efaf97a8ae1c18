"""One engine, measured in this process: `python -m benchmarks.engine_run ENGINE FOLDER ROWS`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import table
from dodona.engines.render import sum_statement
from dodona.query.predicate import EVERYTHING
from dodona.query.query import ONE, Query
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from dodona.trusted.source import Source

KEYS = 1_000
KEY = bytes(32)
CAP = 4
_PER_PERSON = 5
_SMALL = 100_000
_REPEATS = 3
_QUESTIONS = 15

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Opened:
    """A table behind an engine: as a source of ours, and as the engine's own name for it."""

    source: Source
    own: Callable[[str], list[tuple[object, ...]]]
    """Runs the engine's own SQL."""
    name: str
    returned: Callable[[str], int]
    """Runs a statement of ours, and says how many rows came back."""
    keep: Callable[[], tuple[Source, str]] | None = None
    """Keeps the rows that count, and returns them as a source of ours, and the engine's own name for them."""


def schema(rows: int, *, person: str | None = "person") -> Schema:
    """Return what is public of the table of so many rows."""
    columns = (Integer("number", 0, KEYS - 1), Boolean("emergency"))
    return Schema.of("events", *columns, size=rows, id=person, rows=1 if person is None else CAP)


def capped(name: str) -> str:
    """Return the engine's own SQL for the counts of the rows that count."""
    ranked = (
        "SELECT number, row_number() OVER (PARTITION BY person ORDER BY md5(concat('key', number, emergency, person))) "  # noqa: S608
        "AS place "
        f"FROM {name} WHERE person IS NOT NULL"
    )
    return f"SELECT number, count(*) FROM ({ranked}) AS ranked WHERE place <= {CAP} GROUP BY number"  # noqa: S608


def parquet(folder: Path, rows: int) -> Path:
    """Return a folder of Parquet with so many rows, made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory = folder / f"events-{rows}"
    if not directory.exists():
        directory.mkdir()
        random = np.random.default_rng(rows)
        columns = {
            "person": pa.array(random.integers(0, max(1, rows // _PER_PERSON), rows).astype(np.int32)),
            "number": pa.array(random.integers(0, KEYS, rows).astype(np.int32)),
            "emergency": pa.array(random.random(rows) < 0.3),  # noqa: PLR2004  three in ten
        }
        pq.write_table(pa.table(columns), directory / "rows.parquet", row_group_size=1 << 20)
    return directory


def duckdb(folder: Path, rows: int, _: ExitStack) -> Opened:
    """Open Parquet with DuckDB; the rows that count are found when it is opened."""
    import duckdb as engine

    from dodona.engines.duckdb import DuckDBSource

    files = f"{parquet(folder, rows)}/*.parquet"
    connection = engine.connect()
    source = DuckDBSource.parquet(schema(rows), files, key=KEY)
    return Opened(
        source,
        lambda text: connection.execute(text).fetchall(),
        f"read_parquet('{files}')",
        lambda text: len(source._connection.execute(text).fetchall()),  # noqa: SLF001  as it fetches itself
    )


def postgres(_: Path, rows: int, held: ExitStack) -> Opened:
    """Fill a table of a PostgreSQL server of our own, and open it."""
    import psycopg

    from dodona.engines.postgres import PostgresSource
    from tests.ledger.scene import shared_server

    server = shared_server()
    connection = held.enter_context(psycopg.connect(server.address, autocommit=True))
    name = f"public.events_{rows}"
    known = connection.execute("SELECT to_regclass(%s)", [name]).fetchone()
    if known is None or known[0] is None:
        # A hash in the place of a random number, so that the server fills the table by itself and alike each time.
        connection.execute(
            f"CREATE TABLE {name} AS SELECT (hashint8(n) & 2147483647) % {max(1, rows // _PER_PERSON)} AS person, "  # noqa: S608
            f"(hashint8(n + {rows}) & 2147483647) % {KEYS} AS number, hashint8(-n) % 10 < 3 AS emergency "
            f"FROM generate_series(1, {rows}::bigint) AS n"
        )
        connection.execute(f"ANALYZE {name}")

    def own(text: str) -> list[tuple[object, ...]]:
        return connection.execute(text).fetchall()

    source = PostgresSource(schema(rows), server.address, table=name, timeout=600.0, key=KEY)

    def keep() -> tuple[Source, str]:
        kept = f"{name}_kept"
        source.keep_rows(server.address, kept, key=KEY, timeout=600.0)
        return PostgresSource(schema(rows), server.address, table=name, timeout=600.0, key=KEY, kept=kept), kept

    return Opened(source, own, name, lambda text: len(own(text)), keep)


def spark(folder: Path, rows: int, held: ExitStack) -> Opened:
    """Open Parquet with a Spark session of our own."""
    from dodona.engines.spark import SparkSource
    from dodona.engines.spark_session import LOCAL_ENGINE

    path = parquet(folder, rows)
    source = SparkSource.parquet(schema(rows), path, key=KEY)
    session = LOCAL_ENGINE.session
    if session is None:
        raise RuntimeError("Spark was not started")
    held.callback(source.close)

    def keep() -> tuple[Source, str]:
        source.keep_rows(f"{path}-kept", key=KEY)
        (place,) = Path(f"{path}-kept").iterdir()
        return SparkSource.parquet(schema(rows), path, key=KEY, kept=f"{path}-kept"), f"parquet.`{place}`"

    return Opened(
        source,
        lambda text: [tuple(row) for row in session.sql(text).collect()],
        f"parquet.`{path}`",
        lambda text: len(source._session.sql(text).collect()),  # noqa: SLF001  as it fetches itself
        keep,
    )


ENGINES: dict[str, Callable[[Path, int, ExitStack], Opened]] = {"duckdb": duckdb, "postgres": postgres, "spark": spark}


def grouped(engine: str, folder: Path, rows: int, held: ExitStack) -> dict[str, float]:
    """Return what the GROUP BY of the capped table takes, over the engine's own time for it."""
    if engine != "duckdb":
        ENGINES[engine](folder, min(rows, _SMALL), held)  # servers start, and tables are filled, before the clock does
        ENGINES[engine](folder, rows, held)
    began = time.perf_counter()
    opened = ENGINES[engine](folder, rows, held)
    opening = time.perf_counter() - began
    query = Query.histogram(schema(rows).domain, "number")
    statement = sum_statement(opened.source._table, EVERYTHING, query.blocks[0].keys, [ONE])  # type: ignore[attr-defined] # noqa: SLF001

    def asked() -> None:
        opened.source.exact(query)

    def plain() -> None:
        opened.own(capped(opened.name))

    asked()
    rounds = [(_seconds(plain), _seconds(asked)) for _ in range(_REPEATS)]
    theirs, ours = (median(times) for times in zip(*rounds, strict=True))
    return {
        "ratio": round(ours / theirs, 3),
        "opened_ratio": round((opening + ours) / theirs, 3),
        "own_seconds": round(theirs, 3),
        "asked_seconds": round(ours, 3),
        "rows_returned": opened.returned(statement.sql),
        "cells": query.values,
    } | ({} if opened.keep is None else _kept(opened, query, opened.keep, held))


def _kept(opened: Opened, query: Query, keep: Callable[[], tuple[Source, str]], held: ExitStack) -> dict[str, float]:
    """Return what a question takes once the rows that count are kept, over a plain GROUP BY of as many rows."""
    source, name = keep()
    held.callback(source.close)
    source.exact(query)
    plain = f"SELECT c0, count(*) FROM {name} GROUP BY c0"  # noqa: S608
    rounds = [(_seconds(lambda: opened.own(plain)), _seconds(lambda: source.exact(query))) for _ in range(_REPEATS)]
    theirs, ours = (median(times) for times in zip(*rounds, strict=True))
    return {"kept_ratio": round(ours / theirs, 3), "kept_seconds": round(ours, 3)}


def overhead(engine: str, folder: Path, held: ExitStack) -> float:
    """Return the median milliseconds that a question takes beyond the engine's own statement, on a small table."""
    opened = ENGINES[engine](folder, _SMALL, held)
    curator = table.curator(schema(_SMALL), opened.source)
    beyond = []
    for key in range(_QUESTIONS + 2):
        ranked = (
            capped(opened.name)
            .replace("SELECT number, count(*)", "SELECT count(*)")
            .replace("GROUP BY number", f"AND number >= {key}")
        )
        theirs = _seconds(lambda: opened.own(ranked))  # noqa: B023  it is done at once
        text = f"SELECT count(*) FROM events WHERE number >= {key}"  # noqa: S608
        ours = _seconds(lambda: curator.ask(text, epsilon="1/1000"))  # noqa: B023
        beyond.append(ours - theirs)
    return round(median(beyond[2:]) * 1e3, 2)


def _seconds(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _peak() -> float:
    """Return the most memory that this process held, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def main(engine: str, folder: str, rows: str) -> None:
    """Measure, and print the figures as JSON."""
    with ExitStack() as held:
        figures = grouped(engine, Path(folder), int(rows), held)
        figures["overhead_ms"] = overhead(engine, Path(folder), held)
        figures["peak_mb"] = _peak()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
