"""Guessing how a CSV file is written, for a draft: from its first lines, for the owner to confirm.

What is guessed stands in the dataset file from then on. Nothing is guessed when rows are read to answer.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dodona.backends.delimited import DAY_RULE, PLAIN, THOUSANDS, CsvFormat, opened_text
from dodona.backends.faults import SourceUnfit
from dodona.domain.spelling import DATE_TEXT, NUMBER_TEXT

NO_VALUES = frozenset(
    {"", "na", "n/a", "#n/a", "null", "none", "nil", "nan", "-", "--", "?", ".", "missing", "unknown"}
)
"""Texts, in small letters and without blanks around them, that likely stand for no value."""
SURELY_NOTHING = NO_VALUES - {"unknown", "missing", "none", "."}
_LINES = 2_000
_SEPARATORS = (",", ";", "\t", "|")
_MOST_OF_THEM = Fraction(9, 10)
_TWELVE = 12


@dataclass(frozen=True, slots=True)
class Guessed:
    """A form, and which of its keys came from the rows."""

    form: CsvFormat
    from_rows: tuple[str, ...]


def guess_format(files: Sequence[str]) -> Guessed:
    """Return how files seem to be written, from the first lines of the first of them."""
    encoding = _encoding(files)
    with opened_text(files[0], encoding) as file:
        text = list(itertools.islice(file, _LINES))
    separator = _separator(text)
    lines = [line for line in csv.reader(text, delimiter=separator) if line]
    if not lines:
        raise SourceUnfit("The CSV file has no lines. Write a file with rows.")
    header = _has_names(lines)
    rows = [line for line in lines[header:] if len(line) == len(lines[0])]
    null = tuple(sorted({field for line in rows for field in line if field.strip().lower() in SURELY_NOTHING} | {""}))
    columns = [[field for field in own if field not in null] for own in zip(*rows, strict=True)]
    decimal, thousands = _numbers(columns, separator)
    dates = _dates(columns)
    form = CsvFormat(
        separator=separator,
        header=header,
        encoding=encoding,
        decimal=decimal,
        thousands=thousands,
        dates=dates,
        null=null,
    )
    keys = ("separator", "header", "encoding", "decimal", "thousands", "dates", "null")
    return Guessed(form, tuple(key for key in keys if getattr(form, key) != getattr(PLAIN, key)))


def _encoding(files: Sequence[str]) -> str:
    """Return the first encoding that reads all of the files; a Windows one where UTF-8 does not."""
    for encoding in ("utf-16", "utf-8", "windows-1252", "latin-1"):
        if all(_reads(name, encoding) for name in files):
            return encoding
    raise SourceUnfit("The CSV file is in no encoding that is known. Write it as UTF-8.")


def _reads(name: str, encoding: str) -> bool:
    try:
        with opened_text(name, encoding) as file:
            if encoding == "utf-16" and not _marked(name):
                return False
            while file.read(2**20):
                pass
    except (UnicodeError, OSError, EOFError):
        return False
    return True


def _marked(name: str) -> bool:
    """Return whether a file begins with the mark of the byte order that UTF-16 has."""
    with opened_text(name, "latin-1") as file:
        return file.read(2) in {"ÿþ", "þÿ"}


def _separator(text: Sequence[str]) -> str:
    """Return what parts most lines into the same number of fields, and into the most of them."""

    def worth(separator: str) -> tuple[Fraction, int]:
        try:
            widths = Counter(len(line) for line in csv.reader(text, delimiter=separator) if line)
        except csv.Error:
            return Fraction(0), 0
        if not widths:
            return Fraction(0), 0
        ((width, times),) = widths.most_common(1)
        return (Fraction(times, widths.total()), width) if width > 1 else (Fraction(0), 0)

    return max(_SEPARATORS, key=worth)


def _has_names(lines: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line has names: texts that differ, none of them a number, a day or nothing."""
    first = [field.strip() for field in lines[0]]
    named = len({name.casefold() for name in first}) == len(first) and not any(map(_is_value, first))
    if not named or len(lines) == 1:
        return named
    # Where all lines hold words alone, a first line whose words come again below is a row.
    return not all(
        field in {line[place] for line in lines[1:] if place < len(line)} for place, field in enumerate(lines[0])
    )


def _is_value(field: str) -> bool:
    rules = (NUMBER_TEXT, DATE_TEXT, DAY_RULE)
    return field.lower() in NO_VALUES or any(re.fullmatch(rule, field) for rule in rules)


def _numbers(columns: Sequence[Sequence[str]], separator: str) -> tuple[str, str | None]:
    """Return the decimal sign and the one between thousands under which the most columns are numbers."""
    usual: list[tuple[str, str | None]] = [(".", None), (".", ","), (".", "'"), (".", " ")]
    comma: list[tuple[str, str | None]] = [(",", None), (",", "."), (",", " "), (",", "\u00a0"), (",", "'")]
    listed = [*usual[:1], *comma, *usual[1:]] if separator != "," else [*usual, *comma]
    listed += [(decimal, sign) for decimal in ".," for sign in THOUSANDS if sign != decimal]

    def fits(spelling: tuple[str, str | None]) -> tuple[int, int]:
        rule = re.compile(CsvFormat(decimal=spelling[0], thousands=spelling[1]).number_rule)
        held = [sum(rule.fullmatch(field) is not None for field in own) for own in columns]
        good = [number for number, own in zip(held, columns, strict=True) if own and number >= _MOST_OF_THEM * len(own)]
        return len(good), sum(good)

    return max(listed, key=fits)  # the first of those that are as good


def _dates(columns: Sequence[Sequence[str]]) -> str:
    """Return whether days come before months, in columns of days whose year is last."""
    largest = [0, 0]
    for own in columns:
        found = [re.fullmatch(DAY_RULE, field) for field in own]
        days = [(int(match[1]), int(match[2])) for match in found if match is not None]
        if days and len(days) >= _MOST_OF_THEM * len(own):
            largest = [max(largest[place], *(pair[place] for pair in days)) for place in (0, 1)]
    if largest == [0, 0]:
        return PLAIN.dates
    return "month-first" if largest[1] > _TWELVE >= largest[0] else "day-first"


def mixed_dates(texts: Iterable[str]) -> bool:
    """Return whether texts are days in several orders, or with years of two digits."""
    short = re.compile(r"\s*\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
    listed = list(texts)
    return bool(listed) and sum(short.fullmatch(text) is not None for text in listed) >= _MOST_OF_THEM * len(listed)
