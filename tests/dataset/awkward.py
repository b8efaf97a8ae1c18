"""A table with every column that is hard to draft."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 300
_DAY = dt.date(2021, 3, 5)


def columns() -> dict[str, pa.Array]:
    """Return columns by name, the same every time."""
    places = range(ROWS)
    made: dict[str, tuple[pa.DataType, list[Any]]] = {
        "patient_id": (pa.int64(), [None if place % 50 == 0 else place // 3 for place in places]),
        "stay_id": (pa.string(), [f"s{place}" for place in places]),
        "Größe": (pa.string(), [('kl"ein', "gr\\oß", "中#[x]")[place % 3] for place in places]),
        "length of stay": (pa.int64(), list(places)),
        'a"b\n= [c]': (pa.int64(), list(places)),
        "nothing": (pa.null(), [None] * ROWS),
        "empty": (pa.float64(), [None] * ROWS),
        "notes": (pa.string(), [f"note {place}" for place in places]),
        "marks": (pa.string(), [("", "<missing>", "a\tb", "fine")[place % 4] for place in places]),
        "age": (pa.int64(), [(place * 7) % 95 for place in places]),
        "as_double": (pa.float64(), [None if place % 9 == 0 else float(place % 20) for place in places]),
        "weight": (
            pa.float64(),
            [(float("nan"), float("inf"), 61.5 + place % 40)[min(place % 30, 2)] for place in places],
        ),
        "cost": (pa.decimal128(12, 2), [Decimal(place) + Decimal("0.25") for place in places]),
        "huge": (pa.int64(), [place * 10**12 for place in places]),
        "flag": (pa.bool_(), [place % 2 == 0 for place in places]),
        "bit": (pa.int8(), [place % 2 for place in places]),
        "admitted": (pa.date32(), [_DAY + dt.timedelta(days=place) for place in places]),
        "seen": (pa.timestamp("us", tz="UTC"), [dt.datetime(2020, 6, 1, tzinfo=dt.UTC)] * ROWS),
        "nano": (pa.timestamp("ns"), [dt.datetime(2020, 6, 1)] * ROWS),  # noqa: DTZ001
        "constant": (pa.int64(), [7] * ROWS),
        "tags": (pa.list_(pa.string()), [["x"]] * ROWS),
        "raw": (pa.binary(), [b"\xff"] * ROWS),
        "format": (pa.string(), ["a", "b", "c"] * (ROWS // 3)),
    }
    return {name: pa.array(values, kind) for name, (kind, values) in made.items()}


def write_parquet(folder: Path) -> Path:
    """Write the table and return where it is."""
    path = folder / "stays.parquet"
    pq.write_table(pa.table(columns()), path)
    return path
