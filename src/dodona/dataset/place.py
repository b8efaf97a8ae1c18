"""The location of a draft's rows, and the format of CSV files. Guesses are for the owner to confirm."""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dodona.dataset.file import ENV_PREFIX, read_secret
from dodona.dataset.opening import require_extra
from dodona.engines.cells import SourceUnfit
from dodona.engines.files import DAY_RULE, PLAIN_CSV, THOUSANDS, CsvFormat, list_files, open_text
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.schema.encoding import DATE_TEXT, NUMBER_TEXT
from dodona.schema.names import LONGEST_NAME, is_name

if TYPE_CHECKING:
    from dodona.dataset.file import DatasetFile
    from dodona.engines.inspection import Inspection


# --- Guessing the format of a CSV file for a draft, from its first lines, for the owner to confirm. ---


MISSING_TEXTS = frozenset(
    {"", "na", "n/a", "#n/a", "null", "none", "nil", "nan", "-", "--", "?", ".", "missing", "unknown"}
)
"""Texts, in lower case and stripped, that probably mean a missing value."""
CERTAIN_MISSING_TEXTS = MISSING_TEXTS - {"unknown", "missing", "none", "."}
_LINES = 2_000
_SEPARATORS = (";", "\t", "|", ",")
"""The comma last: of two that split the lines alike, it is the decimal sign."""
_MOST_OF_THEM = Fraction(9, 10)
_ENOUGH = 10
"""How many numbers tell a sign between thousands from one before three decimals."""
_MONTHS = 12
_NUMBER = f"{NUMBER_TEXT}|[+-]?[0-9]+,[0-9]+|[+-]?[0-9]{{1,3}}([,. '\u00a0\u202f\u2019][0-9]{{3}})*([,.][0-9]+)?"
"""A number in any of the usual spellings."""


@dataclass(frozen=True, slots=True)
class GuessedFormat:
    """A format, and which of its keys came from the rows."""

    form: CsvFormat
    from_rows: tuple[str, ...]


def guess_format(files: Sequence[str]) -> GuessedFormat:
    """Guess the format of files from the first lines of the first one."""
    encoding = _encoding(files)
    with open_text(files[0], encoding) as file:
        text = list(itertools.islice(file, _LINES))
    separator = _separator(text)
    lines = [line for line in csv.reader(text, delimiter=separator) if line]
    if not lines:
        raise SourceUnfit("The CSV file has no lines. Write a file with rows.")
    header = _has_names(lines)
    rows = [line for line in lines[header:] if len(line) == len(lines[0])]
    fields = {field for line in rows for field in line}
    null = tuple(sorted({field for field in fields if field.strip().lower() in CERTAIN_MISSING_TEXTS} | {""}))
    columns = [[field for field in column if field not in null] for column in zip(*rows, strict=True)]
    decimal, thousands = _guess_number_signs(columns, separator)
    spelling = {"decimal": decimal, "thousands": thousands, "dates": _guess_date_order(columns), "null": null}
    guessed: dict[str, Any] = {"separator": separator, "header": header, "encoding": encoding} | spelling
    usual = asdict(PLAIN_CSV)
    return GuessedFormat(CsvFormat(**guessed), tuple(key for key, value in guessed.items() if value != usual[key]))


def _encoding(files: Sequence[str]) -> str:
    """Return the first encoding that decodes all files; a Windows one if UTF-8 does not."""
    for encoding in ("utf-16", "utf-8", "windows-1252", "latin-1"):
        if all(_reads(name, encoding) for name in files):
            return encoding
    raise SourceUnfit("The CSV file is in no encoding that is known. Write it as UTF-8.")


def _reads(name: str, encoding: str) -> bool:
    try:
        with open_text(name, encoding) as file:
            if encoding == "utf-16" and not _has_byte_order_mark(name):
                return False
            while file.read(2**20):
                pass
    except (UnicodeError, OSError, EOFError):
        return False
    return True


def _has_byte_order_mark(name: str) -> bool:
    """Return whether a file begins with a UTF-16 byte order mark."""
    with open_text(name, "latin-1") as file:
        return file.read(2) in {"ÿþ", "þÿ"}


def _separator(text: Sequence[str]) -> str:
    """Return the separator that splits most lines into the same number of fields, and into the most fields."""

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
    """Return whether the first line is a header: a word above numbers or days, or else distinct words.

    A table with an index, or with a separator at the end of each line, has a column without a name.
    """
    first = [field.strip() for field in lines[0]]
    columns = [[line[place].strip() for line in lines[1:] if place < len(line)] for place in range(len(first))]
    if any(_is_word(field) and _are_values(column) for field, column in zip(first, columns, strict=True)):
        return True
    words = [field for field in first if field]
    named = len({name.casefold() for name in words}) == len(words) > 0 and all(map(_is_word, words))
    if not named or len(lines) == 1:
        return named
    # If all lines contain only words, a first line whose words recur below is a row.
    return not all(field in column for field, column in zip(first, columns, strict=True))


def _is_word(field: str) -> bool:
    return field.lower() not in MISSING_TEXTS and not _is_value(field)


def _are_values(fields: Sequence[str]) -> bool:
    """Return whether fields are numbers or days, but for missing ones."""
    present = [field for field in fields if field.lower() not in MISSING_TEXTS]
    return len(present) > 1 and all(map(_is_value, present))


def _is_value(field: str) -> bool:
    return any(re.fullmatch(rule, field) for rule in (_NUMBER, DATE_TEXT, DAY_RULE))


def _guess_number_signs(columns: Sequence[Sequence[str]], separator: str) -> tuple[str, str | None]:
    """Return the decimal and thousands separators under which the most columns are numbers."""
    usual: list[tuple[str, str | None]] = [(".", None), (".", ","), (".", "'"), (".", " ")]
    comma: list[tuple[str, str | None]] = [(",", None), (",", "."), (",", " "), (",", "\u00a0"), (",", "'")]
    listed = [*usual[:1], *comma, *usual[1:]] if separator != "," else [*usual, *comma]
    listed += [(decimal, sign) for decimal in ".," for sign in THOUSANDS if sign != decimal]

    grouped = {decimal: [_looks_grouped(column, decimal) for column in columns] for decimal in ".,"}

    def fits(spelling: tuple[str, str | None]) -> tuple[int, int]:
        decimal, thousands = spelling
        rule = re.compile(CsvFormat(decimal=decimal, thousands=thousands).number_rule)
        fraction = re.compile(rf"[+-]?0{re.escape(thousands)}[0-9]+" if thousands else r"(?!)")
        good = []
        for column, has_groups in zip(columns, grouped[decimal], strict=True):
            held = sum(rule.fullmatch(field) is not None and not fraction.fullmatch(field) for field in column)
            if column and not has_groups and held >= _MOST_OF_THEM * len(column):
                good.append(held)
        return len(good), sum(good)

    return max(listed, key=fits)  # the first of equally good ones


def _looks_grouped(column: Sequence[str], sign: str) -> bool:
    """Return whether a sign groups the digits of numbers: three follow it, and numbers below a thousand have none."""
    group = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}({re.escape(sign)}[0-9]{{3}})+")
    marked = [group.fullmatch(field) is not None for field in column if sign in field]
    plain = [re.fullmatch(r"[+-]?[0-9]{1,3}", field) is not None for field in column if sign not in field]
    return len(marked) >= _ENOUGH and all(marked) and len(plain) > 0 and all(plain)


def _guess_date_order(columns: Sequence[Sequence[str]]) -> str:
    """Return whether days precede months, in columns of dates with the year last."""
    largest = [0, 0]
    for column in columns:
        matches = [re.fullmatch(DAY_RULE, field) for field in column]
        days = [(int(match[1]), int(match[2])) for match in matches if match is not None]
        if days and len(days) >= _MOST_OF_THEM * len(column):
            largest = [max(largest[place], *(pair[place] for pair in days)) for place in (0, 1)]
    if largest == [0, 0]:
        return PLAIN_CSV.dates
    return "month-first" if largest[1] > _MONTHS >= largest[0] else "day-first"


def mixed_dates(texts: Iterable[str]) -> bool:
    """Return whether texts are dates in several orders, or with two-digit years."""
    short = re.compile(r"\s*\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
    listed = list(texts)
    return bool(listed) and sum(short.fullmatch(text) is not None for text in listed) >= _MOST_OF_THEM * len(listed)


# --- Places: the location of a draft's rows, from the owner's input; and opening a table for its owner. ---


_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".txt": "csv"}
_KINDS |= dict.fromkeys((".duckdb", ".ddb", ".db"), "duckdb")
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """The location of rows, as a dataset file names it."""

    kind: str
    path: str
    """Relative to the owner's working folder."""
    table: str
    """The table name that analysts use."""
    source_table: str | None = None
    """The table inside a database."""
    form: CsvFormat = PLAIN_CSV
    """The format of CSV files."""
    guessed: tuple[str, ...] = ()
    """The keys of the format that came from the rows."""

    def below(self, folder: Path) -> str:
        """Return the path relative to another folder; the name of a variable is unchanged."""
        if self.path.startswith(ENV_PREFIX):
            return self.path
        seen = Path(self.path)
        inside = os.path.relpath(seen.parent.absolute(), folder.absolute())
        return (Path(inside) / seen.name).as_posix()


def find_place(source: str, *, table: str | None, engine: str | None = None) -> SourcePlace:
    """Resolve the owner's input to a file, a pattern, a folder, or a table of a database."""
    if engine not in {None, "spark"}:
        raise InvalidArgument("engine", engine, "write spark, or leave it out: files are read by DuckDB")
    if source.startswith(ENV_PREFIX):
        if table is None:
            raise InvalidArgument("table", table, "name the table of the database, such as --table public.stays")
        plain = _plain_table_name(table.rpartition(".")[2])
        return SourcePlace(kind=engine or "postgres", path=source, table=plain, source_table=table)
    if engine == "spark":
        return SourcePlace(kind=engine, path=source, table=table or _plain_table_name(_stem(Path(source))))
    path = _files_of(Path(source)) if Path(source).is_dir() else source
    kind = _KINDS.get(Path(path.removesuffix(".gz")).suffix.lower())
    if kind != "csv" and path.endswith(".gz"):
        kind = None
    if kind is None:
        accepted = (
            "write a Parquet, CSV or DuckDB file (.parquet, .csv, .csv.gz, .tsv, .txt, .duckdb), a pattern with *, a "
            "folder of them, or env:NAME of a variable that holds the address of a PostgreSQL database"
        )
        raise InvalidArgument("source", source, accepted)
    if kind == "duckdb":
        from dodona.engines.duckdb import only_table

        name = table or only_table(path)
        return SourcePlace(kind=kind, path=path, table=_plain_table_name(name.rpartition(".")[2]), source_table=name)
    if table is not None and not is_name(table):
        accepted = "write the name that analysts will use: letters, digits and underscores, no digit first"
        raise InvalidArgument("table", table, accepted)
    guess = guess_format(list_files(path)) if kind == "csv" else GuessedFormat(PLAIN_CSV, ())
    name = table or _plain_table_name(_stem(Path(source.removesuffix(".gz"))))
    return SourcePlace(kind=kind, path=path, table=name, form=guess.form, guessed=guess.from_rows)


def inspect_place(place: SourcePlace) -> Inspection:
    """Open the table of a place for its owner."""
    return _open_inspection(place.kind, place.path, place.source_table or place.table, place.form)


def inspect_dataset_file(file: DatasetFile) -> Inspection:
    """Open the table of a dataset file, possibly a draft, for its owner."""
    where = file.source if file.source.startswith(ENV_PREFIX) else str(file.rows)
    return _open_inspection(file.kind, where, file.source_table or file.schema.table, file.form)


def _open_inspection(kind: str, path: str, table: str, form: CsvFormat) -> Inspection:
    from dodona.engines.duckdb import DuckDBInspection

    match kind:
        case "parquet":
            return DuckDBInspection.parquet(path)
        case "csv":
            return DuckDBInspection.csv(path, form.of_table(table))
        case "postgres":
            with require_extra("PostgreSQL", "psycopg", "postgres"):
                from dodona.engines.postgres import PostgresInspection
            return PostgresInspection(read_secret(path), table=table)
        case "spark":
            with require_extra("Spark", "pyspark", "spark"):
                from dodona.engines.spark import SparkInspection
            if path.startswith(ENV_PREFIX):
                return SparkInspection.remote(read_secret(path), table=table)
            return SparkInspection.parquet(path)
        case _:
            return DuckDBInspection.held(path, table=table)


def _files_of(folder: Path) -> str:
    """Return the pattern of a folder's Parquet files, or otherwise of its CSV files."""
    for pattern in ("*.parquet", "*.csv", "*.csv.gz", "*.tsv", "**/*.parquet", "**/*.csv", "**/*.csv.gz", "**/*.tsv"):
        if next(folder.glob(pattern), None) is not None:
            return str(folder / pattern)
    raise InvalidRequest(f"The folder {str(folder)!r} holds no Parquet and no CSV file. Name the files of the table.")


def _stem(path: Path) -> str:
    """Return a default table name: that of the file, or of the folder if the file is a pattern."""
    named = _PATTERN.split(path.name)[0].removesuffix(path.suffix) if path.suffix else path.name
    return named.strip("-_. ") or path.parent.name


def _plain_table_name(text: str) -> str:
    """Return a valid table name similar to a text.

    >>> _plain_table_name("hospital stays 2026"), _plain_table_name("2026"), _plain_table_name("*")
    ('hospital_stays_2026', 't_2026', 't_')
    """
    plain = re.sub(r"\W+", "_", text).strip("_")[:LONGEST_NAME]
    return plain if is_name(plain) else f"t_{re.sub('[^A-Za-z0-9_]', '', plain)}"
