"""Spark sessions with the settings that the dialect relies on, and how a table's columns are read in them.

Dodona uses a separate session beside the user's, and never stops an engine that it did not start.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dodona.engines import cap, cells
from dodona.engines.dialects import SPARK
from dodona.engines.files import list_files, list_folder_files, pattern_base, require_same_files
from dodona.engines.inspection import SourceColumn
from dodona.engines.render import Table, digest_statement
from dodona.schema.attributes import source_column_name
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField


# --- Spark sessions: a separate one beside the user's, with the settings that the dialect relies on. ---


SETTINGS = {
    # No statement fails because of a value.
    "spark.sql.ansi.enabled": "false",
    # Literals and names are taken literally.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.groupByAliases": "true",
    # Days are in UTC and in the proleptic Gregorian calendar, also before 1582.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Nothing is skipped by min/max statistics: one row would show in the time of an answer.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.avro.filterPushdown.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.databricks.delta.stats.skipping": "false",
    # Types are those of the files; nothing is guessed and no file is skipped.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_STARTED = {
    "spark.app.name": "dodona",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",  # no other user of this machine may fetch blocks of rows
    "spark.io.encryption.enabled": "true",  # sorted or shuffled rows pass through files
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "16",
    # The parser keeps how it read every statement; without a limit the memory of a long-lived engine fills with that.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushRatio": "20",
}
_NO_LOG = (  # engine messages may hold a value; without an appender Spark would load its default settings
    "status = off\nappender.none.type = Null\nappender.none.name = none\n"
    "rootLogger.level = off\nrootLogger.appenderRef.none.ref = none\n"
)
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_thread_state = threading.local()


class _LocalEngine:
    """The only local engine that this process may have started, and the number of sources that use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self.session: SparkSession | None = None
        self._folder = ""

    def take(self) -> SparkSession:
        """Return a session of the engine, starting it if it is not running."""
        with self._lock:
            if self.session is None:
                self._folder = tempfile.mkdtemp(prefix="dodona-spark-")
                self.session = _start_engine(Path(self._folder))
            self._holders += 1
            return self.session

    def leave(self) -> None:
        """Stop the engine when its last user leaves."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self.session is not None:
                self.session.stop()
                self.session = None
                shutil.rmtree(self._folder, ignore_errors=True)


LOCAL_ENGINE = _LocalEngine()


def current_session() -> SparkSession | None:
    """Return the current session of this process, if any.

    The first session created takes precedence over the active one, which may be Dodona's.
    """
    first = getattr(SparkSession, "_instantiatedSession", None)
    with silence_logging(), suppress(Exception):
        return SparkSession.active() if first is None or first._jsc.sc().isStopped() else first  # noqa: SLF001
    return None


def sibling_session(session: SparkSession) -> SparkSession:
    """Return a new session that shares another one's engine but none of its settings.

    Over Spark Connect it is a copy that knows the other's temporary views; otherwise it does not know them.
    """
    if is_connect_session(session) and not hasattr(session, "cloneSession"):
        raise cells.SourceUnfit("The session cannot be copied. Give the address of the server instead: remote=.")
    if is_connect_session(session):
        return _apply_settings(_limit_retries(session.cloneSession()))  # type: ignore[attr-defined]
    return _apply_settings(session.newSession())


def connect(address: str) -> SparkSession:
    """Return a session of a Spark Connect server."""
    with silence_logging(), suppress(Exception):  # the address may hold a token, and so may an error message
        from pyspark.sql.connect.session import SparkSession as Remote

        return _apply_settings(_limit_retries(Remote(address)))  # type: ignore[arg-type]
    raise cells.SourceUnfit(
        "The Spark Connect server does not answer. Check its address, such as sc://host:15002, and that grpcio is "
        "there: pip install 'dodona[spark]'."
    )


def _limit_retries(session: SparkSession) -> SparkSession:
    """Make a Spark Connect session give up after seconds; by default it retries a lost server for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    _client(session).set_retry_policies([DefaultPolicy(max_retries=4)])
    return session


def release_session(session: SparkSession) -> None:
    """Release our session on the server and disconnect; `stop` might end a server that a user has started."""
    with silence_logging(), suppress(Exception):
        _client(session).release_session()
    with silence_logging(), suppress(Exception):
        _client(session).close()


def _client(session: Any) -> Any:  # noqa: ANN401  only sessions of Spark Connect have one
    return session.client


def is_connect_session(session: object) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def silence_logging() -> Iterator[None]:
    """Suppress what pyspark would log of this thread's failures: engine messages may hold a value."""
    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if _may_log not in logger.filters:
            logger.addFilter(_may_log)
    before = getattr(_thread_state, "quiet", False)
    _thread_state.quiet = True
    try:
        yield
    finally:
        _thread_state.quiet = before


def _may_log(_: object) -> bool:
    return not getattr(_thread_state, "quiet", False)


def _apply_settings(session: SparkSession) -> SparkSession:
    for name, value in SETTINGS.items():
        if _setting(session, name) != value:  # setting an unchanged value may cause a warning
            session.conf.set(name, value)
    ((well,),) = session.sql(_PROBE).collect()
    if not well:
        raise cells.SourceUnfit("This version of Spark reads SQL in another way than Spark 4. Use Spark 4.0 or newer.")
    return session


def _setting(session: SparkSession, name: str) -> str | None:
    with silence_logging(), suppress(Exception):
        return session.conf.get(name)
    return None  # unknown in this version of Spark


_AWKWARD = "'\\${a}\\n"
_PROBE = (
    f"SELECT {SPARK.literal(_AWKWARD)} = concat(chr(39), chr(92), chr(36), '{{a}}', chr(92), 'n') "
    "AND typeof(1e0) = 'double' AND try_cast('x' AS INT) IS NULL AND CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)"
)


def _start_engine(folder: Path) -> SparkSession:
    """Return a session of a new local engine that listens only on this machine, and keeps its files in a folder."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise cells.SourceUnfit("Spark needs Java 17, and there is no `java`. Install it, or set JAVA_HOME.")
    log = folder / "log4j2.properties"
    log.write_text(_NO_LOG, encoding="ascii")
    settings = _STARTED | {
        "spark.local.dir": str(folder / "blocks"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()}",
    }
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with silence_logging(), suppress(Exception):
        return builder.getOrCreate()
    raise cells.SourceUnfit("Spark does not start. It needs Java 17 or newer, and a loopback address.")


# --- Opening a table in Spark: read names and types, and rename the declared columns. ---


_PERSON_COLUMN = "who"
_FORMS = {
    "string": cells.ColumnForm.TEXT,
    "boolean": cells.ColumnForm.TRUTH,
    "date": cells.ColumnForm.DAY,
    "timestamp_ntz": cells.ColumnForm.TIME,
    "timestamp": cells.ColumnForm.ZONED,
    "void": cells.ColumnForm.NOTHING,
    **dict.fromkeys(("float", "double"), cells.ColumnForm.DOUBLE),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), cells.ColumnForm.WHOLE),
}
_PADDED_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark records that texts have a fixed width
_PATTERN = re.compile(r"([\\{}\[\]*?])")
_view_numbers = itertools.count()
_ResultT = TypeVar("_ResultT")


def read_parquet(session: SparkSession, path: str | Path) -> DataFrame:
    """Return the rows of Parquet files: of a folder, a file, a pattern with `*`, or an address such as s3a://.

    Files on this machine are listed here and passed one by one; for an address, or a server's machine, the engine lists
    them.
    """
    text = str(path)
    reader = session.read.option("mergeSchema", "true")
    if is_connect_session(session) or ("://" in text and not text.startswith("file:")):
        return _read_or_refuse(lambda: reader.parquet(text))
    place = Path(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    files = list_folder_files(place) if place.is_dir() else list_files(place)
    root = place.resolve() if place.is_dir() else pattern_base(place)
    local = ["file:" + _PATTERN.sub(r"\\\1", name) for name in files]
    rows = _read_or_refuse(lambda: reader.option("basePath", f"file:{root}").parquet(*local))
    require_same_files(files, (unquote(urlsplit(name).path) for name in _read_or_refuse(rows.inputFiles)))
    return rows


def read_table(session: SparkSession, name: str) -> DataFrame:
    """Return the rows of a table or a view that a session knows."""
    return _read_or_refuse(lambda: session.table(name))


def fresh_name() -> str:
    """Return a view name that no other source of this process uses."""
    return f"dodona_{next(_view_numbers)}"


def view_table(rows: DataFrame, schema: Schema, session: SparkSession, name: str) -> Table:
    """Return how the declared columns and the person id are read, from a view that our session can query.

    The view holds only the declared columns, as v0, v1 and so on, so that no name in a table collides with ours. It
    holds all rows.
    """
    fields = {field.name: field for field in _read_or_refuse(lambda: rows.schema).fields}
    listed, readings = list[str](), dict[str, cells.ColumnReading]()
    for place, attribute in enumerate(schema.domain):
        field = cells.find_column(fields, source_column_name(attribute), attribute)
        form = cells.require_form(attribute, _form(field), _kind(field))
        listed.append(f"{_raw(field)} AS v{place}")
        readings[attribute.name] = cells.read_column(attribute, f"v{place}", form, SPARK)
    person, written = None, "{0}"
    if schema.unit.id is not None:
        field = cells.find_column(fields, schema.unit.id, None)
        listed.append(f"{_raw(field)} AS {_PERSON_COLUMN}")
        written = _person_text(field)
        person = _PERSON_COLUMN
        if _form(field) is cells.ColumnForm.DOUBLE:
            person = f"CASE WHEN isnan({_PERSON_COLUMN}) THEN NULL ELSE {_PERSON_COLUMN} END"
    view = _read_or_refuse(lambda: create_view(rows.selectExpr(*listed or ["0 AS nothing"]), session, name))
    return Table(view, readings, SPARK, person, written)


def _person_text(field: StructField) -> str:
    """Return the pattern that writes an id as text."""
    kind = field.dataType.simpleString()
    if kind == "binary":
        return "lower(hex({0}))"
    if kind.startswith("decimal("):
        return cap.id_text_pattern(cells.ColumnForm.WHOLE if kind.endswith(",0)") else cells.ColumnForm.DECIMAL, SPARK)
    return cap.id_text_pattern(_form(field), SPARK)


def kept_rows_folder(kept: str, schema: Schema, version: str, key: bytes) -> str:
    """Return the folder of the stored rows of a version, schema and key: each combination has a separate one."""
    return f"{kept.rstrip('/')}/{cap.kept_digest(schema, version, key)[:32]}"


def kept_rows_view(session: SparkSession, schema: Schema, place: str, name: str) -> Table:
    """Return how the rows that `write_kept_rows` wrote are read; they must be complete and within the cap."""
    with silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
        rows = session.read.parquet(_kept_address(session, place))
        person = next(field for field in rows.schema.fields if field.name == cap.PERSON_COLUMN)
        table = cap.kept_table(schema, create_view(rows, session, name), SPARK, _person_text(person))
        (figures,) = session.sql(cap.excess_statement(schema, table).sql).collect()
        if figures[1] <= 0 and figures[2] == 0:
            return table
    raise cells.SourceUnfit(
        "No rows were kept for this version, schema and ledger, or they were changed. Run `dodona keep`, or take "
        "`kept` out of the dataset file."
    )


def write_kept_rows(session: SparkSession, table: Table, place: str) -> None:
    """Write the counted rows as codes."""
    *columns, person = cap.kept_columns(table.readings)
    listed = ", ".join([*(f"CAST({code} AS INT) AS {code}" for code in columns), person])
    with silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
        rows = session.sql(f"SELECT {listed} FROM {table.source}")  # noqa: S608
        rows.write.mode("overwrite").parquet(_kept_address(session, place))
        return
    raise cells.SourceUnfit("The rows cannot be written. Check that the folder of `kept` may be written to.")


def _kept_address(session: SparkSession, place: str) -> str:
    return place if "://" in place or is_connect_session(session) else f"file:{Path(place).absolute()}"


def describe_columns(rows: DataFrame) -> dict[str, SourceColumn]:
    """Return all columns as the owner's tools see them."""
    fields = _read_or_refuse(lambda: rows.schema).fields
    return {field.name: SourceColumn(_raw(field), _form(field), field.dataType.simpleString()) for field in fields}


def require_readable(session: SparkSession, held: Table, asked: Table) -> None:
    """Read every declared column once, so that only the owner sees a value that cannot be read.

    A time in a file may be out of Spark's range, and a view may fail on some row. If found only during a question, such
    a row would make answers fail, and so reveal its presence.
    """
    columns = [reading.raw for reading in held.readings.values()] + ([] if held.person is None else [_PERSON_COLUMN])
    hashes = ", ".join(f"max(xxhash64({column}))" for column in columns)
    with silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
        session.sql(digest_statement(asked).sql).schema  # noqa: B018  looked at, not run
        session.sql(f"SELECT {hashes or 'count(*)'} FROM {held.source}").collect()  # noqa: S608  names of ours alone
        return
    raise cells.SourceUnfit(
        "The table cannot be read: it holds values that Spark cannot read, such as times out of range, or its files "
        "are not whole, or the column that identifies people has a type that cannot be compared."
    )


def _read_or_refuse(read: Callable[[], _ResultT]) -> _ResultT:
    with silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
        return read()
    raise cells.SourceUnfit(
        "The table cannot be opened. Check its name or path, and the types in its files: write times in "
        "microseconds, as Spark reads no nanoseconds, and each column with one type and its own name."
    )


def drop_view(session: SparkSession, name: str) -> None:
    """Drop a view, or our whole session over Spark Connect."""
    if is_connect_session(session):
        release_session(session)
        return
    with silence_logging(), suppress(Exception):  # nothing to drop if the engine has stopped
        session.catalog.dropGlobalTempView(name)


def create_view(rows: DataFrame, session: SparkSession, name: str) -> str:
    """Create a view of rows, possibly from another session of the same engine; return its SQL name."""
    if is_connect_session(session):
        rows.createOrReplaceTempView(name)
        return name
    rows.createOrReplaceGlobalTempView(name)
    return f"{session.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}"


def _kind(field: StructField) -> str:
    """Return the name of a column's type without its sizes: tinyint, string, decimal."""
    return re.split(r"[(<\s]", field.dataType.simpleString(), maxsplit=1)[0]


def _form(field: StructField) -> cells.ColumnForm | None:
    kind = _kind(field)
    if kind == "decimal":
        return cells.decimal_form(int(field.dataType.simpleString().removeprefix("decimal(").partition(",")[0]))
    return cells.ColumnForm.TEXT if kind in {"char", "varchar"} else _FORMS.get(kind)


def _raw(field: StructField) -> str:
    """Return SQL for a column; texts are compared byte by byte, whatever the table's collation or width."""
    identifier = SPARK.identifier(field.name)
    plain = field.dataType.simpleString() == "string" and _PADDED_TYPE_KEY not in (field.metadata or {})
    return (
        f"collate(concat({identifier}, ''), 'UTF8_BINARY')"
        if _form(field) is cells.ColumnForm.TEXT and not plain
        else identifier
    )
