"""Profiles: the few figures of a column that a draft of its declaration is guessed from.

They are exact and about people, so they are for the owner alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dodona.backends.inspection import Held, Inspection
from dodona.domain.attribute import Boolean, Date, Number
from dodona.sql.render_cells import day_of
from dodona.sql.render_column import Form, reading
from dodona.sql.render_dialect import number_literal

_WIDEST = 10**15
_NUMBER = Number("probe", -_WIDEST, _WIDEST, 10**9)  # bounds that hide nothing; the step is not used
_DAY = Date("probe", dt.date.min, dt.date.max)
_TRUTH = Boolean("probe")
CODES = (-1, -2, -7, -8, -88, -888, *(sign * (10**digits - 1) for digits in range(1, 9) for sign in (-1, 1)))
"""Numbers that often stand for no answer: -1, 99, -999 and the like."""
_NUMBERS = frozenset({Form.TEXT, Form.WHOLE, Form.DOUBLE, Form.WIDE, Form.DECIMAL})
_DAYS = frozenset({Form.TEXT, Form.DAY, Form.TIME, Form.ZONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of a column: how many there are, how many are whole, and the least and the most of them."""

    count: int
    whole: int
    least: Fraction
    most: Fraction
    inner: tuple[Fraction, Fraction] | None
    """The least and the most without numbers that often stand for no answer, such as -1 and 999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """The days of a column."""

    count: int
    first: dt.date
    last: dt.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One column."""

    name: str
    held: Held
    present: int
    """How many values are not NULL."""
    different: int
    numbers: Numbers | None = None
    """None where no value is a number from -10^15 to 10^15."""
    days: Days | None = None
    truths: tuple[int, int] = (0, 0)
    """How many texts read as true, and how many as false."""


def counted(table: Inspection) -> int:
    """Return how many rows there are."""
    ((rows,),) = table.fetch(f"SELECT count(*) FROM {table.source}")  # noqa: S608
    return _whole(rows)


def profiled(table: Inspection, name: str) -> Profile:
    """Return the figures of one column, in one pass."""
    held = table.columns[name]
    if held.form is None:
        ((present,),) = table.fetch(f"SELECT count({held.sql}) FROM {table.source}")  # noqa: S608
        return Profile(name=name, held=held, present=_whole(present), different=0)
    inner = {"t": held.sql} | _readings(table, held)
    outer = ["count(t)", "count(DISTINCT t)", *_figures(table, held.form)]
    listed = ", ".join(f"{sql} AS {short}" for short, sql in inner.items())
    figures = ", ".join(f"{sql} AS f{place}" for place, sql in enumerate(outer))
    (row,) = table.fetch(f"SELECT {figures} FROM (SELECT {listed} FROM {table.source}) AS listed")  # noqa: S608
    present, different, *rest = row
    found = list(rest)
    numbers = _numbers(found[:6]) if held.form in _NUMBERS else None
    del found[: 6 if held.form in _NUMBERS else 0]
    days = _days(found[:3]) if held.form in _DAYS else None
    del found[: 3 if held.form in _DAYS else 0]
    truths = (_whole(found[0]), _whole(found[1])) if held.form is Form.TEXT else (0, 0)
    return Profile(
        name=name,
        held=held,
        present=_whole(present),
        different=_whole(different),
        numbers=numbers,
        days=days,
        truths=truths,
    )


def texts(table: Inspection, name: str, *, most: int) -> list[tuple[str, int]]:
    """Return the different texts of a column and how often each occurs, in the order of the alphabet.

    The order of their frequencies would tell about the rows, so it is not the one that a draft has.
    """
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT t, count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) AS listed "  # noqa: S608
        f"WHERE t IS NOT NULL GROUP BY t ORDER BY t LIMIT {most}"
    )
    return sorted((str(text), _whole(number)) for text, number in rows)


def crowds(table: Inspection, name: str) -> list[tuple[int, int]]:
    """Return how many people have one row, two rows and so on, where a column tells people apart."""
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT n, count(*) AS people FROM (SELECT count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) "  # noqa: S608
        "AS listed WHERE t IS NOT NULL GROUP BY t) AS people GROUP BY n ORDER BY n"
    )
    return [(_whole(own), _whole(number)) for own, number in rows]


def _readings(table: Inspection, held: Held) -> dict[str, str]:
    """Return the value of a column as a number, as a day and as a truth, as far as it may be one."""
    found = dict[str, str]()
    if held.form in _NUMBERS and held.form is not None:
        found["v"] = table.dialect.double.format(
            reading(_NUMBER, held.number or held.sql, held.form, table.dialect).value
        )
    if held.form in _DAYS and held.form is not None:
        found["d"] = day_of(reading(_DAY, held.day or held.sql, held.form, table.dialect))
    if held.form is Form.TEXT:
        found["b"] = reading(_TRUTH, held.sql, held.form, table.dialect).value
    return found


def _figures(table: Inspection, form: Form) -> list[str]:
    dialect, found = table.dialect, list[str]()
    if form in _NUMBERS:
        near = (
            f"v >= {number_literal(-float(_WIDEST))} AND v <= {number_literal(float(_WIDEST))}"  # no NaN, no infinity
        )
        inside = f"CASE WHEN {near} THEN v END"
        found += [dialect.count_if.format(text) for text in (near, f"{near} AND v = floor(v)")]
        found += [f"min({inside})", f"max({inside})"]
        inner = f"CASE WHEN {near} AND v NOT IN ({', '.join(number_literal(float(code)) for code in CODES)}) THEN v END"
        found += [f"min({inner})", f"max({inner})"]
    if form in _DAYS:
        first, last = dialect.day.format(dt.date.min), dialect.day.format(dt.date.max)
        inside = f"CASE WHEN d >= {first} AND d <= {last} THEN d END"
        found += [f"count({inside})", *(dialect.text.format(f"{pick}({inside})") for pick in ("min", "max"))]
    if form is Form.TEXT:
        found += [dialect.count_if.format("b"), dialect.count_if.format("NOT b")]
    return found


def _numbers(row: Sequence[object]) -> Numbers | None:
    count, whole, least, most, *inner = row
    if least is None or most is None:
        return None
    first, last = (None if value is None else _exact(value) for value in inner)
    return Numbers(
        count=_whole(count),
        whole=_whole(whole),
        least=_exact(least),
        most=_exact(most),
        inner=None if first is None or last is None else (first, last),
    )


def _days(row: Sequence[object]) -> Days | None:
    count, first, last = row
    if first is None or last is None:
        return None
    return Days(count=_whole(count), first=dt.date.fromisoformat(str(first)), last=dt.date.fromisoformat(str(last)))


def _exact(value: object) -> Fraction:
    return Fraction(repr(float(str(value))))  # the shortest decimal, as people wrote it


def _whole(value: object) -> int:
    """Return a count; engines may say NULL where there was nothing to count."""
    return 0 if value is None else int(str(value))
