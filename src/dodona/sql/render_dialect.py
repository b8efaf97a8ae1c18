"""Dialects: the few places where engines spell the same thing differently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an engine writes what rendering needs. Patterns take SQL in place of `{0}` and `{1}`."""

    name: str
    identifier_quote: str
    backslash: str
    """How a backslash is written inside a text literal."""
    double: str
    text: str
    small: str
    """A cast to whole numbers of 64 bits."""
    wide: str
    """A cast to exact whole numbers that hold 2^61 for each of 2^63 rows."""
    read_double: str
    """A text that `spelling` accepts as a number, as a double."""
    read_day: str
    """A text of the form 2024-01-31, as a day; NULL where the calendar does not have it."""
    bytes: str
    """How long the text {0} is in UTF-8; every engine has this at hand without looking at the text."""
    matches: str
    """Whether the whole text {0} is matched by the pattern {1}."""
    found: str
    """The first part of the text {0} that the pattern {1} matches."""
    not_a_number: str
    steps: str
    """The whole steps of {2} from {1} to {0}, all doubles, rounded down.

    {3} says that there is not one, {4} that there are fewer than the attribute has values: where an engine raises an
    error for what is too large or too small for a double, it need not divide there.
    """
    day: str
    time: str
    zoned: str
    """Literals of a day, of its first moment, and of its first moment in UTC."""
    days_between: str
    """Days from {1} to {0}."""
    day_of_time: str
    day_of_zoned: str
    """The day of a moment; of one with a zone, in UTC."""
    quotient: str
    remainder: str
    """Division of whole numbers towards zero, and what it leaves."""
    position: str
    """The place, from 0, of the text {0} among the listed literals {1}; NULL where it is none of them."""
    bit: str
    """Whether the digit at the place {1}, from 0, of the text {0} of zeros and ones is one."""
    count_if: str
    hashed: str
    """64 bits of a text's MD5, as a whole number from 0."""
    md5: str
    """A text's MD5 in hexadecimal digits, which sort as bytes do."""

    def identifier(self, name: str) -> str:
        """Return a name in quotes, whatever is in it."""
        quote = self.identifier_quote
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"

    def literal(self, text: str) -> str:
        """Return a text in quotes, whatever is in it."""
        return "'" + text.replace("\\", self.backslash).replace("'", "''") + "'"

    def literals(self, texts: Iterable[str]) -> str:
        """Return texts in quotes, with commas between them."""
        return ", ".join(map(self.literal, texts))


def number_literal(value: float) -> str:
    """Return a double exactly, in a spelling that every engine reads as a double: 17 digits tell doubles apart.

    >>> number_literal(-0.5)
    '(-5.0000000000000000e-01)'
    """
    return _signed(f"{value:.16e}")


def whole_literal(value: int) -> str:
    """Return a whole number; a negative one in parentheses, as 1--1 would be a comment."""
    return _signed(str(value))


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


DUCKDB = Dialect(
    name="duckdb",
    identifier_quote='"',
    backslash="\\",
    double="CAST({0} AS DOUBLE)",
    text="CAST({0} AS VARCHAR)",
    small="CAST({0} AS BIGINT)",
    wide="CAST({0} AS HUGEINT)",
    read_double="CAST({0} AS DOUBLE)",
    read_day="TRY_CAST({0} AS DATE)",
    bytes="strlen({0})",
    matches="regexp_full_match({0}, {1})",
    found="regexp_extract({0}, {1})",
    not_a_number="isnan({0})",
    steps="floor(({0} - {1}) / {2})",
    day="DATE '{0}'",
    time="TIMESTAMP '{0} 00:00:00'",
    zoned="TIMESTAMPTZ '{0} 00:00:00+00'",
    days_between="({0} - {1})",
    day_of_time="CAST({0} AS DATE)",
    day_of_zoned="CAST({0} AT TIME ZONE 'UTC' AS DATE)",
    quotient="({0} // {1})",
    remainder="({0} % {1})",
    position="enum_code(TRY_CAST({0} AS ENUM({1})))",
    bit="(get_bit(CAST({0} AS BIT), CAST({1} AS INTEGER)) = 1)",
    count_if="coalesce(count_if({0}), 0)",
    hashed="md5_number_lower({0})",
    md5="md5({0})",
)

SPARK = Dialect(  # in a session with the settings of `backends.spark_session`
    name="spark",
    identifier_quote="`",
    backslash="\\\\",
    double="CAST({0} AS DOUBLE)",
    text="CAST({0} AS STRING)",
    small="CAST({0} AS BIGINT)",
    steps="floor(({0} - {1}) / {2})",
    wide="CAST({0} AS DECIMAL(38, 0))",
    read_double=(  # Java does not read "-nan", the only number in the rules of `spelling` that it does not
        "CASE WHEN {0} IS NOT NULL THEN coalesce(try_cast({0} AS DOUBLE), CAST('NaN' AS DOUBLE)) END"
    ),
    read_day="try_cast({0} AS DATE)",
    bytes="octet_length({0})",
    matches="({0} RLIKE concat('^(?:', {1}, ')', chr(92), 'z'))",  # a `$` would also match before a last line break
    found="regexp_extract({0}, {1}, 0)",
    not_a_number=(  # `= NaN` would be looked up in statistics of Parquet files, and isnan(NULL) would be false
        "CASE WHEN {0} IS NOT NULL THEN isnan({0}) END"
    ),
    day="DATE '{0}'",
    time="TIMESTAMP_NTZ '{0} 00:00:00'",
    zoned="TIMESTAMP_LTZ '{0} 00:00:00Z'",
    days_between="datediff({0}, {1})",
    day_of_time="CAST({0} AS DATE)",
    day_of_zoned=(  # a cast would take the day in the time zone of the session
        "date_add(DATE '1970-01-01', CAST(unix_micros({0}) div 86400000000"
        " - CASE WHEN unix_micros({0}) % 86400000000 < 0 THEN 1 ELSE 0 END AS INT))"
    ),
    quotient="({0} div {1})",
    remainder="({0} % {1})",
    position="(nullif(array_position(array({1}), {0}), 0) - 1)",
    bit="(substring(CAST({0} AS BINARY), CAST({1} AS INT) + 1, 1) = X'31')",
    count_if="count_if({0})",
    hashed="conv(substring(md5(CAST({0} AS BINARY)), 1, 16), 16, 10)",
    md5="md5(CAST({0} AS BINARY))",
)
