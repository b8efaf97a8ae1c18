"""Open a table in DuckDB: connect, find names and types, load what is not queried in place, lock the connection."""

import glob
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb

from dodona.engines import cap, cells
from dodona.engines.answers import Fetch
from dodona.engines.cap import cap_key
from dodona.engines.dialects import DUCKDB
from dodona.engines.files import (
    PLAIN_CSV,
    CsvFormat,
    folder_partitions,
    require_same_files,
    require_separate_columns,
)
from dodona.engines.render import Table
from dodona.errors import InvariantBroken
from dodona.schema.attributes import Attribute, Timestamp, source_column_name
from dodona.schema.schema import Schema

Connection = duckdb.DuckDBPyConnection
ATTACHED_DATABASE = DUCKDB.identifier("held")
"""The name that a database file is attached under."""
COARSE_TIMESTAMPS = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS"})
"""Timestamps with a wider range than TIMESTAMP."""
DAY_OF_NANOSECONDS = (  # a cast to TIMESTAMP would round the last nanoseconds of a day into the next
    "(DATE '1970-01-01' + CAST(epoch_ns({0}) // 86400000000000"
    " - CASE WHEN epoch_ns({0}) % 86400000000000 < 0 THEN 1 ELSE 0 END AS INTEGER))"
)
SECONDS_OF_NANOSECONDS = "(epoch_ns({0}) // 1000000000 - CASE WHEN epoch_ns({0}) % 1000000000 < 0 THEN 1 ELSE 0 END)"
_BY_STATISTICS = "statistics_propagation,filter_pushdown"
_DOUBLES = frozenset({"FLOAT", "DOUBLE"})
_FORMS = {
    "VARCHAR": cells.ColumnForm.TEXT,
    "BOOLEAN": cells.ColumnForm.TRUTH,
    "DATE": cells.ColumnForm.DAY,
    "TIMESTAMP": cells.ColumnForm.TIME,
    "TIMESTAMP WITH TIME ZONE": cells.ColumnForm.ZONED,
    '"NULL"': cells.ColumnForm.NOTHING,
    **dict.fromkeys(_DOUBLES, cells.ColumnForm.DOUBLE),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), cells.ColumnForm.WHOLE),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER"), cells.ColumnForm.WHOLE),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), cells.ColumnForm.WIDE),
    **dict.fromkeys((*COARSE_TIMESTAMPS, "TIMESTAMP_NS"), cells.ColumnForm.TIME),
}


def connect(*, threads: int | None = None) -> Connection:
    """Return a connection to an empty in-memory database that loads no extensions and writes no files.

    Min/max statistics are not used to skip parts of a table. One row with a large number would make the engine read a
    part that it skips without that row, which shows in the time of an answer. Also, the statistics of Parquet files
    omit NaN: DuckDB would take `x < 10` to be true, and `isnan(x)` to be false, of all rows of a file whose largest
    number is 4.

    Theorem: reading-rows
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": "",  # rows that do not fit into memory are not spilled to disk
    }
    if threads is not None:
        config["threads"] = threads
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET disabled_optimizers = '{_BY_STATISTICS}'")
    return connection


def restrict_to_files(connection: Connection, files: Sequence[str]) -> None:
    """Permanently restrict a connection to reading these files."""
    connection.execute(f"SET allowed_paths = [{DUCKDB.literals(files)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def require_same_files_in_duckdb(connection: Connection, files: Sequence[str]) -> None:
    """Refuse paths that DuckDB would resolve to other files."""
    matches = connection.execute(f"FROM glob([{DUCKDB.literals(files)}])").fetchall()
    require_same_files(files, [str(name) for (name,) in matches])


def parquet_sql(connection: Connection, files: Sequence[str], base: Path) -> str:
    """Return SQL for the rows of Parquet files; columns are matched by name.

    A folder below the base named like year=2024 adds a text column to its files: `partitions`.
    """
    together = ", union_by_name = true" if len(files) > 1 else ""
    plain = f"read_parquet([{DUCKDB.literals(files)}], hive_partitioning = false{together})"
    if not any(folder_partitions(name, base) for name in files):
        return plain
    keys = (key for name in files for key, _ in folder_partitions(name, base))
    require_separate_columns(keys, column_types(connection, plain))
    return plain.replace("hive_partitioning = false", "hive_partitioning = true, hive_types_autocast = false")


def attach_table(connection: Connection, file: str, table: str) -> str:
    """Return SQL for a table or view of a database file, attached read only; its name may have dots."""
    _attach(connection, file)
    return attached_name(table)


def attached_name(table: str) -> str:
    """Return SQL for a table or view of the attached database; its name may have dots."""
    return ".".join((ATTACHED_DATABASE, *map(DUCKDB.identifier, table.split("."))))


def list_tables(connection: Connection, file: str) -> list[str]:
    """Return the names of the tables and views of a database file."""
    _attach(connection, file)
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'held' UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'held' AND NOT internal ORDER BY ALL"
    ).fetchall()
    return [str(name) if schema == "main" else f"{schema}.{name}" for schema, name in rows]


def _attach(connection: Connection, file: str) -> None:
    """Attach a database file and block everything else: a view may name any file on the machine."""
    if any(Path(file).parent.glob(f"{glob.escape(Path(file).name)}.*wal*")) or Path(f"{file}.wal").exists():
        raise cells.SourceUnfit(
            f"There is a write-ahead log beside the database {Path(file).name}: rows in it are no part of the file. "
            "Close what writes to it, or open it with DuckDB and run CHECKPOINT."
        )
    with suppress(duckdb.Error):
        connection.execute(f"ATTACH IF NOT EXISTS {DUCKDB.literal(file)} AS {ATTACHED_DATABASE} (READ_ONLY)")
        restrict_to_files(connection, [])
        return
    raise cells.SourceUnfit("The file cannot be opened as a DuckDB database. Check its path and its version.")


def register_table(connection: Connection, name: str, table: object) -> None:
    """Register an Arrow table with a connection under a name."""
    with suppress(duckdb.Error):
        connection.register(name, table)
        return
    raise cells.SourceUnfit(
        "The frame has a column of a type that DuckDB cannot read. Use columns of numbers, texts, days or truths."
    )


def column_types(connection: Connection, source: str) -> dict[str, str]:
    """Return the name of each column and its type."""
    try:
        return {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()}
    except duckdb.PermissionException:
        outside = True
    except duckdb.Error:
        outside = False
    if outside:
        raise cells.SourceUnfit(
            "The table is a view that reads files outside of its database, and these are no part of what is digested. "
            "Write the rows into a table: CREATE TABLE t AS FROM the_view."
        )
    raise cells.SourceUnfit("The table cannot be opened. Check that its files are of the declared kind, and its name.")


def require_readable(connection: Connection, schema: Schema, source: str) -> None:
    """Read every declared column once, so that only the owner sees a value that cannot be read.

    Text in Parquet may not be UTF-8, and a time may be out of the engine's range. If found only during a question, such
    a row would make answers fail, and so reveal its presence.
    """
    names = [*map(source_column_name, schema.domain), *([] if schema.unit.id is None else [schema.unit.id])]
    columns = ", ".join(f"max(hash({DUCKDB.identifier(name)}))" for name in names)
    with suppress(duckdb.Error):
        connection.execute(f"SELECT {columns} FROM {source}").fetchall()  # noqa: S608  quoted names alone
        return
    raise cells.SourceUnfit(
        "The table holds values that cannot be read: text that is not UTF-8, or times out of range. Write its files "
        "anew without them."
    )


def declared_table(connection: Connection, schema: Schema, source: str, form: CsvFormat = PLAIN_CSV) -> Table:
    """Return how each declared column and the person id are read; CSV fields have a format."""
    columns = column_types(connection, source)
    readings = {
        attribute.name: _reading(attribute, source_column_name(attribute), columns, source, fields=form)
        for attribute in schema.domain
    }
    return _with_people(schema, Table(source, readings, DUCKDB), columns)


def frame_table(connection: Connection, schema: Schema, source: str, *, coded: frozenset[str]) -> Table:
    """Return how the columns of a frame, already renamed as declared, are read; some of them are codes."""
    columns = column_types(connection, source)
    readings = {
        attribute.name: _reading(attribute, attribute.name, columns, source, coded) for attribute in schema.domain
    }
    return _with_people(schema, Table(source, readings, DUCKDB), columns, coded=coded)


def _with_people(
    schema: Schema, table: Table, columns: Mapping[str, str], *, coded: frozenset[str] = frozenset()
) -> Table:
    person = schema.unit.id
    if person is None:
        return table
    kind = cells.find_column(columns, person, None)
    raw = raw_column_sql(person, kind, table.source)
    if kind in _DOUBLES:
        raw = f"CASE WHEN isnan({raw}) THEN NULL ELSE {raw} END"
    return replace(table, person=raw, person_text=_person_text(kind, coded=person in coded))


def _person_text(kind: str, *, coded: bool) -> str:
    """Return the pattern that writes an id as text; an id stored as objects comes with its text."""
    if coded:
        return "struct_extract({0}, 'text')"
    if kind == "BLOB":
        return "lower(hex({0}))"
    whole = kind.startswith("DECIMAL(") and kind.endswith(",0)")
    form = cells.ColumnForm.DECIMAL if kind.startswith("DECIMAL(") else form_of_type(kind)
    return cap.id_text_pattern(cells.ColumnForm.WHOLE if whole else form, DUCKDB)


def load_codes(connection: Connection, schema: Schema, table: Table, key: bytes | None) -> Table:
    """Load the counted rows into memory as codes; if people are protected, the key selects them."""
    own_key = cap_key(schema, key)
    sizes = [reading.attribute.cells for reading in table.readings.values()]
    kinds = ["UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER" for size in sizes]
    narrow = [f"CAST(c{place} AS {kind}) AS c{place}" for place, kind in enumerate(kinds)]
    if table.person is not None:
        narrow.append(cap.PERSON_COLUMN)
    rows, listed = cap.coded_rows_sql(table), ", ".join(narrow) or "nothing"
    with suppress(duckdb.Error):
        connection.execute(f"CREATE TABLE coded AS SELECT {listed} FROM ({rows}) AS taken")  # noqa: S608
        if table.person is None:
            return cap.coded_table(table, "coded")
        _choose_rows(connection, table, schema.unit.rows, own_key)
        connection.execute("DROP TABLE coded")
        return cap.coded_table(table, "counting")
    raise cells.SourceUnfit(
        "The rows of the table cannot be read. Check that each line has as many fields as the first, that the text is "
        "UTF-8, and that there is memory for one number a row and column."
    )


_ROWS_AT_ONCE = 1 << 20
"""Of coded rows: choosing those that count sorts them with their hashes, which takes about a hundred bytes each."""


def _choose_rows(connection: Connection, table: Table, rows: int, key: bytes) -> None:
    """Make the table `counting` of the coded rows that count, in parts of bounded size."""
    ((total,),) = connection.execute("SELECT count(*) FROM coded").fetchall()
    parts = max(1, -(-int(total) // _ROWS_AT_ONCE))
    if parts == 1:
        connection.execute(f"CREATE TABLE counting AS {cap.capped_codes_sql(table, 'coded', rows, key)}")
        return
    connection.execute("CREATE TABLE counting AS SELECT * FROM coded LIMIT 0")
    for part in range(parts):
        subquery = f"(SELECT * FROM coded WHERE hash({cap.PERSON_COLUMN}) % {parts} = {part})"  # noqa: S608
        connection.execute(f"INSERT INTO counting {cap.capped_codes_sql(table, subquery, rows, key)}")
    # Equal ids have equal hashes, or GROUP BY would not find them; the cap does not rest on that alone.
    many = f"SELECT 1 FROM counting GROUP BY {cap.PERSON_COLUMN} HAVING count(*) > {rows} LIMIT 1"  # noqa: S608
    if connection.execute(many).fetchall():
        raise InvariantBroken("More rows of a person count than the cap allows.")


def load_linked(
    connection: Connection, schema: Schema, tables: Sequence[Table], key: bytes | None, fetch: Fetch
) -> Table:
    """Load the counted rows of a table and of those linked to it into memory as codes."""
    own_key = cap_key(schema, key)
    rows = cap.linked_rows_sql(schema, tables, own_key)
    with suppress(duckdb.Error):
        connection.execute(f"CREATE TABLE counting AS {rows}")
        connection.execute("CREATE TABLE repeated (name VARCHAR)")
        for name in cap.repeated_tables(schema, tables, fetch):
            connection.execute("INSERT INTO repeated VALUES (?)", [name])
        return cap.linked_table(schema, tables, own_key, "counting")
    raise cells.SourceUnfit(
        "The rows of the tables cannot be read. Check that each line has as many fields as the first, that the text is "
        "UTF-8, and that there is memory for one number a row and column."
    )


def _reading(  # noqa: PLR0913  what a column is, and where
    attribute: Attribute,
    name: str,
    columns: Mapping[str, str],
    source: str,
    coded: frozenset[str] = frozenset(),
    *,
    fields: CsvFormat = PLAIN_CSV,
) -> cells.ColumnReading:
    kind = cells.find_column(columns, name, attribute)
    raw = fields.raw_sql(attribute, raw_column_sql(name, kind, source))
    form = cells.ColumnForm.CODE if attribute.name in coded else form_of_type(kind)
    form = cells.require_form(attribute, form, kind.partition("(")[0])
    reading = cells.read_column(attribute, raw, form, DUCKDB)
    if isinstance(attribute, Timestamp) and reading.form is not cells.ColumnForm.CODE:
        if kind in COARSE_TIMESTAMPS:  # as below
            return replace(reading, value=cells.seconds_sql(f"TRY_CAST({raw} AS TIMESTAMP)", form, DUCKDB))
        return replace(reading, value=SECONDS_OF_NANOSECONDS.format(raw)) if kind == "TIMESTAMP_NS" else reading
    if kind in COARSE_TIMESTAMPS:  # wider range than TIMESTAMP: a time beyond it is outside, not missing
        return replace(reading, value=f"TRY_CAST({raw} AS TIMESTAMP)", total=False)
    if kind == "TIMESTAMP_NS":
        return replace(reading, value=DAY_OF_NANOSECONDS.format(raw), form=cells.ColumnForm.DAY, total=False)
    return reading


def raw_column_sql(name: str, kind: str, source: str) -> str:
    """Return SQL for a column; texts are compared byte by byte, whatever the table's collation."""
    identifier = DUCKDB.identifier(name)
    if kind == "VARCHAR" and source.startswith(ATTACHED_DATABASE):
        return f'({identifier} COLLATE "binary")'
    return f"CAST({identifier} AS VARCHAR)" if kind.startswith("ENUM(") else identifier


def form_of_type(kind: str) -> cells.ColumnForm | None:
    """Return the SQL form of a type's values; None if no attribute can be read from them."""
    if kind.startswith("ENUM("):
        return cells.ColumnForm.TEXT
    if kind.startswith("DECIMAL("):
        return cells.decimal_form(int(kind.removeprefix("DECIMAL(").partition(",")[0]))
    return _FORMS.get(kind)
