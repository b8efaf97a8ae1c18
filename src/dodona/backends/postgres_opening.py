"""Opening a table in PostgreSQL: find it in the catalogue, and say how each declared column is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dodona.backends.faults import SourceUnfit, in_words, missing_column, unfit_type
from dodona.backends.inspection import Held
from dodona.backends.postgres_session import Connection
from dodona.domain.attribute import Attribute, Boolean, column_of
from dodona.domain.schema import Schema
from dodona.sql.render import Table
from dodona.sql.render_cap import PERSON, kept_columns, kept_table, person_text
from dodona.sql.render_column import Form, Reading, accepted, reading
from dodona.sql.render_postgres import DOUBLE_OF_NUMERIC, POSTGRES

_FORMS = {
    "bool": Form.TRUTH,
    "date": Form.DAY,
    "timestamp": Form.TIME,
    "timestamptz": Form.ZONED,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "enum"), Form.TEXT),
    **dict.fromkeys(("int2", "int4", "int8"), Form.WHOLE),
    **dict.fromkeys(("float4", "float8", "numeric"), Form.DOUBLE),
}
_EQUAL = frozenset({"uuid", "bytea"})
"""Types of which nothing is asked but whether two values are the same."""
_HOLDS_NAN = frozenset({"float4", "float8", "numeric"})
_MODEST = 250  # a numeric with so many digits at most on either side of its point is within the range of doubles
_LOCKED = frozenset("rpv")
_RELATIONS = frozenset("rpvmf")
_NAMES = 2
LABEL = "dodona kept rows "
"""The comment of a table that `keep` wrote begins so."""

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
class Kind:
    """The type of a column: a short name for its family, how it is written in full, and whether it may be read."""

    family: str
    shown: str
    readable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view as it was found: what to lock, and the types that its columns must go on having."""

    space: str
    name: str
    locked: bool
    viewed: bool
    kinds: Mapping[str, Kind]

    @property
    def sql(self) -> str:
        """Its name in full, in quotes."""
        return _quoted(self.space, self.name)


def named(table: str) -> tuple[str, str]:
    """Return the schema and the name of a table in the database; `public` where only a name is written."""
    parts = table.split(".")
    if len(parts) > _NAMES or not all(parts):
        raise SourceUnfit(
            "The name of a table in the database is written as public.stays: the schema, a point, the name. Where one "
            "of them has a point in it, ask a view."
        )
    return ("public", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def relation(connection: Connection, needed: Iterable[str], space: str, name: str) -> Relation:
    """Return the table as the catalogue has it; the columns that are needed must be readable."""
    ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
    if encoding != "UTF8":
        raise SourceUnfit(
            "The database is not encoded in UTF8, so that texts could not be compared. Ask a copy that is."
        )
    found = connection.execute(_TABLE, (space, name)).fetchall()
    exact = [row for row in found if row[1:3] == (name, space)]
    if not exact:
        hint = f" It has {found[0][2]}.{found[0][1]}: write the name as it is there." if found else ""
        raise SourceUnfit(f"The database has no table {space}.{name}. Check the name and the database.{hint}")
    ((kind, _, _, entered, readable),) = exact
    if kind not in _RELATIONS:
        raise SourceUnfit(f"{space}.{name} is neither a table nor a view. Write the name of one.")
    if not entered:
        raise SourceUnfit(f"The role may not use the schema {space}. Grant it: GRANT USAGE ON SCHEMA.")
    kinds = _kinds(connection, _quoted(space, name))
    unread = [own for own in needed if own in kinds and not kinds[own].readable]
    if unread:
        raise SourceUnfit(f"The role may not read the column {unread[0]}. Grant it: GRANT SELECT ON {space}.{name}.")
    return Relation(space, name, readable and kind in _LOCKED, kind in "vf", kinds)


def hold_types(connection: Connection, names: Iterable[str], known: Relation) -> bool:
    """Return whether the columns still have their types; a table is locked first, so that they keep them.

    The lock comes before anything is read, as a snapshot that is older than a rewritten table sees it empty.
    """
    if known.locked:
        connection.execute(f"LOCK TABLE {known.sql} IN ACCESS SHARE MODE")
    kinds = _kinds(connection, known.sql)
    return all(name in kinds and kinds[name].shown == known.kinds[name].shown for name in names)


def table_of(schema: Schema, found: Relation) -> Table:
    """Return how each declared column is read, and who a row is of; no row is cut."""
    readings = {attribute.name: _reading(attribute, found.kinds) for attribute in schema.domain}
    who = schema.unit.id
    if who is None:
        return Table(found.sql, readings, POSTGRES)
    kind = _kind(found.kinds, who, "who a row is of")
    if kind.family not in _FORMS and kind.family not in _EQUAL:
        raise SourceUnfit(
            f"The column {who} is declared as who a row is of, and the table holds {kind.shown} in it. Take a column "
            "of numbers, texts or uuids, or ask a view that casts it."
        )
    own = POSTGRES.identifier(who)
    person = f"nullif({own}, 'NaN')" if kind.family in _HOLDS_NAN else _raw(own, kind)
    return Table(found.sql, readings, POSTGRES, person, _person_text(kind))


def _person_text(kind: Kind) -> str:
    """Return the pattern that writes an id as text."""
    if kind.family == "bytea":
        return "encode({0}, 'hex')"
    if kind.family == "numeric" and kind.shown.endswith(",0)"):
        return POSTGRES.text
    double = replace(POSTGRES, double=DOUBLE_OF_NUMERIC) if kind.family == "numeric" else POSTGRES
    return person_text(_FORMS.get(kind.family), double)


def kept_of(connection: Connection, schema: Schema, found: Relation, digest: str) -> Table:
    """Return how the rows that `keep` wrote are read; raises SourceUnfit where they belong to something else."""
    if label(connection, found) != f"{LABEL}{digest}" or PERSON not in found.kinds:
        raise SourceUnfit(
            f"The rows in {found.space}.{found.name} were not kept for this version, schema and ledger. "
            "Run `dodona keep`."
        )
    return kept_table(schema, found.sql, POSTGRES, _person_text(found.kinds[PERSON]))


def label(connection: Connection, found: Relation) -> str | None:
    """Return the comment of a table, by which one of ours is known."""
    row = connection.execute("SELECT obj_description(%s::regclass, 'pg_class')", [found.sql]).fetchone()
    return None if row is None else row[0]


def write_kept(connection: Connection, table: Table, space: str, name: str, label_of: str) -> str | None:
    """Write the rows that count, as codes, in one transaction; return what is wrong where it cannot be done.

    A table of this name is replaced only where it is one of ours.
    """
    own = _quoted(space, name)
    with connection.transaction():
        known = connection.execute(_TABLE, (space, name)).fetchall()
        if any(row[1:3] == (name, space) for row in known):
            ((held,),) = connection.execute("SELECT obj_description(%s::regclass, 'pg_class')", [own]).fetchall()
            if not str(held or "").startswith(LABEL):
                return (
                    f"{space}.{name} is a table that `dodona keep` did not write, and is left alone. Name another one."
                )
            connection.execute(f"DROP TABLE {own}")
        *columns, person = kept_columns(table)
        listed = ", ".join([*(f"CAST({code} AS integer) AS {code}" for code in columns), person])
        connection.execute(f"CREATE TABLE {own} AS SELECT {listed} FROM {table.source}")  # noqa: S608
        connection.execute(f"COMMENT ON TABLE {own} IS {POSTGRES.literal(label_of)}")
    connection.execute(f"ANALYZE {own}")
    return None


def held_of(name: str, kind: Kind) -> Held:
    """Return a column as an owner's tools look at it."""
    own, form = POSTGRES.identifier(name), _FORMS.get(kind.family)
    if kind.family == "numeric":
        return Held((POSTGRES.double if _modest(kind) else DOUBLE_OF_NUMERIC).format(own), form, kind.shown)
    return Held(_raw(own, kind), form, kind.shown)


def _quoted(space: str, name: str) -> str:
    return f"{POSTGRES.identifier(space)}.{POSTGRES.identifier(name)}"


def _kinds(connection: Connection, table: str) -> dict[str, Kind]:
    return {row[0]: Kind(*row[1:]) for row in connection.execute(_COLUMNS, {"table": table}).fetchall()}


def needed(schema: Schema) -> Iterable[str]:
    """Return the columns that are read."""
    return [*map(column_of, schema.domain), *([] if schema.unit.id is None else [schema.unit.id])]


def _kind(kinds: Mapping[str, Kind], name: str, declared: str) -> Kind:
    if name not in kinds:
        raise missing_column(name, declared, kinds)
    return kinds[name]


def _reading(attribute: Attribute, kinds: Mapping[str, Kind]) -> Reading:
    kind = _kind(kinds, column_of(attribute), in_words(attribute))
    own, form = POSTGRES.identifier(column_of(attribute)), _FORMS.get(kind.family)
    if form is None or form not in accepted(attribute):
        raise unfit_type(attribute, kind.shown)
    if form is Form.TRUTH and not isinstance(attribute, Boolean):  # there is no cast from a truth to 64 bits
        return reading(attribute, f"CAST({own} AS integer)", Form.WHOLE, POSTGRES)
    if kind.family == "numeric":
        pattern = POSTGRES.double if _modest(kind) else DOUBLE_OF_NUMERIC
        return reading(attribute, pattern.format(own), Form.DOUBLE, POSTGRES)
    return reading(attribute, _raw(own, kind), form, POSTGRES)


def _raw(own: str, kind: Kind) -> str:
    """Return SQL for a column; texts are compared byte by byte, without the blanks that fill up a character(n)."""
    return f'(CAST({own} AS text) COLLATE "C")' if _FORMS.get(kind.family) is Form.TEXT else own


def _modest(kind: Kind) -> bool:
    found = re.fullmatch(r"numeric\((\d+),(\d+)\)", kind.shown)
    return found is not None and all(int(digits) <= _MODEST for digits in found.groups())
