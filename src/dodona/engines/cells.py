"""Cells in SQL: how a declared attribute is read from an engine's column, and the SQL for its code.

The SQL gives the same code as `dodona.schema.encoding` for every value, on every engine.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from dodona.engines.dialects import Dialect, number_literal, whole_literal
from dodona.errors import InvalidRequest
from dodona.numbers import smallest_integer
from dodona.query.predicate import Among
from dodona.schema.attributes import GRID_SLACK, Attribute, Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.encoding import CLOCK_TEXT, DATE_TEXT, DAY_TEXT, FALSE_TEXT, LONGEST_TEXT, NUMBER_TEXT, TRUE_TEXT
from dodona.schema.moments import DAY_SECONDS, seconds_since_epoch

# --- Engine columns: how a declared attribute is read from a column of some type. ---


_ColumnT = TypeVar("_ColumnT")
_EXACT_DIGITS = 15
_CLEARLY = 0.001
"""The part of a step by which a number is between two steps, and not on one as a double shows it."""


class ColumnForm(StrEnum):
    """The SQL form of a column's values."""

    TEXT = "text"
    WHOLE = "whole number"  # of at most 64 bits
    DOUBLE = "double"
    WIDE = "wide number"  # exact numbers that a double represents well enough: they are clamped to bounds
    DECIMAL = "decimal"  # exact numbers that are read as the nearest double, through their text
    TRUTH = "truth"
    DAY = "day"
    TIME = "time"
    ZONED = "time with a zone"
    CODE = "code"  # the cell's code itself, stored by an encoder
    NOTHING = "nothing"  # a column that can only hold NULL


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """SQL for one column: where it is missing, and its value in the type that its bounds are written in."""

    attribute: Attribute
    dialect: Dialect
    form: ColumnForm
    """The type of `value`: TEXT, WHOLE, DOUBLE, TRUTH, DAY, TIME, ZONED or CODE."""
    raw: str
    value: str
    """NULL if there is no such value; anything where `missing` holds."""
    missing: str
    """True or false, never NULL."""
    total: bool
    """Whether every value that is not missing is valid."""


class SourceUnfit(InvalidRequest):
    """The table does not match the schema, judging by names and types. The owner can fix it."""

    code = "source-unfit"


def find_column(columns: Mapping[str, _ColumnT], name: str, declared: Attribute | None) -> _ColumnT:
    """Return a table's column by name: a declared attribute, or the person id if `declared` is None."""
    if name in columns:
        return columns[name]
    alike = [other for other in columns if other.casefold() == name.casefold()]
    hint = f" It has {alike[0]}: write the name as it is there." if alike else " Add it to the table, or take it out."
    what = _with_article(declared)
    raise SourceUnfit(f"The column {name} is declared as {what}, and the table does not have it.{hint}")


def require_form(attribute: Attribute, form: ColumnForm | None, type_name: str) -> ColumnForm:
    """Return the form of a column if it can be read as the attribute; otherwise refuse it as a mistake."""
    if form is None or form not in _accepted_forms(attribute):
        raise SourceUnfit(
            f"The column {attribute.name} is declared as {_with_article(attribute)}, and the table holds {type_name} "
            "in it. Declare it as what it is, or ask a view that casts it."
        )
    return form


def _with_article(declared: Attribute | None) -> str:
    if declared is None:
        return "the id of people"
    return f"{'an' if declared.kind == 'integer' else 'a'} {declared.kind}"


def decimal_form(digits: int) -> ColumnForm:
    """Return the form of decimals with this many digits: up to 15, they are a quotient of two integral doubles."""
    return ColumnForm.WIDE if digits <= _EXACT_DIGITS else ColumnForm.DECIMAL


def _accepted_forms(attribute: Attribute) -> frozenset[ColumnForm]:
    numbers = {ColumnForm.WHOLE, ColumnForm.DOUBLE, ColumnForm.WIDE, ColumnForm.DECIMAL, ColumnForm.TRUTH}
    always = {ColumnForm.TEXT, ColumnForm.CODE, ColumnForm.NOTHING}
    match attribute:
        case Category():
            return frozenset(always)
        case Integer() | Number() | Boolean():
            return frozenset(always | numbers)
        case Date() | Timestamp():
            return frozenset(always | {ColumnForm.DAY, ColumnForm.TIME, ColumnForm.ZONED})
        case _:
            assert_never(attribute)


def read_column(attribute: Attribute, raw: str, form: ColumnForm, dialect: Dialect) -> ColumnReading:  # noqa: PLR0911  one for each kind
    """Return how to read an attribute from the SQL expression `raw`, whose values have this form."""
    if form is ColumnForm.NOTHING:
        code, missing = (attribute.size, "TRUE") if attribute.landing is None else (attribute.landing, "FALSE")
        return ColumnReading(attribute, dialect, ColumnForm.CODE, raw, str(code), missing, total=True)
    if form is ColumnForm.CODE:
        missing = f"{raw} = {attribute.size}" if attribute.landing is None else "FALSE"
        return ColumnReading(attribute, dialect, form, raw, raw, missing, total=True)
    match attribute:
        case Category():
            return ColumnReading(attribute, dialect, form, raw, raw, f"{raw} IS NULL", total=True)
        case Integer() | Number():
            return _read_number(attribute, raw, form, dialect)
        case Date():
            return _read_date(attribute, raw, form, dialect)
        case Timestamp():
            value = seconds_sql(raw, form, dialect)
            return ColumnReading(attribute, dialect, ColumnForm.WHOLE, raw, value, f"{raw} IS NULL", total=False)
        case Boolean():
            return _read_boolean(attribute, raw, form, dialect)
        case _:
            assert_never(attribute)


def _read_number(attribute: Integer | Number, raw: str, form: ColumnForm, dialect: Dialect) -> ColumnReading:
    if form in {ColumnForm.WHOLE, ColumnForm.TRUTH}:
        value = raw if form is ColumnForm.WHOLE else dialect.small.format(raw)
        return ColumnReading(attribute, dialect, ColumnForm.WHOLE, raw, value, f"{raw} IS NULL", total=True)
    double = _double(raw, form, dialect)
    missing = _missing(raw, double, form, dialect)
    value = _double_or_null(double, form, dialect)
    return ColumnReading(attribute, dialect, ColumnForm.DOUBLE, raw, value, missing, total=form is not ColumnForm.TEXT)


def _double_or_null(double: str, form: ColumnForm, dialect: Dialect) -> str:
    """Return the double, or NULL if it is NaN.

    Statistics of Parquet files omit NaN, and an engine that trusts them takes `x < 10` to be true of every row if the
    largest number is 4. With NULL in place of NaN, such a comparison reduces to whether there is a number.
    """
    if form not in {ColumnForm.DOUBLE, ColumnForm.TEXT}:
        return double
    return f"CASE WHEN {dialect.not_a_number.format(double)} THEN NULL ELSE {double} END"


def _double(raw: str, form: ColumnForm, dialect: Dialect) -> str:
    """Return the double nearest to the value; NULL if a text is not a number."""
    if form is ColumnForm.DECIMAL:
        return dialect.read_double.format(dialect.text.format(raw))
    if form is not ColumnForm.TEXT:
        return dialect.double.format(raw)
    match = _matches(raw, NUMBER_TEXT, dialect)
    return f"CASE WHEN {match} THEN {dialect.read_double.format(raw)} END"


def _matches(raw: str, rule: str, dialect: Dialect) -> str:
    """Return whether a text matches a rule of `spelling`; NULL if it is too long to be examined.

    Theorem: reading-rows
    """
    short = f"CASE WHEN {dialect.bytes.format(raw)} <= {LONGEST_TEXT} THEN {raw} END"
    return dialect.matches.format(short, dialect.literal(rule))


def _missing(raw: str, value: str, form: ColumnForm, dialect: Dialect) -> str:
    null = f"{raw} IS NULL"
    if form in {ColumnForm.DOUBLE, ColumnForm.TEXT}:
        return f"({null} OR coalesce({dialect.not_a_number.format(value)}, FALSE))"
    return null


def _read_date(attribute: Date, raw: str, form: ColumnForm, dialect: Dialect) -> ColumnReading:
    null = f"{raw} IS NULL"
    if form is not ColumnForm.TEXT:
        return ColumnReading(attribute, dialect, form, raw, raw, null, total=True)
    day = dialect.read_day.format(dialect.extract.format(raw, dialect.literal(DAY_TEXT)))
    value = f"CASE WHEN {_matches(raw, DATE_TEXT, dialect)} THEN {day} END"
    return ColumnReading(attribute, dialect, ColumnForm.DAY, raw, value, null, total=False)


def seconds_sql(raw: str, form: ColumnForm, dialect: Dialect) -> str:
    """Return SQL for the whole seconds since 1970 of a time, in UTC, rounded down; NULL if there is no such time.

    A text is read piece by piece: engines round fractions of a second differently, and no step is shorter than one.
    """
    match form:
        case ColumnForm.TIME:
            return dialect.seconds.format(raw)
        case ColumnForm.ZONED:
            return dialect.seconds_of_zoned.format(raw)
        case ColumnForm.DAY:
            return _day_seconds(dialect.finite_day.format(raw), dialect)
        case _:
            day = dialect.read_day.format(dialect.extract.format(raw, dialect.literal(DAY_TEXT)))
            parts = [_day_seconds(f"({day})", dialect)]
            clock = f"coalesce({dialect.extract.format(raw, dialect.literal(CLOCK_TEXT))}, '')"
            for first, worth in ((1, 3600), (4, 60), (7, 1)):
                digits = f"nullif(substring({clock}, {first}, 2), '')"
                parts.append(f"{worth} * coalesce({dialect.small.format(digits)}, 0)")
            return f"CASE WHEN {_matches(raw, DATE_TEXT, dialect)} THEN {' + '.join(parts)} END"


def _day_seconds(day: str, dialect: Dialect) -> str:
    days = dialect.small.format(dialect.days_between.format(day, dialect.day.format("1970-01-01")))
    return f"{DAY_SECONDS} * {days}"


def _read_boolean(attribute: Boolean, raw: str, form: ColumnForm, dialect: Dialect) -> ColumnReading:
    null = f"{raw} IS NULL"
    match form:
        case ColumnForm.TRUTH:
            return ColumnReading(attribute, dialect, form, raw, raw, null, total=True)
        case ColumnForm.TEXT:
            yes, no = (_matches(raw, text, dialect) for text in (TRUE_TEXT, FALSE_TEXT))
            missing = null
        case _:
            double = raw if form is ColumnForm.WHOLE else _double(raw, form, dialect)
            number = double if form is ColumnForm.WHOLE else _double_or_null(double, form, dialect)
            yes, no = f"{number} = 1", f"{number} = 0"
            missing = _missing(raw, double, form, dialect)
    value = f"CASE WHEN {yes} THEN TRUE WHEN {no} THEN FALSE END"
    return ColumnReading(attribute, dialect, ColumnForm.TRUTH, raw, value, missing, total=False)


# --- Cells in SQL: the condition that a column's cell is in a set, and the code of its cell. ---


TRUE, FALSE = "TRUE", "FALSE"


def among_sql(reading: ColumnReading, part: Among) -> str:
    """Return SQL that is true exactly for rows whose cell is in the set; false or NULL for the others."""
    size, landing = reading.attribute.size, reading.attribute.landing
    present = part.codes & ((1 << size) - 1)
    if landing is not None and present >> landing & 1 and reading.form is not ColumnForm.CODE:
        rest = ((1 << size) - 1) & ~present
        return f"(({_among_values(reading, rest)}) IS NOT TRUE)" if rest else TRUE
    conditions = [_among_values(reading, present)] if present else []
    if part.codes >> size & 1:
        conditions.append(reading.missing)
    if part.codes >> (size + 1) & 1:
        conditions.append(outside_sql(reading))
    kept = [text for text in conditions if text != FALSE]
    return _any_of(kept) if kept else FALSE


def present_sql(reading: ColumnReading) -> str:
    """Return SQL that is true exactly where a row has a declared value; false or NULL elsewhere."""
    if reading.form is ColumnForm.CODE and reading.attribute.landing is not None:
        return TRUE
    return _among_values(reading, (1 << reading.attribute.size) - 1)


def outside_sql(reading: ColumnReading) -> str:
    """Return SQL that is true exactly where there is an undeclared value."""
    attribute = reading.attribute
    held = f"NOT ({reading.missing})"
    if reading.form is ColumnForm.CODE:
        return f"{reading.value} = {attribute.size + 1}"
    match attribute:
        case Category(labels=labels):
            return f"({reading.raw} IS NOT NULL AND {reading.value} NOT IN ({reading.dialect.literals(labels)}))"
        case Date() | Timestamp():
            first, after = bound_literal(reading, 0), bound_literal(reading, attribute.size)
            unread = "" if reading.total else f"({reading.value}) IS NULL OR "
            return f"({held} AND ({unread}{reading.value} < {first} OR {reading.value} >= {after}))"
        case Integer() | Number() | Boolean():
            return FALSE if reading.total else f"({held} AND ({reading.value}) IS NULL)"
        case _:
            assert_never(attribute)


def code_sql(reading: ColumnReading) -> str:
    """Return SQL for the code of the cell, a 64-bit integer."""
    if reading.form is ColumnForm.CODE:
        return reading.dialect.small.format(reading.value)
    if reading.form is ColumnForm.DOUBLE and isinstance(reading.attribute, Integer | Number):
        return _code_of_double(reading, reading.attribute)
    size, landing = reading.attribute.size, reading.attribute.landing
    if isinstance(reading.attribute, Category):  # the position among the labels is NULL outside: no second search
        if landing is not None:
            return f"coalesce({present_code_sql(reading)}, {landing})"
        return f"CASE WHEN {reading.missing} THEN {size} ELSE coalesce({present_code_sql(reading)}, {size + 1}) END"
    return cell_sql(reading, present_code_sql(reading), size=size, landing=landing)


def _code_of_double(reading: ColumnReading, attribute: Integer | Number) -> str:
    """Return SQL for the code of a double's cell; testing the usual case first halves the time."""
    value, dialect, size = reading.value, reading.dialect, attribute.size
    first, after = bound_literal(reading, 0), bound_literal(reading, size)
    rest = f"ELSE {size}" if reading.total else f"WHEN {reading.missing} THEN {size} ELSE {size + 1}"
    if attribute.landing is not None:
        rest = f"ELSE {attribute.landing}"
    return (
        f"CASE WHEN {value} >= {first} AND {value} < {after} THEN {dialect.small.format(_steps(reading))} "
        f"WHEN {value} < {first} THEN 0 WHEN NOT {dialect.not_a_number.format(value)} THEN {size - 1} {rest} END"
    )


def cell_sql(reading: ColumnReading, present: str, *, size: int, landing: int | None) -> str:
    """Return SQL that gives `present` for a value, `size` if missing and the next number if outside.

    Without such cells, it gives `landing` for both.
    """
    if landing is not None:
        return f"CASE WHEN {present_sql(reading)} THEN {present} ELSE {landing} END"
    apart = outside_sql(reading)
    second = "" if apart == FALSE else f" WHEN {apart} THEN {size + 1}"
    return f"CASE WHEN {reading.missing} THEN {size}{second} ELSE {present} END"


def present_code_sql(reading: ColumnReading) -> str:  # noqa: PLR0911  one for each kind
    """Return SQL for the code where there is a value; it raises no error elsewhere."""
    attribute, value, dialect = reading.attribute, reading.value, reading.dialect
    if reading.form is ColumnForm.CODE:
        return dialect.small.format(value)
    match attribute:
        case Category(labels=labels):
            return dialect.small.format(dialect.position.format(value, dialect.literals(labels)))
        case Boolean():
            return f"CASE WHEN {value} THEN 1 ELSE 0 END"
        case Date(lower=lower):
            return dialect.small.format(dialect.days_between.format(date_sql(reading), dialect.day.format(lower)))
        case Timestamp():
            return dialect.quotient.format(f"({value} - {bound_literal(reading, 0)})", attribute.step)
        case Integer(lower=least, upper=most) if reading.form is ColumnForm.WHOLE:
            drawn = f"least(greatest({dialect.small.format(value)}, {whole_literal(least)}), {whole_literal(most)})"
            return f"({drawn} - {whole_literal(least)})"
        case Integer() | Number():
            steps = _steps(reading)
            top = number_literal(float(attribute.size - 1))
            return dialect.small.format(f"least(greatest({steps}, {number_literal(0.0)}), {top})")
        case _:
            assert_never(attribute)


def at_least_sql(reading: ColumnReading, number: int) -> str:
    """Return SQL for whether the code of a present value is at least this number."""
    if reading.form is ColumnForm.CODE or isinstance(reading.attribute, Category | Boolean):
        return f"{present_code_sql(reading)} >= {number}"
    return f"{reading.value} >= {bound_literal(reading, number)}"


def _steps(reading: ColumnReading) -> str:
    """Return SQL for the number of steps from the lower bound, rounded down, before clamping to the bounds."""
    attribute, value = reading.attribute, reading.dialect.double.format(reading.value)
    if isinstance(attribute, Integer):
        return f"(floor({value}) - {number_literal(float(attribute.lower))})"
    assert isinstance(attribute, Number)  # noqa: S101  the caller has matched it
    lower, step = number_literal(float(attribute.lower)), number_literal(float(attribute.step))
    none, fewer = (f"{reading.value} < {bound_literal(reading, number)}" for number in (1, attribute.size))
    return reading.dialect.steps.format(value, lower, step, none, fewer, number_literal(GRID_SLACK))


def between_steps_sql(reading: ColumnReading, attribute: Number) -> str:
    """Return SQL that is true where a number within its bounds is above the step that it counts as."""
    lower, step = number_literal(float(attribute.lower)), number_literal(float(attribute.step))
    clear = number_literal(float(attribute.step) * _CLEARLY)
    return f"{reading.value} - ({lower} + {step} * ({present_code_sql(reading)})) > {clear}"


def date_sql(reading: ColumnReading) -> str:
    """Return SQL for the day of a column of days or timestamps."""
    match reading.form:
        case ColumnForm.TIME:
            return reading.dialect.day_of_time.format(reading.value)
        case ColumnForm.ZONED:
            return reading.dialect.day_of_zoned.format(reading.value)
        case _:
            return reading.value


def _among_values(reading: ColumnReading, codes: int) -> str:
    """Return the condition for values alone; some bit of a code below the size must be set."""
    attribute = reading.attribute
    every = codes == (1 << attribute.size) - 1
    periodic = None if isinstance(attribute, Category | Boolean) else _periodic_codes(codes, attribute.size)
    if periodic is not None:
        period, once = periodic
        place = reading.dialect.remainder.format(f"({present_code_sql(reading)})", period)
        runs = [f"{place} BETWEEN {first} AND {last}" for first, last in bit_runs(once)]
        return f"({present_sql(reading)} AND {_any_of(runs)})"
    if reading.form is ColumnForm.CODE:
        return _any_of(_between_codes(reading, first, last) for first, last in bit_runs(codes))
    match attribute:
        case Category(labels=labels):
            chosen = (label for place, label in enumerate(labels) if codes >> place & 1)
            return f"{reading.value} IN ({reading.dialect.literals(chosen)})"
        case Boolean():
            if every:
                return f"({reading.value}) IS NOT NULL"
            return f"({reading.value}) IS {TRUE if codes == 2 else FALSE}"  # noqa: PLR2004  bit 1 is true
        case Integer() | Number() | Date() | Timestamp():
            return _any_of(_between(reading, first, last) for first, last in bit_runs(codes))
        case _:
            assert_never(attribute)


def _any_of(parts: Iterable[str]) -> str:
    conditions = list(parts)
    return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"


def _between_codes(reading: ColumnReading, first: int, last: int) -> str:
    if first == last:
        return f"{reading.value} = {first}"
    return f"{reading.value} BETWEEN {first} AND {last}"


def _between(reading: ColumnReading, first: int, last: int) -> str:
    """Return the condition for codes from first to last; the outermost include values clamped to the bounds."""
    attribute, value = reading.attribute, reading.value
    drawn = not isinstance(attribute, Date | Timestamp)
    open_below = drawn and first == 0
    open_above = drawn and last == attribute.size - 1
    parts = [] if open_below else [f"{value} >= {bound_literal(reading, first)}"]
    if not open_above:
        parts.append(f"{value} < {bound_literal(reading, last + 1)}")
    elif reading.form is ColumnForm.DOUBLE:
        parts.append(f"NOT {reading.dialect.not_a_number.format(value)}")  # engines order NaN above all numbers
    elif open_below:
        parts.append(f"({value}) IS NOT NULL")
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def bit_runs(codes: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last position of each run of set bits.

    >>> list(bit_runs(0b110111))
    [(0, 2), (4, 5)]
    """
    changes = codes ^ codes << 1
    if changes.bit_count() > _FEW_CHANGES:
        edges = np.flatnonzero(np.diff(_bits(codes), prepend=0, append=0)).tolist()
        yield from ((first, after - 1) for first, after in zip(edges[::2], edges[1::2], strict=True))
        return
    while changes:
        first = (changes & -changes).bit_length() - 1
        changes &= changes - 1
        yield first, (changes & -changes).bit_length() - 2
        changes &= changes - 1


def _bits(codes: int) -> NDArray[np.int8]:
    read = np.frombuffer(codes.to_bytes((codes.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(read, bitorder="little").astype(np.int8)


_MANY_RUNS = 32
_FEW_CHANGES = 16  # from where on looking at all bits at once is faster than taking one after the other
_MOST_RUNS_OF_A_PERIOD = 16


def _periodic_codes(codes: int, size: int) -> tuple[int, int] | None:
    """Return the period of codes that come again and again, such as an hour of every day, and those of one period.

    None if there are few runs of codes, which are compared one by one, or no period.

    >>> _periodic_codes(int("0110" * 40, 2), 160)
    (4, 6)
    """
    if (codes ^ codes << 1).bit_count() <= 2 * _MANY_RUNS:  # the number of ends of runs
        return None
    members = np.zeros(size, dtype=np.int8)
    held = _bits(codes)[:size]
    members[: len(held)] = held
    starts = np.flatnonzero(np.diff(members, prepend=0) == 1)
    for number in range(1, _MOST_RUNS_OF_A_PERIOD + 1):
        period = int(starts[1 + number] - starts[1])
        if np.array_equal(members[period:], members[:-period]):
            return period, codes & ((1 << period) - 1)
    return None


def bound_literal(reading: ColumnReading, number: int) -> str:
    """Return the literal t such that the code is at least `number` exactly if the value is at least t."""
    attribute, dialect = reading.attribute, reading.dialect
    match attribute:
        case Date(lower=first):
            literals = {ColumnForm.DAY: dialect.day, ColumnForm.TIME: dialect.time, ColumnForm.ZONED: dialect.zoned}
            return literals[reading.form].format(_day_text(first, number))
        case Timestamp():
            return whole_literal(seconds_since_epoch(attribute.lower) + number * attribute.step)
        case Integer(lower=least):
            bound = least + number
            return whole_literal(bound) if reading.form is ColumnForm.WHOLE else number_literal(float(bound))
        case Number():
            threshold = grid_threshold(float(attribute.lower), float(attribute.step), number)
            return (
                whole_literal(math.ceil(threshold)) if reading.form is ColumnForm.WHOLE else number_literal(threshold)
            )
        case Category() | Boolean():
            raise AssertionError(f"a {attribute.kind} has no bounds")
        case _:
            assert_never(attribute)


def _day_text(first: date, number: int) -> str:
    day = first.toordinal() + number
    return "10000-01-01" if day > date.max.toordinal() else date.fromordinal(day).isoformat()


@lru_cache(maxsize=1 << 14)
def grid_threshold(lower: float, step: float, number: int) -> float:
    """Return the smallest double x with floor((x - lower)/step + slack) >= number, all in doubles.

    Subtraction, division by a positive number, addition and rounding are each monotone, so such an x splits the doubles
    in two.

    >>> grid_threshold(0.0, 0.1, 3) <= 0.3  # although 0.3/0.1 is below 3 in doubles
    True
    """
    return _least(lambda value: (value - lower) / step + GRID_SLACK >= number)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the smallest finite double that is enough, by bisecting the ordered list of all doubles."""
    ends = _double_rank(-math.inf), _double_rank(math.inf)
    return _double_at_rank(smallest_integer(lambda place: enough(_double_at_rank(place)), *ends))


def _double_rank(value: float) -> int:
    """Return the rank of a double among all doubles, counted from 0.0."""
    bits = int(struct.unpack("<q", struct.pack("<d", value))[0])
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _double_at_rank(place: int) -> float:
    bits = abs(place) | (0 if place >= 0 else 2**63)
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
