"""A table of Spark, open for its owner: every column as it is, nothing capped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.backends.faults import SourceUnfit
from dodona.backends.inspection import Held, Row
from dodona.backends.spark_opening import folder, forget, fresh_name, held_columns, named, named_view, viewed
from dodona.backends.spark_session import ENGINE, beside, connected, over_network, quiet, released, running
from dodona.domain.schema import Schema
from dodona.sql.render import Statement, Table
from dodona.sql.render_dialect import SPARK, Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession


class SparkInspection:
    """An inspection. Open one with `parquet` or `remote`."""

    def __init__(self, session: SparkSession, rows: DataFrame, leave: Callable[[], None]) -> None:
        """Take a session of ours, rows that it can ask, and how the session is left."""
        self._session, self._rows, self._leave = session, rows, leave
        self._names = [fresh_name()]
        self._view = named_view(rows, session, self._names[0])
        self._columns = held_columns(rows)

    def __repr__(self) -> str:
        return "SparkInspection()"

    @classmethod
    def parquet(cls, path: str | Path) -> Self:
        """Open Parquet files: a folder, a file, a pattern with `*`, or an address that Spark knows."""
        given, leave = running(), _nothing
        if given is None or given is ENGINE.session:
            given, leave = ENGINE.take(), ENGINE.leave
        return cls._opened(lambda: beside(given), lambda own: folder(own, path), leave)

    @classmethod
    def remote(cls, address: str, *, table: str) -> Self:
        """Open a table of a Spark Connect server."""
        session = connected(address)
        return cls._opened(lambda: session, lambda own: named(own, table), _nothing)

    @property
    def dialect(self) -> Dialect:
        """How Spark writes SQL."""
        return SPARK

    @property
    def source(self) -> str:
        """SQL that can stand after FROM."""
        return self._view

    @property
    def columns(self) -> Mapping[str, Held]:
        """All columns, in the order of the table."""
        return self._columns

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the rows of a statement."""
        with quiet(), suppress(Exception):  # pyspark has no one family of errors
            return [tuple(row) for row in self._session.sql(sql).collect()]
        raise SourceUnfit("The rows of the table cannot be read. Look into Spark's own log.")

    def fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a rendered statement's answer."""
        rows = self.fetch(asked.sql)
        return [np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True)]

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        self._names.append(fresh_name())
        return viewed(self._rows, schema, self._session, self._names[-1])

    def close(self) -> None:
        """Let go of the table; a session that was running before goes on."""
        for name in self._names:
            forget(self._session, name)
        self._leave()

    @classmethod
    def _opened(
        cls, session: Callable[[], SparkSession], rows: Callable[[SparkSession], DataFrame], leave: Callable[[], None]
    ) -> Self:
        own: SparkSession | None = None
        try:
            own = session()
            return cls(own, rows(own), leave)
        except BaseException:
            if own is not None and over_network(own):
                released(own)
            leave()
            raise


def _nothing() -> None:
    """Leave a session that somebody else started as it is."""
