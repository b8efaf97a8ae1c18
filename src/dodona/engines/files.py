"""Files as tables: path patterns and CSV formats.

Each file is read once, however many names it has. A CSV format is declared in full: nothing is guessed when rows are
read.
"""

import csv
import fnmatch
import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Self
from urllib.parse import unquote

from dodona.engines.cells import SourceUnfit
from dodona.engines.dialects import DUCKDB
from dodona.errors import InvalidArgument
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.encoding import LONGEST_TEXT

# --- The files of a table, each listed once. ---


Place = str | Path
GLOB_CHARACTERS = re.compile(r"[*?\[]")
"""The characters that make a path a pattern."""
_PARTITION = re.compile(r"([^=]+)=(.*)")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Stands for NULL in the name of a folder."""


def list_files(path: Place) -> list[str]:
    """Return the files of a path or pattern, as absolute paths in a fixed order; a file with two names is listed once.

    Theorem: reading-rows
    """
    place = Path(path)
    base = pattern_base(place)
    if place.is_file():
        listed = [base / place.name]
    else:
        listed = list(_match_pattern(base, place.absolute().relative_to(_fixed_part(place)).parts))
    return _require_files(path, listed)


def list_folder_files(path: Place) -> list[str]:
    """Return the data files below a folder, recursively; names that begin with a dot or `_` are skipped.

    Theorem: reading-rows
    """
    root = Path(path).resolve()
    return _require_files(path, (file for file in _match_pattern(root, ["**", "*"]) if _is_data(file, root)))


def single_file(path: Place) -> str:
    """Return the only file of a path or a pattern."""
    files = list_files(path)
    if len(files) > 1:
        raise SourceUnfit(f"{str(path)!r} names {len(files)} files, and a database is one. Write its path.")
    return files[0]


def pattern_base(path: Path) -> Path:
    """Return the folder that a path or pattern starts from, links resolved: the last one without `*`, `?` or `[`."""
    return (path.parent if path.is_file() else _fixed_part(path)).resolve()


def require_same_files(expected: Iterable[str], read: Iterable[str]) -> None:
    """Refuse a table if the engine would read files other than those listed, or read one twice.

    Theorem: reading-rows
    """
    if sorted(expected) != sorted(read):
        raise SourceUnfit(
            "The engine would read other files than those that the path names. Write the path of the files without "
            "special characters, and let nothing change them meanwhile."
        )


def folder_partitions(file: str, base: Path) -> tuple[tuple[str, str], ...]:
    """Return the columns that a file gets from its folders below a base.

    >>> folder_partitions("/data/year=2024/a.parquet", Path("/data"))
    (('year', '2024'),)
    """
    folders = Path(file).relative_to(base).parent.parts
    return tuple((matched[1], matched[2]) for part in folders if (matched := _PARTITION.fullmatch(part)))


def require_separate_columns(keys: Iterable[str], names: Iterable[str]) -> None:
    """Refuse a table with a column that is both in its files and in the names of its folders."""
    if {key.casefold() for key in keys} & {name.casefold() for name in names}:
        raise SourceUnfit(
            "A folder is called by a column that is in its files too, such as year=2024. Name the files without their "
            "folders, or take the column out of the files."
        )


def _fixed_part(path: Path) -> Path:
    whole = path.absolute()
    place = next((n for n, part in enumerate(whole.parts) if GLOB_CHARACTERS.search(part)), len(whole.parts) - 1)
    return Path(*whole.parts[:place])


def _require_files(path: Place, listed: Iterable[Path]) -> list[str]:
    different = dict[tuple[int, int], str]()
    for name in sorted(str(file) for file in listed if file.is_file()):
        status = Path(name).stat()
        different.setdefault((status.st_dev, status.st_ino), name)  # a link, hard or symbolic, is the same file again
    chosen = list(different.values())
    if not chosen:
        raise SourceUnfit(f"No file is at {str(path)!r}. Write the path of the table's files; * stands for any name.")
    for name in chosen:
        if GLOB_CHARACTERS.search(name):
            raise SourceUnfit(
                f"The path {name!r} has *, ? or [ in it, which engines read as a pattern for other files. Rename the "
                "file, or the folder that it is in."
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SourceUnfit(f"The path {name!r} is not UTF-8. Rename the file, or its folder.") from None
    return chosen


def _match_pattern(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the matches of a pattern below a folder like `glob`, but visit each folder once, whatever links lead to it.

    `glob` follows two links that lead upwards 2^40 times.
    """
    if not parts:
        yield folder
        return
    first, *rest = parts
    if first == "**":
        for inner in _folders(folder, set()):
            yield from _match_pattern(inner, rest or ["*"])
    elif GLOB_CHARACTERS.search(first):
        for name in fnmatch.filter(_names(folder), first):
            if first.startswith(".") or not name.startswith("."):
                yield from _match_pattern(folder / name, rest)
    else:
        yield from _match_pattern(folder / first, rest)


def _folders(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield a folder and all folders below it, each once, except those whose names begin with a dot."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) not in seen:
        seen.add((status.st_dev, status.st_ino))
        yield folder
        for name in _names(folder):
            if not name.startswith(".") and (folder / name).is_dir():
                yield from _folders(folder / name, seen)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  names alone
    except OSError:
        return []


def _is_data(path: Path, root: Path) -> bool:
    """Return whether Spark treats a file below a folder as data: no part of its path may be hidden."""
    parts = path.relative_to(root).parts
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


# --- CSV files: their format is declared in full. Nothing is guessed from the rows when they are read. ---


SEPARATORS = (",", ";", "\t", "|", ":", " ", "^", "~")
CODECS = {
    name: "utf-8-sig" if name == "utf-8" else name  # with or without a byte order mark
    for name in (
        *("utf-8", "utf-16", "latin-1", "windows-1252", "windows-1250", "windows-1251", "iso-8859-2", "iso-8859-15"),
        *("mac-roman", "koi8-r", "shift-jis", "gb18030", "big5", "euc-kr"),
    )
}
"""The supported encodings and their Python names; a byte order mark is not part of the text."""
THOUSANDS = (",", ".", " ", "'", "\u2019", "\u00a0", "\u202f")
DATE_ORDERS = ("year-first", "day-first", "month-first")
MOST_NULLS = 100
UNREADABLE_NUMBER = "?"
"""Stands for a text that is not a number in the declared format."""
_AT_ONCE = 2**20
_SPACE = "[ \t\n\r\f\x0b]*"
_EXPONENT = "([eE][+-]?[0-9]+)?"
_WORDS = "[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]"
_PARTS = "([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})"
_PATTERN = re.compile("(?:%[dmY]|[^\\W\\d]|[ .,/_'-]){3,40}")
_PART = re.compile("%[dmY]")
_PAST_HOUR = ":[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
_CLOCK = f"([T ](([01]?[0-9]|2[0-3]){_PAST_HOUR}Z?|(0?[1-9]|1[0-2]){_PAST_HOUR} ?[aApP][mM]))?"
# Of a text that `_CLOCK` accepts: no day has a colon, so the first match of each is in the clock.
_HOUR, _MINUTES, _HALF = "([0-9]{1,2}):", "(:[0-9]{2}(?::[0-9]{2})?)", ":[0-9:.]+ ?([aApP])[mM]"


def day_rule(parts: str) -> str:
    """Return the regular expression of a whole text with a day and an optional time, by 24 hours or by am and pm."""
    return f"{_SPACE}{parts}{_CLOCK}{_SPACE}"


DAY_RULE = day_rule(_PARTS)
"""A day with the year last."""


def _shorten(raw: str) -> str:
    return f"CASE WHEN {DUCKDB.bytes.format(raw)} <= {LONGEST_TEXT} THEN {raw} END"


def _require_one_of(argument: str, value: str, accepted: Sequence[str]) -> None:
    if value not in accepted:
        raise InvalidArgument(argument, value, f"write one of {', '.join(map(repr, accepted))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """The format of CSV files; fields may be in double quotes, with quotes inside doubled.

    >>> CsvFormat(separator=";", decimal=",", thousands=".").number_text("1.234,50")
    '1234.50'

    Theorem: reading-rows
    """

    separator: str = ","
    header: bool = True
    """Whether the first line has names; otherwise columns are called column1, column2 and so on."""
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str | None = None
    """The separator between groups of three digits."""
    dates: str = "year-first"
    """One of `DATES`, or a pattern with %d, %m and %Y, each once, and letters and signs around them."""
    null: tuple[str, ...] = ("",)
    """Fields that mean a missing value."""
    column_null: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Those of some columns, which count there instead: the table, the column in the data, and the fields."""

    def __post_init__(self) -> None:
        """Refuse unsupported formats, and ambiguous ones."""
        _require_one_of("separator", self.separator, SEPARATORS)
        _require_one_of("encoding", self.encoding, tuple(CODECS))
        _require_one_of("decimal", self.decimal, (".", ","))
        if self.dates not in DATE_ORDERS and (
            _PATTERN.fullmatch(self.dates) is None or sorted(_PART.findall(self.dates)) != ["%Y", "%d", "%m"]
        ):
            words = ", ".join(map(repr, DATE_ORDERS))
            accepted = f"write one of {words}, or a pattern with %d, %m and %Y such as '%Y%m%d'"
            raise InvalidArgument("dates", self.dates, accepted)
        if self.thousands is not None:
            _require_one_of("thousands", self.thousands, tuple(sign for sign in THOUSANDS if sign != self.decimal))
        for null in (self.null, *(texts for _, _, texts in self.column_null)):
            fits = len(null) <= MOST_NULLS and len(set(null)) == len(null)
            if not fits or any(len(text) > LONGEST_TEXT or "\0" in text for text in null):
                raise InvalidArgument("null", null, f"write at most {MOST_NULLS} texts that differ, such as 'NA'")

    @property
    def digest(self) -> str:
        """What must not change under one version; empty for the default format."""
        return "" if self == CsvFormat() else json.dumps(asdict(self), sort_keys=True)

    def of_table(self, table: str) -> Self:
        """Return the format of the files of one table."""
        return replace(self, column_null=tuple(entry for entry in self.column_null if entry[0] == table))

    def field_sql(self, column: str) -> str:
        """Return SQL for a column of texts of which those that mean a missing value are NULL."""
        by_column = {name.casefold(): texts for _, name, texts in self.column_null}
        raw, null = DUCKDB.identifier(column), by_column.get(column.casefold(), self.null)
        return f"CASE WHEN {raw} IN ({DUCKDB.literals(null)}) THEN NULL ELSE {raw} END AS {raw}" if null else raw

    @property
    def number_rule(self) -> str:
        """The regular expression of a whole text that is a number."""
        point, group = f"[{self.decimal}]", "[0-9]+"
        if self.thousands is not None:
            group = f"([0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+|[0-9]+)"
        return f"{_SPACE}[+-]?(({group}({point}[0-9]*)?|{point}[0-9]+){_EXPONENT}|{_WORDS}){_SPACE}"

    @property
    def plain_numbers(self) -> bool:
        """Whether numbers are written as in `domain.spelling`."""
        return self.decimal == "." and self.thousands is None

    def number_text(self, text: str) -> str:
        """Convert a number to the form of `domain.spelling`; `?` if it is not a number."""
        if self.plain_numbers:
            return text
        if len(text.encode()) > LONGEST_TEXT or re.fullmatch(self.number_rule, text) is None:
            return UNREADABLE_NUMBER
        whole = text if self.thousands is None else text.replace(self.thousands, "")
        return whole.replace(self.decimal, ".")

    def time_text(self, text: str) -> str:
        """Convert the day in a text, and its time, to the form of `domain.spelling`; other texts are unchanged.

        >>> CsvFormat(dates="month-first").time_text("2/1/2024 9:05 PM")
        '2024-02-01 21:05'
        """
        if self.dates == "year-first" or len(text.encode()) > LONGEST_TEXT:
            return text
        parts, order = self._day_parts
        if re.fullmatch(day_rule(parts), text) is None:
            return text
        matched = re.search(parts, text)
        day, month, year = ("" if matched is None else matched[order.index(part) + 1] for part in "dmY")
        hour, minutes, half = (
            "" if match is None else match[1] for match in (re.search(rule, text) for rule in (_HOUR, _MINUTES, _HALF))
        )
        if half:
            hour = str(int(hour) % 12 + (12 if half in "pP" else 0))
        clock = f" {hour.rjust(2, '0')}{minutes}" if hour else ""
        return f"{year}-{month.rjust(2, '0')}-{day.rjust(2, '0')}{clock}"

    @property
    def _day_parts(self) -> tuple[str, str]:
        """The regular expression of a day, and the meaning of its three groups, such as dmY."""
        match self.dates:
            case "day-first":
                return _PARTS, "dmY"
            case "month-first":
                return _PARTS, "mdY"
            case pattern:
                close = "" in _PART.split(pattern)[1:-1]  # nothing separates the parts: each needs all its digits
                width = {"Y": "{4}"} | dict.fromkeys("dm", "{2}" if close else "{1,2}")
                pieces = re.findall("%[dmY]|.", pattern)
                rule = "".join(f"([0-9]{width[piece[1]]})" if _PART.match(piece) else f"[{piece}]" for piece in pieces)
                return rule, "".join(piece[1] for piece in _PART.findall(pattern))

    def number_sql(self, raw: str) -> str:
        """Return SQL for `number_text` of a field."""
        if self.plain_numbers:
            return raw
        whole = raw if self.thousands is None else f"replace({raw}, {DUCKDB.literal(self.thousands)}, '')"
        plain = f"replace({whole}, {DUCKDB.literal(self.decimal)}, '.')"
        fits = DUCKDB.matches.format(_shorten(raw), DUCKDB.literal(self.number_rule))
        return f"CASE WHEN {raw} IS NULL THEN NULL WHEN {fits} THEN {plain} ELSE '{UNREADABLE_NUMBER}' END"

    def time_sql(self, raw: str) -> str:
        """Return SQL for `time_text` of a field."""
        if self.dates == "year-first":
            return raw
        parts, order = self._day_parts
        groups = [(parts, order.index(part) + 1) for part in "dmY"] + [(rule, 1) for rule in (_HOUR, _MINUTES, _HALF)]
        day, month, year, hour, minutes, half = (
            f"regexp_extract({raw}, {DUCKDB.literal(rule)}, {group})" for rule, group in groups
        )
        fits = DUCKDB.matches.format(_shorten(raw), DUCKDB.literal(day_rule(parts)))
        by_half = f"(TRY_CAST({hour} AS INTEGER) % 12 + CASE WHEN {half} IN ('p', 'P') THEN 12 ELSE 0 END)::VARCHAR"
        full = f"lpad(CASE WHEN {half} = '' THEN {hour} ELSE {by_half} END, 2, '0')"
        clock = f"CASE WHEN {hour} = '' THEN '' ELSE ' ' || {full} || {minutes} END"
        written = f"{year} || '-' || lpad({month}, 2, '0') || '-' || lpad({day}, 2, '0') || {clock}"
        return f"CASE WHEN {fits} THEN {written} ELSE {raw} END"

    def raw_sql(self, attribute: Attribute, raw: str) -> str:
        """Return SQL for the text that an attribute is read from."""
        match attribute:
            case Integer() | Number():
                return self.number_sql(raw)
            case Date() | Timestamp():
                return self.time_sql(raw)
            case Category() | Boolean():
                return raw


PLAIN_CSV = CsvFormat()
"""Commas, a header line, UTF-8, decimal points, and an empty field for a missing value."""


class Utf8Files:
    """CSV files in UTF-8: the files themselves, or in-memory copies if they have another encoding."""

    def __init__(self, files: Sequence[str], form: CsvFormat, base: Path) -> None:
        """Copy files in another encoding; nothing is written to disk. Folders below the base may be columns."""
        self._copies: list[IO[bytes]] = []
        self.form = replace(form, encoding="utf-8")
        self.names = list(files)
        self.folders = [folder_partitions(name, base) for name in files]
        if form.encoding != "utf-8":
            self.names = [self._copy(name, form.encoding) for name in files]

    def close(self) -> None:
        """Release the copies."""
        for copy in self._copies:
            copy.close()

    def _copy(self, name: str, encoding: str) -> str:
        if not hasattr(os, "memfd_create"):
            raise SourceUnfit("Files of this encoding are read on Linux alone. Write them as UTF-8.")
        copy = os.fdopen(os.memfd_create("rows"), "wb")
        self._copies.append(copy)
        with suppress(OSError, EOFError, UnicodeError):
            with open_text(name, encoding) as text:
                while part := text.read(_AT_ONCE):
                    copy.write(part.encode())
            copy.flush()
            return f"/proc/{os.getpid()}/fd/{copy.fileno()}"
        self.close()
        raise SourceUnfit(f"A CSV file cannot be read as {encoding}. Write the encoding that it has.")


def csv_sql(rows: Utf8Files) -> str:
    """Return SQL for the rows of CSV files as texts: no type or separator is guessed from the rows.

    A folder named like year=2024 adds a column to its files, whose text is read like a field.
    """
    files, form = rows.names, rows.form
    listed = [first_line_fields(name, form) for name in files]
    if form.header:
        if any(names != listed[0] for names in listed):
            raise SourceUnfit("The CSV files differ in their first lines. Give all of them the same column names.")
        names = [name or f"column{place + 1}" for place, name in enumerate(listed[0])]
    else:
        if len({len(names) for names in listed}) > 1:
            raise SourceUnfit("The CSV files differ in how many fields their first lines have.")
        names = [f"column{place + 1}" for place in range(len(listed[0]))]
    if len({name.casefold() for name in names}) != len(names):
        raise SourceUnfit(
            "A column name is twice in the first line of the CSV file; capitals make no difference. Give each column "
            "its own name, or write header = false if the first line has no names."
        )
    keys = [unquote(key) for key, _ in rows.folders[0]]
    if any([unquote(key) for key, _ in folders] != keys for folders in rows.folders):
        raise SourceUnfit("The folders of the CSV files are not all called by the same columns, such as year=2024.")
    require_separate_columns(keys, names)
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
        "nullstr": f"[{DUCKDB.literals(form.null or ('',))}]",  # it may not be empty
        "encoding": "'utf-8'",
        "compression": "'gzip'" if True in packed else "'none'",
        "strict_mode": "true",
        "ignore_errors": "false",
        "null_padding": "false",
        "hive_partitioning": "false",  # it would guess types, and know nothing of folders of copies
        "columns": f"{{{columns}}}",
    }
    if form.column_null or not form.null:
        options["force_not_null"] = f"[{DUCKDB.literals(names)}]"
    arguments = ", ".join(f"{key} = {text}" for key, text in options.items())
    if not keys and not form.column_null:
        return f"read_csv([{DUCKDB.literals(files)}], {arguments})"
    placed = dict[tuple[tuple[str, str], ...], list[str]]()
    for name, folders in zip(files, rows.folders, strict=True):
        placed.setdefault(folders, []).append(name)
    parts = (
        f"SELECT {', '.join(['*', *_folder_columns(folders)])} FROM read_csv([{DUCKDB.literals(inside)}], {arguments})"  # noqa: S608
        for folders, inside in placed.items()
    )
    fields = ", ".join(map(form.field_sql, (*names, *keys)))
    return f"(SELECT {fields} FROM ({' UNION ALL '.join(parts)}))"  # noqa: S608


def _folder_columns(folders: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield SQL for each column that folders add."""
    for key, text in folders:
        value = "NULL" if text == _NO_PARTITION else DUCKDB.literal(unquote(text))
        yield f"CAST({value} AS VARCHAR) AS {DUCKDB.identifier(unquote(key))}"


def first_line_fields(path: str, form: CsvFormat) -> list[str]:
    """Return the fields of the first line."""
    try:
        with open_text(path, form.encoding) as file:
            fields = next(csv.reader(file, delimiter=form.separator), [])
    except (OSError, EOFError, UnicodeError, csv.Error):
        fields = []
    if not any(name.strip() for name in fields):
        raise SourceUnfit(
            "The first line of a CSV file cannot be read. Write column names, in the declared encoding, with the "
            "declared separator between them."
        )
    return fields


def open_text(path: str, encoding: str) -> IO[str]:
    """Open a text file, with or without gzip compression."""
    raw = gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")  # noqa: SIM115  closed by the wrapper
    return io.TextIOWrapper(raw, encoding=CODECS[encoding], newline="")
