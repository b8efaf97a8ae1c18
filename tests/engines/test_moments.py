"""Columns of times: every engine reads every storage type into the cell that the encoding says."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dodona.errors import InvalidArgument
from dodona.query.query import Block, Query
from dodona.schema.attributes import Timestamp, code_label
from dodona.schema.encoding import encode, encode_value
from dodona.schema.partition import Partition
from dodona.schema.schema import Schema
from tests.engines.columns import completed, pick
from tests.engines.questions import block
from tests.engines.scene import BACKENDS, Made, by_hand, values

HOURS = Timestamp("hours", dt.datetime(1969, 12, 31, 22), dt.datetime(1970, 1, 1, 5), "1 hour")
QUARTERS = Timestamp("quarters", dt.datetime(2024, 2, 28, 23, 30), dt.datetime(2024, 2, 29, 0, 45), "15 minutes")
SECONDS = Timestamp("seconds", dt.datetime(2024, 12, 31, 23, 59, 55), dt.datetime(2025, 1, 1, 0, 0, 4), "1 second")
DAYS = Timestamp("days", dt.datetime(2024, 2, 27), dt.datetime(2024, 3, 2), "1 day", bins="month")
ATTRIBUTES = (HOURS, QUARTERS, SECONDS, DAYS)
KINDS = {
    "us": pa.timestamp("us"),
    "ms": pa.timestamp("ms"),
    "s": pa.timestamp("s"),
    "ns": pa.timestamp("ns"),
    "zoned": pa.timestamp("us", tz="UTC"),
    "new york": pa.timestamp("us", tz="America/New_York"),
    "day": pa.date32(),
    "text": pa.string(),
}
FAR = [dt.datetime(1700, 1, 1), dt.datetime(2199, 12, 31, 23, 59, 59)]
TEXTS = [
    "2024-02-29T00:15",
    "2024-02-30 00:15",
    "2024-02-29 24:00",
    "x",
    "2024-02-29 00:15:59.9999999Z",
    " 2024-02-29 ",
]
TEXTS += ["2024-02-29T00:15+02", "infinity", "1970-01-01 00:00", "0000-01-01 10:00", "2024-12-31T23:59:59.5"]


def drawn(attribute: Timestamp, kind: str, generator: np.random.Generator) -> Any:  # noqa: ANN401
    """A time at a step, just before it or just after it; also far away, and as a text."""
    step = int(generator.integers(-2, attribute.size + 2))
    away = dt.timedelta(microseconds=int(pick(generator, [0, 0, 1, -1, 999_999, 30_000_000])))
    moment = pick(generator, [attribute.lower + dt.timedelta(seconds=step * attribute.step) + away] * 9 + FAR)
    if kind == "day":
        return moment.date()
    if kind in {"s", "ms"}:
        moment = moment.replace(microsecond=0 if kind == "s" else moment.microsecond // 1000 * 1000)
    if kind in {"zoned", "new york"}:
        return moment.replace(tzinfo=dt.UTC)
    return pick(generator, [moment.isoformat(" "), moment.isoformat(), *TEXTS]) if kind == "text" else moment


def made(kind: str, seed: int) -> Made:
    """A table with a column of each kind of step, all stored in one type."""
    generator = np.random.default_rng([seed, list(KINDS).index(kind)])
    attributes = [attribute if seed % 2 == 0 else completed(attribute, 3) for attribute in ATTRIBUTES]
    columns = {
        attribute.name: [None if generator.random() < 0.1 else drawn(attribute, kind, generator) for _ in range(60)]
        for attribute in attributes
        if isinstance(attribute, Timestamp)
    }
    return Made(Schema.of("seen", *attributes, size=60), columns, dict.fromkeys(columns, KINDS[kind]))


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_every_engine_reads_a_time_into_its_cell(backend, kind: str, seed: int, tmp_path: Path) -> None:
    source, held = backend(made(kind, seed), tmp_path)
    domain, generator = held.schema.domain, np.random.default_rng(seed)
    keyed = tuple(Block(keys=(Partition.every(attribute, 1),)) for attribute in domain)
    query = Query(domain, (*keyed, *(block(domain, generator) for _ in range(3))))
    assert values(source, query) == by_hand(held, query)
    source.close()


def test_a_time_is_in_the_step_that_it_begins_or_follows() -> None:
    assert encode_value(HOURS, dt.datetime(1970, 1, 1, 0, 59, 59, 999_999)) == 2
    assert encode_value(HOURS, dt.datetime(1969, 12, 31, 21, 59, 59)) == HOURS.outside_code
    assert encode_value(HOURS, dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))) == 2
    assert encode_value(QUARTERS, "2024-02-29T00:15:59.9999999Z") == 3
    assert encode_value(QUARTERS, dt.date(2024, 2, 29)) == 2
    assert encode(SECONDS, np.array(["2025-01-01", "NaT"], dtype="datetime64[ns]")).tolist() == [
        5,
        SECONDS.missing_code,
    ]
    assert code_label(QUARTERS, 3) == dt.datetime(2024, 2, 29, 0, 15)
    assert DAYS.starts == (0, 3)


@pytest.mark.parametrize("step", ["7 minutes", "2 days", "0 hours", "an hour", 7, 0, -60, 3.5, None])
def test_a_step_is_a_part_of_a_day(step) -> None:
    with pytest.raises(InvalidArgument, match="part of a day"):
        Timestamp("t", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), step)


def test_bounds_that_are_not_on_the_grid_are_refused() -> None:
    for lower, upper in ((dt.datetime(2024, 1, 1, 0, 30), dt.datetime(2024, 1, 2, 0, 30)),):
        with pytest.raises(InvalidArgument, match="whole steps"):
            Timestamp("t", lower, upper, "1 hour")
    with pytest.raises(InvalidArgument, match="without a zone"):
        Timestamp("t", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2), "1 hour")
    with pytest.raises(InvalidArgument, match="longer step"):
        Timestamp("t", dt.datetime(2000, 1, 1), dt.datetime(2024, 1, 2), "1 second")
