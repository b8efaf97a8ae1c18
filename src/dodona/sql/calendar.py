"""Dates in row expressions: their parts, intervals, differences, and how they are written as text."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dodona.schema.attributes import CALENDAR_BINS, Date, Timestamp, period_starts
from dodona.schema.moments import DAY_SECONDS, seconds_since_epoch, truncate_moment
from dodona.schema.partition import Partition

# --- Parts of dates: `year(d)`, `date_trunc('month', d)` and so on for each day of a column. ---


PART_SYNONYMS = {
    "dayofmonth": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "weekofyear": "week",
    "dayofweekiso": "isodow",
    "days": "day",
    "weeks": "week",
    "months": "month",
    "quarters": "quarter",
    "years": "year",
    "decades": "decade",
    "centuries": "century",
    "yearofweekiso": "isoyear",
}
"""Alternative names of date parts."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_Numbers = NDArray[np.int64]


@lru_cache(maxsize=64)
def date_part_values(attribute: Date, part: str) -> _Numbers:
    """Return the part of each day in code order: a number, or the first day as an ordinal.

    >>> from datetime import date
    >>> date_part_values(Date("d", date(2024, 1, 30), date(2024, 2, 2)), "month").tolist()
    [1, 1, 2, 2]
    """
    ordinals = np.arange(attribute.lower.toordinal(), attribute.upper.toordinal() + 1, dtype=np.int64)
    values = _PARTS[part](ordinals)
    values.flags.writeable = False
    return values


def date_part(day: dt.date, part: str) -> int:
    """Return one part of one day: a number, or the first day as an ordinal."""
    return int(_PARTS[part](np.array([day.toordinal()], dtype=np.int64))[0])


def date_partition(attribute: Date, unit: str) -> Partition:
    """Return the days grouped by one unit; the first and the last group may be incomplete."""
    starts = date_part_values(attribute, f"trunc {unit}")
    cuts = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    return Partition.cut(attribute, tuple(cuts.tolist()))


def moment_part_values(attribute: Timestamp, part: str) -> _Numbers:
    """Return the part of each time in code order: a number, or the first moment in seconds since 1970.

    >>> hours = Timestamp("t", dt.datetime(2024, 1, 31, 22), dt.datetime(2024, 2, 1, 1), "1 hour")
    >>> moment_part_values(hours, "hour").tolist(), moment_part_values(hours, "month").tolist()
    ([22, 23, 0, 1], [1, 1, 2, 2])
    """
    seconds = _moment_seconds(attribute)
    unit = part.removeprefix("trunc ")
    if unit in CLOCK_PARTS:
        width = _INTERVAL_UNITS[unit].seconds
        whole = seconds // width
        return whole * width if unit != part else whole % (24 if unit == "hour" else 60)
    days = seconds // DAY_SECONDS
    first = int(days[0])
    values = _PARTS[part](np.arange(first, int(days[-1]) + 1, dtype=np.int64) + _EPOCH)
    parts: _Numbers = values[days - first]
    return parts if unit == part else (np.maximum(parts, 1) - _EPOCH) * DAY_SECONDS


def _moment_seconds(attribute: Timestamp) -> _Numbers:
    """Return the seconds since 1970 of each time of a column."""
    return seconds_since_epoch(attribute.lower) + np.arange(attribute.size, dtype=np.int64) * attribute.step


def _as_days(ordinals: _Numbers) -> NDArray[np.datetime64]:
    return (ordinals - _EPOCH).astype("datetime64[D]")


def _month(ordinals: _Numbers) -> _Numbers:
    """Return the months since January 1970."""
    return _as_days(ordinals).astype("datetime64[M]").astype(np.int64)


def _year(ordinals: _Numbers) -> _Numbers:
    return _as_days(ordinals).astype("datetime64[Y]").astype(np.int64) + 1970


def _weekday(ordinals: _Numbers) -> _Numbers:
    """Return 0 for Monday to 6 for Sunday: the first day of year 1 was a Monday."""
    return (ordinals + 6) % 7


def _thursday(ordinals: _Numbers) -> _Numbers:
    """Return the Thursday of the week, whose year an ISO 8601 week belongs to."""
    return ordinals - _weekday(ordinals) + 3


def _week(ordinals: _Numbers) -> _Numbers:
    """Return the ISO 8601 week."""
    thursday = _thursday(ordinals)
    return (thursday - period_starts(thursday, "year")) // 7 + 1


def _long_period(ordinals: _Numbers, *, years: int, first: int) -> _Numbers:
    """Return the first day of a decade, century or millennium, which begin in a year that ends with `first`."""
    starts = (_year(ordinals) - first) // years * years + first
    days = (np.maximum(starts, 1) - 1970).astype("datetime64[Y]").astype("datetime64[D]")
    first_days: _Numbers = days.astype(np.int64) + _EPOCH
    return first_days


CLOCK_PARTS = ("hour", "minute", "second")
"""Parts of times, which are 0 for a day."""
TRUNCATION_UNITS = (*reversed(CALENDAR_BINS), "decade", "century", "millennium", *CLOCK_PARTS)
"""The units that a date may be truncated to."""
_PARTS: dict[str, Callable[[_Numbers], _Numbers]] = {
    "year": _year,
    "quarter": lambda days: _month(days) % 12 // 3 + 1,
    "month": lambda days: _month(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - period_starts(days, "month") + 1,
    "dow": lambda days: (_weekday(days) + 1) % 7,
    "isodow": lambda days: _weekday(days) + 1,
    "doy": lambda days: days - period_starts(days, "year") + 1,
    "isoyear": lambda days: _year(_thursday(days)),
    "decade": lambda days: _year(days) // 10,
    "century": lambda days: (_year(days) - 1) // 100 + 1,
    "millennium": lambda days: (_year(days) - 1) // 1000 + 1,
    "epoch": lambda days: (days - _EPOCH) * 86_400,
    **{f"trunc {unit}": partial(period_starts, unit=unit) for unit in CALENDAR_BINS},
    "trunc decade": partial(_long_period, years=10, first=0),
    "trunc century": partial(_long_period, years=100, first=1),
    "trunc millennium": partial(_long_period, years=1000, first=1),
}
DATE_PARTS = (*(part for part in _PARTS if not part.startswith("trunc")), *CLOCK_PARTS)
"""Date parts that are numbers."""


# --- Intervals, and the arithmetic of days. ---


_INTERVAL_TEXT = re.compile(r"\s*([+-]?[0-9]{1,7})\s*([a-zA-Z]+)\s*")


@dataclass(frozen=True, slots=True)
class Interval:
    """A number of months, of days and of seconds."""

    months: int
    days: int
    seconds: int = 0

    def times(self, factor: int) -> Interval:
        """Return the interval several times, or backwards."""
        return Interval(self.months * factor, self.days * factor, self.seconds * factor)

    def plus(self, other: Interval) -> Interval:
        """Return the sum of two intervals."""
        return Interval(self.months + other.months, self.days + other.days, self.seconds + other.seconds)

    @property
    def length(self) -> int:
        """The length in seconds, with 30 days to a month, as intervals are compared."""
        return (self.months * 30 + self.days) * DAY_SECONDS + self.seconds


_MONTHS_OF = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "centurie": 1200}
_INTERVAL_UNITS: dict[str, Interval] = {
    **{name: Interval(months, 0) for name, months in _MONTHS_OF.items()},
    **{name: Interval(0, days) for name, days in (("day", 1), ("week", 7))},
    **{name: Interval(0, 0, seconds) for name, seconds in (("second", 1), ("minute", 60), ("hour", 3600))},
}


def parse_interval(text: str, unit: str = "") -> Interval | None:
    """Return the interval that a text means, such as `1 month 3 days`, or `7` with a unit; None if it is none.

    >>> parse_interval("1 year 2 days"), parse_interval("3", "hours"), parse_interval("3 lunes")
    (Interval(months=12, days=2, seconds=0), Interval(months=0, days=0, seconds=10800), None)
    """
    written = f"{text} {unit}" if unit else text
    total, place = Interval(0, 0), 0
    while place < len(written):
        term = _INTERVAL_TEXT.match(written, place)
        name = "" if term is None else term[2].lower()
        size = _INTERVAL_UNITS.get(name) or _INTERVAL_UNITS.get(name.removesuffix("s"))
        if term is None or size is None:
            return None
        total, place = total.plus(size.times(int(term[1]))), term.end()
    return total if written.strip() else None


def shift_day(day: dt.date, interval: Interval) -> dt.date | None:
    """Return a day or a time moved by an interval: the last day of a shorter month; None outside the calendar."""
    months = day.year * 12 + day.month - 1 + interval.months
    year, month = divmod(months, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        return None
    moved = day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))
    if interval.seconds and not isinstance(moved, dt.datetime):
        moved = dt.datetime.combine(moved, dt.time())
    try:
        return moved + dt.timedelta(days=interval.days, seconds=interval.seconds)
    except OverflowError:
        return None


def last_day(day: dt.date) -> dt.date:
    """Return the last day of the month."""
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def unit_seconds(unit: str) -> int | None:
    """Return the seconds of a unit up to a day; None for longer ones, and for other words."""
    name = PART_SYNONYMS.get(unit.lower(), unit.lower()).removesuffix("s")
    return {"day": DAY_SECONDS}.get(name) or (_INTERVAL_UNITS[name].seconds if name in CLOCK_PARTS else None)


def periods_between(unit: str, first: dt.date, last: dt.date) -> int | None:
    """Return how many times a new period begins from one day to another; weeks are whole ones; None if unknown."""
    name = PART_SYNONYMS.get(unit.lower(), unit.lower())
    if name.removesuffix("s") in CLOCK_PARTS:
        step = _INTERVAL_UNITS[name.removesuffix("s")].seconds
        return _seconds(last) // step - _seconds(first) // step
    first, last = (moment.date() if isinstance(moment, dt.datetime) else moment for moment in (first, last))
    if name == "day":
        return (last - first).days
    if name == "week":
        days = (last - first).days
        return days // 7 if days >= 0 else -(-days // 7)
    months = MONTHS.get(name)
    return None if months is None else months_since(last) // months - months_since(first) // months


MONTHS: Mapping[str, int] = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
"""How many months a period has."""


def months_since(day: dt.date) -> int:
    """Return the number of a month, counted from one before the calendar."""
    return day.year * 12 + day.month - 1


def _seconds(moment: dt.date) -> int:
    """Return the seconds since 1970 of a time, or of the first moment of a day."""
    instant = moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time())
    return seconds_since_epoch(instant)


def clock_part(moment: dt.date, part: str) -> int:
    """Return the hour, minute or second of a time, or its seconds since 1970; 0 for a day."""
    return _seconds(moment) if part == "epoch" else int(getattr(moment, part, 0))


def truncate(moment: dt.date, unit: str) -> dt.date:
    """Return the first moment, or the first day, of a period."""
    if isinstance(moment, dt.datetime):
        if unit in {*CLOCK_PARTS, *CALENDAR_BINS}:
            return truncate_moment(moment, unit)
        return dt.datetime.combine(truncate(moment.date(), unit), dt.time())
    return moment if unit in CLOCK_PARTS else dt.date.fromordinal(max(1, date_part(moment, f"trunc {unit}")))


_SHORT_WIDTH = re.compile(r"\s*([0-9]{1,9})(?:[.]0*)?\s*([smhdw])\s*")
_SHORT_UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}
_WEEKS, _MONTHS_ORIGIN = dt.datetime(2000, 1, 3), dt.datetime(2000, 1, 1)  # noqa: DTZ001  times mean UTC


def parse_width(text: str) -> Interval | None:
    """Return the width of a bucket of time, also in the short form of dashboards, such as `5m`."""
    parts = _SHORT_WIDTH.fullmatch(text)
    return parse_interval(text) if parts is None else parse_interval(parts[1], _SHORT_UNITS[parts[2]])


def bucket(moment: dt.date, width: Interval, origin: dt.date | None = None) -> dt.date | None:
    """Return the first moment of the bucket of a time; by default one begins on a Monday, or a first of January.

    None if buckets have no width, or outside the calendar. A day has the first day of its bucket.

    >>> bucket(dt.date(2024, 1, 31), Interval(0, 7)), bucket(dt.datetime(2024, 1, 31, 7, 40), Interval(0, 0, 900))
    (datetime.date(2024, 1, 29), datetime.datetime(2024, 1, 31, 7, 30))
    """
    months, seconds = width.months, width.days * DAY_SECONDS + width.seconds
    if (months > 0) == (seconds > 0) or months < 0 or seconds < 0:
        return None
    start = origin or (_MONTHS_ORIGIN if months else _WEEKS)
    if months:  # these begin on the first of a month, whatever the day of the origin
        since = (moment.year - start.year) * 12 + moment.month - start.month
        first = dt.datetime(start.year, start.month, 1)  # noqa: DTZ001  UTC
        beginning = shift_day(first, Interval(since // months * months, 0))
    else:
        beginning = shift_day(start, Interval(0, 0, (_seconds(moment) - _seconds(start)) // seconds * seconds))
    whole_days = isinstance(beginning, dt.datetime) and not isinstance(moment, dt.datetime) and not width.seconds
    return beginning.date() if whole_days and isinstance(beginning, dt.datetime) else beginning


def bucket_values(attribute: Timestamp, width: Interval, origin: dt.date | None) -> _Numbers | None:
    """Return the first moment of the bucket of each time, in seconds since 1970; None if buckets have other widths."""
    seconds = width.days * DAY_SECONDS + width.seconds
    if width.months or seconds <= 0:
        return None
    start = _seconds(origin or _WEEKS)
    return (_moment_seconds(attribute) - start) // seconds * seconds + start


def age_between(last: dt.date, first: dt.date) -> Interval:
    """Return the months and days from one day to another, as `age` does.

    >>> age_between(dt.date(2024, 3, 1), dt.date(1990, 5, 31)).months // 12
    33
    """
    if last < first:
        return age_between(first, last).times(-1)
    months = (last.year - first.year) * 12 + last.month - first.month
    days = last.day - first.day
    if days < 0:
        months -= 1
        days += calendar.monthrange(first.year, first.month)[1]
    return Interval(months, days)


def interval_part(interval: Interval, part: str) -> int | None:
    """Return a part of an interval; None if it has none of this name."""
    sign = -1 if interval.months < 0 else 1
    months = abs(interval.months)
    parts = {"year": sign * (months // 12), "month": sign * (months % 12), "day": interval.days}
    return parts.get(PART_SYNONYMS.get(part, part))


# --- Days as text: `strftime` with % signs, `to_char` with patterns. ---


_MONTHS = calendar.month_name
_WEEKDAYS = calendar.day_name
_STRFTIME: dict[str, Callable[[dt.date], str]] = {
    "Y": lambda day: f"{day.year:04}",
    "y": lambda day: f"{day.year % 100:02}",
    "m": lambda day: f"{day.month:02}",
    "-m": lambda day: str(day.month),
    "d": lambda day: f"{day.day:02}",
    "-d": lambda day: str(day.day),
    "e": lambda day: f"{day.day:2}",
    "B": lambda day: _MONTHS[day.month],
    "b": lambda day: _MONTHS[day.month][:3],
    "h": lambda day: _MONTHS[day.month][:3],
    "A": lambda day: _WEEKDAYS[day.weekday()],
    "a": lambda day: _WEEKDAYS[day.weekday()][:3],
    "j": lambda day: f"{date_part(day, 'doy'):03}",
    "u": lambda day: str(day.isoweekday()),
    "w": lambda day: str(day.isoweekday() % 7),
    "G": lambda day: f"{day.isocalendar().year:04}",
    "V": lambda day: f"{day.isocalendar().week:02}",
    "U": lambda day: f"{(day.timetuple().tm_yday + 6 - day.isoweekday() % 7) // 7:02}",
    "W": lambda day: f"{(day.timetuple().tm_yday + 6 - day.weekday()) // 7:02}",
    "F": lambda day: f"{day.year:04}-{day.month:02}-{day.day:02}",
    "H": lambda day: f"{clock_part(day, 'hour'):02}",
    "-H": lambda day: str(clock_part(day, "hour")),
    "I": lambda day: f"{(clock_part(day, 'hour') - 1) % 12 + 1:02}",
    "p": lambda day: "AM" if clock_part(day, "hour") < 12 else "PM",  # noqa: PLR2004  noon
    "M": lambda day: f"{clock_part(day, 'minute'):02}",
    "S": lambda day: f"{clock_part(day, 'second'):02}",
    "T": lambda day: ":".join(f"{clock_part(day, part):02}" for part in CLOCK_PARTS),
    "%": lambda _day: "%",
}
_SIGNS = re.compile("%(-?[a-zA-Z%])")
_TO_CHAR: dict[str, Callable[[dt.date], str]] = {
    "YYYY": lambda day: f"{day.year:04}",
    "IYYY": lambda day: f"{day.isocalendar().year:04}",
    "YY": lambda day: f"{day.year % 100:02}",
    "Q": lambda day: str((day.month - 1) // 3 + 1),
    "MM": lambda day: f"{day.month:02}",
    "MONTH": lambda day: f"{_MONTHS[day.month].upper():9}",
    "Month": lambda day: f"{_MONTHS[day.month]:9}",
    "month": lambda day: f"{_MONTHS[day.month].lower():9}",
    "MON": lambda day: _MONTHS[day.month][:3].upper(),
    "Mon": lambda day: _MONTHS[day.month][:3],
    "mon": lambda day: _MONTHS[day.month][:3].lower(),
    "DDD": lambda day: f"{date_part(day, 'doy'):03}",
    "DD": lambda day: f"{day.day:02}",
    "DAY": lambda day: f"{_WEEKDAYS[day.weekday()].upper():9}",
    "Day": lambda day: f"{_WEEKDAYS[day.weekday()]:9}",
    "day": lambda day: f"{_WEEKDAYS[day.weekday()].lower():9}",
    "DY": lambda day: _WEEKDAYS[day.weekday()][:3].upper(),
    "Dy": lambda day: _WEEKDAYS[day.weekday()][:3],
    "dy": lambda day: _WEEKDAYS[day.weekday()][:3].lower(),
    "ID": lambda day: str(day.isoweekday()),
    "D": lambda day: str(day.isoweekday() % 7 + 1),
    "IW": lambda day: f"{day.isocalendar().week:02}",
    "WW": lambda day: f"{(date_part(day, 'doy') - 1) // 7 + 1:02}",
    "W": lambda day: str((day.day - 1) // 7 + 1),
    "CC": lambda day: f"{(day.year - 1) // 100 + 1:02}",
    "HH24": lambda day: f"{clock_part(day, 'hour'):02}",
    "HH12": lambda day: f"{(clock_part(day, 'hour') - 1) % 12 + 1:02}",
    "AM": lambda day: "AM" if clock_part(day, "hour") < 12 else "PM",  # noqa: PLR2004  noon
    "MI": lambda day: f"{clock_part(day, 'minute'):02}",
    "SS": lambda day: f"{clock_part(day, 'second'):02}",
}
_PATTERNS = re.compile(
    rf'(?P<fill>FM)?(?:(?P<name>{"|".join(sorted(_TO_CHAR, key=len, reverse=True))})|"(?P<quoted>[^"]*)"|(?P<other>.))',
    re.DOTALL,
)
_LONGEST_FORMAT = 200


def format_strftime(day: dt.date, pattern: str) -> str | None:
    """Return a day as text, by signs such as %Y and %m; None if a sign is unknown.

    >>> format_strftime(dt.date(2024, 3, 5), "%Y-%m"), format_strftime(dt.date(2024, 3, 5), "%Q")
    ('2024-03', None)
    """
    signs = _SIGNS.findall(pattern)
    if len(pattern) > _LONGEST_FORMAT or any(sign not in _STRFTIME for sign in signs) or "%" in _SIGNS.sub("", pattern):
        return None
    return _SIGNS.sub(lambda sign: _STRFTIME[sign[1]](day), pattern)


def format_to_char(day: dt.date, pattern: str) -> str | None:
    """Return a day as text, by patterns such as YYYY and Mon; None if a letter is unknown.

    >>> format_to_char(dt.date(2024, 3, 5), "FMMonth YYYY"), format_to_char(dt.date(2024, 3, 5), "X")
    ('March 2024', None)
    """
    pieces, fill = list[str](), False
    if len(pattern) > _LONGEST_FORMAT:
        return None
    for part in _PATTERNS.finditer(pattern):
        fill = fill or part["fill"] is not None
        if part["quoted"] is not None:
            pieces.append(part["quoted"])
        elif part["name"] is None:
            if part["other"].isalpha():
                return None
            pieces.append(part["other"])
        else:
            text = _TO_CHAR[part["name"]](day)
            pieces.append(text.strip().lstrip("0") or "0" if fill else text)
            fill = False
    return "".join(pieces)
