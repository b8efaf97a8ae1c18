"""NaN is missing, whatever an engine believes of a file: statistics of Parquet leave it out.

An engine that holds `x < 10` to be true of all rows, as the largest number is 4, counts every NaN. One row more, with a
large number, would then move the count by all of them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dodona.query.predicate import among
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.schema import Schema
from tests.engines.scene import BACKENDS, Made, by_hand, values

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
NAN = float("nan")
COLUMNS = {
    "a number": (Number("x", 0, 100, "0.5"), pa.float64(), [0.0, 1.0, 4.0]),
    "a number of 32 bits": (Number("x", 0, 100, "0.5"), pa.float32(), [0.0, 1.0, 4.0]),
    "an integer": (Integer("x", 0, 100), pa.float64(), [0.0, 1.0, 4.0]),
    "a complete integer": (Integer("x", 0, 100, otherwise=50), pa.float64(), [0.0, 1.0, 4.0]),
    "true": (Boolean("x"), pa.float64(), [1.0, 1.0, 1.0]),
    "false": (Boolean("x"), pa.float64(), [0.0, 0.0, 0.0]),
    "one number": (Integer("x", 0, 100), pa.float64(), [7.0, 7.0, 7.0]),
}


@pytest.mark.share(3)
@BACKEND
@pytest.mark.parametrize("column", COLUMNS)
def test_rows_without_a_number_count_alike_whatever_the_other_rows_are(backend, column: str, tmp_path: Path) -> None:
    attribute, kind, known = COLUMNS[column]
    schema = Schema.of("t", attribute, Category("s", ["a"]), size=9)
    domain = schema.domain
    cells = range(min(attribute.size, 12))
    blocks = [Block(among(domain["x"], cells)), Block(among(domain["x"], [1])), *Query.marginal(domain, "x").blocks]
    blocks += [] if isinstance(attribute, Boolean) else Query.sum(domain, "x").blocks
    blocks += [Block(among(domain["x"], [attribute.size]))] if attribute.otherwise is None else []
    query = Query(domain, tuple(blocks))
    runs = []
    large = [1e6] if not isinstance(attribute, Boolean) else [0.5]
    for place, further in enumerate(([], large, [None], [None, *large])):
        (tmp_path / str(place)).mkdir()
        numbers = [*known, NAN, NAN, NAN, *further]
        made = Made(schema, {"x": numbers, "s": ["a"] * len(numbers)}, {"x": kind, "s": pa.string()})
        source, held = backend(made, tmp_path / str(place))
        answers = values(source, query)
        assert answers == by_hand(held, query)
        for block in query.blocks:  # each by itself too: what is asked alone is planned in another way
            assert values(source, Query(domain, (block,))) == by_hand(held, Query(domain, (block,)))
        runs.append(answers)
        source.close()
    for first, second in ((runs[0], runs[1]), (runs[2], runs[3])):
        assert sum(value != other for value, other in zip(first, second, strict=True)) <= 2


@pytest.mark.parametrize("backend", [backend for name, backend in BACKENDS.items() if name != "csv"])
@pytest.mark.parametrize("last", [None, NAN])
def test_people_whose_id_is_nan_are_nobody(backend, last: float | None, tmp_path: Path) -> None:
    """In a CSV file it is the text `nan`, which is somebody's name."""
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=2)
    made = Made(schema, {"i": [0, 1, 2, 3], "who": [NAN, NAN, 5.0, last]}, {"i": pa.int64(), "who": pa.float64()})
    source, _ = backend(made, tmp_path)
    assert values(source, Query.histogram(schema.domain, ["i"])) == [0, 0, 1, 0, 0, 0]
