"""The truth, which only a made-up table may tell: the same questions asked of DuckDB, without noise.

It is about the rows that count: of a patient with many stays only some do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import duckdb
import numpy as np

from dodona.answer.answer import Answer
from dodona.answer.estimate import Estimate, label_text, to_float
from dodona.engines.cap import rows_within_cap
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class Judged:
    """An estimate beside the truth."""

    group: str
    column: str
    estimate: Estimate
    truth: float

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth."""
        return to_float(self.estimate.low) <= self.truth <= to_float(self.estimate.high)


class Truth:
    """The rows without protection. It is a context manager."""

    def __init__(self, rows: Path, schema: Schema, key: bytes) -> None:
        """Read Parquet, and keep the rows that count, which the key of the ledger chooses."""
        self._database = duckdb.connect()
        self._database.execute("CREATE TABLE everyone AS SELECT * FROM read_parquet($path)", {"path": str(rows)})
        read = self._database.execute("SELECT * FROM everyone").fetchnumpy()
        codes = {
            attribute.name: encode(attribute, np.ma.filled(read[attribute.name], np.nan)) for attribute in schema.domain
        }
        counts = rows_within_cap(schema, codes, np.ma.getdata(read[schema.unit.id or ""]), key)
        self._database.register("capped", {"counts": counts})
        self._database.execute(
            "CREATE TABLE stays AS SELECT everyone.* FROM everyone POSITIONAL JOIN capped WHERE counts"
        )

    def judged(self, answer: object, sql: str) -> tuple[Judged, ...]:
        """Return the estimates of an answer to one question whose truth exists: an average of no rows has none."""
        if not isinstance(answer, Answer):
            raise TypeError("only answers to plain questions are judged")
        exact = {self._group(row, answer): row for row in self._database.execute(sql).fetchall()}
        names = [name for name, estimated in zip(answer.columns, answer.estimated, strict=True) if estimated]
        cells = []
        for row in answer.rows:
            group = ", ".join(map(label_text, row.keys))
            truths = exact.get(group)
            values = _nothing(answer) if truths is None else truths[len(row.keys) :]
            for name, estimate, value in zip(names, row.estimates, values, strict=True):
                if value is not None:
                    cells.append(Judged(group, name, estimate, float(value)))
        return tuple(cells)

    def ranked(self, sql: str) -> tuple[tuple[str, int], ...]:
        """Return groups and counts, the largest first."""
        return tuple(sorted(self._database.execute(sql).fetchall(), key=lambda row: -row[1]))

    def count(self, sql: str) -> int:
        """Return one count."""
        row = self._database.execute(sql).fetchone()
        return 0 if row is None else int(row[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @staticmethod
    def _group(row: tuple[object, ...], answer: Answer) -> str:
        keys = row[: len(answer.question.keys)]
        return ", ".join("<missing>" if key is None else str(key) for key in keys)


def _nothing(answer: Answer) -> list[float | None]:
    """Return what is true of a group without rows: a count is 0, anything else has no value."""
    from dodona.query.question import Total

    expressions = [column.expression for column in answer.question.columns]
    return [
        0.0 if isinstance(expression, Total) else None
        for expression, is_estimate in zip(expressions, answer.estimated, strict=True)
        if is_estimate
    ]
