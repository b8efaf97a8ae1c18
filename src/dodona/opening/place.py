"""Places: where the rows of a draft are, from what an owner typed; and a table that is opened for its owner."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dodona.backends.delimited import PLAIN, CsvFormat
from dodona.backends.files import found_files
from dodona.domain.naming import LONGEST_NAME, is_name
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.opening.csv_guess import Guessed, guess_format
from dodona.opening.extra import extra
from dodona.opening.secret import VARIABLE, secret

if TYPE_CHECKING:
    from dodona.backends.inspection import Inspection
    from dodona.opening.file import DatasetFile

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".db": "duckdb",
}
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Rows, as a dataset file names them."""

    kind: str
    path: str
    """As seen from the folder where the owner is."""
    table: str
    """The name that analysts use."""
    source_table: str | None = None
    """The table inside a database."""
    form: CsvFormat = PLAIN
    """How CSV files are written."""
    guessed: tuple[str, ...] = ()
    """What of the form came from the rows."""

    def below(self, folder: Path) -> str:
        """Return the path as a file in another folder writes it; the name of a variable stays as it is."""
        if self.path.startswith(VARIABLE):
            return self.path
        seen = Path(self.path)
        inside = os.path.relpath(seen.parent.absolute(), folder.absolute())
        return (Path(inside) / seen.name).as_posix()


def found_place(source: str, *, table: str | None, engine: str | None = None) -> Place:
    """Return the place that an owner means: a file, a pattern, a folder, or a table of a database."""
    if engine not in {None, "spark"}:
        raise InvalidArgument("engine", engine, "write spark, or leave it out: files are read by DuckDB")
    if source.startswith(VARIABLE):
        if table is None:
            raise InvalidArgument("table", table, "name the table of the database, such as --table public.stays")
        return Place(kind=engine or "postgres", path=source, table=_name(table.rpartition(".")[2]), source_table=table)
    if engine == "spark":
        return Place(kind=engine, path=source, table=table or _name(_stem(Path(source))))
    path = _files_of(Path(source)) if Path(source).is_dir() else source
    kind = _KINDS.get(Path(path.removesuffix(".gz")).suffix.lower())
    if kind != "csv" and path.endswith(".gz"):
        kind = None
    if kind is None:
        accepted = (
            "write a Parquet, CSV or DuckDB file (.parquet, .csv, .csv.gz, .tsv, .duckdb), a pattern with *, a folder "
            "of them, or env:NAME of a variable that holds the address of a PostgreSQL database"
        )
        raise InvalidArgument("source", source, accepted)
    if kind == "duckdb":
        name = table or _only_table(path)
        return Place(kind=kind, path=path, table=_name(name.rpartition(".")[2]), source_table=name)
    if table is not None and not is_name(table):
        accepted = "write the name that analysts will use: letters, digits and underscores, no digit first"
        raise InvalidArgument("table", table, accepted)
    guess = guess_format(found_files(path)) if kind == "csv" else Guessed(PLAIN, ())
    name = table or _name(_stem(Path(source.removesuffix(".gz"))))
    return Place(kind=kind, path=path, table=name, form=guess.form, guessed=guess.from_rows)


def inspected(place: Place) -> Inspection:
    """Return the table of a place, open for its owner."""
    return _inspection(place.kind, place.path, place.source_table or place.table, place.form)


def inspected_file(file: DatasetFile) -> Inspection:
    """Return the table of a dataset file, open for its owner; a draft will do."""
    where = file.source if file.source.startswith(VARIABLE) else str(file.rows)
    return _inspection(file.kind, where, file.source_table or file.schema.table, file.form)


def _inspection(kind: str, path: str, table: str, form: CsvFormat) -> Inspection:
    from dodona.backends.duckdb_inspection import DuckDBInspection

    match kind:
        case "parquet":
            return DuckDBInspection.parquet(path)
        case "csv":
            return DuckDBInspection.csv(path, form)
        case "postgres":
            with extra("PostgreSQL", "psycopg", "postgres"):
                from dodona.backends.postgres_inspection import PostgresInspection
            return PostgresInspection(secret(path), table=table)
        case "spark":
            with extra("Spark", "pyspark", "spark"):
                from dodona.backends.spark_inspection import SparkInspection
            if path.startswith(VARIABLE):
                return SparkInspection.remote(secret(path), table=table)
            return SparkInspection.parquet(path)
        case _:
            return DuckDBInspection.held(path, table=table)


def _files_of(folder: Path) -> str:
    """Return the pattern of the Parquet files of a folder, or else of its CSV files."""
    for pattern in ("*.parquet", "*.csv", "*.csv.gz", "*.tsv", "**/*.parquet", "**/*.csv", "**/*.csv.gz", "**/*.tsv"):
        if next(folder.glob(pattern), None) is not None:
            return str(folder / pattern)
    raise InvalidRequest(f"The folder {str(folder)!r} holds no Parquet and no CSV file. Name the files of the table.")


def _only_table(path: str) -> str:
    from dodona.backends.duckdb_inspection import only_table

    return only_table(path)


def _stem(path: Path) -> str:
    """Return what the table may be called: the name of the file, or of the folder where the file is a pattern."""
    named = _PATTERN.split(path.name)[0].removesuffix(path.suffix) if path.suffix else path.name
    return named.strip("-_. ") or path.parent.name


def _name(text: str) -> str:
    """Return a name like a text.

    >>> _name("hospital stays 2026"), _name("2026"), _name("*")
    ('hospital_stays_2026', 't_2026', 't_')
    """
    plain = re.sub(r"\W+", "_", text).strip("_")[:LONGEST_NAME]
    return plain if is_name(plain) else f"t_{re.sub('[^A-Za-z0-9_]', '', plain)}"
