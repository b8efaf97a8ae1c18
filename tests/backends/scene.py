"""Made-up tables, schemas and questions, and every way to put a table behind a source."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from dodona.backends.duckdb import DuckDBSource
from dodona.backends.memory import MemorySource
from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number, cells
from dodona.domain.domain import Domain
from dodona.domain.encoding import encode
from dodona.domain.partition import Partition
from dodona.domain.schema import Schema
from dodona.query.predicate import Predicate, both, either, masked
from dodona.query.query import Block, Cases, Key, Query, block_weights, group_of, product_axes, product_shape
from dodona.query.weight import Cases as WeightCases
from dodona.query.weight import Constant, Value, Weight
from dodona.trusted.source import Source, opened

LABELS = [
    "a",
    "b'c",
    'say "no"',
    "back\\slash",
    "ü",
    "🎉 é",
    " a",
    "A",
    "%",
    "NULL",
    "--",
    "null\\n",
    "it''s",
    "0",
    "e\u0301",
]
STRANGE = ["", "a ", "zz", "B'c", "é", "1", "nan", "\ufeffa", "line\nbreak", "comma,", "tab\t", "'", '"']
NUMBERS = [0.0, -0.0, 5e-324, -5e-324, 0.1, 0.3, 0.7, 1.0, 2.5, -1.0, 1e300, -1e300, float("inf"), float("-inf")]
EDGES = [2**31 - 1, 2**31, -(2**31), 2**53, -(2**53), 2**62]
NUMBER_TEXTS = [
    "1",
    " 2 ",
    "+3",
    "-0",
    "1e2",
    ".5",
    "5.",
    "1e400",
    "-1e400",
    "inf",
    "-Infinity",
    "NaN",
    "x",
    "",
    "1_0",
    "0x1",
]
NUMBER_TEXTS += ["1,5", "--1", "1e", "٣", "0.30000000000000004", "1" * 400, "0." + "3" * 60, "\t4\n", "true"]
DAY_TEXTS = [
    "2024-02-29",
    "2023-02-29",
    "2024-01-05T10:00:00Z",
    "2024-01-05 23:59",
    " 2024-03-01 ",
    "2024-1-2",
    "0000-01-01",
]
DAY_TEXTS += ["9999-12-31", "today", "2024-01-05T25:00", "infinity", "2024-01-01T00:00:00+02", "20240105"]
TRUTH_TEXTS = ["t", "TRUE", "yes", "1", "0", "no", "False", " y ", "2", "on", "1.0", "x"]
UTC = dt.UTC


@dataclass(frozen=True)
class Made:
    """A schema with rows: values by column, and the Arrow type of each."""

    schema: Schema
    columns: dict[str, list[Any]]
    types: dict[str, pa.DataType]

    def arrow(self) -> pa.Table:
        return pa.table({name: pa.array(self.columns[name], kind) for name, kind in self.types.items()})

    def as_text(self) -> Made:
        """The same rows as a CSV file holds them: texts, and nothing where a field is empty."""
        texts = {
            name: [None if v is None or str(v) == "" else str(v) for v in own] for name, own in self.columns.items()
        }
        return Made(self.schema, texts, dict.fromkeys(self.types, pa.string()))


def memory(made: Made, _: Path) -> tuple[Source, Made]:
    return MemorySource(made.schema, made.columns), made


def parquet(made: Made, folder: Path) -> tuple[Source, Made]:
    pa.parquet.write_table(made.arrow(), folder / "rows.parquet")
    return DuckDBSource.parquet(made.schema, folder / "rows.parquet"), made


def split_parquet(made: Made, folder: Path) -> tuple[Source, Made]:
    whole = made.arrow()
    middle = len(whole) // 2
    for number, part in enumerate((whole.slice(0, middle), whole.slice(middle))):
        pa.parquet.write_table(part, folder / f"part{number}.parquet")
    return DuckDBSource.parquet(made.schema, folder / "part*.parquet"), made


def arrow_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, made.arrow()), made


def pandas_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, made.arrow().to_pandas()), made


def polars_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, pl.from_arrow(made.arrow())), made


def comma_separated(made: Made, folder: Path) -> tuple[Source, Made]:
    text = made.as_text()
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else csv.QUOTE_ALL)
        writer.writerow(text.columns)
        writer.writerows(zip(*text.columns.values(), strict=True))
    return DuckDBSource.csv(made.schema, folder / "rows.csv"), text


def table(made: Made, folder: Path) -> tuple[Source, Made]:
    rows = made.arrow()
    with duckdb.connect(str(folder / "held.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute(f'CREATE TABLE "{made.schema.table}" AS SELECT * FROM rows')  # noqa: S608
    return DuckDBSource.table(made.schema, folder / "held.duckdb"), made


BACKENDS: dict[str, Callable[[Made, Path], tuple[Source, Made]]] = {
    "memory": memory,
    "parquet": parquet,
    "split parquet": split_parquet,
    "arrow frame": arrow_frame,
    "pandas frame": pandas_frame,
    "polars frame": polars_frame,
    "csv": comma_separated,
    "database table": table,
}


def values(source: Source, query: Query) -> list[int]:
    """The exact answers, opened as only tests may."""
    return [int(value) for value in opened(source.exact(query))]


def by_hand(made: Made, query: Query) -> list[int]:
    """Weights · histogram, in Python's own whole numbers, from the public reading of the query alone."""
    codes = {attribute.name: encode(attribute, made.columns[attribute.name]) for attribute in query.domain}
    found = list[int]()
    for block in query.blocks:
        names = sorted(block.attributes)
        axes, shape = product_axes(query.domain, names), product_shape(query.domain, names)
        rows = len(next(iter(made.columns.values())))
        cell = np.ravel_multi_index([codes[name] for name in names], shape) if names else np.zeros(rows, dtype=np.int64)
        which, times = np.unique(cell, return_counts=True)
        weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
        groups = np.broadcast_to(group_of(block.keys, axes), shape).reshape(-1)
        sums = [0] * block.values
        for place, number in zip(which.tolist(), times.tolist(), strict=True):
            sums[int(groups[place])] += int(weights[place]) * number
        found += sums
    return found


def made_up(seed: int, *, rows: int = 120) -> Made:
    """A table with a column of each storage type that a random draw picks, full of awkward values."""
    generator = np.random.default_rng(seed)
    kinds = generator.choice(len(COLUMNS), size=4, replace=False)
    attributes, columns, types = list[Attribute](), dict[str, list[Any]](), dict[str, pa.DataType]()
    names = ["select", "Größe", "order", "x1"]
    for name, kind in zip(names, kinds, strict=True):
        attribute, kind_of, draw = COLUMNS[kind](name, generator)
        attributes.append(attribute)
        columns[name] = [None if generator.random() < 0.1 else draw() for _ in range(rows)]
        types[name] = kind_of
    return Made(Schema.of("group", *attributes, size=1000), columns, types)


Column = tuple[Attribute, pa.DataType, Callable[[], Any]]
Draw = np.random.Generator


def _pick(generator: Draw, listed: list[Any]) -> Any:  # noqa: ANN401
    return listed[int(generator.integers(len(listed)))]


def _texts(name: str, generator: Draw) -> Column:
    labels = [LABELS[i] for i in generator.permutation(len(LABELS))[: int(generator.integers(1, 9))]]
    return Category(name, labels), pa.string(), lambda: _pick(generator, labels * 3 + LABELS + STRANGE)


def _integer(name: str, generator: Draw) -> Integer:
    lower = int(_pick(generator, [-128, -3, 0, 5, 100, -(2**31), 2**31 - 3, 2**53 - 12, -(2**53)]))
    return Integer(name, lower, lower + int(generator.integers(1, 12)))


def _whole(kind: pa.DataType, low: int, high: int) -> Callable[[str, Draw], Column]:
    def column(name: str, generator: Draw) -> Column:
        attribute = _integer(name, generator)
        near = [attribute.lower + step for step in range(-2, attribute.size + 2)]
        listed = [value for value in [*near, low, high, *EDGES] if low <= value <= high]
        return attribute, kind, lambda: _pick(generator, listed)

    return column


def _number(name: str, generator: Draw) -> Number:
    lower, step, size = _pick(
        generator,
        [("0", "0.1", 12), ("-1", "0.25", 20), ("0.3", "1/3", 7), ("-1000000", "0.7", 9), ("-1e15", "1024", 5)],
    )
    least, width = Fraction(lower), Fraction(step)
    return Number(name, least, least + size * width, width)


def _near(attribute: Number, generator: Draw) -> float:
    on = float(attribute.lower + int(generator.integers(-2, attribute.size + 2)) * attribute.step)
    return float(
        _pick(generator, [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), on + float(attribute.step) / 2])
    )


def _doubles(name: str, generator: Draw) -> Column:
    attribute = _number(name, generator)
    return (
        attribute,
        pa.float64(),
        lambda: _pick(generator, [_near(attribute, generator)] * 20 + [*NUMBERS, float("nan")]),
    )


def _singles(name: str, generator: Draw) -> Column:
    attribute = _number(name, generator)
    listed = [-1.0, 0.0, 0.1, 0.2, 0.3, 1.1, float("inf"), float("nan"), 1e30, 16777217.0]
    return attribute, pa.float32(), lambda: float(np.float32(_pick(generator, listed)))


def _doubles_as_integers(name: str, generator: Draw) -> Column:
    attribute = _integer(name, generator)
    near = [float(attribute.lower) + step / 2 for step in range(-4, 2 * attribute.size + 4)]
    return attribute, pa.float64(), lambda: _pick(generator, near + NUMBERS + [float("nan")])


def _decimals(digits: int, scale: int) -> Callable[[str, Draw], Column]:
    def column(name: str, generator: Draw) -> Column:
        attribute = _number(name, generator) if generator.random() < 0.7 else Integer(name, -2, 9)
        top = Decimal(10) ** (digits - scale) - 1
        listed = [
            Decimal("0.1"),
            Decimal("0.3"),
            Decimal("-0.5"),
            Decimal(0),
            Decimal("1.0"),
            Decimal("2.99"),
            top,
            -top,
        ]
        listed += [Decimal(10) ** -scale, 1 - Decimal(10) ** -scale, Decimal("0.7")]
        exponent, context = Decimal(1).scaleb(-scale), Context(prec=60)
        rounded = [value.quantize(exponent, context=context) for value in listed]
        return attribute, pa.decimal128(digits, scale), lambda: _pick(generator, rounded)

    return column


def _number_texts(name: str, generator: Draw) -> Column:
    attribute = _pick(generator, [_number(name, generator), Integer(name, -2, 9), Boolean(name)])
    return attribute, pa.string(), lambda: _pick(generator, NUMBER_TEXTS + TRUTH_TEXTS)


def _date(name: str, generator: Draw) -> Date:
    return _pick(
        generator,
        [
            Date(name, dt.date(2024, 1, 1), dt.date(2024, 1, 20)),
            Date(name, dt.date(1969, 12, 25), dt.date(1970, 1, 5)),
            Date(name, dt.date(2024, 2, 20), dt.date(2024, 3, 10)),
            Date(name, dt.date(9999, 12, 20), dt.date(9999, 12, 31)),
            Date(name, dt.date(1, 1, 1), dt.date(1, 1, 9)),
        ],
    )


def _day(attribute: Date, generator: Draw) -> dt.date:
    far = [dt.date.min, dt.date.max, dt.date(1970, 1, 1)]
    place = attribute.lower.toordinal() + int(generator.integers(-3, attribute.size + 3))
    near = dt.date.fromordinal(min(max(place, 1), dt.date.max.toordinal()))
    return _pick(generator, [near] * 9 + far)


def _days(name: str, generator: Draw) -> Column:
    attribute = _date(name, generator)
    return attribute, pa.date32(), lambda: _day(attribute, generator)


def _times(unit: str, zone: str | None) -> Callable[[str, Draw], Column]:
    def column(name: str, generator: Draw) -> Column:
        attribute = _date(name, generator)
        if unit == "ns":
            attribute = Date(name, dt.date(1969, 12, 25), dt.date(1970, 1, 5))

        def draw() -> dt.datetime:
            day = _day(attribute, generator)
            if unit == "ns" and not 1700 < day.year < 2200:
                day = dt.date(2000, 1, 1)
            own = dt.time(*_pick(generator, [(0, 0), (23, 59, 59, 999999 if unit != "s" else 0), (12, 30)]))
            if unit == "ms":
                own = own.replace(microsecond=own.microsecond // 1000 * 1000)
            return dt.datetime.combine(day, own, tzinfo=None if zone is None else UTC)

        return attribute, pa.timestamp(unit, tz=zone), draw

    return column


def _day_texts(name: str, generator: Draw) -> Column:
    attribute = _date(name, generator)
    return attribute, pa.string(), lambda: _pick(generator, DAY_TEXTS + [_day(attribute, generator).isoformat()] * 10)


def _truths(name: str, generator: Draw) -> Column:
    attribute = _pick(generator, [Boolean(name), Boolean(name), Integer(name, -1, 1), Number(name, 0, 1, "0.5")])
    return attribute, pa.bool_(), lambda: bool(generator.integers(2))


def _numbers_as_truths(name: str, generator: Draw) -> Column:
    kind, listed = _pick(generator, [(pa.int32(), [0, 1, 2, -1]), (pa.float64(), [0.0, -0.0, 1.0, 0.5, float("nan")])])
    return Boolean(name), kind, lambda: _pick(generator, listed)


def _nothing(name: str, _: Draw) -> Column:
    return Category(name, ["a", "b"]), pa.string(), lambda: None


COLUMNS: list[Callable[[str, Draw], Column]] = [
    _texts,
    _texts,
    _whole(pa.int8(), -128, 127),
    _whole(pa.uint8(), 0, 255),
    _whole(pa.int16(), -(2**15), 2**15 - 1),
    _whole(pa.uint32(), 0, 2**32 - 1),
    _whole(pa.int64(), -(2**63), 2**63 - 1),
    _whole(pa.uint64(), 0, 2**64 - 1),
    _doubles,
    _doubles,
    _singles,
    _doubles_as_integers,
    _decimals(9, 2),
    _decimals(18, 6),
    _decimals(38, 20),
    _number_texts,
    _days,
    _times("us", None),
    _times("ms", None),
    _times("s", None),
    _times("ns", None),
    _times("us", "UTC"),
    _times("us", "America/New_York"),
    _day_texts,
    _truths,
    _numbers_as_truths,
    _nothing,
]


def predicate(domain: Domain, generator: Draw, *, depth: int = 2) -> Predicate:
    """A random formula over random sets of cells."""
    if depth == 0 or generator.random() < 0.3:
        attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
        chance = generator.choice([0.1, 0.5, 0.9])
        return masked(attribute, sum(1 << code for code in range(cells(attribute)) if generator.random() < chance))
    join = both if generator.random() < 0.5 else either
    return join(*(predicate(domain, generator, depth=depth - 1) for _ in range(int(generator.integers(1, 4)))))


def key(domain: Domain, generator: Draw) -> Key:
    """A random key of any kind."""
    attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
    match int(generator.integers(4)):
        case 0:
            return Cases(
                tuple((f"case {i}", predicate(domain, generator)) for i in range(int(generator.integers(4)))), "no"
            )
        case 1:
            return Partition.of(attribute)
        case 2:
            return Partition.every(attribute, int(generator.integers(1, attribute.size + 1)))
        case _:
            cuts = sorted({0, *(int(cut) for cut in generator.integers(0, attribute.size, size=4))})
            return Partition(attribute.name, attribute.size, tuple(cuts))


def weight(domain: Domain, generator: Draw, *, depth: int = 1) -> Weight:
    """A random weight of any kind, within 64 bits."""
    attribute = domain.attributes[int(generator.integers(len(domain.attributes)))]
    match int(generator.integers(4 if depth else 3)):
        case 0:
            return Constant(int(_pick(generator, [1, 1, 1, -3, 0, 2**58, -(2**58) + 1])))
        case 1:
            return Value(
                attribute.name, attribute.size, int(generator.integers(-9, 9)), int(generator.integers(-9, 9)), 2
            )
        case 2:
            offset = int(_pick(generator, [0, -5, 2**31, 2**53, 2**58, -(2**58)]))
            return Value(attribute.name, attribute.size, offset, int(_pick(generator, [1, -1, 2**20])), 1)
        case _:
            branches = ((predicate(domain, generator), weight(domain, generator, depth=0)) for _ in range(2))
            return WeightCases(tuple(branches), weight(domain, generator, depth=0))


def block(domain: Domain, generator: Draw, *, weights: str = "any") -> Block:
    """A random block; with small weights, many of them fit into one query."""
    keys = tuple(key(domain, generator) for _ in range(int(generator.choice([0, 0, 1, 1, 2]))))
    if weights == "small":
        return Block(predicate(domain, generator), keys, Constant(int(_pick(generator, [1, 1, 1, -3, 5000]))))
    return Block(predicate(domain, generator), keys, weight(domain, generator))
