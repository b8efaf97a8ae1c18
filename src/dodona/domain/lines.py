"""On which line of a TOML text each key, table and list element is written, which Python's reader does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]
"""Where a value is: keys, and the places of list elements."""

_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]*")


def toml_lines(text: str) -> dict[Path, int]:
    r"""Return the line of everything that has a name or a place in a text that `tomllib` accepts.

    >>> toml_lines('[columns.sex]\nlabels = ["f",\n  "m"]')[("columns", "sex", "labels", 1)]
    3
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    scan.document()
    return scan.lines


class _Scan:
    """One pass over a text that is known to be valid."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {(): 1}
        self.tables: dict[Path, int] = {}
        """How many tables each list of tables has so far."""
        self._counted = (0, 1)

    def document(self) -> None:
        """Read headers and pairs to the end."""
        here: Path = ()
        while self._skip():
            here = self._header() if self.text[self.at] == "[" else self._pair(here)

    def _header(self) -> Path:
        """Read `[table]` or `[[tables]]`; return the path of what follows it."""
        line = self._line()
        opening = "[[" if self.text.startswith("[[", self.at) else "["
        self.at += len(opening)
        *parents, last = self._key()
        self._skip()
        self.at += len(opening)
        path: Path = ()
        for part in parents:
            path = self._enter((*path, part), line)
        path = (*path, last)
        if opening == "[[":
            self.tables[path] = self.tables.get(path, 0) + 1
        return self._enter(path, line)

    def _enter(self, path: Path, line: int) -> Path:
        """Note a table; in a list of tables it is the last one."""
        self.lines.setdefault(path, line)
        if path in self.tables:
            path = (*path, self.tables[path] - 1)
            self.lines.setdefault(path, line)
        return path

    def _pair(self, table: Path) -> Path:
        """Read `key = value` of a table; return the table."""
        line = self._line()
        path = table
        for part in self._key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._skip()
        self.at += 1  # the =
        self._value(path)
        return table

    def _key(self) -> list[str]:
        """Read a dotted key."""
        parts = list[str]()
        while True:
            self._skip()
            bare = _BARE_KEY.match(self.text, self.at)
            if bare is None:
                parts.append(str(tomllib.loads(f"key = {self._take(_TEXT)}")["key"]))
            else:
                parts.append(self._take(_BARE_KEY))
            self._skip()
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        """Read a value, and the places of what is in it."""
        self._skip()
        match self.text[self.at]:
            case "[":
                for place in self._elements("]"):
                    self.lines[*path, place] = self._line()
                    self._value((*path, place))
            case "{":
                for _ in self._elements("}"):
                    self._pair(path)
            case '"' | "'":
                self._take(_TEXT)
            case _:
                self._take(_OTHER)

    def _elements(self, closing: str) -> Iterator[int]:
        """Stop at the beginning of each element of a list or an inline table."""
        self.at += 1
        place = 0
        while self._skip() and self.text[self.at] != closing:
            yield place
            place += 1
            self._skip()
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        taken = "" if found is None else found.group()
        self.at += len(taken)
        return taken

    def _skip(self) -> bool:
        """Pass blanks and comments; return whether anything is left."""
        self._take(_GAP)
        return self.at < len(self.text)

    def _line(self) -> int:
        """Return the line that the scan is on."""
        at, line = self._counted
        line += self.text.count("\n", at, self.at)
        self._counted = (self.at, line)
        return line
