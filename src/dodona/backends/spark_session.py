"""Sessions of Spark: one of our own beside the user's, with the settings that the dialect counts on.

A session that a user gives is never changed, nor stopped. What is set here is set in a session beside it, which shares
its engine and has settings of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dodona.backends.faults import SourceUnfit
from dodona.sql.render_dialect import SPARK

SETTINGS = {
    # No statement fails because of a value.
    "spark.sql.ansi.enabled": "false",
    # Literals and names are read as they stand.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.groupByAliases": "true",
    # Days are days in UTC and in the calendar of today, also before 1582.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Nothing is skipped by the least and the largest value of a part: one row would show in the time of an answer.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.avro.filterPushdown.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.databricks.delta.stats.skipping": "false",
    # Types are those of the files; nothing is guessed and no file is left out.
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
    "spark.authenticate": "true",  # nobody else on this machine may fetch blocks of rows
    "spark.io.encryption.enabled": "true",  # rows that are sorted or regrouped pass through files
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "16",
}
_NO_LOG = (  # a message of the engine may hold a value; without an appender Spark would bring its own settings
    "status = off\nappender.none.type = Null\nappender.none.name = none\n"
    "rootLogger.level = off\nrootLogger.appenderRef.none.ref = none\n"
)
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_here = threading.local()


class _Engine:
    """The one local engine that this process may have started, and how many sources hold it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self.session: SparkSession | None = None
        self._folder = ""

    def take(self) -> SparkSession:
        """Return a session of it; start it if it is not running."""
        with self._lock:
            if self.session is None:
                self._folder = tempfile.mkdtemp(prefix="dodona-spark-")
                self.session = _started(Path(self._folder))
            self._holders += 1
            return self.session

    def leave(self) -> None:
        """Stop it when its last holder leaves."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self.session is not None:
                self.session.stop()
                self.session = None
                shutil.rmtree(self._folder, ignore_errors=True)


ENGINE = _Engine()


def running() -> SparkSession | None:
    """Return the session that this process works with, if there is one.

    The first one that was made comes before the active one, which may be one of ours beside it.
    """
    first = getattr(SparkSession, "_instantiatedSession", None)
    with quiet(), suppress(Exception):
        return SparkSession.active() if first is None or first._jsc.sc().isStopped() else first  # noqa: SLF001
    return None


def beside(session: SparkSession) -> SparkSession:
    """Return a new session that shares the engine of another one and none of its settings.

    Over Spark Connect it is a copy that knows the other's temporary views; else it does not know them.
    """
    if over_network(session) and not hasattr(session, "cloneSession"):
        raise SourceUnfit("The session cannot be copied. Give the address of the server instead: remote=.")
    return _set(_impatient(session.cloneSession()) if over_network(session) else session.newSession())  # type: ignore[attr-defined]


def connected(address: str) -> SparkSession:
    """Return a session of a Spark Connect server."""
    with quiet(), suppress(Exception):  # the address may hold a token, and so may the words of an error
        from pyspark.sql.connect.session import SparkSession as Remote

        return _set(_impatient(Remote(address)))  # type: ignore[arg-type]
    raise SourceUnfit(
        "The Spark Connect server does not answer. Check its address, such as sc://host:15002, and that grpcio is "
        "there: pip install 'dodona[spark]'."
    )


def _impatient(session: SparkSession) -> SparkSession:
    """Let a session of Spark Connect give up after seconds; else it asks a server that is gone for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    _client(session).set_retry_policies([DefaultPolicy(max_retries=4)])
    return session


def released(session: SparkSession) -> None:
    """Let a server forget a session of ours, and hang up; `stop` might end a server that a user has started."""
    with quiet(), suppress(Exception):
        _client(session).release_session()
    with quiet(), suppress(Exception):
        _client(session).close()


def _client(session: Any) -> Any:  # noqa: ANN401  only sessions of Spark Connect have one
    return session.client


def over_network(session: object) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what pyspark would log of this thread's failures to itself: an engine's words may hold a value."""
    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if _spoken not in logger.filters:
            logger.addFilter(_spoken)
    before = getattr(_here, "quiet", False)
    _here.quiet = True
    try:
        yield
    finally:
        _here.quiet = before


def _spoken(_: object) -> bool:
    return not getattr(_here, "quiet", False)


def _set(session: SparkSession) -> SparkSession:
    for name, value in SETTINGS.items():
        if _setting(session, name) != value:  # to set what is set already may bring a warning
            session.conf.set(name, value)
    ((well,),) = session.sql(_PROBE).collect()
    if not well:
        raise SourceUnfit("This version of Spark reads SQL in another way than Spark 4. Use Spark 4.0 or newer.")
    return session


def _setting(session: SparkSession, name: str) -> str | None:
    with quiet(), suppress(Exception):
        return session.conf.get(name)
    return None  # this version of Spark does not know it


_AWKWARD = "'\\${a}\\n"
_PROBE = (
    f"SELECT {SPARK.literal(_AWKWARD)} = concat(chr(39), chr(92), chr(36), '{{a}}', chr(92), 'n') "
    "AND typeof(1e0) = 'double' AND try_cast('x' AS INT) IS NULL AND CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)"
)


def _started(folder: Path) -> SparkSession:
    """Return a session of a new local engine that listens to this machine alone, and keeps its files in a folder."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SourceUnfit("Spark needs Java 17, and there is no `java`. Install it, or set JAVA_HOME.")
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
    with quiet(), suppress(Exception):
        return builder.getOrCreate()
    raise SourceUnfit("Spark does not start. It needs Java 17 or newer, and a loopback address.")
