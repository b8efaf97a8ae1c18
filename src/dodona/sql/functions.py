"""Functions of single rows: rounding, texts, dates and choices, each defined on exact values.

A function of columns is the table of its values, so it needs no SQL of its own: engines see only cells. NULL in gives
NULL out, and a value outside the declared ones gives an unknown value, except where a function says otherwise.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dodona.schema.attributes import Timestamp
from dodona.schema.moments import DAY_SECONDS
from dodona.sql import calendar as days
from dodona.sql import texts
from dodona.sql.arithmetic import calculate, combine_values, time_between
from dodona.sql.calendar import Interval
from dodona.sql.scalar import (
    UNKNOWN,
    Computed,
    Constant,
    Leaf,
    Mismatch,
    Outcome,
    Scalar,
    Subject,
    as_number,
    as_whole,
    combine,
    constant_number,
)
from dodona.sql.tables import apply_function, strict, tabulate_buckets, tabulate_moments, tabulate_rounded
from dodona.sql.texts import as_text

Function = Callable[..., Outcome]


# --- Numbers. ---


def round_half_away(value: Fraction, digits: int = 0) -> Fraction:
    """Return a number rounded to digits after the point; halves are rounded away from 0, as SQL does.

    >>> round_half_away(Fraction(-5, 2)), round_half_away(Fraction(25), -1)
    (Fraction(-3, 1), Fraction(30, 1))
    """
    scale = Fraction(10) ** min(max(digits, -60), 60)
    size = math.floor(abs(value) * scale + Fraction(1, 2)) / scale
    return size if value >= 0 else -size


def _truncate(value: Fraction, digits: int = 0) -> Fraction:
    scale = Fraction(10) ** min(max(digits, -60), 60)
    return math.trunc(value * scale) / scale


def _rounding(function: Callable[[Fraction, int], Fraction]) -> Function:
    return strict(lambda value, digits=Fraction(0): function(as_number(value), as_whole(digits)))


def _quotient(dividend: Constant, other: Constant) -> Constant:
    """Return a quotient without its fraction; NULL for a division by 0."""
    divisor = as_number(other)
    return None if divisor == 0 else Fraction(math.trunc(as_number(dividend) / divisor))


def _remainder(dividend: Constant, other: Constant) -> Constant:
    """Return the remainder, with the sign of the dividend; NULL for a division by 0."""
    value, divisor = as_number(dividend), as_number(other)
    return None if divisor == 0 else value - divisor * math.trunc(value / divisor)


def _width_bucket(value: Constant, low: Constant, high: Constant, count: Constant) -> Constant:
    """Return the number of the bucket of equal width, from 1; 0 below the first and count + 1 above the last."""
    place, first, last, buckets = as_number(value), as_number(low), as_number(high), as_whole(count)
    if first >= last or not 1 <= buckets <= 1 << 20:
        raise Mismatch("width_bucket takes a lower and a higher bound, and a number of buckets.", "Write them so.")
    if place < first:
        return Fraction(0)
    return Fraction(min(math.floor((place - first) * buckets / (last - first)), buckets) + 1)


def _power(value: Constant, exponent: Constant) -> Constant:
    number = as_whole(exponent)
    if not 0 <= number <= 8:  # noqa: PLR2004  higher ones are not needed
        raise Mismatch("Powers from 0 to 8 are known.", "Write one of them.")
    return as_number(value) ** number


# --- Days. ---


def _day(value: Constant) -> dt.date:
    if isinstance(value, dt.date):
        return value
    raise Mismatch("This takes a date.", "Write a column of dates, or DATE '2024-01-31'.")


def _age(last: Constant, first: Constant) -> Constant:
    end, other = _day(last), _day(first)
    if isinstance(end, dt.datetime) != isinstance(other, dt.datetime):
        raise Mismatch("`age` is between two days or two times.", "Write CAST(column AS DATE) for the day of a time.")
    return days.age_between(end, other)


def _format_function(format_day: Callable[[dt.date, str], str | None], patterns: str) -> Function:
    def write(value: Constant, pattern: Constant) -> Constant:
        if isinstance(value, str) and isinstance(pattern, dt.date):  # SQLite and BigQuery name the format first
            value, pattern = pattern, value
        text = format_day(_day(value), as_text(pattern))
        if text is None:
            raise Mismatch(f"The format '{as_text(pattern)[:40]}' is not known.", f"Write {patterns}.")
        return text

    return strict(write)


_UNITS = "Write 'hour', 'day', 'week', 'month', 'quarter' or 'year'."


def _difference(unit: Constant, first: Constant, last: Constant) -> Constant:
    periods = days.periods_between(as_text(unit), _day(first), _day(last))
    if periods is None:
        raise Mismatch(f"`{as_text(unit)[:40]}` is no unit of days.", _UNITS)
    return Fraction(periods)


def _days_between(end: Constant, other: Constant) -> Constant:
    days_only = [moment.date() if isinstance(moment, dt.datetime) else moment for moment in (_day(end), _day(other))]
    return Fraction((days_only[0] - days_only[1]).days)


def _shift(unit: Constant, number: Constant, value: Constant) -> Constant:
    step = days.parse_interval(str(as_whole(number)), as_text(unit))
    if step is None:
        raise Mismatch(f"`{as_text(unit)[:40]}` is no unit of days.", _UNITS)
    return days.shift_day(_day(value), step)


_FIELDS = (("YYYY", 4), ("MM", 2), ("DD", 2), ("HH24", 2), ("MI", 2), ("SS", 2), ("US", 6), ("MS", 3))


def _parse_time(text: Constant, pattern: Constant) -> dt.datetime | None:
    """Return the time that a text means, by a pattern of YYYY, MM, DD, HH24, MI, SS, MS and US."""
    signs = re.escape(as_text(pattern)[:40])
    for name, digits in _FIELDS:
        signs = signs.replace(name, f"(?P<{name}>[0-9]{{{digits}}})", 1)
    matched = re.fullmatch(signs, as_text(text))
    parts = {} if matched is None else {name: int(value) for name, value in matched.groupdict().items()}
    if not {"YYYY", "MM", "DD"} <= parts.keys():
        return None
    hour, minute, second = (parts.get(name, 0) for name in ("HH24", "MI", "SS"))
    fraction = parts.get("US", 1_000 * parts.get("MS", 0))
    try:
        clock = dt.time(hour, minute, second, fraction)
        return dt.datetime.combine(dt.date(parts["YYYY"], parts["MM"], parts["DD"]), clock)
    except ValueError:
        return None


def _to_date(text: Constant, pattern: Constant = "YYYY-MM-DD") -> Constant:
    """Return the day that a text means, by a pattern."""
    moment = _parse_time(text, pattern)
    return None if moment is None else moment.date()


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  times mean UTC


def _to_timestamp(value: Constant, pattern: Constant = None) -> Constant:
    """Return the time that a text means by a pattern, or that so many seconds after the start of 1970 mean.

    A text that means the first moment of a day is that day, as in a cast.
    """
    if isinstance(value, Fraction) and pattern is None:
        try:
            return _EPOCH + dt.timedelta(microseconds=round(value * 10**6))
        except OverflowError:
            return None
    if pattern is None:
        raise Mismatch("A text needs a format here.", "Write to_timestamp('2024-01-31 12:00', 'YYYY-MM-DD HH24:MI').")
    moment = _parse_time(value, pattern)
    return moment.date() if moment is not None and moment.time() == dt.time() else moment


def _bucket(width: Constant, value: Constant, origin: Constant = None) -> Constant:
    """Return the first moment of the bucket of a time."""
    interval = days.parse_width(width) if isinstance(width, str) else width
    start = (
        days.bucket(_day(value), interval, None if origin is None else _day(origin))
        if isinstance(interval, Interval)
        else None
    )
    if start is None:
        raise Mismatch("This is no width of a bucket.", "Write INTERVAL '6 hours', or a number of months.")
    return start


def _make_date(year: Constant, month: Constant, day: Constant) -> Constant:
    try:
        return dt.date(as_whole(year), as_whole(month), as_whole(day))
    except ValueError:
        return None


def date_or_interval_part(part: str) -> Function:
    """Return the function that takes a part of a day, or of the interval that `age` gives."""

    def taken(value: Constant) -> Constant:
        if isinstance(value, Interval):
            number = days.interval_part(value, part)
        elif part in days.CLOCK_PARTS or (part == "epoch" and isinstance(value, dt.datetime)):
            number = days.clock_part(_day(value), part)
        else:
            number = days.date_part(_day(value), part)
        if number is None:
            raise Mismatch(f"An interval of days has no {part}.", "Write year, month or day.")
        return Fraction(number)

    return strict(taken)


def truncated(unit: str) -> Function:
    """Return the function that gives the first day of the period of a day."""
    return strict(lambda value: days.truncate(_day(value), unit))


# --- Choices. ---


def _extreme(choose: Callable[..., Outcome]) -> Function:
    """Return the largest or the smallest argument; NULL arguments do not count."""

    def chosen(*values: Outcome) -> Outcome:
        held = [value for value in values if value is not None]
        if UNKNOWN in held:
            return UNKNOWN
        if len({Fraction if isinstance(value, bool) else type(value) for value in held}) > 1:
            raise Mismatch("Values of different kinds are compared.", "Write values of one kind.")
        return choose(held) if held else None

    return chosen


def _nullif(outcome: Outcome, other: Outcome) -> Outcome:
    if outcome is UNKNOWN or other is UNKNOWN:
        return outcome
    return None if type(outcome) is type(other) and outcome == other else outcome


# --- The functions by name. ---


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of values, and how many arguments it takes."""

    function: Function
    least: int
    most: int
    written: str
    """How it is called."""


_MANY = 64


def _signatures() -> dict[str, Signature]:
    unary: dict[str, Callable[[Constant], Constant]] = {
        "floor": lambda value: Fraction(math.floor(as_number(value))),
        "ceil": lambda value: Fraction(math.ceil(as_number(value))),
        "abs": lambda value: abs(as_number(value)),
        "sign": lambda value: Fraction((as_number(value) > 0) - (as_number(value) < 0)),
        "lower": lambda value: as_text(value).lower(),
        "upper": lambda value: as_text(value).upper(),
        "initcap": lambda value: as_text(value).title(),
        "reverse": lambda value: as_text(value)[::-1],
        "length": lambda value: Fraction(len(as_text(value))),
        "last_day": lambda value: days.last_day(_day(value)),
        "monthname": lambda value: days.format_strftime(_day(value), "%B"),
        "dayname": lambda value: days.format_strftime(_day(value), "%A"),
        "date": lambda value: dt.date(_day(value).year, _day(value).month, _day(value).day),
    }
    signatures = {name: Signature(strict(function), 1, 1, f"{name}(column)") for name, function in unary.items()}
    signs, letters = "signs such as %Y, %m and %d", "patterns such as YYYY, MM and DD"
    several: tuple[tuple[str, Function, int, int, str], ...] = (
        ("round", _rounding(round_half_away), 1, 2, "round(column, digits)"),
        ("trunc", _rounding(_truncate), 1, 2, "trunc(column, digits)"),
        ("div", strict(_quotient), 2, 2, "column // number"),
        ("mod", strict(_remainder), 2, 2, "mod(column, number)"),
        ("power", strict(_power), 2, 2, "power(column, 2)"),
        ("width_bucket", strict(_width_bucket), 4, 4, "width_bucket(column, lower, upper, buckets)"),
        *texts.SIGNATURES,
        ("greatest", _extreme(max), 1, _MANY, "greatest(column, number)"),
        ("least", _extreme(min), 1, _MANY, "least(column, number)"),
        ("nullif", _nullif, 2, 2, "nullif(column, value)"),
        ("to_char", _format_function(days.format_to_char, letters), 2, 2, "to_char(column, 'YYYY-MM')"),
        ("strftime", _format_function(days.format_strftime, signs), 2, 2, "strftime(column, '%Y-%m')"),
        ("datediff", strict(_difference), 3, 3, "datediff('day', first, last)"),
        ("days_between", strict(_days_between), 2, 2, "datediff('day', first, last)"),
        ("dateadd", strict(_shift), 3, 3, "dateadd('day', number, column)"),
        ("age", strict(_age), 2, 2, "age(last, first)"),
        ("to_date", strict(_to_date), 1, 2, "to_date('2024-01-31', 'YYYY-MM-DD')"),
        ("to_timestamp", strict(_to_timestamp), 1, 2, "to_timestamp(text, 'YYYY-MM-DD HH24:MI:SS')"),
        ("time_bucket", strict(_bucket), 2, 3, "time_bucket(INTERVAL '6 hours', column)"),
        ("make_date", strict(_make_date), 3, 3, "make_date(year, month, day)"),
    )
    return signatures | {name: Signature(*rest) for name, *rest in several}  # type: ignore[arg-type]


FUNCTIONS: Mapping[str, Signature] = _signatures()
SYNONYMS: Mapping[str, str] = {
    "ceiling": "ceil",
    "truncate": "trunc",
    "lcase": "lower",
    "ucase": "upper",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substring": "substr",
    "position": "strpos",
    "instr": "strpos",
    "pow": "power",
    "format_date": "strftime",
    "date_format": "strftime",
    "format": "strftime",
    "idiv": "div",
    "fmod": "mod",
    "startswith": "starts_with",
    "prefix": "starts_with",
    "day_name": "dayname",
    "month_name": "monthname",
    "makedate": "make_date",
    "ifnull": "coalesce",
    "nvl": "coalesce",
}
"""Other names of functions."""
FUNCTION_NODES: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this", "decimals")),
    exp.IntDiv: ("div", ("this", "expression")),
    exp.Mod: ("mod", ("this", "expression")),
    exp.Pow: ("power", ("this", "expression")),
    exp.WidthBucket: ("width_bucket", ("this", "min_value", "max_value", "num_buckets")),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Initcap: ("initcap", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Trim: ("trim", ("this", "expression")),
    exp.Substring: ("substr", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.Concat: ("concat", ("expressions",)),
    exp.DPipe: ("||", ("this", "expression")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.ToChar: ("to_char", ("this", "format")),
    exp.RegexpLike: ("regexp_like", ("this", "expression", "flag")),
    exp.RegexpILike: ("regexp_ilike", ("this", "expression")),
    exp.RegexpFullMatch: ("regexp_full_match", ("this", "expression")),
    exp.SimilarTo: ("similar_to", ("this", "expression")),
    exp.RegexpReplace: ("regexp_replace", ("this", "expression", "replacement", "modifiers")),
    exp.RegexpExtract: ("regexp_extract", ("this", "expression", "position")),
    exp.RegexpSubstr: ("regexp_extract", ("this", "expression")),
    exp.LastDay: ("last_day", ("this",)),
    exp.Pad: ("rpad", ("this", "expression", "fill_pattern")),
    exp.Monthname: ("monthname", ("this",)),
    exp.Dayname: ("dayname", ("this",)),
    exp.Date: ("date", ("this",)),
    exp.DateBin: ("time_bucket", ("this", "expression", "unit")),
}
"""Functions that the parser knows, with the arguments in order."""


_ROUNDING = frozenset(("floor", "ceil", "trunc", "round"))


def call(name: str, arguments: list[Leaf]) -> Leaf:
    """Return a function of leaves."""
    signature = FUNCTIONS[name]
    if not signature.least <= len(arguments) <= signature.most:
        raise Mismatch(f"`{name}` is written with other arguments here.", f"Write {signature.written}.")
    at_once = _call_at_once(name, arguments)
    return apply_function(signature.function, arguments) if at_once is None else at_once


def call_of_scalars(name: str, arguments: list[Scalar]) -> Scalar:
    """Return a function of scalars; months, quarters and years between two days are those of each, subtracted."""
    months = days.MONTHS.get(_unit_of(arguments[0])) if name == "datediff" and len(arguments) == 3 else None  # noqa: PLR2004
    if months is None:
        return combine(lambda *leaves: call(name, list(leaves)), arguments)
    period = strict(lambda value: Fraction(days.months_since(_day(value)) // months))
    first, last = (side.mapped(lambda leaf: apply_function(period, [_cut(leaf, "month")])) for side in arguments[1:])
    return combine_values("-", [last, first])


def _unit_of(argument: Scalar) -> str:
    unit = argument.otherwise
    return "" if argument.branches or not isinstance(unit, str) else _unit_name(unit)


def _unit_name(unit: str) -> str:
    return days.PART_SYNONYMS.get(unit.lower(), unit.lower())


def _call_at_once(name: str, arguments: list[Leaf]) -> Leaf:  # noqa: PLR0911  one for each function
    """Return a function that is computed for all values of a column at once; None if it is no such function."""
    first, *rest = arguments
    if name in _ROUNDING and not rest:
        return tabulate_rounded(name, first)
    if name in _FORMATS or name in {"round", "trunc", "width_bucket"}:
        return _call_of_wide_column(name, first, rest)
    if name == "div" and constant_number(rest[0]):
        return tabulate_rounded("trunc", calculate("/", first, rest[0]))
    if name == "datediff" and isinstance(first, str):
        return time_between(days.unit_seconds(first), *rest) or _periods_between(first, rest)
    if name == "days_between":
        return time_between(DAY_SECONDS, rest[0], first)
    if name == "time_bucket" and isinstance(rest[0], Subject) and isinstance(rest[0].attribute, Timestamp):
        width = days.parse_width(first) if isinstance(first, str) else first
        origin = rest[1] if len(rest) > 1 else None
        if isinstance(width, Interval) and (origin is None or isinstance(origin, dt.date)):
            return tabulate_buckets(rest[0].attribute, width, origin)
    return None


def _periods_between(unit: str, moments: list[Leaf]) -> Leaf | None:
    """Return how many days, hours or other periods lie between times, by the periods alone; None for other units."""
    name = _unit_name(unit)
    period = "day" if name == "week" else name.removesuffix("s")
    if period not in _PERIODS:
        return None
    return apply_function(FUNCTIONS["datediff"].function, [unit, *(_cut(moment, period) for moment in moments)])


def _cut(moment: Leaf, period: str) -> Leaf:
    """Return a column of times as the beginnings of periods, which are fewer; any other leaf as it is."""
    if isinstance(moment, Subject) and moment.part is None and isinstance(moment.attribute, Timestamp):
        return tabulate_moments(moment.attribute, f"trunc {period}")
    return moment


def _call_of_wide_column(name: str, first: Leaf, rest: list[Leaf]) -> Leaf | None:
    """Return rounding to digits, a bucket or a format, by way of the few values that it depends on; None without."""
    if name in _FORMATS:
        return _format_moments(FUNCTIONS[name].function, first, rest)
    numbers = [argument for argument in rest if isinstance(argument, Fraction)]
    if len(numbers) < len(rest):
        return None
    if name == "width_bucket":
        return _bucket_of_line(first, *numbers) if numbers[0] < numbers[1] else None
    scale = Fraction(10) ** min(max(as_whole(numbers[0]), -60), 60)
    whole = tabulate_rounded(name, calculate("*", first, scale))
    return None if whole is None else calculate("/", whole, scale)


_PERIODS = frozenset(("day", "hour", "minute"))
_FORMATS = frozenset(("to_char", "strftime", "monthname", "dayname", "date"))
_SAMPLES = tuple(dt.datetime(2021, 3, 4, *clock) for clock in ((15, 47, 58), (15, 47), (15,), ()))  # noqa: DTZ001  UTC


def _format_moments(function: Function, time: Leaf, rest: list[Leaf]) -> Leaf | None:
    """Return a text of each time by the longest period that has one text, as many times have the same."""
    if not isinstance(time, Subject) or not isinstance(time.attribute, Timestamp):
        return None
    if any(isinstance(argument, Computed) for argument in rest):
        return None
    texts = [function(sample, *rest) for sample in _SAMPLES]
    alike = sum(text == texts[0] for text in texts[1:])  # without seconds, without minutes, without hours
    if not alike:
        return None
    period = ("minute", "hour", "day")[alike - 1]
    return apply_function(lambda value: function(value, *rest), [tabulate_moments(time.attribute, f"trunc {period}")])


def _bucket_of_line(value: Leaf, low: Fraction, high: Fraction, count: Fraction) -> Leaf | None:
    """Return width_bucket of a straight line in one column."""
    place = tabulate_rounded("floor", calculate("*", calculate("-", value, low), count / (high - low)))
    bucket = strict(lambda number: _width_bucket(number, Fraction(0), count, count))
    return None if place is None else apply_function(bucket, [place])
