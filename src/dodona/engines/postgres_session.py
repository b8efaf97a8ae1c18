"""Read-only PostgreSQL sessions, and how the declared columns of a table are found and read in them.

One transaction per query, with a timeout; the session reconnects after a failure.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dodona.engines.cap import PERSON_COLUMN, id_text_pattern, kept_columns, kept_table
from dodona.engines.cells import ColumnForm, ColumnReading, SourceUnfit, find_column, read_column, require_form
from dodona.engines.dialects import DOUBLE_OF_NUMERIC, POSTGRES
from dodona.engines.inspection import SourceColumn
from dodona.engines.render import GroupedSql, Table
from dodona.numbers import Integers
from dodona.schema.attributes import Attribute, Boolean, source_column_name
from dodona.schema.schema import Schema
from dodona.trusted.source import SourceFailed

# --- A PostgreSQL session: read-only, with a timeout, one transaction per query, reconnecting after a failure. ---


Connection = psycopg.Connection[tuple[Any, ...]]
ResultT = TypeVar("ResultT")

_SETTINGS = {
    "default_transaction_read_only": "on",
    "search_path": "pg_catalog, pg_temp",  # unless listed, temporary tables come first
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    # Every query reads all rows: with an index, the time of an answer would reveal how many rows match, and with a
    # block range index even a single row.
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",  # compiling hundreds of small expressions takes longer than running them
}
_KEEPALIVE = {  # a silently lost server is noticed within two minutes
    "connect_timeout": "10",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "application_name": "dodona source",
}
_ADDRESS = "postgresql://role:password@host:5432/database"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"  # all statements of a query see the same rows
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_WORD = 8


class PostgresSession:
    """One connection at a time, for one query at a time."""

    def __init__(self, url: str, *, timeout: float) -> None:
        """Connect; `timeout` limits each statement, in seconds."""
        self._url, self._timeout = url, timeout
        self._lock = threading.Lock()
        self._closed = False
        self._connection: Connection | None = None
        reason = self._connect_first()
        if reason is not None:  # raised here, so that the address is not attached
            raise SourceUnfit(reason)

    def __repr__(self) -> str:
        return "Session"

    def run(self, work: Callable[[Connection], ResultT], *, charged: bool = True) -> ResultT:
        """Run the work in one read-only transaction and return its result; it is never retried.

        A connection lost since the last query is replaced before this one begins. A failure closes the connection, and
        the next query gets a new one.
        """
        with self._lock:
            outcome = self._try_work(work)
        if outcome is None:  # raised here and not where it failed, so that the server's message is not attached
            raise SourceFailed(charged=charged)
        return outcome[0]

    def close(self) -> None:
        """Close the connection for good."""
        with self._lock:
            self._closed = True
            self._drop()

    def _try_work(self, work: Callable[[Connection], ResultT]) -> tuple[ResultT] | None:
        if self._closed:
            return None
        try:
            connection = self._begun()
            result = work(connection)
            connection.execute("COMMIT")
        except psycopg.Error:
            self._drop()
            return None
        except BaseException:
            self._drop()
            raise
        return (result,)

    def _begun(self) -> Connection:
        if self._connection is not None:
            try:
                self._connection.execute(_BEGIN)
            except psycopg.OperationalError:  # lost while idle
                self._drop()
        if self._connection is None:
            self._connection = _connect(self._url, self._timeout)
            self._connection.execute(_BEGIN)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect_first(self) -> str | None:
        """Connect for the first time; return what is wrong if it fails."""
        try:
            self._connection = _connect(self._url, self._timeout)
        except psycopg.ProgrammingError:
            return f"The address of the database cannot be read. Write it as {_ADDRESS}."
        except psycopg.Error as fault:
            refused = fault.pgconn is not None and bool(fault.pgconn.used_password or fault.pgconn.needs_password)
            if refused:
                return "The server does not let this role in with this password. Check both in the address."
            return (
                "The server cannot be reached, or does not let this role in. Check host, port, database and role in "
                "the address, and that the server is running."
            )
        return None


def fetch_columns(connection: Connection, asked: GroupedSql) -> list[Integers]:
    """Return the result columns of a statement, as 64-bit integers with one row per group.

    A result with more rows than the statement has groups is refused.
    """
    names = ["g", *(f"s{place}" for place in range(sum(map(len, asked.scales))))]
    listed = ", ".join(f"CAST({name} AS bigint)" for name in names)
    raw = bytearray()
    with connection.cursor() as cursor:
        sql = f"COPY (SELECT {listed} FROM ({asked.sql}) AS asked) TO STDOUT (FORMAT binary)"  # noqa: S608
        with cursor.copy(sql) as copy:
            for part in copy:
                raw += part
    columns = _parse_binary_columns(raw, len(names))
    if columns is None or len(columns[0]) > asked.groups:
        raise SourceFailed
    return columns


def _parse_binary_columns(raw: bytearray, number: int) -> list[Integers] | None:
    """Parse PostgreSQL's binary format; None unless all fields are integers and none is NULL."""
    row = np.dtype([("fields", ">i2"), ("held", [("size", ">i4"), ("value", ">i8")], (number,))])
    body = len(raw) - len(_SIGNATURE) - len(_TRAILER)
    if not raw.startswith(_SIGNATURE) or not raw.endswith(_TRAILER) or body % row.itemsize:
        return None
    rows = np.frombuffer(raw, dtype=row, count=body // row.itemsize, offset=len(_SIGNATURE))
    if np.any(rows["fields"] != number) or np.any(rows["held"]["size"] != _WORD):
        return None
    return list(rows["held"]["value"].astype(np.int64).T.copy())


def run_with_write_access(url: str, *, timeout: float, work: Callable[[Connection], ResultT]) -> ResultT | None:
    """Run an owner's work with write access and return its result; None if it fails."""
    try:
        connection = _connect(url, timeout)
        with connection:
            connection.execute("SET default_transaction_read_only = off")
            return work(connection)
    except psycopg.Error:
        return None


def _connect(url: str, timeout: float) -> Connection:
    """Return a read-only connection that sees only names qualified by their schema."""
    address = make_conninfo("", **(_KEEPALIVE | conninfo_to_dict(url)))
    connection = psycopg.connect(address, autocommit=True, prepare_threshold=None)
    settings = _SETTINGS | {"statement_timeout": str(max(1, round(timeout * 1000)))}
    try:
        listed = ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(settings))
        connection.execute(f"SELECT {listed}", [text for pair in settings.items() for text in pair])
    except BaseException:
        connection.close()
        raise
    return connection


# --- Opening a table in PostgreSQL: find it in the catalogue, and decide how each declared column is read. ---


_FORMS = {
    "bool": ColumnForm.TRUTH,
    "date": ColumnForm.DAY,
    "timestamp": ColumnForm.TIME,
    "timestamptz": ColumnForm.ZONED,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "enum"), ColumnForm.TEXT),
    **dict.fromkeys(("int2", "int4", "int8"), ColumnForm.WHOLE),
    **dict.fromkeys(("float4", "float8", "numeric"), ColumnForm.DOUBLE),
}
_EQUALITY_ONLY_TYPES = frozenset({"uuid", "bytea"})
"""Types whose values are only compared for equality."""
_HOLDS_NAN = frozenset({"float4", "float8", "numeric"})
_MODEST_DIGITS = 250  # a numeric with at most this many digits on each side of its point is in the range of doubles
_LOCKED = frozenset("rpv")
_RELATIONS = frozenset("rpvmf")
_NAME_PARTS = 2
KEPT_ROWS_COMMENT = "dodona kept rows "
"""The prefix of the comment on a table that `keep` wrote."""

_TABLE = """
SELECT c.relkind::text, c.relname, n.nspname, has_schema_privilege(n.oid, 'USAGE'),
       has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE lower(n.nspname) = lower(%s) AND lower(c.relname) = lower(%s)
"""
_COLUMNS = """
WITH RECURSIVE held AS (
    SELECT attname, attnum, atttypid AS type, atttypmod AS mod FROM pg_attribute
    WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attname, attnum, typbasetype, typtypmod FROM held JOIN pg_type ON pg_type.oid = type WHERE typtype = 'd'
)
SELECT attname, CASE WHEN typtype = 'e' THEN 'enum' WHEN typname = 'citext' AND typcategory = 'S' THEN typname
                     WHEN typnamespace = 'pg_catalog'::regnamespace THEN typname ELSE '' END,
       format_type(type, mod), has_column_privilege(%(table)s::regclass, attnum, 'SELECT')
FROM held JOIN pg_type ON pg_type.oid = type WHERE typtype <> 'd' ORDER BY attnum
"""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """The type of a column: a short name for its family, its full name, and whether it may be read."""

    family: str
    shown: str
    readable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view: what to lock, and the types that its columns must keep."""

    space: str
    name: str
    locked: bool
    viewed: bool
    kinds: Mapping[str, PostgresType]

    @property
    def sql(self) -> str:
        """Its full name, quoted."""
        return _quote_name(self.space, self.name)


def split_table_name(table: str) -> tuple[str, str]:
    """Return the schema and name of a table in the database; `public` if only a name is given."""
    parts = table.split(".")
    if len(parts) > _NAME_PARTS or not all(parts):
        raise SourceUnfit(
            "The name of a table in the database is written as public.stays: the schema, a point, the name. Where one "
            "of them has a point in it, ask a view."
        )
    return ("public", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def find_relation(connection: Connection, needed: Iterable[str], space: str, name: str) -> Relation:
    """Look a table up in the catalogue; the needed columns must be readable."""
    ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
    if encoding != "UTF8":
        raise SourceUnfit(
            "The database is not encoded in UTF8, so that texts could not be compared. Ask a copy that is."
        )
    rows = connection.execute(_TABLE, (space, name)).fetchall()
    exact = [row for row in rows if row[1:3] == (name, space)]
    if not exact:
        hint = f" It has {rows[0][2]}.{rows[0][1]}: write the name as it is there." if rows else ""
        raise SourceUnfit(f"The database has no table {space}.{name}. Check the name and the database.{hint}")
    ((kind, _, _, entered, readable),) = exact
    if kind not in _RELATIONS:
        raise SourceUnfit(f"{space}.{name} is neither a table nor a view. Write the name of one.")
    if not entered:
        raise SourceUnfit(f"The role may not use the schema {space}. Grant it: GRANT USAGE ON SCHEMA.")
    kinds = _column_types(connection, _quote_name(space, name))
    unread = [column for column in needed if column in kinds and not kinds[column].readable]
    if unread:
        raise SourceUnfit(f"The role may not read the column {unread[0]}. Grant it: GRANT SELECT ON {space}.{name}.")
    return Relation(space, name, readable and kind in _LOCKED, kind in "vf", kinds)


def types_unchanged(connection: Connection, names: Iterable[str], known: Relation) -> bool:
    """Return whether the columns still have their types; a table is locked first, so that they keep them.

    The lock precedes any read, as a snapshot older than a rewritten table sees it empty.
    """
    if known.locked:
        connection.execute(f"LOCK TABLE {known.sql} IN ACCESS SHARE MODE")
    kinds = _column_types(connection, known.sql)
    return all(name in kinds and kinds[name].shown == known.kinds[name].shown for name in names)


def relation_table(schema: Schema, relation: Relation) -> Table:
    """Return how each declared column and the person id are read, without a cap."""
    readings = {attribute.name: _reading(attribute, relation.kinds) for attribute in schema.domain}
    who = schema.unit.id
    if who is None:
        return Table(relation.sql, readings, POSTGRES)
    kind = find_column(relation.kinds, who, None)
    if kind.family not in _FORMS and kind.family not in _EQUALITY_ONLY_TYPES:
        raise SourceUnfit(
            f"The column {who} is declared as the id of people, and the table holds {kind.shown} in it. Take a column "
            "of numbers, texts or uuids, or ask a view that casts it."
        )
    identifier = POSTGRES.identifier(who)
    person = f"nullif({identifier}, 'NaN')" if kind.family in _HOLDS_NAN else _raw_column_sql(identifier, kind)
    return Table(relation.sql, readings, POSTGRES, person, _person_text(kind))


def _person_text(kind: PostgresType) -> str:
    """Return the pattern that writes an id as text."""
    if kind.family == "bytea":
        return "encode({0}, 'hex')"
    if kind.family == "numeric" and kind.shown.endswith(",0)"):
        return POSTGRES.text
    double = replace(POSTGRES, double=DOUBLE_OF_NUMERIC) if kind.family == "numeric" else POSTGRES
    return id_text_pattern(_FORMS.get(kind.family), double)


def kept_rows_table(connection: Connection, schema: Schema, relation: Relation, digest: str) -> Table:
    """Return how the rows that `keep` wrote are read; raises SourceUnfit if they belong to something else."""
    if table_comment(connection, relation) != f"{KEPT_ROWS_COMMENT}{digest}" or PERSON_COLUMN not in relation.kinds:
        raise SourceUnfit(
            f"The rows in {relation.space}.{relation.name} were not kept for this version, schema and ledger. "
            "Run `dodona keep`."
        )
    return kept_table(schema, relation.sql, POSTGRES, _person_text(relation.kinds[PERSON_COLUMN]))


def table_comment(connection: Connection, relation: Relation) -> str | None:
    """Return the comment of a table, which identifies the tables that `keep` wrote."""
    row = connection.execute("SELECT obj_description(%s::regclass, 'pg_class')", [relation.sql]).fetchone()
    return None if row is None else row[0]


def write_kept_rows(connection: Connection, table: Table, space: str, name: str, label_of: str) -> str | None:
    """Write the counted rows as codes, in one transaction; return what is wrong if it fails.

    An existing table of this name is replaced only if `keep` wrote it.
    """
    identifier = _quote_name(space, name)
    with connection.transaction():
        known = connection.execute(_TABLE, (space, name)).fetchall()
        if any(row[1:3] == (name, space) for row in known):
            ((held,),) = connection.execute("SELECT obj_description(%s::regclass, 'pg_class')", [identifier]).fetchall()
            if not str(held or "").startswith(KEPT_ROWS_COMMENT):
                what = f"{space}.{name} is a table that `dodona keep` did not write, and is left alone."
                return f"{what} Name another one."
            connection.execute(f"DROP TABLE {identifier}")
        *columns, person = kept_columns(table.readings)
        listed = ", ".join([*(f"CAST({code} AS integer) AS {code}" for code in columns), person])
        connection.execute(f"CREATE TABLE {identifier} AS SELECT {listed} FROM {table.source}")  # noqa: S608
        connection.execute(f"COMMENT ON TABLE {identifier} IS {POSTGRES.literal(label_of)}")
    connection.execute(f"ANALYZE {identifier}")
    return None


def describe_column(name: str, kind: PostgresType) -> SourceColumn:
    """Return a column as the owner's tools see it."""
    return SourceColumn(_raw_column_sql(POSTGRES.identifier(name), kind), _FORMS.get(kind.family), kind.shown)


def _quote_name(space: str, name: str) -> str:
    return f"{POSTGRES.identifier(space)}.{POSTGRES.identifier(name)}"


def _column_types(connection: Connection, table: str) -> dict[str, PostgresType]:
    return {row[0]: PostgresType(*row[1:]) for row in connection.execute(_COLUMNS, {"table": table}).fetchall()}


def needed_columns(schema: Schema) -> Iterable[str]:
    """Return the columns to read."""
    return [*map(source_column_name, schema.domain), *([] if schema.unit.id is None else [schema.unit.id])]


def _reading(attribute: Attribute, kinds: Mapping[str, PostgresType]) -> ColumnReading:
    kind = find_column(kinds, source_column_name(attribute), attribute)
    form = require_form(attribute, _FORMS.get(kind.family), kind.shown)
    identifier = POSTGRES.identifier(source_column_name(attribute))
    if form is ColumnForm.TRUTH and not isinstance(attribute, Boolean):  # there is no cast from a truth to 64 bits
        return read_column(attribute, f"CAST({identifier} AS integer)", ColumnForm.WHOLE, POSTGRES)
    return read_column(attribute, _raw_column_sql(identifier, kind), form, POSTGRES)


def _raw_column_sql(identifier: str, kind: PostgresType) -> str:
    """Return SQL for a column; texts are compared byte by byte, without the padding of a character(n)."""
    if kind.family == "numeric":
        return (POSTGRES.double if _is_modest(kind) else DOUBLE_OF_NUMERIC).format(identifier)
    return f'(CAST({identifier} AS text) COLLATE "C")' if _FORMS.get(kind.family) is ColumnForm.TEXT else identifier


def _is_modest(kind: PostgresType) -> bool:
    matched = re.fullmatch(r"numeric\((\d+),(\d+)\)", kind.shown)
    return matched is not None and all(int(digits) <= _MODEST_DIGITS for digits in matched.groups())
