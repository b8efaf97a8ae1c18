"""Relations that the outer half of a statement reads: the released rows of each question, and their redraws."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dodona.answer import outer
from dodona.answer.answer import Answer
from dodona.answer.estimate import Estimate, label_text
from dodona.answer.redraws import RedrawnPart, value_columns
from dodona.answer.rows import group_values, key_columns
from dodona.numbers import Doubles, Integers
from dodona.query.question import KeyLabel, Quantile, Question
from dodona.query.statement import DRAW, RELATION, ROW, Statement
from dodona.schema.attributes import Date, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

# --- Released rows, and made-up ones of all groups. ---


_INTEGER_BITS = 63  # what SQL has no integer for is a double


def _array(values: Sequence[Any]) -> pa.Array:
    """Return keys in one type: numbers, booleans, dates or texts, and null for NULL."""
    import pyarrow as pa

    known = {type(value) for value in values if value is not None}
    long = known == {int} and any(value is not None and value.bit_length() > _INTEGER_BITS for value in values)
    if long or (known <= {int, float} and float in known):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(known) == 1:
        return pa.array(values)
    return pa.array([None if value is None else label_text(value) for value in values], pa.string())


def released_rows(part: Answer) -> dict[str, Any]:
    """Return the columns of an answer: keys in their types, and values as doubles, or dates."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    keys = [place for place in part.key_places if place is not None]
    for number, place in enumerate(keys):
        columns[f"k{number}"] = _array([row.values[place] for row in part.rows])
    for number, column in enumerate(value_columns(part)):
        cells = [row.cells[column] for row in part.rows]
        plain = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        if any(isinstance(value, date) for value in plain):
            times = any(isinstance(value, datetime) for value in plain)
            columns[f"v{number}"] = pa.array(plain, pa.timestamp("s") if times else pa.date32())
        else:
            numbers = [None if value is None else float(value) for value in cast("list[float | None]", plain)]
            columns[f"v{number}"] = pa.array(numbers, pa.float64())
    columns[ROW] = pa.array(range(len(part.rows)), pa.int64())
    return columns


def rehearse_statement(statement: Statement) -> None:
    """Run the outer half on made-up values of all groups, so that what cannot be computed is refused before any charge.

    Groups are public, so the size of results, the types and the time are those of the real run. Values are small, large
    and negative: what fails for some of them, such as a day so many years from now, is refused for all.
    """
    outer.require_arrow()
    for first in (1, _FAR, -_FAR):
        relations = {f"{RELATION}{number}": _made_up(part, first) for number, part in enumerate(statement.parts)}
        outer.run(statement.sql, relations)


_FAR = 10**9


@lru_cache(maxsize=64)
def _made_up(question: Question, first: int) -> pa.Table:
    import pyarrow as pa

    keys = group_values(question)
    count = len(keys) if question.keys else 1
    columns: dict[str, Any] = {}
    shown = [
        (column.expression, column.read_as) for column in question.columns if isinstance(column.expression, KeyLabel)
    ]
    for number, key in enumerate(shown):
        place = key_columns(question).index(key)
        columns[f"k{number}"] = _array([row[place] for row in keys])
    rest = [column for column in question.columns if not isinstance(column.expression, KeyLabel)]
    for number, column in enumerate(rest):
        expression = column.expression
        column_read = question.domain[expression.attribute] if isinstance(expression, Quantile) else None
        if isinstance(column_read, Date | Timestamp):
            kind = pa.date32() if isinstance(column_read, Date) else pa.timestamp("s")
            columns[f"v{number}"] = pa.array([datetime(2000, 1, 1)] * count, kind)  # noqa: DTZ001  UTC
        else:
            columns[f"v{number}"] = pa.array([float(group + first) for group in range(count)], pa.float64())
    columns[ROW] = pa.array(range(count), pa.int64())
    return pa.table(columns)


# --- Redraws: every relation once for each of them, and which of their rows are which of the result. ---


def redrawn_rows(part: Answer, drawn: RedrawnPart, total: int) -> pa.Table:
    """Return the rows of an answer once for each redraw, numbered; the last one has the released values."""
    import pyarrow as pa

    rows, released = len(part.rows), released_rows(part)
    columns: dict[str, Any] = {DRAW: np.repeat(np.arange(total), rows)}
    for name, column in released.items():
        if not name.startswith("v"):
            columns[name] = column.take(pa.array(np.tile(np.arange(rows), total)))
    for place, values in enumerate(drawn.values):
        column = released[f"v{place}"]
        released_values = to_doubles(column)
        flat = np.concatenate([np.broadcast_to(values, (total - 1, rows)), released_values[None, :]]).reshape(-1)
        columns[f"v{place}"] = _redrawn_column(flat, column.type)
    return pa.table(columns)


def _redrawn_column(values: Doubles, kind: Any) -> Any:  # noqa: ANN401  Arrow ships no types
    import pyarrow as pa

    if pa.types.is_date(kind):
        days = np.where(np.isfinite(values), np.clip(np.rint(values), 1, 3_652_059), np.nan)
        return pa.array([None if day != day else date.fromordinal(int(day)) for day in days.tolist()], pa.date32())  # noqa: PLR0124  NaN
    if pa.types.is_timestamp(kind):
        seconds = np.where(np.isfinite(values), np.rint((np.clip(values, 1, 3_652_059) - _FIRST_DAY) * 86_400), np.nan)
        return pa.array(seconds, pa.float64(), mask=np.isnan(seconds)).cast(pa.int64()).cast(kind)
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def match_rows(
    result: pa.Table, drawn: pa.Table, number: Integers, identity: Sequence[int], numeric: Sequence[int]
) -> Integers:
    """Return for each redrawn row which row of the result it is; -1 if none.

    Rows that look alike are told apart by their order within a redraw, which is that of the released rows. The last
    redraw is the result itself: its values say which of them is which.
    """
    import pyarrow as pa

    count = result.num_rows
    codes: Integers = np.zeros(count + drawn.num_rows, dtype=np.int64)
    for place in identity:
        both = pa.chunked_array(
            [*result.column(place).chunks, *drawn.column(place + 1).cast(result.schema.field(place).type).chunks],
            type=result.schema.field(place).type,
        )
        indices = both.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (int(indices.max(initial=0)) + 1) + indices, return_inverse=True)
    shown, redrawn = codes[:count], codes[count:]
    order = np.lexsort((redrawn, number))
    starts = np.flatnonzero(np.r_[True, (np.diff(redrawn[order]) != 0) | (np.diff(number[order]) != 0)])
    times = np.empty(len(redrawn), dtype=np.int64)  # which of those that look alike in its redraw a row is
    lengths = np.diff(np.r_[starts, len(order)])
    times[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    keys = redrawn * (int(times.max(initial=0)) + 1) + times
    last = np.flatnonzero(number == int(number.max(initial=0)))
    values = np.stack([to_doubles(drawn.column(place + 1))[last] for place in numeric])
    wanted = np.stack([to_doubles(result.column(place)) for place in numeric])
    row_by_key: Integers = np.full(int(keys.max(initial=0)) + 1, -1, dtype=np.int64)
    free = np.ones(len(last), dtype=np.bool_)
    by_code: dict[int, list[int]] = {}
    for place, code in enumerate(redrawn[last].tolist()):
        by_code.setdefault(code, []).append(place)
    for row, code in enumerate(shown.tolist()):
        alike = [place for place in by_code.get(code, ()) if free[place]]
        if len(alike) > 1:
            alike = [
                place for place in alike if np.allclose(values[:, place], wanted[:, row], rtol=1e-9, equal_nan=True)
            ]
        if alike:
            free[alike[0]] = False
            row_by_key[keys[last[alike[0]]]] = row
    matched: Integers = row_by_key[keys]
    return matched


_FIRST_DAY = date(1970, 1, 1).toordinal()  # Arrow counts days from there


def to_doubles(column: Any) -> Doubles:  # noqa: ANN401  Arrow ships no types
    """Return a column of numbers as doubles, NaN for NULL; dates and times count days as `date.toordinal` does."""
    import pyarrow as pa

    if pa.types.is_date(column.type):
        return _doubles(column.cast(pa.int32())) + _FIRST_DAY
    if pa.types.is_timestamp(column.type):
        return _doubles(column.cast(pa.timestamp("us")).cast(pa.int64())) / 86_400e6 + _FIRST_DAY
    return _doubles(column)


def _doubles(column: Any) -> Doubles:  # noqa: ANN401  Arrow ships no types
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
