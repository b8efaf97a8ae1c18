"""PostgreSQL's dialect on texts and numbers at every edge: what Python reads, it reads, and no text makes it fail."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np

from dodona.engines.cells import ColumnForm, read_column
from dodona.engines.dialects import DOUBLE_OF_NUMERIC, POSTGRES
from dodona.schema.attributes import Boolean, Date, Number
from dodona.schema.encoding import _boolean, _double, _ordinal
from tests.engines.columns import Draw, pick
from tests.engines.server import owner

OVER, UNDER = 2**1024 - 2**970, 5**1075
RAW = '(CAST(t AS text) COLLATE "C")'
EDGES = [
    *(f"{sign}{OVER + step}{end}" for sign in ("", "-") for step in (-1, 0, 1) for end in ("", ".", ".0e0", "0e-1")),
    *(f"{sign}{UNDER * 10 + step}e-1076" for sign in ("", "-") for step in (-1, 0, 1)),
    *(f"0.{'0' * 323}{UNDER * 10 + step}" for step in (-1, 0, 1)),
    *(f"0.{'0' * 5000}{UNDER + step}E4677" for step in (-1, 0, 1)),
    *("1e400", "-1e400", "1e-400", "-1e-400", "0e99999999999999999999", "1e99999999999999999999", "-1e-9999999999999"),
    *(f"0.{'0' * 5000}1e5001", f"1{'0' * 5000}e-5000", f"1{'0' * 500}e-800", ".0e0", "00", "-0", f"1e{'0' * 40}5"),
    *("inf", "-InFinity", "+nan", "-NAN", "  +iNf\n", "5e-324", "2e-324", "3e-324", "1.7976931348623157e308", "١"),
    *("1.7976931348623159e308", "1e", "e5", ".", "", " ", "1e+", "0x10", "1_000", "1\n2", "1\n", "\x0b1\f", "1\u00a0"),
]


def texts(generator: Draw, number: int) -> list[str]:
    def one() -> str:
        digits = "".join(map(str, generator.integers(0, 10, pick(generator, [1, 3, 17, 30, 250, 320, 1000]))))
        point = int(generator.integers(len(digits) + 1))
        middle = f"{digits[:point]}{pick(generator, ['.', '.', ''])}{digits[point:]}"
        power = pick(generator, ["", f"e{generator.integers(-360, 360)}", f"E-0{generator.integers(1100)}"])
        return f"{pick(generator, ['', ' ', '+', '-', 'x'])}{middle}{power}{pick(generator, ['', chr(10)])}"

    return [*EDGES, *(one() for _ in range(number))]


def days(generator: Draw, number: int) -> list[str]:
    def one() -> str:
        year = pick(generator, [int(generator.integers(10_000)), 0, 1, 4, 100, 1900, 2000, 2023, 2024, 9999])
        day = f"{year:04}-{generator.integers(14):02}-{pick(generator, [0, 1, 28, 29, 30, 31, 32]):02}"
        return (
            pick(generator, ["", "", " ", "\n", "x"]) + day + pick(generator, ["", "", "T23:59", " 24:00", "Z", "\n"])
        )

    return [one() for _ in range(number)]


def selected(sql: str, kind: str, listed: list[object]) -> list[object]:
    with owner() as connection:
        connection.execute(f"CREATE TEMPORARY TABLE held (i integer, t {kind})")
        with connection.cursor() as cursor, cursor.copy("COPY held FROM STDIN") as copy:
            for pair in enumerate(listed):
                copy.write_row(pair)
        return [value for (value,) in connection.execute(f"SELECT {sql} FROM held ORDER BY i").fetchall()]  # noqa: S608


def same(first: object, second: object) -> bool:
    return first == second or (first != first and second != second)  # noqa: PLR0124  NaN


def test_every_text_is_the_double_and_the_truth_that_python_reads() -> None:
    listed = texts(np.random.default_rng(7), 600)
    doubles = selected(read_column(Number("x", 0, 1, 1), RAW, ColumnForm.TEXT, POSTGRES).value, "text", listed)
    known = [None if (double := _double(text)) != double else double for text in listed]
    assert [text for text, value, wanted in zip(listed, doubles, known, strict=True) if value != wanted] == []
    assert {None, float("inf"), float("-inf"), 0.0, 5e-324} <= set(doubles)
    listed = [
        "t",
        "TRUE",
        "yes",
        "Y\n",
        " 1 ",
        "0",
        "no",
        "n",
        "False",
        "on",
        "1.0",
        "",
        "tr",
        "ｔ",
        "1\n1",
        *listed[:200],
    ]
    truths = selected(read_column(Boolean("x"), RAW, ColumnForm.TEXT, POSTGRES).value, "text", listed)
    assert truths == [{1: True, 0: False, None: None}[_boolean(text)] for text in listed]


def test_every_text_is_the_day_that_the_calendar_has() -> None:
    listed = days(np.random.default_rng(8), 1500)
    value = read_column(Date("x", dt.date(1, 1, 1), dt.date(9999, 12, 31)), RAW, ColumnForm.TEXT, POSTGRES).value
    ordinals = selected(f"{value} - DATE '0001-01-01' + 1", "text", listed)
    assert ordinals == [_ordinal(text) for text in listed]
    assert len(set(ordinals)) > 100


def test_every_numeric_is_the_nearest_double() -> None:
    generator = np.random.default_rng(9)
    edges = [Decimal(f"{sign}{OVER + step}") for sign in ("", "-") for step in (-1, 0, 1)]
    edges += [Decimal(f"{sign}{UNDER + step}e-1075") for sign in ("", "-") for step in (-1, 0, 1)]
    edges += [Decimal(text) for text in ("NaN", "Infinity", "-Infinity", "1e5000", "-1e5000", "1e-5000", "0")]
    drawn = [
        Decimal(int(generator.integers(-(10**17), 10**17))).scaleb(int(generator.integers(-345, 300)))
        for _ in range(500)
    ]
    doubles = selected(DOUBLE_OF_NUMERIC.format("t"), "numeric", [*edges, *drawn])
    wrong = [n for n, double in zip([*edges, *drawn], doubles, strict=True) if not same(double, _double(n))]
    assert wrong == []
