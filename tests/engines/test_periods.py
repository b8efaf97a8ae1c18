"""Sets of codes that come again and again, such as an hour of every day, mean the same on every engine."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

import datetime as dt
import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dodona.engines.cells import ColumnForm, among_sql, read_column
from dodona.engines.dialects import DUCKDB
from dodona.query.predicate import Among, among_mask
from dodona.query.query import Block, CaseKey, Query
from dodona.schema.attributes import Attribute, Date, Integer, Number, Timestamp
from dodona.schema.schema import Schema
from tests.engines.columns import completed
from tests.engines.scene import BACKENDS, Made, by_hand, values

START = dt.datetime(2024, 2, 27, 22, 30)
ATTRIBUTES = (
    Integer("whole", -50, 249),
    Number("half", -10, 140, "0.5"),
    Date("day", START.date(), START.date() + dt.timedelta(399)),
    Timestamp("time", START, START + dt.timedelta(days=4), "15 minutes"),
)
TYPES = {"whole": pa.int64(), "half": pa.float64(), "day": pa.date32(), "time": pa.timestamp("us")}


def made(seed: int) -> Made:
    """Values of all codes, beyond the bounds, and none."""
    draw = np.random.default_rng(seed)
    places = draw.integers(-90, 480, size=160).tolist()
    columns: dict[str, list[object]] = {
        "whole": [-50 + place for place in places],
        "half": [[math.inf, -math.inf, math.nan][place % 3] if place % 19 == 0 else place / 2 - 10 for place in places],
        "day": [START.date() + dt.timedelta(place) for place in places],
        "time": [START + dt.timedelta(minutes=15 * place + place % 15) for place in places],
    }
    held = {name: [None if draw.random() < 0.1 else one for one in own] for name, own in columns.items()}
    attributes = [own if seed % 2 == 0 else completed(own, 3) for own in ATTRIBUTES]
    return Made(Schema.of("seen", *attributes, size=160), held, TYPES)


def repeated(attribute: Attribute, draw: np.random.Generator) -> int:
    """A set of codes with a period, and of the two other cells."""
    period = int(draw.integers(2, 9))
    members = np.resize(draw.random(period) < 0.5, attribute.size)
    members[:period] |= not members.any()
    codes = sum(1 << int(code) for code in np.flatnonzero(members))
    return codes | int(draw.integers(1 << (attribute.cells - attribute.size))) << attribute.size


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_codes_with_a_period_mean_the_same_rows_everywhere(backend, seed: int, tmp_path: Path) -> None:
    source, held = backend(made(seed), tmp_path)
    draw = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    conditions = [among_mask(own, repeated(own, draw)) for own in domain for _ in range(3)]
    keys = [CaseKey((("a", one), ("b", two)), "c") for one, two in itertools.pairwise(conditions)]
    query = Query(domain, (*(Block(one) for one in conditions), *(Block(keys=(key,)) for key in keys)))
    assert values(source, query) == by_hand(held, query)
    source.close()


def test_an_hour_of_every_day_is_one_comparison() -> None:
    minutes = Timestamp("t", dt.datetime(2024, 1, 1), dt.datetime(2024, 3, 1), "1 minute")
    noon = sum(((1 << 60) - 1) << (1440 * day + 720) for day in range(minutes.size // 1440))
    sql = among_sql(read_column(minutes, "c", ColumnForm.CODE, DUCKDB), Among("t", minutes.cells, noon))
    assert sql.count("BETWEEN 720 AND 779") == 1
    assert len(sql) < 120
