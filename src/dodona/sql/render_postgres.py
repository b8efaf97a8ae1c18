"""PostgreSQL's dialect. It raises errors where other engines give NULL or infinity, so each such place is guarded.

A cast of text to a double fails where the number is too large, or so small that it would be 0; so does a cast of a
`numeric`. What lies beyond is told from the digits alone: 0.d₁d₂… · 10^place is compared with the least number that
rounds to infinity and with the largest one that rounds to 0. Digits without zeros at either end are compared as texts.
"""

from __future__ import annotations

from dodona.sql.render_dialect import Dialect

_OVER = 2**1024 - 2**970
"""The least number that rounds to infinity: half a step above the largest double."""
_UNDER = 5**1075
"""Times 10^-1075: 2^-1075, the largest number that rounds to 0. It is half of the least double."""
_OVER_PLACE = len(str(_OVER))
_UNDER_PLACE = len(str(_UNDER)) - 1075

_SPACE = "[ \t\n\r\f\x0b]*"
_MODEST = f"^{_SPACE}[+-]?[0-9.]{{{{1,200}}}}([eE][+-]?[0-9]{{{{1,2}}}})?{_SPACE}$"
"""A number that is surely neither too large nor too small for a double; braces are doubled for `format`."""
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

POSTGRES = Dialect(
    name="postgres",
    identifier_quote='"',
    backslash="\\",  # standard_conforming_strings is on in every session
    double=f"CAST({{0}} AS {_DOUBLE})",
    text="CAST({0} AS text)",
    small="CAST({0} AS bigint)",
    wide="CAST({0} AS numeric)",
    read_double=f"CASE WHEN {{0}} ~ '{_MODEST}' THEN CAST({{0}} AS {_DOUBLE}) ELSE {_FAR} END",
    read_day=f"CASE WHEN {{0}} ~ '{_CALENDAR}' AND {{0}} !~ '^0000' THEN CAST({{0}} AS date) END",
    bytes="octet_length({0})",
    matches="({0} ~ ('^(' || {1} || ')$'))",
    found="substring({0} from {1})",
    not_a_number=f"({{0}} = CAST('NaN' AS {_DOUBLE}))",
    steps=(
        f"CASE WHEN {{3}} THEN 0 WHEN {{4}} THEN floor(({{0}} - {{1}}) / {{2}}) ELSE CAST('Infinity' AS {_DOUBLE}) END"
    ),
    day="DATE '{0}'",
    time="TIMESTAMP '{0} 00:00:00'",
    zoned="TIMESTAMPTZ '{0} 00:00:00+00'",
    days_between="({0} - {1})",
    day_of_time="CAST({0} AS date)",
    day_of_zoned="CAST(({0}) AT TIME ZONE 'UTC' AS date)",
    quotient="CAST(div({0}, {1}) AS bigint)",
    remainder="mod({0}, {1})",
    position="(array_position(ARRAY[{1}], {0}) - 1)",
    bit="(get_bit(CAST({0} AS bit varying), CAST({1} AS integer)) = 1)",
    count_if="count(*) FILTER (WHERE {0})",
    hashed="(CAST(CAST('x' || left(md5({0}), 16) AS bit(64)) AS bigint) + 9223372036854775808)",
    md5='(md5({0}) COLLATE "C")',
)
