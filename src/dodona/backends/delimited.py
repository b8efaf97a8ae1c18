"""CSV files: how they are written, all of it declared. Nothing is guessed from the rows when they are read.

A number with a decimal comma, or with signs between thousands, and a day that comes before its month are turned into
the spelling of `domain.spelling`, in SQL; `number_text` and `day_text` are the same in Python, and the meaning that the
SQL is held to. What a line holds is read by itself: one that has too many fields, or too few, has the file refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from dodona.backends.faults import SourceUnfit
from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number
from dodona.domain.spelling import LONGEST_TEXT
from dodona.errors import InvalidArgument
from dodona.sql.render_dialect import DUCKDB

SEPARATORS = (",", ";", "\t", "|", ":", " ", "^", "~")
CODECS = {
    "utf-8": "utf-8-sig",
    "utf-16": "utf-16",
    "latin-1": "latin-1",
    "windows-1252": "cp1252",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "iso-8859-2": "iso8859-2",
    "iso-8859-15": "iso8859-15",
    "mac-roman": "mac-roman",
    "koi8-r": "koi8-r",
    "shift-jis": "shift-jis",
    "gb18030": "gb18030",
    "big5": "big5",
    "euc-kr": "euc-kr",
}
"""The encodings that a file may have, and what Python calls them; a mark of the byte order is no part of the text."""
THOUSANDS = (",", ".", " ", "'", "\u2019", "\u00a0", "\u202f")
DATES = ("year-first", "day-first", "month-first")
MOST_NULLS = 100
NO_NUMBER = "?"
"""What stands for a text that is no number as numbers are declared to be written."""
_AT_ONCE = 2**20
_SPACE = "[ \t\n\r\f\x0b]*"
_EXPONENT = "([eE][+-]?[0-9]+)?"
_WORDS = "[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]"
_PARTS = "([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})"
_PATTERN = re.compile("(?:%[dmY]|[^\\W\\d]|[ .,/_'-]){3,40}")
_PART = re.compile("%[dmY]")
_CLOCK = "([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?Z?)?"


def day_rule(parts: str) -> str:
    """Return the regular expression of a whole text that holds a day, and perhaps a time."""
    return f"{_SPACE}{parts}{_CLOCK}{_SPACE}"


DAY_RULE = day_rule(_PARTS)
"""A day whose year comes last."""


def _is_pattern(text: str) -> bool:
    parts = _PART.findall(text)
    return _PATTERN.fullmatch(text) is not None and sorted(parts) == ["%Y", "%d", "%m"]


def _short(raw: str) -> str:
    return f"CASE WHEN {DUCKDB.bytes.format(raw)} <= {LONGEST_TEXT} THEN {raw} END"


def _one_of(argument: str, value: str, accepted: Sequence[str]) -> None:
    if value not in accepted:
        raise InvalidArgument(argument, value, f"write one of {', '.join(map(repr, accepted))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How CSV files are written; fields may stand in double quotes, and a quote in such a field is written twice.

    >>> CsvFormat(separator=";", decimal=",", thousands=".").number_text("1.234,50")
    '1234.50'

    Theorem: reading-rows
    """

    separator: str = ","
    header: bool = True
    """Whether the first line has names; where it does not, columns are called column1, column2 and so on."""
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str | None = None
    """What stands between groups of three digits."""
    dates: str = "year-first"
    """One of `DATES`, or a pattern with %d, %m and %Y, each once, and letters and signs around them."""
    null: tuple[str, ...] = ("",)
    """Fields that say that there is no value."""

    def __post_init__(self) -> None:
        """Refuse what no file is written in, or what would read a text in two ways."""
        _one_of("separator", self.separator, SEPARATORS)
        _one_of("encoding", self.encoding, tuple(CODECS))
        _one_of("decimal", self.decimal, (".", ","))
        if self.dates not in DATES and not _is_pattern(self.dates):
            accepted = f"write one of {', '.join(map(repr, DATES))}, or a pattern with %d, %m and %Y such as '%Y%m%d'"
            raise InvalidArgument("dates", self.dates, accepted)
        if self.thousands is not None:
            _one_of("thousands", self.thousands, tuple(sign for sign in THOUSANDS if sign != self.decimal))
        fits = len(self.null) <= MOST_NULLS and len(set(self.null)) == len(self.null)
        if not fits or any(len(text) > LONGEST_TEXT or "\0" in text for text in self.null):
            raise InvalidArgument("null", self.null, f"write at most {MOST_NULLS} texts that differ, such as 'NA'")

    @property
    def digest(self) -> str:
        """What must not change under one version; nothing where all is as usual."""
        return "" if self == CsvFormat() else json.dumps(asdict(self), sort_keys=True)

    @property
    def number_rule(self) -> str:
        """The regular expression of a number, for the whole text."""
        point, group = f"[{self.decimal}]", "[0-9]+"
        if self.thousands is not None:
            group = f"([0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+|[0-9]+)"
        return f"{_SPACE}[+-]?(({group}({point}[0-9]*)?|{point}[0-9]+){_EXPONENT}|{_WORDS}){_SPACE}"

    @property
    def plain_numbers(self) -> bool:
        """Whether numbers are written as `domain.spelling` has them."""
        return self.decimal == "." and self.thousands is None

    def number_text(self, text: str) -> str:
        """Return a text as `domain.spelling` writes numbers; `?` where it is none."""
        if self.plain_numbers:
            return text
        if len(text.encode()) > LONGEST_TEXT or re.fullmatch(self.number_rule, text) is None:
            return NO_NUMBER
        whole = text if self.thousands is None else text.replace(self.thousands, "")
        return whole.replace(self.decimal, ".")

    def day_text(self, text: str) -> str:
        """Return a text with its day as `domain.spelling` writes it; one that is written otherwise stays as it is."""
        if self.dates == "year-first" or len(text.encode()) > LONGEST_TEXT:
            return text
        parts, order = self._day_parts
        if re.fullmatch(day_rule(parts), text) is None:
            return text
        found = re.search(parts, text)
        day, month, year = ("" if found is None else found[order.index(part) + 1] for part in "dmY")
        return f"{year}-{month.rjust(2, '0')}-{day.rjust(2, '0')}"

    @property
    def _day_parts(self) -> tuple[str, str]:
        """The regular expression of a day, and what its three groups are, such as dmY."""
        match self.dates:
            case "day-first":
                return _PARTS, "dmY"
            case "month-first":
                return _PARTS, "mdY"
            case pattern:
                close = "" in _PART.split(pattern)[1:-1]  # nothing tells where one part ends: each has all its digits
                width = {"Y": "{4}"} | dict.fromkeys("dm", "{2}" if close else "{1,2}")
                pieces = re.findall("%[dmY]|.", pattern)
                rule = "".join(f"([0-9]{width[own[1]]})" if _PART.match(own) else f"[{own}]" for own in pieces)
                return rule, "".join(own[1] for own in _PART.findall(pattern))

    def number_sql(self, raw: str) -> str:
        """Return SQL for `number_text` of a field."""
        if self.plain_numbers:
            return raw
        whole = raw if self.thousands is None else f"replace({raw}, {DUCKDB.literal(self.thousands)}, '')"
        plain = f"replace({whole}, {DUCKDB.literal(self.decimal)}, '.')"
        fits = DUCKDB.matches.format(_short(raw), DUCKDB.literal(self.number_rule))
        return f"CASE WHEN {raw} IS NULL THEN NULL WHEN {fits} THEN {plain} ELSE '{NO_NUMBER}' END"

    def day_sql(self, raw: str) -> str:
        """Return SQL for `day_text` of a field."""
        if self.dates == "year-first":
            return raw
        parts, order = self._day_parts
        day, month, year = (f"regexp_extract({raw}, {DUCKDB.literal(parts)}, {order.index(own) + 1})" for own in "dmY")
        fits = DUCKDB.matches.format(_short(raw), DUCKDB.literal(day_rule(parts)))
        return (
            f"CASE WHEN {fits} THEN {year} || '-' || lpad({month}, 2, '0') || '-' || lpad({day}, 2, '0') ELSE {raw} END"
        )

    def raw_sql(self, attribute: Attribute, raw: str) -> str:
        """Return SQL for the text that an attribute is read from."""
        match attribute:
            case Integer() | Number():
                return self.number_sql(raw)
            case Date():
                return self.day_sql(raw)
            case Category() | Boolean():
                return raw


PLAIN = CsvFormat()
"""Commas, a line of names, UTF-8, decimal points, and an empty field for no value."""


class Utf8Files:
    """CSV files in UTF-8: the files themselves, or copies in memory where they have another encoding."""

    def __init__(self, files: Sequence[str], form: CsvFormat) -> None:
        """Copy what has another encoding; nothing of it is written to a disk."""
        self._copies: list[IO[bytes]] = []
        self.form = replace(form, encoding="utf-8")
        self.names = list(files)
        if form.encoding != "utf-8":
            self.names = [self._copied(name, form.encoding) for name in files]

    def close(self) -> None:
        """Let go of the copies."""
        for copy in self._copies:
            copy.close()

    def _copied(self, name: str, encoding: str) -> str:
        if not hasattr(os, "memfd_create"):
            raise SourceUnfit("Files of this encoding are read on Linux alone. Write them as UTF-8.")
        copy = os.fdopen(os.memfd_create("rows"), "wb")
        self._copies.append(copy)
        try:
            with opened_text(name, encoding) as text:
                while part := text.read(_AT_ONCE):
                    copy.write(part.encode())
            copy.flush()
        except (OSError, EOFError, UnicodeError):
            pass
        else:
            return f"/proc/{os.getpid()}/fd/{copy.fileno()}"
        self.close()
        raise SourceUnfit(f"A CSV file cannot be read as {encoding}. Write the encoding that it has.")


def separated(files: Sequence[str], form: CsvFormat) -> str:
    """Return SQL for the rows of CSV files in UTF-8 as texts: no type and no separator is guessed from the rows."""
    listed = [first_line(name, form) for name in files]
    if form.header:
        if any(names != listed[0] for names in listed):
            raise SourceUnfit("The CSV files differ in their first lines. Give all of them the same column names.")
        names = listed[0]
    else:
        if len({len(names) for names in listed}) > 1:
            raise SourceUnfit("The CSV files differ in how many fields their first lines have.")
        names = [f"column{place + 1}" for place in range(len(listed[0]))]
    if len({name.casefold() for name in names}) != len(names):
        raise SourceUnfit(
            "A column name is twice in the first line of the CSV file; capitals make no difference. Give each column "
            "its own name, or write header = false if the first line has no names."
        )
    columns = ", ".join(f"{DUCKDB.literal(name)}: 'VARCHAR'" for name in names)
    packed = {name.endswith(".gz") for name in files}
    if len(packed) > 1:
        raise SourceUnfit("Some of the CSV files are packed by gzip and some are not. Pack all of them, or none.")
    options = {
        "auto_detect": "false",
        "header": str(form.header).lower(),
        "delim": DUCKDB.literal(form.separator),
        "quote": "'\"'",
        "escape": "'\"'",
        "nullstr": f"[{DUCKDB.literals(form.null)}]" if form.null else "[]",
        "encoding": "'utf-8'",
        "compression": "'gzip'" if True in packed else "'none'",
        "strict_mode": "true",
        "ignore_errors": "false",
        "null_padding": "false",
        "columns": f"{{{columns}}}",
    }
    return f"read_csv([{DUCKDB.literals(files)}], {', '.join(f'{key} = {text}' for key, text in options.items())})"


def first_line(path: str, form: CsvFormat) -> list[str]:
    """Return the fields of the first line."""
    try:
        with opened_text(path, form.encoding) as file:
            found = next(csv.reader(file, delimiter=form.separator), [])
    except (OSError, EOFError, UnicodeError, csv.Error):
        found = []
    if not any(name.strip() for name in found):
        raise SourceUnfit(
            "The first line of a CSV file cannot be read. Write column names, in the declared encoding, with the "
            "declared separator between them."
        )
    return found


def opened_text(path: str, encoding: str) -> IO[str]:
    """Return a file of text, open, packed by gzip or not."""
    raw = gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")  # noqa: SIM115  closed by the wrapper
    return io.TextIOWrapper(raw, encoding=CODECS[encoding], newline="")
