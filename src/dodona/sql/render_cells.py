"""Cells in SQL: the condition that a column's cell is one of some, and the code of its cell.

Conditions compare raw values with literals, which is the quickest that an engine can do. Where a value's code rises
with the value, "the code is at least a" is "the value is at least t(a)" for one number t(a), found here exactly.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache
from typing import assert_never

from dodona.domain.attribute import Boolean, Category, Date, Integer, Number
from dodona.query.predicate import Among
from dodona.sql.render_column import Form, Reading
from dodona.sql.render_dialect import number_literal, whole_literal

TRUE, FALSE = "TRUE", "FALSE"


def condition(reading: Reading, part: Among) -> str:
    """Return SQL that is true exactly for rows whose cell is among these; false or NULL for the others."""
    size, landing = reading.attribute.size, reading.attribute.landing
    present = part.codes & ((1 << size) - 1)
    if landing is not None and present >> landing & 1 and reading.form is not Form.CODE:
        return _all_but(reading, ((1 << size) - 1) & ~present)
    found = [_among_values(reading, present)] if present else []
    if part.codes >> size & 1:
        found.append(reading.missing)
    if part.codes >> (size + 1) & 1:
        found.append(outside(reading))
    kept = [text for text in found if text != FALSE]
    if not kept:
        return FALSE
    return kept[0] if len(kept) == 1 else f"({' OR '.join(kept)})"


def there(reading: Reading) -> str:
    """Return SQL that is true exactly where a row has one of the attribute's values; false or NULL elsewhere."""
    if reading.form is Form.CODE and reading.attribute.landing is not None:
        return TRUE
    return _among_values(reading, (1 << reading.attribute.size) - 1)


def _all_but(reading: Reading, codes: int) -> str:
    """Return SQL that is true exactly where no value with one of these codes is, whatever else is there instead."""
    return f"(({_among_values(reading, codes)}) IS NOT TRUE)" if codes else TRUE


def outside(reading: Reading) -> str:
    """Return SQL that is true exactly where a value is there and is none of the attribute's."""
    attribute = reading.attribute
    held = f"NOT ({reading.missing})"
    if reading.form is Form.CODE:
        return f"{reading.value} = {attribute.size + 1}"
    match attribute:
        case Category(labels=labels):
            return f"({reading.raw} IS NOT NULL AND {reading.value} NOT IN ({reading.dialect.literals(labels)}))"
        case Date():
            first, after = bound(reading, 0), bound(reading, attribute.size)
            unread = "" if reading.total else f"({reading.value}) IS NULL OR "
            return f"({held} AND ({unread}{reading.value} < {first} OR {reading.value} >= {after}))"
        case Integer() | Number() | Boolean():
            return FALSE if reading.total else f"({held} AND ({reading.value}) IS NULL)"
        case _:
            assert_never(attribute)


def code(reading: Reading) -> str:
    """Return SQL for the code of the cell, a whole number of 64 bits."""
    if reading.form is Form.CODE:
        return reading.dialect.small.format(reading.value)
    if reading.form is Form.DOUBLE and isinstance(reading.attribute, Integer | Number):
        return _code_of_double(reading, reading.attribute)
    size, landing = reading.attribute.size, reading.attribute.landing
    if isinstance(reading.attribute, Category):  # the place among the labels is NULL outside: no second search
        if landing is not None:
            return f"coalesce({present_code(reading)}, {landing})"
        return f"CASE WHEN {reading.missing} THEN {size} ELSE coalesce({present_code(reading)}, {size + 1}) END"
    return by_cell(reading, present_code(reading), size=size, landing=landing)


def _code_of_double(reading: Reading, attribute: Integer | Number) -> str:
    """Return SQL for the code of a double's cell; the usual case comes first, which halves the time."""
    value, dialect, size = reading.value, reading.dialect, attribute.size
    first, after = bound(reading, 0), bound(reading, size)
    rest = f"ELSE {size}" if reading.total else f"WHEN {reading.missing} THEN {size} ELSE {size + 1}"
    if attribute.landing is not None:
        rest = f"ELSE {attribute.landing}"
    return (
        f"CASE WHEN {value} >= {first} AND {value} < {after} THEN {dialect.small.format(_steps(reading))} "
        f"WHEN {value} < {first} THEN 0 WHEN NOT {dialect.not_a_number.format(value)} THEN {size - 1} {rest} END"
    )


def by_cell(reading: Reading, present: str, *, size: int, landing: int | None) -> str:
    """Return SQL that is `present` where there is a value, `size` where it is missing and the next number outside.

    Where there are no such cells, it is `landing` for both.
    """
    if landing is not None:
        return f"CASE WHEN {there(reading)} THEN {present} ELSE {landing} END"
    apart = outside(reading)
    second = "" if apart == FALSE else f" WHEN {apart} THEN {size + 1}"
    return f"CASE WHEN {reading.missing} THEN {size}{second} ELSE {present} END"


def present_code(reading: Reading) -> str:
    """Return SQL for the code where there is a value; it raises no error where there is none."""
    attribute, value, dialect = reading.attribute, reading.value, reading.dialect
    if reading.form is Form.CODE:
        return dialect.small.format(value)
    match attribute:
        case Category(labels=labels):
            return dialect.small.format(dialect.position.format(value, dialect.literals(labels)))
        case Boolean():
            return f"CASE WHEN {value} THEN 1 ELSE 0 END"
        case Date(lower=lower):
            return dialect.small.format(dialect.days_between.format(day_of(reading), dialect.day.format(lower)))
        case Integer(lower=least, upper=most) if reading.form is Form.WHOLE:
            drawn = f"least(greatest({dialect.small.format(value)}, {whole_literal(least)}), {whole_literal(most)})"
            return f"({drawn} - {whole_literal(least)})"
        case Integer() | Number():
            steps = _steps(reading)
            top = number_literal(float(attribute.size - 1))
            return dialect.small.format(f"least(greatest({steps}, {number_literal(0.0)}), {top})")
        case _:
            assert_never(attribute)


def at_least(reading: Reading, number: int) -> str:
    """Return SQL that says, of a column with a value, whether its code is at least this number."""
    if reading.form is Form.CODE or isinstance(reading.attribute, Category | Boolean):
        return f"{present_code(reading)} >= {number}"
    return f"{reading.value} >= {bound(reading, number)}"


def _steps(reading: Reading) -> str:
    """Return SQL for floor((x - lower)/step) in doubles, not yet drawn into the bounds."""
    attribute, value = reading.attribute, reading.dialect.double.format(reading.value)
    if isinstance(attribute, Integer):
        return f"(floor({value}) - {number_literal(float(attribute.lower))})"
    assert isinstance(attribute, Number)  # noqa: S101  the caller has matched it
    lower, step = number_literal(float(attribute.lower)), number_literal(float(attribute.step))
    none, fewer = (f"{reading.value} < {bound(reading, number)}" for number in (1, attribute.size))
    return reading.dialect.steps.format(value, lower, step, none, fewer)


def day_of(reading: Reading) -> str:
    """Return SQL for the day of a column of days or of moments."""
    match reading.form:
        case Form.TIME:
            return reading.dialect.day_of_time.format(reading.value)
        case Form.ZONED:
            return reading.dialect.day_of_zoned.format(reading.value)
        case _:
            return reading.value


def _among_values(reading: Reading, codes: int) -> str:
    """Return the condition for values alone: some bit of a code below the size is set."""
    attribute = reading.attribute
    every = codes == (1 << attribute.size) - 1
    if reading.form is Form.CODE:
        return _joined(_between_codes(reading, first, last) for first, last in runs(codes))
    match attribute:
        case Category(labels=labels):
            chosen = (label for place, label in enumerate(labels) if codes >> place & 1)
            return f"{reading.value} IN ({reading.dialect.literals(chosen)})"
        case Boolean():
            if every:
                return f"({reading.value}) IS NOT NULL"
            return f"({reading.value}) IS {TRUE if codes == 2 else FALSE}"  # noqa: PLR2004  bit 1 is true
        case Integer() | Number() | Date():
            return _joined(_between(reading, first, last) for first, last in runs(codes))
        case _:
            assert_never(attribute)


def _joined(parts: Iterator[str]) -> str:
    found = list(parts)
    return found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def _between_codes(reading: Reading, first: int, last: int) -> str:
    if first == last:
        return f"{reading.value} = {first}"
    return f"{reading.value} BETWEEN {first} AND {last}"


def _between(reading: Reading, first: int, last: int) -> str:
    """Return the condition for codes from first to last; the outermost take in what is drawn into the bounds."""
    attribute, value = reading.attribute, reading.value
    drawn = not isinstance(attribute, Date)
    open_below = drawn and first == 0
    open_above = drawn and last == attribute.size - 1
    parts = [] if open_below else [f"{value} >= {bound(reading, first)}"]
    if not open_above:
        parts.append(f"{value} < {bound(reading, last + 1)}")
    elif reading.form is Form.DOUBLE:
        parts.append(f"NOT {reading.dialect.not_a_number.format(value)}")  # engines hold NaN to be above all numbers
    elif open_below:
        parts.append(f"({value}) IS NOT NULL")
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def runs(codes: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last place of each run of set bits.

    >>> list(runs(0b110111))
    [(0, 2), (4, 5)]
    """
    place = 0
    while codes:
        skipped = (codes & -codes).bit_length() - 1
        codes >>= skipped
        length = (~codes & (codes + 1)).bit_length() - 1
        codes >>= length
        yield place + skipped, place + skipped + length - 1
        place += skipped + length


def bound(reading: Reading, number: int) -> str:
    """Return the literal t with: the code is at least `number` exactly where the value is at least t."""
    attribute, dialect = reading.attribute, reading.dialect
    match attribute:
        case Date(lower=first):
            literal = {Form.DAY: dialect.day, Form.TIME: dialect.time, Form.ZONED: dialect.zoned}[reading.form]
            return literal.format(_day_text(first, number))
        case Integer(lower=least):
            return (
                whole_literal(least + number) if reading.form is Form.WHOLE else number_literal(float(least + number))
            )
        case Number():
            found = threshold(float(attribute.lower), float(attribute.step), number)
            return whole_literal(math.ceil(found)) if reading.form is Form.WHOLE else number_literal(found)
        case Category() | Boolean():
            raise AssertionError(f"a {attribute.kind} has no bounds")
        case _:
            assert_never(attribute)


def _day_text(first: date, number: int) -> str:
    day = first.toordinal() + number
    return "10000-01-01" if day > date.max.toordinal() else date.fromordinal(day).isoformat()


@lru_cache(maxsize=1 << 14)
def threshold(lower: float, step: float, number: int) -> float:
    """Return the least double x with floor((x - lower)/step) >= number, all in doubles.

    Subtracting, dividing by a positive number and rounding each keep the order, so such an x parts the doubles in two.

    >>> threshold(0.0, 0.1, 3)  # 0.3/0.1 is below 3 in doubles
    0.30000000000000004
    """
    return _least(lambda value: (value - lower) / step >= number)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the least finite double that is enough, by halving the list of all doubles in their order."""
    low, high = _place(-math.inf), _place(math.inf)
    while high - low > 1:
        middle = (low + high) // 2
        if enough(_at(middle)):
            high = middle
        else:
            low = middle
    return _at(high)


def _place(value: float) -> int:
    """Return the place of a double among all, counted from 0.0."""
    bits = int(struct.unpack("<q", struct.pack("<d", value))[0])
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _at(place: int) -> float:
    bits = abs(place) | (0 if place >= 0 else 2**63)
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
