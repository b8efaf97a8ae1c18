"""How values are spelled where a column holds text: the one place that says which text is a number, a day or a truth.

Each rule is a regular expression for the whole text, which has at most `LONGEST_TEXT` bytes. They use no backslashes,
no flags and nothing that engines read differently, so that Python's `re.fullmatch`, DuckDB's `regexp_full_match` and
others accept the same texts. A text that is accepted is then cast, and on these texts the casts agree too: `float` and
`CAST(... AS DOUBLE)` both round to the nearest double, to infinity where it is too large.

Not accepted, though one database or another takes them: 1_000, 0x10, digits of other scripts, 2024-1-2, "on".
"""

from __future__ import annotations

LONGEST_TEXT = 1_000
"""In bytes: a longer text is no number, no day and no truth. It is not even looked at, as a pattern takes an engine as
long as the text is, or longer, and one row must not show in the time of an answer."""
_SPACE = "[ \t\n\r\f\x0b]*"
_DIGITS = "([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
_INFINITY = "[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_NAN = "[nN][aA][nN]"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?Z?"

NUMBER_TEXT = f"{_SPACE}[+-]?({_DIGITS}|{_INFINITY}|{_NAN}){_SPACE}"
"""A number: cast to a double. One that is NaN then is missing, as in a column of doubles."""
DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""The part of a date's text that is cast to a day: its first match in a text that `DATE_TEXT` accepts."""
DATE_TEXT = f"{_SPACE}{DAY}([T ]{_TIME})?{_SPACE}"
"""A day, or a day with a time in UTC or in no zone. A day that the calendar does not have is outside."""
TRUE_TEXT = f"{_SPACE}([tT]([rR][uU][eE])?|[yY]([eE][sS])?|1){_SPACE}"
"""True."""
FALSE_TEXT = f"{_SPACE}([fF]([aA][lL][sS][eE])?|[nN][oO]?|0){_SPACE}"
"""False."""
