"""A TOML reader that reports every mistake in a file at once, each with its line and a fix.

`TomlTable` reads one table key by key and collects mistakes; `TomlTable.finish` raises `InvalidFile` with all of them.
Unknown keys are mistakes too.
"""

import datetime as dt
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from pathlib import Path as FilePath
from typing import Self, TypeVar

from dodona.errors import InvalidArgument, InvalidRequest, InvariantBroken
from dodona.numbers import format_fraction, to_fraction, to_share

# --- Errors: every mistake in an invalid file, each with its line. ---


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake: where it is, what is wrong, and what to write instead."""

    line: int
    """Counted from 1; 0 for the file as a whole."""
    key: str
    """The dotted key, as in `columns.age.upper`; empty if there is none."""
    message: str


class InvalidFile(InvalidRequest):
    """A file has mistakes; all of them are reported at once, in line order."""

    code = "invalid-file"

    def __init__(self, file: str, mistakes: Iterable[Mistake]) -> None:
        """Store the mistakes, and the line and key of the first one."""
        self.file = file
        self.mistakes = tuple(sorted(set(mistakes)))
        self.line = self.mistakes[0].line
        self.key = self.mistakes[0].key
        lines = [f"{file}{f':{mistake.line}' if mistake.line else ''}: {mistake.message}" for mistake in self.mistakes]
        heading = [] if len(lines) == 1 else [f"{file} has {len(lines)} mistakes."]
        super().__init__("\n".join([*heading, *lines]))


# --- The line of each key, table and list element of a TOML text, which Python's parser does not report. ---


TomlPath = tuple[str | int, ...]
"""The path of a value: keys, and the positions of list elements."""

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


def toml_lines(text: str) -> dict[TomlPath, int]:
    r"""Return the line of every key, table and list element in a text that `tomllib` accepts.

    >>> toml_lines('[columns.sex]\nlabels = ["f",\n  "m"]')[("columns", "sex", "labels", 1)]
    3
    """
    scan = _LineScanner(text.replace("\r\n", "\n"))
    scan.document()
    return scan.lines


class _LineScanner:
    """Scans a text known to be valid, in one pass."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[TomlPath, int] = {(): 1}
        self.tables: dict[TomlPath, int] = {}
        """The number of tables seen so far in each list of tables."""
        self._counted = (0, 1)

    def document(self) -> None:
        """Read headers and pairs to the end."""
        here: TomlPath = ()
        while self._skip():
            here = self._header() if self.text[self.at] == "[" else self._pair(here)

    def _header(self) -> TomlPath:
        """Read `[table]` or `[[tables]]`; return the path of its content."""
        line = self._line()
        opening = "[[" if self.text.startswith("[[", self.at) else "["
        self.at += len(opening)
        *parents, last = self._key()
        self._skip()
        self.at += len(opening)
        path: TomlPath = ()
        for part in parents:
            path = self._enter((*path, part), line)
        path = (*path, last)
        if opening == "[[":
            self.tables[path] = self.tables.get(path, 0) + 1
        return self._enter(path, line)

    def _enter(self, path: TomlPath, line: int) -> TomlPath:
        """Record a table; in a list of tables it is the last one."""
        self.lines.setdefault(path, line)
        if path in self.tables:
            path = (*path, self.tables[path] - 1)
            self.lines.setdefault(path, line)
        return path

    def _pair(self, table: TomlPath) -> TomlPath:
        """Read `key = value` in a table; return the table."""
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

    def _value(self, path: TomlPath) -> None:
        """Read a value, and the positions of its elements."""
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
        matched = pattern.match(self.text, self.at)
        taken = "" if matched is None else matched.group()
        self.at += len(taken)
        return taken

    def _skip(self) -> bool:
        """Skip blanks and comments; return whether anything is left."""
        self._take(_GAP)
        return self.at < len(self.text)

    def _line(self) -> int:
        """Return the current line."""
        at, line = self._counted
        line += self.text.count("\n", at, self.at)
        self._counted = (self.at, line)
        return line


# --- Reading a TOML file: every mistake is collected and reported with its line. ---


ValueT = TypeVar("ValueT")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT_LINE = re.compile(r"^(.*) \(at (?:line (\d+), column \d+|end of document)\)$", re.DOTALL)
_LONGEST_SHOWN = 40
_KINDS = {bool: "true or false", int: "a whole number", Decimal: "a number", str: "a text"}
_KINDS |= {list: "a list", dict: "a table"}


@dataclass(frozen=True, slots=True)
class _ReaderState:
    """The state shared by the nodes of one file: lines, requested keys, and mistakes."""

    file: str
    lines: Mapping[TomlPath, int]
    mistakes: list[Mistake] = field(default_factory=list)
    asked: dict[TomlPath, set[str]] = field(default_factory=dict)
    """For each table, the keys requested so far."""


@dataclass(frozen=True, slots=True)
class TomlTable:
    """One table of a TOML file."""

    content: Mapping[str, object]
    path: TomlPath
    notes: _ReaderState

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Return the root table of a file."""
        file = str(path)
        try:
            raw = FilePath(path).read_bytes()
        except OSError as fault:
            raise InvalidFile(file, [Mistake(0, "", f"the file cannot be read: {fault.strerror}.")]) from fault
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            line = raw.count(b"\n", 0, fault.start) + 1
            raise InvalidFile(file, [Mistake(line, "", "this is not UTF-8; save the file as UTF-8.")]) from fault
        return cls.parse(text, file=file)

    @classmethod
    def parse(cls, text: str, *, file: str) -> Self:
        """Return the root table of a text.

        >>> TomlTable.parse("format = 1", file="stays.toml").whole("format", example="format = 1", lower=1, upper=1)
        1
        """
        try:
            return cls(tomllib.loads(text, parse_float=Decimal), (), _ReaderState(file, toml_lines(text)))
        except (ValueError, RecursionError, ArithmeticError) as fault:
            raise InvalidFile(file, [_syntax_mistake(fault, text)]) from fault

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of this table, in file order."""
        return tuple(self.content)

    def has(self, key: str) -> bool:
        """Whether the key is present. This counts as requesting it."""
        self.notes.asked.setdefault(self.path, set()).add(key)
        return key in self.content

    def text(self, key: str, *, example: str, default: str | None = None) -> str | None:
        """Return a non-empty text."""
        value = self._typed(key, str, "a text", example=example, default=default)
        if value is not None and not value.strip():
            self.note(key, f"is empty; write {example}")
            return None
        return value

    def choice(self, key: str, words: Sequence[str], *, default: str | None = None) -> str | None:
        """Return one of the given words."""
        accepted = " or ".join([", ".join(f'"{word}"' for word in words[:-1]), f'"{words[-1]}"'][len(words) == 1 :])
        value = self._typed(key, str, "a text", example=f"{key} = {accepted}", default=default)
        if value is None or value in words:
            return value
        self.note(key, f'= "{_shorten(value)}" is not known; write {accepted}{_suggest(value, words)}')
        return None

    def boolean(self, key: str, *, example: str, default: bool | None = None) -> bool | None:
        """Return true or false."""
        return self._typed(key, bool, "true or false", example=example, default=default)

    def whole(self, key: str, *, example: str, lower: int, upper: int, default: int | None = None) -> int | None:
        """Return an integer from lower to upper."""
        value = self._typed(key, int, "a whole number", example=example, default=default)
        if value is None or lower <= value <= upper:
            return value
        bounds = f"from {format_fraction(Fraction(lower))} to {format_fraction(Fraction(upper))}"
        self.note(key, f"= {_shorten(value)} is out of range; write a whole number {bounds}, such as {example}")
        return None

    def exact(
        self, key: str, *, example: str, lower: Fraction, upper: Fraction, default: Fraction | None = None
    ) -> Fraction | None:
        """Return an exact number from lower to upper, written as a number or as a text such as "0.25" or "1/3"."""
        if default is not None and not self.has(key):
            return default
        kinds = (int, Decimal, str)
        value: int | Decimal | str | None = self._typed(key, kinds, "a number", example=example, default=None)
        if value is None:
            return None
        try:
            return to_fraction(value, argument=key, lower=lower, upper=upper)
        except InvalidArgument as fault:
            self.note(key, f"is no such number: {fault.accepted}; here {example}")
            return None

    def share(self, key: str, *, example: str, lower: Fraction, default: Fraction | None = None) -> Fraction | None:
        """Return a share from lower to 1, written as an exact number or a percentage such as "50%"."""
        value = self.content.get(key)
        if not isinstance(value, str) or not value.rstrip().endswith("%"):
            return self.exact(key, example=example, lower=lower, upper=Fraction(1), default=default)
        self.has(key)
        try:
            return to_fraction(to_share(value, argument=key), argument=key, lower=lower, upper=Fraction(1))
        except InvalidArgument:
            self.note(key, f'is no part of a whole; write a percentage such as "50%", or {example}')
            return None

    def date(self, key: str, *, example: str) -> dt.date | None:
        """Return a date."""
        value = self._typed(key, dt.date, "a day without quotes", example=example, default=None)
        if isinstance(value, dt.datetime):
            self.note(key, f"has a time; write a day without one, such as {example}")
            return None
        return value

    def moment(self, key: str, *, example: str) -> dt.datetime | None:
        """Return a time; a day is its first moment."""
        value: dt.date | None = self._typed(key, dt.date, "a time without quotes", example=example, default=None)
        if value is None or isinstance(value, dt.datetime):
            return value
        return dt.datetime.combine(value, dt.time())

    def items(self, key: str, *, example: str) -> tuple[object, ...] | None:
        """Return the elements of a list."""
        value: list[object] | None = self._typed(key, list, "a list", example=example, default=None)
        return None if value is None else tuple(value)

    def texts(self, key: str, *, example: str) -> tuple[str, ...] | None:
        """Return the elements of a list of texts."""
        elements = self.items(key, example=example)
        wrong = self._note_others(key, elements or (), str, f"a text, as in {example}")
        return None if elements is None or wrong else tuple(map(str, elements))

    def table(self, key: str, *, example: str) -> Self | None:
        """Return the table under a key."""
        value: dict[str, object] | None = self._typed(key, dict, "a table", example=example, default=None)
        return None if value is None else type(self)(value, (*self.path, key), self.notes)

    def tables(self, key: str, *, example: str) -> tuple[Self, ...] | None:
        """Return the tables of a list of tables, `[[key]]`."""
        elements = self.items(key, example=example)
        if elements is None or self._note_others(key, elements, dict, example):
            return None
        inner = ((place, table) for place, table in enumerate(elements) if isinstance(table, dict))
        return tuple(type(self)(table, (*self.path, key, place), self.notes) for place, table in inner)

    def _note_others(self, key: str, elements: Sequence[object], kind: type, accepted: str) -> bool:
        wrong = [(place, value) for place, value in enumerate(elements) if not isinstance(value, kind)]
        for place, value in wrong:
            self.note((key, place), f"is {_describe_type(value)}; write {accepted}")
        return bool(wrong)

    def note(self, key: str | tuple[str | int, ...] | None, message: str) -> None:
        """Note a mistake: the message continues after the key's name. None stands for this table."""
        path = (*self.path, *((key,) if isinstance(key, str) else key or ()))
        line = next(self.notes.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.notes.lines)
        name = format_toml_path(path)
        self.notes.mistakes.append(Mistake(line, name, f"{name or 'this file'} {message}."))

    def make(self, build: Callable[[], ValueT]) -> ValueT | None:
        """Return the result of `build`; a refused argument is a mistake at the key of the same name."""
        try:
            return build()
        except InvalidArgument as fault:
            key = fault.argument if fault.argument in self.content else None
            self.note(key, f"is not accepted: {fault.accepted}")
            return None

    def close(self) -> None:
        """Note every key that was never requested."""
        known = sorted(self.notes.asked.get(self.path, ()))
        for key in self.content:
            if key not in known:
                listed = ", ".join(known) or "none"
                self.note(key, f"is not known{_suggest(key, known)}; the keys here are {listed}")

    def finish(self, result: ValueT | None) -> ValueT:
        """Return the result, unless there were mistakes."""
        if self.notes.mistakes:
            raise InvalidFile(self.notes.file, self.notes.mistakes)
        if result is None:
            raise InvariantBroken(f"{self.notes.file} was read without a mistake and without a result.")
        return result

    def _typed(
        self, key: str, kind: type[ValueT] | tuple[type, ...], name: str, *, example: str, default: ValueT | None
    ) -> ValueT | None:
        """Return the value of a key if it has the right type."""
        if not self.has(key):
            if default is None:
                self.note(key, f"is missing; write {example}")
            return default
        value = self.content[key]
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value  # type: ignore[return-value]
        self.note(key, f"is {_describe_type(value)}; write {name}, such as {example}")
        return None


def _syntax_mistake(fault: Exception, text: str) -> Mistake:
    """Return the mistake at the position where the text is not valid TOML."""
    match = _AT_LINE.match(str(fault))
    if match is None:
        reason = "it is nested too deeply" if isinstance(fault, RecursionError) else "a number in it is too long"
        return Mistake(0, "", f"this is not TOML that can be read: {reason}.")
    last = text.rstrip().count("\n") + 1
    line = last if match[2] is None else int(match[2])
    reason = match[1] if match[2] is not None else f"{match[1]} before the file ends"
    return Mistake(line, "", f"this is not TOML: {reason[:1].lower()}{reason[1:]}.")


def _describe_type(value: object) -> str:
    """Describe the type of a value."""
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "a date or a time")


def format_toml_path(path: TomlPath) -> str:
    """Format a path as in TOML, with positions in brackets."""
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            shown_part = part if _BARE.fullmatch(part) else f'"{part}"'
            name += f".{shown_part}" if name else shown_part
    return name


def _suggest(word: str, words: Sequence[str]) -> str:
    """Suggest the closest word as a question, if one is close."""
    matches = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f" (did you mean {matches[0]}?)" if matches else ""


def _shorten(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN * 4:  # Python prints at most 4,300 digits
        return f"{'-' * (value < 0)}{hex(abs(value))[:_LONGEST_SHOWN]}…"
    text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
