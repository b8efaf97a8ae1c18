"""Columns of every storage type, full of awkward values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number, code_label

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


Column = tuple[Attribute, pa.DataType, Callable[[], Any]]
Draw = np.random.Generator


def pick(generator: Draw, listed: list[Any]) -> Any:  # noqa: ANN401
    return listed[int(generator.integers(len(listed)))]


def completed(attribute: Attribute, code: int) -> Attribute:
    """The attribute without `<missing>` and `<outside>`: both count as the value of a code."""
    return replace(attribute, otherwise=code_label(attribute, code))


def _texts(name: str, generator: Draw) -> Column:
    labels = [LABELS[i] for i in generator.permutation(len(LABELS))[: int(generator.integers(1, 9))]]
    return Category(name, labels), pa.string(), lambda: pick(generator, labels * 3 + LABELS + STRANGE)


def _integer(name: str, generator: Draw) -> Integer:
    lower = int(pick(generator, [-128, -3, 0, 5, 100, -(2**31), 2**31 - 3, 2**53 - 12, -(2**53)]))
    return Integer(name, lower, lower + int(generator.integers(1, 12)))


def _whole(kind: pa.DataType, low: int, high: int) -> Callable[[str, Draw], Column]:
    def column(name: str, generator: Draw) -> Column:
        attribute = _integer(name, generator)
        near = [attribute.lower + step for step in range(-2, attribute.size + 2)]
        listed = [value for value in [*near, low, high, *EDGES] if low <= value <= high]
        return attribute, kind, lambda: pick(generator, listed)

    return column


def _number(name: str, generator: Draw) -> Number:
    lower, step, size = pick(
        generator,
        [("0", "0.1", 12), ("-1", "0.25", 20), ("0.3", "1/3", 7), ("-1000000", "0.7", 9), ("-1e15", "1024", 5)],
    )
    least, width = Fraction(lower), Fraction(step)
    return Number(name, least, least + size * width, width)


def _near(attribute: Number, generator: Draw) -> float:
    on = float(attribute.lower + int(generator.integers(-2, attribute.size + 2)) * attribute.step)
    return float(
        pick(generator, [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), on + float(attribute.step) / 2])
    )


def _doubles(name: str, generator: Draw) -> Column:
    attribute = _number(name, generator)
    return (
        attribute,
        pa.float64(),
        lambda: pick(generator, [_near(attribute, generator)] * 20 + [*NUMBERS, float("nan")]),
    )


def _singles(name: str, generator: Draw) -> Column:
    attribute = _number(name, generator)
    listed = [-1.0, 0.0, 0.1, 0.2, 0.3, 1.1, float("inf"), float("nan"), 1e30, 16777217.0]
    return attribute, pa.float32(), lambda: float(np.float32(pick(generator, listed)))


def _doubles_as_integers(name: str, generator: Draw) -> Column:
    attribute = _integer(name, generator)
    near = [float(attribute.lower) + step / 2 for step in range(-4, 2 * attribute.size + 4)]
    return attribute, pa.float64(), lambda: pick(generator, near + NUMBERS + [float("nan")])


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
        return attribute, pa.decimal128(digits, scale), lambda: pick(generator, rounded)

    return column


def _number_texts(name: str, generator: Draw) -> Column:
    attribute = pick(generator, [_number(name, generator), Integer(name, -2, 9), Boolean(name)])
    return attribute, pa.string(), lambda: pick(generator, NUMBER_TEXTS + TRUTH_TEXTS)


def _date(name: str, generator: Draw) -> Date:
    return pick(
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
    return pick(generator, [near] * 9 + far)


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
            clock = dt.time(*pick(generator, [(0, 0), (23, 59, 59, 999999 if unit != "s" else 0), (12, 30)]))
            if unit == "ms":
                clock = clock.replace(microsecond=clock.microsecond // 1000 * 1000)
            return dt.datetime.combine(day, clock, tzinfo=None if zone is None else UTC)

        return attribute, pa.timestamp(unit, tz=zone), draw

    return column


def _day_texts(name: str, generator: Draw) -> Column:
    attribute = _date(name, generator)
    return attribute, pa.string(), lambda: pick(generator, DAY_TEXTS + [_day(attribute, generator).isoformat()] * 10)


def _truths(name: str, generator: Draw) -> Column:
    attribute = pick(generator, [Boolean(name), Boolean(name), Integer(name, -1, 1), Number(name, 0, 1, "0.5")])
    return attribute, pa.bool_(), lambda: bool(generator.integers(2))


def _numbers_as_truths(name: str, generator: Draw) -> Column:
    kind, listed = pick(generator, [(pa.int32(), [0, 1, 2, -1]), (pa.float64(), [0.0, -0.0, 1.0, 0.5, float("nan")])])
    return Boolean(name), kind, lambda: pick(generator, listed)


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
