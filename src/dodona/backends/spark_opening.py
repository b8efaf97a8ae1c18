"""Opening a table in Spark: find out names and types, and give the declared columns names of our own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from dodona.backends.faults import SourceUnfit
from dodona.backends.files import folder_files, found_files, hold_same, pattern_base
from dodona.backends.inspection import Held
from dodona.backends.spark_session import over_network, quiet, released
from dodona.domain.attribute import column_of
from dodona.domain.schema import Schema
from dodona.sql.render import Table, digest
from dodona.sql.render_cap import PERSON, crowd, kept_columns, kept_digest, kept_table, person_text
from dodona.sql.render_column import Form, Reading, accepted, reading
from dodona.sql.render_dialect import SPARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

_WHO = "who"
_FORMS = {
    "string": Form.TEXT,
    "boolean": Form.TRUTH,
    "date": Form.DAY,
    "timestamp_ntz": Form.TIME,
    "timestamp": Form.ZONED,
    "void": Form.NOTHING,
    **dict.fromkeys(("float", "double"), Form.DOUBLE),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Form.WHOLE),
}
_EXACT_DIGITS = 15  # a decimal of this many digits is a quotient of two whole numbers that are doubles
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark says that texts have a width of their own
_PATTERN = re.compile(r"([\\{}\[\]*?])")
_numbers = itertools.count()
_Found = TypeVar("_Found")


def folder(session: SparkSession, path: str | Path) -> DataFrame:
    """Return the rows of Parquet files: of a folder, a file, a pattern with `*`, or an address such as s3a://.

    Files of this machine are listed here and handed on one by one; of an address, or of the machine of a server, the
    engine makes the list.
    """
    text = str(path)
    reader = session.read.option("mergeSchema", "true")
    if over_network(session) or ("://" in text and not text.startswith("file:")):
        return _opened(lambda: reader.parquet(text))
    place = Path(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    files = folder_files(place) if place.is_dir() else found_files(place)
    root = place.resolve() if place.is_dir() else pattern_base(place)
    rows = _opened(lambda: reader.option("basePath", f"file:{root}").parquet(*map(_local, files)))
    hold_same(files, (unquote(urlsplit(name).path) for name in _opened(rows.inputFiles)))
    return rows


def named(session: SparkSession, name: str) -> DataFrame:
    """Return the rows of a table or a view that a session knows."""
    return _opened(lambda: session.table(name))


def fresh_name() -> str:
    """Return a name for a view that no other source of this process has."""
    return f"dodona_{next(_numbers)}"


def viewed(rows: DataFrame, schema: Schema, session: SparkSession, name: str) -> Table:
    """Return how the declared columns are read, and whose each row is, from a view that a session of ours can ask.

    The view holds the declared columns alone, as v0, v1 and so on, so that no name in a table is one of ours. It holds
    all rows.
    """
    fields = {field.name: field for field in _opened(lambda: rows.schema).fields}
    listed, readings = list[str](), dict[str, Reading]()
    for place, attribute in enumerate(schema.domain):
        declared = f"{'an' if attribute.kind == 'integer' else 'a'} {attribute.kind}"
        field = _field(fields, column_of(attribute), declared)
        form = _form(field)
        if form is None or form not in accepted(attribute):
            raise SourceUnfit(
                f"The column {attribute.name} is declared as {declared}, and the table holds {_kind(field)} in it. "
                "Declare it as what it is, or ask a view that casts it."
            )
        listed.append(f"{_raw(field)} AS v{place}")
        readings[attribute.name] = reading(attribute, f"v{place}", form, SPARK)
    person, written = None, "{0}"
    if schema.unit.id is not None:
        field = _field(fields, schema.unit.id, "who a row is of")
        listed.append(f"{_raw(field)} AS {_WHO}")
        written = _person_text(field)
        person = f"CASE WHEN isnan({_WHO}) THEN NULL ELSE {_WHO} END" if _form(field) is Form.DOUBLE else _WHO
    view = _opened(lambda: named_view(rows.selectExpr(*listed or ["0 AS nothing"]), session, name))
    return Table(view, readings, SPARK, person, written)


def _person_text(field: StructField) -> str:
    """Return the pattern that writes an id as text."""
    kind = field.dataType.simpleString()
    if kind == "binary":
        return "lower(hex({0}))"
    if kind.startswith("decimal("):
        return person_text(Form.WHOLE if kind.endswith(",0)") else Form.DECIMAL, SPARK)
    return person_text(_form(field), SPARK)


def kept_folder(kept: str, schema: Schema, version: str, key: bytes) -> str:
    """Return the folder of the rows that were kept for a version, a schema and a key: each has one of its own."""
    return f"{kept.rstrip('/')}/{kept_digest(schema, version, key)[:32]}"


def kept_view(session: SparkSession, schema: Schema, place: str, name: str) -> Table:
    """Return how the rows that `write_kept` wrote are read; they must be whole, and within the cap."""
    where = place if "://" in place or over_network(session) else f"file:{Path(place).absolute()}"
    with quiet(), suppress(Exception):  # pyspark has no one family of errors
        rows = session.read.parquet(where)
        person = next(field for field in rows.schema.fields if field.name == PERSON)
        table = kept_table(schema, named_view(rows, session, name), SPARK, _person_text(person))
        (figures,) = session.sql(crowd(table).sql).collect()
        if figures[1] <= schema.unit.rows and figures[2] == 0:
            return table
    raise SourceUnfit(
        "No rows were kept for this version, schema and ledger, or they were changed. Run `dodona keep`, or take "
        "`kept` out of the dataset file."
    )


def write_kept(session: SparkSession, table: Table, place: str) -> None:
    """Write the rows that count, as codes."""
    where = place if "://" in place or over_network(session) else f"file:{Path(place).absolute()}"
    *columns, person = kept_columns(table)
    listed = ", ".join([*(f"CAST({code} AS INT) AS {code}" for code in columns), person])
    with quiet(), suppress(Exception):  # pyspark has no one family of errors
        session.sql(f"SELECT {listed} FROM {table.source}").write.mode("overwrite").parquet(where)  # noqa: S608
        return
    raise SourceUnfit("The rows cannot be written. Check that the folder of `kept` may be written to.")


def held_columns(rows: DataFrame) -> dict[str, Held]:
    """Return all columns as an owner's tools look at them."""
    fields = _opened(lambda: rows.schema).fields
    return {field.name: Held(_raw(field), _form(field), field.dataType.simpleString()) for field in fields}


def hold_readable(session: SparkSession, held: Table, asked: Table) -> None:
    """Read every declared column once, so that a value that cannot be read is the owner's to see, and nobody else's.

    A time in a file may be beyond what Spark counts to, and a view may compute what fails on some row. Found only when
    a question is asked, such a row would make answers fail, and so tell that it is there.
    """
    columns = [own.raw for own in held.readings.values()] + ([] if held.person is None else [_WHO])
    hashes = ", ".join(f"max(xxhash64({column}))" for column in columns)
    with quiet(), suppress(Exception):  # pyspark has no one family of errors
        session.sql(digest(asked, tuple(asked.readings)).sql).schema  # noqa: B018  looked at, not run
        session.sql(f"SELECT {hashes or 'count(*)'} FROM {held.source}").collect()  # noqa: S608  names of ours alone
        return
    raise SourceUnfit(
        "The table cannot be read: it holds values that Spark cannot read, such as times out of range, or its files "
        "are not whole, or the column of who a row is of has no type that can be told apart."
    )


def _opened(read: Callable[[], _Found]) -> _Found:
    with quiet(), suppress(Exception):  # pyspark has no one family of errors
        return read()
    raise SourceUnfit(
        "The table cannot be opened. Check its name or path, and the types in its files: write times in "
        "microseconds, as Spark reads no nanoseconds, and each column with one type and its own name."
    )


def _local(path: str | Path) -> str:
    return "file:" + _PATTERN.sub(r"\\\1", str(path))


def forget(session: SparkSession, name: str) -> None:
    """Drop a view, or the whole session of ours where it is one of Spark Connect."""
    if over_network(session):
        released(session)
        return
    with quiet(), suppress(Exception):  # where the engine has stopped, there is nothing to drop
        session.catalog.dropGlobalTempView(name)


def named_view(rows: DataFrame, session: SparkSession, name: str) -> str:
    """Make a view of rows, which may come from another session of the same engine; return what it is called in SQL."""
    if over_network(session):
        rows.createOrReplaceTempView(name)
        return name
    rows.createOrReplaceGlobalTempView(name)
    return f"{session.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}"


def _field(fields: Mapping[str, StructField], name: str, declared: str) -> StructField:
    if name in fields:
        return fields[name]
    alike = [other for other in fields if other.casefold() == name.casefold()]
    hint = f" It has {alike[0]}: write the name as it is there." if alike else " Add it to the table, or take it out."
    raise SourceUnfit(f"The column {name} is declared as {declared}, and the table does not have it.{hint}")


def _kind(field: StructField) -> str:
    """Return the name of a column's type, without its sizes: tinyint, string, decimal."""
    return re.split(r"[(<\s]", field.dataType.simpleString(), maxsplit=1)[0]


def _form(field: StructField) -> Form | None:
    kind = _kind(field)
    if kind == "decimal":
        digits = int(field.dataType.simpleString().removeprefix("decimal(").partition(",")[0])
        return Form.WIDE if digits <= _EXACT_DIGITS else Form.DECIMAL
    return Form.TEXT if kind in {"char", "varchar"} else _FORMS.get(kind)


def _raw(field: StructField) -> str:
    """Return SQL for a column; texts are compared byte by byte, whatever collation or width the table gives them."""
    own = SPARK.identifier(field.name)
    plain = field.dataType.simpleString() == "string" and _PADDED not in (field.metadata or {})
    return f"collate(concat({own}, ''), 'UTF8_BINARY')" if _form(field) is Form.TEXT and not plain else own
