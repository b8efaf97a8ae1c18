"""SQL dialects: the few places where DuckDB, Spark and PostgreSQL write the same thing differently.

PostgreSQL raises errors where the other engines return NULL or infinity, so its patterns guard each such place.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# --- Dialects: the few places where engines write the same thing differently. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """An engine's syntax for rendering. Patterns take SQL in place of `{0}` and `{1}`."""

    name: str
    identifier_quote: str = '"'
    backslash: str = "\\"
    """A backslash inside a text literal."""
    double: str = "CAST({0} AS DOUBLE)"
    text: str
    small: str = "CAST({0} AS BIGINT)"
    """A cast to 64-bit integers."""
    wide: str
    """A cast to exact integers that hold 2^61 for each of 2^63 rows."""
    read_double: str
    """A cast to double of a text that `spelling` accepts as a number."""
    read_day: str
    """A cast to a day of a text of the form 2024-01-31; NULL if the calendar does not have it."""
    bytes: str = "octet_length({0})"
    """The UTF-8 length of the text {0}; every engine knows it without reading the text."""
    matches: str
    """Whether the pattern {1} matches the whole text {0}."""
    extract: str
    """The first match of the pattern {1} in the text {0}."""
    not_a_number: str
    steps: str = "floor(({0} - {1}) / {2} + {5})"
    """The integer number of steps of {2} from {1} to {0}, and {5} of one, all doubles, rounded down.

    {3} says that there is less than one, {4} that there are fewer than the attribute has values: an engine that raises
    errors on overflow or underflow of a double can skip the division there.
    """
    day: str = "DATE '{0}'"
    time: str = "TIMESTAMP '{0} 00:00:00'"
    zoned: str = "TIMESTAMPTZ '{0} 00:00:00+00'"
    """Literals of a day, of its first moment, and of its first moment in UTC."""
    seconds: str
    """The whole seconds from 1970 to a timestamp without a zone, rounded down; NULL if it is infinite."""
    seconds_of_zoned: str
    """The same of a timestamp with a zone, in UTC."""
    finite_day: str = "CASE WHEN isfinite({0}) THEN {0} END"
    """A day; NULL if it is infinite."""
    days_between: str = "({0} - {1})"
    """Days from {1} to {0}."""
    day_of_time: str = "CAST({0} AS DATE)"
    day_of_zoned: str
    """The day of a timestamp; of one with a zone, in UTC."""
    quotient: str
    remainder: str = "({0} % {1})"
    """Integer division towards zero, and its remainder."""
    position: str
    """The zero-based position of the text {0} among the literals {1}; NULL if it is not among them."""
    element: str
    """The number at the zero-based position {1} of the list of 64-bit integers {0}."""
    bit: str
    """Whether the digit at the zero-based position {1} of the text {0} of zeros and ones is one."""
    count_if: str
    hashed: str
    """64 bits of a text's MD5, as a non-negative integer."""
    md5: str
    """A text's MD5 in hexadecimal digits, which sort like the bytes."""

    def identifier(self, name: str) -> str:
        """Quote any name."""
        quote = self.identifier_quote
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"

    def literal(self, text: str) -> str:
        """Quote any text."""
        return "'" + text.replace("\\", self.backslash).replace("'", "''") + "'"

    def literals(self, texts: Iterable[str]) -> str:
        """Quote texts, separated by commas."""
        return ", ".join(map(self.literal, texts))


def number_literal(value: float) -> str:
    """Return a double as an exact literal for every engine: 17 digits distinguish all doubles.

    >>> number_literal(-0.5)
    '(-5.0000000000000000e-01)'
    """
    return _signed(f"{value:.16e}")


def whole_literal(value: int) -> str:
    """Return an integer literal; negative ones in parentheses, as 1--1 would be a comment."""
    return _signed(str(value))


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


_MICROSECONDS = "({0} // 1000000 - CASE WHEN {0} % 1000000 < 0 THEN 1 ELSE 0 END)"
_DUCKDB_SECONDS = f"CASE WHEN isfinite({{0}}) THEN {_MICROSECONDS.format('epoch_us({0})')} END"

DUCKDB = Dialect(
    name="duckdb",
    text="CAST({0} AS VARCHAR)",
    wide="CAST({0} AS HUGEINT)",
    read_double="CAST({0} AS DOUBLE)",
    read_day="TRY_CAST({0} AS DATE)",
    bytes="strlen({0})",
    matches="regexp_full_match({0}, {1})",
    extract="regexp_extract({0}, {1})",
    not_a_number="isnan({0})",
    day_of_zoned="CAST({0} AT TIME ZONE 'UTC' AS DATE)",
    seconds=_DUCKDB_SECONDS,
    seconds_of_zoned=_DUCKDB_SECONDS,
    quotient="({0} // {1})",
    position="enum_code(TRY_CAST({0} AS ENUM({1})))",
    element="list_extract(CAST([{0}] AS BIGINT[]), {1} + 1)",
    bit="(get_bit(CAST({0} AS BIT), CAST({1} AS INTEGER)) = 1)",
    count_if="coalesce(count_if({0}), 0)",
    hashed="md5_number_lower({0})",
    md5="md5({0})",
)

_SPARK_SECONDS = "({0} div 1000000 - CASE WHEN {0} % 1000000 < 0 THEN 1 ELSE 0 END)"

SPARK = Dialect(  # in a session with the settings of `backends.spark_session`
    name="spark",
    identifier_quote="`",
    backslash="\\\\",
    text="CAST({0} AS STRING)",
    wide="CAST({0} AS DECIMAL(38, 0))",
    read_double=(  # Java does not read "-nan", the only number in the rules of `spelling` that it does not
        "CASE WHEN {0} IS NOT NULL THEN coalesce(try_cast({0} AS DOUBLE), CAST('NaN' AS DOUBLE)) END"
    ),
    read_day="try_cast({0} AS DATE)",
    matches="({0} RLIKE concat('^(?:', {1}, ')', chr(92), 'z'))",  # a `$` would also match before a last line break
    extract="regexp_extract({0}, {1}, 0)",
    not_a_number=(  # `= NaN` would be looked up in statistics of Parquet files, and isnan(NULL) would be false
        "CASE WHEN {0} IS NOT NULL THEN isnan({0}) END"
    ),
    time="TIMESTAMP_NTZ '{0} 00:00:00'",
    zoned="TIMESTAMP_LTZ '{0} 00:00:00Z'",
    seconds=_SPARK_SECONDS.format("unix_micros(CAST({0} AS TIMESTAMP_LTZ))"),  # the session is in UTC
    seconds_of_zoned=_SPARK_SECONDS.format("unix_micros({0})"),
    finite_day="{0}",
    days_between="datediff({0}, {1})",
    day_of_zoned=(  # a cast would take the day in the time zone of the session
        "date_add(DATE '1970-01-01', CAST(unix_micros({0}) div 86400000000"
        " - CASE WHEN unix_micros({0}) % 86400000000 < 0 THEN 1 ELSE 0 END AS INT))"
    ),
    quotient="({0} div {1})",
    position="(nullif(array_position(array({1}), {0}), 0) - 1)",
    element="element_at(CAST(array({0}) AS ARRAY<BIGINT>), CAST({1} AS INT) + 1)",
    bit="(substring(CAST({0} AS BINARY), CAST({1} AS INT) + 1, 1) = X'31')",
    count_if="count_if({0})",
    hashed="conv(substring(md5(CAST({0} AS BINARY)), 1, 16), 16, 10)",
    md5="md5(CAST({0} AS BINARY))",
)


# --- PostgreSQL's dialect. It raises errors where other engines return NULL or infinity, so each is guarded. ---


_OVER = 2**1024 - 2**970
"""The smallest number that rounds to infinity: half a step above the largest double."""
_UNDER = 5**1075
"""Times 10^-1075: 2^-1075, the largest number that rounds to 0. It is half of the smallest double."""
_OVER_PLACE = len(str(_OVER))
_UNDER_PLACE = len(str(_UNDER)) - 1075

_SPACE = "[ \t\n\r\f\x0b]*"
_MODEST = f"^{_SPACE}[+-]?[0-9.]{{{{1,200}}}}([eE][+-]?[0-9]{{{{1,2}}}})?{_SPACE}$"
"""A number that certainly neither overflows nor underflows a double; braces are doubled for `format`."""
_DOUBLE = "double precision"
_INFINITE = f"CAST(CASE WHEN minus THEN '-Infinity' ELSE 'Infinity' END AS {_DOUBLE})"
_SPLIT = (  # the text, its sign, the digits before and after the point, and those of the exponent
    f"SELECT {{0}} AS own, {{0}} ~ '^{_SPACE}-' AS minus, substring({{0}} from '[0-9.]+') AS digits, "  # noqa: S608
    "{0} ~ '[eE]-' AS small, ltrim(coalesce(substring({0} from '[eE][+-]?([0-9]+)'), ''), '0') AS power"
)
_PLACED = (
    "SELECT own, minus, ltrim(replace(digits, '.', ''), '0') AS kept, "  # noqa: S608
    "strpos(digits || '.', '.') - 1 - length(replace(digits, '.', '')) + length(ltrim(replace(digits, '.', ''), '0')) "
    "+ CASE WHEN small THEN -1 ELSE 1 END * CASE WHEN power = '' THEN 0 WHEN length(power) > 12 THEN 1000000000000 "
    f"ELSE CAST(power AS bigint) END AS place FROM ({_SPLIT}) AS split"
)
_FAR = (
    "(SELECT CASE "  # noqa: S608
    f"WHEN own ~ '[aA]' THEN CAST('NaN' AS {_DOUBLE}) "
    f"WHEN own ~ '[iI]' THEN {_INFINITE} "
    "WHEN kept = '' THEN 0 "
    f"WHEN place > {_OVER_PLACE} OR place = {_OVER_PLACE} AND "
    f"rtrim(kept, '0') COLLATE \"C\" >= '{str(_OVER).rstrip('0')}' THEN {_INFINITE} "
    f"WHEN place < {_UNDER_PLACE} OR place = {_UNDER_PLACE} AND "
    f"rtrim(kept, '0') COLLATE \"C\" <= '{str(_UNDER).rstrip('0')}' THEN 0 "
    f"ELSE CAST(own AS {_DOUBLE}) END FROM ({_PLACED}) AS placed)"
)
_CALENDAR = (
    "^([0-9]{{4}}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    "|([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)$"
)

DOUBLE_OF_NUMERIC = (
    f"CASE WHEN {{0}} = 'NaN' THEN CAST('NaN' AS {_DOUBLE}) "
    f"WHEN {{0}} >= {_OVER} THEN CAST('Infinity' AS {_DOUBLE}) "
    f"WHEN {{0}} <= -{_OVER} THEN CAST('-Infinity' AS {_DOUBLE}) "
    f"WHEN abs({{0}}) <= {_UNDER}e-1075 THEN 0 ELSE CAST({{0}} AS {_DOUBLE}) END"
)
"""The double nearest to a `numeric` of any size."""

_POSTGRES_SECONDS = "CASE WHEN isfinite({0}) THEN CAST(floor(extract(epoch FROM {0})) AS bigint) END"

POSTGRES = Dialect(
    name="postgres",
    double=f"CAST({{0}} AS {_DOUBLE})",
    text="CAST({0} AS text)",
    wide="CAST({0} AS numeric)",
    read_double=f"CASE WHEN {{0}} ~ '{_MODEST}' THEN CAST({{0}} AS {_DOUBLE}) ELSE {_FAR} END",
    read_day=f"CASE WHEN {{0}} ~ '{_CALENDAR}' AND {{0}} !~ '^0000' THEN CAST({{0}} AS date) END",
    matches="({0} ~ ('^(' || {1} || ')$'))",
    extract="substring({0} from {1})",
    not_a_number=f"({{0}} = CAST('NaN' AS {_DOUBLE}))",
    steps=(
        "CASE WHEN {3} THEN 0 WHEN {4} THEN floor(({0} - {1}) / {2} + {5}) "
        f"ELSE CAST('Infinity' AS {_DOUBLE}) END"
    ),
    day_of_zoned="CAST(({0}) AT TIME ZONE 'UTC' AS date)",
    seconds=_POSTGRES_SECONDS,
    seconds_of_zoned=_POSTGRES_SECONDS,
    quotient="CAST(div({0}, {1}) AS bigint)",
    remainder="mod({0}, {1})",
    position="(array_position(ARRAY[{1}], {0}) - 1)",
    element="(CAST(ARRAY[{0}] AS bigint[]))[CAST({1} AS integer) + 1]",
    bit="(get_bit(CAST({0} AS bit varying), CAST({1} AS integer)) = 1)",
    count_if="count(*) FILTER (WHERE {0})",
    hashed="(CAST(CAST('x' || left(md5({0}), 16) AS bit(64)) AS bigint) + 9223372036854775808)",
    md5='(md5({0}) COLLATE "C")',
)
