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
from dodona.sql.arithmetic import calculate, time_between
from dodona.sql.calendar import Interval
from dodona.sql.scalar import UNKNOWN, Constant, Leaf, Mismatch, Outcome, Subject, constant_number
from dodona.sql.tables import apply_function, strict, tabulate_buckets, tabulate_rounded

Function = Callable[..., Outcome]


# --- Numbers. ---


def _number(value: Constant) -> Fraction:
    if isinstance(value, bool | Fraction):
        return Fraction(value)
    raise Mismatch("This takes a number.", "Write a column of numbers.")


def _whole(value: Constant) -> int:
    number = _number(value)
    if number.denominator != 1 or abs(number) > 1 << 53:
        raise Mismatch("This takes a whole number here.", "Write one such as 2.")
    return int(number)


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
    return strict(lambda value, digits=Fraction(0): function(_number(value), _whole(digits)))


def _quotient(one: Constant, other: Constant) -> Constant:
    """Return a quotient without its fraction; NULL for a division by 0."""
    divisor = _number(other)
    return None if divisor == 0 else Fraction(math.trunc(_number(one) / divisor))


def _remainder(one: Constant, other: Constant) -> Constant:
    """Return the remainder, with the sign of the dividend; NULL for a division by 0."""
    value, divisor = _number(one), _number(other)
    return None if divisor == 0 else value - divisor * math.trunc(value / divisor)


def _width_bucket(value: Constant, low: Constant, high: Constant, count: Constant) -> Constant:
    """Return the number of the bucket of equal width, from 1; 0 below the first and count + 1 above the last."""
    place, first, last, buckets = _number(value), _number(low), _number(high), _whole(count)
    if first >= last or not 1 <= buckets <= 1 << 20:
        raise Mismatch("width_bucket takes a lower and a higher bound, and a number of buckets.", "Write them so.")
    if place < first:
        return Fraction(0)
    return Fraction(min(math.floor((place - first) * buckets / (last - first)), buckets) + 1)


def _power(value: Constant, exponent: Constant) -> Constant:
    number = _whole(exponent)
    if not 0 <= number <= 8:  # noqa: PLR2004  higher ones are not needed
        raise Mismatch("Powers from 0 to 8 are known.", "Write one of them.")
    return _number(value) ** number


# --- Texts. ---


def _text(value: Constant) -> str:
    if isinstance(value, str):
        return value
    raise Mismatch("This takes a text.", "Write a column of labels, or CAST(... AS text).")


def _as_text(value: Constant) -> str:
    """Return a value as || and concat write it."""
    match value:
        case bool():
            return str(value).lower()
        case Fraction() if value.denominator == 1:
            return str(value)
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date():
            return value.isoformat()
        case _:
            return _text(value)


def _substring(value: Constant, start: Constant, length: Constant = None) -> str:
    """Return a part of a text, counted from 1; a negative start counts from the end."""
    text, first = _text(value), _whole(start)
    begin = len(text) + first if first < 0 else first - 1
    after = len(text) if length is None else begin + max(0, _whole(length))
    return text[max(begin, 0) : max(after, 0)]


def _left(value: Constant, number: Constant) -> str:
    size = _whole(number)
    return _text(value)[:size]


def _right(value: Constant, number: Constant) -> str:
    text, size = _text(value), _whole(number)
    return text[max(len(text) - size, 0) :] if size >= 0 else text[-size:]


def _pad(value: Constant, number: Constant, fill: Constant, *, left: bool) -> str:
    text, size, other = _text(value), _whole(number), _text(fill)
    if size > 1_000:  # noqa: PLR2004  as long as any label
        raise Mismatch("This text grows too long.", "Write a smaller length.")
    more = (other * max(size - len(text), 0))[: max(size - len(text), 0)]
    return (more + text if left else text + more)[: max(size, 0)]


def _split_part(value: Constant, separator: Constant, place: Constant) -> str:
    parts, number = _text(value).split(_text(separator) or "\0"), _whole(place)
    return parts[number - 1 if number > 0 else number] if 1 <= abs(number) <= len(parts) else ""


def _concat(*values: Outcome) -> Outcome:
    """Return all texts in a row; NULL counts as nothing."""
    return UNKNOWN if UNKNOWN in values else "".join(_as_text(one) for one in values if one is not None)  # type: ignore[arg-type]


# --- Days. ---


def _day(value: Constant) -> dt.date:
    if isinstance(value, dt.date):
        return value
    raise Mismatch("This takes a date.", "Write a column of dates, or DATE '2024-01-31'.")


def _age(last: Constant, first: Constant) -> Constant:
    one, other = _day(last), _day(first)
    if isinstance(one, dt.datetime) != isinstance(other, dt.datetime):
        raise Mismatch("`age` is between two days or two times.", "Write CAST(column AS DATE) for the day of a time.")
    return days.age_between(one, other)


def _format_function(format_day: Callable[[dt.date, str], str | None], patterns: str) -> Function:
    def write(value: Constant, pattern: Constant) -> Constant:
        if isinstance(value, str) and isinstance(pattern, dt.date):  # SQLite and BigQuery name the format first
            value, pattern = pattern, value
        found = format_day(_day(value), _text(pattern))
        if found is None:
            raise Mismatch(f"The format '{_text(pattern)[:40]}' is not known.", f"Write {patterns}.")
        return found

    return strict(write)


_UNITS = "Write 'hour', 'day', 'week', 'month', 'quarter' or 'year'."


def _difference(unit: Constant, first: Constant, last: Constant) -> Constant:
    found = days.periods_between(_text(unit), _day(first), _day(last))
    if found is None:
        raise Mismatch(f"`{_text(unit)[:40]}` is no unit of days.", _UNITS)
    return Fraction(found)


def _days_between(one: Constant, other: Constant) -> Constant:
    days_only = [own.date() if isinstance(own, dt.datetime) else own for own in (_day(one), _day(other))]
    return Fraction((days_only[0] - days_only[1]).days)


def _shift(unit: Constant, number: Constant, value: Constant) -> Constant:
    step = days.parse_interval(str(_whole(number)), _text(unit))
    if step is None:
        raise Mismatch(f"`{_text(unit)[:40]}` is no unit of days.", _UNITS)
    return days.shift_day(_day(value), step)


_FIELDS = (("YYYY", 4), ("MM", 2), ("DD", 2), ("HH24", 2), ("MI", 2), ("SS", 2), ("US", 6), ("MS", 3))


def _parse_time(text: Constant, pattern: Constant) -> dt.datetime | None:
    """Return the time that a text means, by a pattern of YYYY, MM, DD, HH24, MI, SS, MS and US."""
    signs = re.escape(_text(pattern)[:40])
    for name, digits in _FIELDS:
        signs = signs.replace(name, f"(?P<{name}>[0-9]{{{digits}}})", 1)
    found = re.fullmatch(signs, _text(text))
    parts = {} if found is None else {name: int(value) for name, value in found.groupdict().items()}
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
    found = _parse_time(text, pattern)
    return None if found is None else found.date()


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
    found = _parse_time(value, pattern)
    return found.date() if found is not None and found.time() == dt.time() else found


def _bucket(width: Constant, value: Constant, origin: Constant = None) -> Constant:
    """Return the first moment of the bucket of a time."""
    own = days.parse_width(width) if isinstance(width, str) else width
    found = (
        days.bucket(_day(value), own, None if origin is None else _day(origin)) if isinstance(own, Interval) else None
    )
    if found is None:
        raise Mismatch("This is no width of a bucket.", "Write INTERVAL '6 hours', or a number of months.")
    return found


def _make_date(year: Constant, month: Constant, day: Constant) -> Constant:
    try:
        return dt.date(_whole(year), _whole(month), _whole(day))
    except ValueError:
        return None


def date_or_interval_part(part: str) -> Function:
    """Return the function that takes a part of a day, or of the interval that `age` gives."""

    def taken(value: Constant) -> Constant:
        if isinstance(value, Interval):
            found = days.interval_part(value, part)
        elif part in days.CLOCK_PARTS or (part == "epoch" and isinstance(value, dt.datetime)):
            found = days.clock_part(_day(value), part)
        else:
            found = days.date_part(_day(value), part)
        if found is None:
            raise Mismatch(f"An interval of days has no {part}.", "Write year, month or day.")
        return Fraction(found)

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


def _nullif(one: Outcome, other: Outcome) -> Outcome:
    if one is UNKNOWN or other is UNKNOWN:
        return one
    return None if type(one) is type(other) and one == other else one


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
    one: dict[str, Callable[[Constant], Constant]] = {
        "floor": lambda value: Fraction(math.floor(_number(value))),
        "ceil": lambda value: Fraction(math.ceil(_number(value))),
        "abs": lambda value: abs(_number(value)),
        "sign": lambda value: Fraction((_number(value) > 0) - (_number(value) < 0)),
        "lower": lambda value: _text(value).lower(),
        "upper": lambda value: _text(value).upper(),
        "initcap": lambda value: _text(value).title(),
        "reverse": lambda value: _text(value)[::-1],
        "length": lambda value: Fraction(len(_text(value))),
        "last_day": lambda value: days.last_day(_day(value)),
        "monthname": lambda value: days.format_strftime(_day(value), "%B"),
        "dayname": lambda value: days.format_strftime(_day(value), "%A"),
        "date": lambda value: dt.date(_day(value).year, _day(value).month, _day(value).day),
    }
    found = {name: Signature(strict(own), 1, 1, f"{name}(column)") for name, own in one.items()}
    signs, letters = "signs such as %Y, %m and %d", "patterns such as YYYY, MM and DD"
    several: tuple[tuple[str, Function, int, int, str], ...] = (
        ("round", _rounding(round_half_away), 1, 2, "round(column, digits)"),
        ("trunc", _rounding(_truncate), 1, 2, "trunc(column, digits)"),
        ("div", strict(_quotient), 2, 2, "column // number"),
        ("mod", strict(_remainder), 2, 2, "mod(column, number)"),
        ("power", strict(_power), 2, 2, "power(column, 2)"),
        ("width_bucket", strict(_width_bucket), 4, 4, "width_bucket(column, lower, upper, buckets)"),
        ("trim", strict(lambda text, signs=" ": _text(text).strip(_text(signs))), 1, 2, "trim(column)"),
        ("ltrim", strict(lambda text, signs=" ": _text(text).lstrip(_text(signs))), 1, 2, "ltrim(column)"),
        ("rtrim", strict(lambda text, signs=" ": _text(text).rstrip(_text(signs))), 1, 2, "rtrim(column)"),
        ("substr", strict(_substring), 2, 3, "substr(column, first, length)"),
        ("left", strict(_left), 2, 2, "left(column, length)"),
        ("right", strict(_right), 2, 2, "right(column, length)"),
        ("lpad", strict(lambda a, b, c=" ": _pad(a, b, c, left=True)), 2, 3, "lpad(column, length, fill)"),
        ("rpad", strict(lambda a, b, c=" ": _pad(a, b, c, left=False)), 2, 3, "rpad(column, length, fill)"),
        ("replace", strict(lambda a, b, c: _text(a).replace(_text(b), _text(c))), 3, 3, "replace(column, old, new)"),
        ("split_part", strict(_split_part), 3, 3, "split_part(column, separator, place)"),
        ("starts_with", strict(lambda a, b: _text(a).startswith(_text(b))), 2, 2, "starts_with(column, text)"),
        ("contains", strict(lambda a, b: _text(b) in _text(a)), 2, 2, "contains(column, text)"),
        ("strpos", strict(lambda a, b: Fraction(_text(a).find(_text(b)) + 1)), 2, 2, "strpos(column, text)"),
        ("concat", _concat, 1, _MANY, "concat(column, text)"),
        ("||", strict(lambda a, b: _as_text(a) + _as_text(b)), 2, 2, "column || text"),
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
    return found | {name: Signature(*rest) for name, *rest in several}  # type: ignore[arg-type]


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
    "date_diff": "datediff",
    "date_add": "dateadd",
    "timestampdiff": "datediff",
    "idiv": "div",
    "fmod": "mod",
    "startswith": "starts_with",
    "prefix": "starts_with",
    "day_name": "dayname",
    "month_name": "monthname",
    "add_months": "dateadd",
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
    exp.LastDay: ("last_day", ("this",)),
    exp.Monthname: ("monthname", ("this",)),
    exp.Dayname: ("dayname", ("this",)),
    exp.Date: ("date", ("this",)),
    exp.DateBin: ("time_bucket", ("this", "expression", "unit")),
}
"""Functions that the parser knows, with the arguments in order."""


_ROUNDING = frozenset(("floor", "ceil", "trunc", "round"))


def call(name: str, arguments: list[Leaf]) -> Leaf:
    """Return a function of leaves."""
    found = FUNCTIONS[name]
    if not found.least <= len(arguments) <= found.most:
        raise Mismatch(f"`{name}` is written with other arguments here.", f"Write {found.written}.")
    at_once = _call_at_once(name, arguments)
    return apply_function(found.function, arguments) if at_once is None else at_once


def _call_at_once(name: str, arguments: list[Leaf]) -> Leaf:
    """Return a function that is computed for all values of a column at once; None if it is no such function."""
    first, *rest = arguments
    if name in _ROUNDING and not rest:
        return tabulate_rounded(name, first)
    if name == "div" and constant_number(rest[0]):
        return tabulate_rounded("trunc", calculate("/", first, rest[0]))
    if name == "datediff" and isinstance(first, str):
        return time_between(days.unit_seconds(first), *rest)
    if name == "days_between":
        return time_between(DAY_SECONDS, rest[0], first)
    if name == "time_bucket" and isinstance(rest[0], Subject) and isinstance(rest[0].attribute, Timestamp):
        width = days.parse_width(first) if isinstance(first, str) else first
        origin = rest[1] if len(rest) > 1 else None
        if isinstance(width, Interval) and (origin is None or isinstance(origin, dt.date)):
            return tabulate_buckets(rest[0].attribute, width, origin)
    return None


# --- Functions of dates, whose arguments have another order in each dialect. ---


_UNITS_FIRST = frozenset(("datediff", "dateadd"))


def date_arguments(name: str, nodes: list[exp.Expr]) -> tuple[str, list[exp.Expr]]:
    """Return a function of dates with its unit as a text, and its arguments in one order."""
    if name in _UNITS_FIRST and len(nodes) == 3:  # noqa: PLR2004  a unit and two values
        units = [place for place, node in enumerate(nodes) if _unit_word(node)]
        if units:
            unit = nodes[units[0]]
            others = [node for place, node in enumerate(nodes) if place != units[0]]
            if name == "datediff" and units[0] == 2:  # noqa: PLR2004  BigQuery names the later day first, the unit last
                others.reverse()
            return name, [exp.Literal.string(unit.name), *others]
    if name == "dateadd" and len(nodes) == 2 and isinstance(nodes[1], exp.Interval):  # noqa: PLR2004  DuckDB's date_add
        return "plus", nodes
    if name == "datediff" and len(nodes) == 2:  # noqa: PLR2004  MySQL and Spark: days from the second to the first
        return "days_between", nodes
    return name, nodes


def _unit_word(node: exp.Expr) -> bool:
    """Whether a node is the name of a unit of dates."""
    plain = isinstance(node, exp.Var | exp.Literal) or (isinstance(node, exp.Column) and not node.args.get("table"))
    return plain and days.parse_interval("1", node.name) is not None
