"""What is wrong with a text of SQL: where it stands, what it is, and what to write instead."""

from __future__ import annotations

from dodona.errors import InvalidRequest

_WIDEST = 100
_BEFORE = 60


class InvalidSql(InvalidRequest):
    """The text is not a question that can be answered. It was only read: no data were looked at."""

    code = "invalid-sql"
    sqlstate = "42601"

    def __init__(self, text: str, start: int, what: str, instead: str) -> None:
        """Point at a character of the text, say what is wrong there and what to write.

        >>> print(InvalidSql("SELECT * FROM stays", 7, "`*` would show rows.", "Write count(*)."))
        Line 1, column 8:
            SELECT * FROM stays
                   ^
        `*` would show rows. Write count(*). Nothing was charged.
        """
        self.start = max(0, min(start, len(text)))
        self.line, self.column = position(text, self.start)
        self.what = _safe(what)
        self.instead = _safe(instead)
        place = f"Line {self.line}, column {self.column}:\n{_pointed(text, self.start)}"
        super().__init__(f"{place}\n{self.what} {self.instead}")


def position(text: str, start: int) -> tuple[int, int]:
    r"""Return the line and the column of a character, both from 1.

    >>> position("SELECT\n  1", 9)
    (2, 3)
    """
    begin = text.rfind("\n", 0, start) + 1
    return text.count("\n", 0, start) + 1, start - begin + 1


def _pointed(text: str, start: int) -> str:
    """Return the line that is meant, or the part of it around the place, and a caret below."""
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", start)
    line = text[begin : len(text) if end < 0 else end]
    first = 0 if len(line) <= _WIDEST else max(0, start - begin - _BEFORE)
    shown = line[first : first + _WIDEST]
    head, tail = "…" * (first > 0), "…" * (first + _WIDEST < len(line))
    return f"    {head}{_safe(shown)}{tail}\n    {' ' * (len(head) + start - begin - first)}^"


def _safe(text: str) -> str:
    """Return a text without what cannot be printed: names come from whoever asks, and go to a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
