"""Answers as text, JSON, and tables of other libraries: local ones, and those that came from a server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dodona.answer.estimate import (
    AnswerSource,
    Cell,
    ColumnAccuracy,
    Coverage,
    Estimate,
    EstimateValue,
    Row,
    column_accuracy,
    decimal_places,
    format_number,
    label_text,
    single_estimate,
)
from dodona.errors import InvalidRequest, printable, printable_json
from dodona.privacy.accuracy import Against
from dodona.privacy.budget import Price
from dodona.schema.attributes import Label

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes


class QuestionText(Protocol):
    """A question as it was written."""

    @property
    def text(self) -> str:
        """The text of the question, or a description of it."""


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """The text of a question that was read from JSON."""

    text: str


class AnswerTable(Protocol):
    """What there is to show of an answer, whether it was computed here or came from a server."""

    @property
    def question(self) -> QuestionText: ...  # noqa: D102  documented by `Answer`, as all that follow
    @property
    def columns(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def estimated(self) -> tuple[bool, ...]: ...  # noqa: D102
    @property
    def approximate(self) -> tuple[bool, ...]: ...  # noqa: D102
    @property
    def key_places(self) -> tuple[int | None, ...]: ...  # noqa: D102
    @property
    def lower_bounds(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def rows(self) -> tuple[Row, ...]: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102
    @property
    def coverage(self) -> Coverage: ...  # noqa: D102
    @property
    def source(self) -> AnswerSource: ...  # noqa: D102
    @property
    def price(self) -> Price: ...  # noqa: D102
    @property
    def mechanism(self) -> str: ...  # noqa: D102
    @property
    def theorem(self) -> str: ...  # noqa: D102
    @property
    def receipt(self) -> str | None: ...  # noqa: D102
    @property
    def head(self) -> str | None: ...  # noqa: D102
    @property
    def version(self) -> str | None: ...  # noqa: D102
    @property
    def stale(self) -> bool: ...  # noqa: D102
    @property
    def about(self) -> str: ...  # noqa: D102
    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def reused(self) -> bool: ...  # noqa: D102


class Displayed:
    """What every answer can be turned into: its single value, text, JSON, tables of other libraries, a picture."""

    __slots__ = ()

    @property
    def value(self: AnswerTable) -> Estimate:
        """The single estimate of an answer with one cell."""
        return single_estimate(self.rows)

    @property
    def accuracy(self: AnswerTable) -> tuple[ColumnAccuracy, ...]:
        """The worst and the typical half-width of each column of estimates."""
        return column_accuracy(self.columns, self.estimated, self.rows)

    def to_json(self: AnswerTable) -> str:
        """Return the answer as JSON text, in a stable format; docs/answers.md describes it."""
        return to_json(self)

    def to_arrow(self: AnswerTable, *, typed: bool = True) -> pa.Table:
        """Return an Arrow table: keys, and for each estimate its value, `_low` and `_high`.

        Keys are numbers, booleans, days, times or texts, and null where they are missing. With `typed=False` they are
        labels as an answer shows them: texts such as `2024-01` and `<missing>`.
        """
        return to_arrow(self, typed=typed)

    def to_pandas(self: AnswerTable, *, typed: bool = True) -> pd.DataFrame:
        """Return a pandas frame: keys, and for each estimate its value, `_low` and `_high`; `typed` as in Arrow."""
        return to_pandas(self, typed=typed)

    def to_polars(self: AnswerTable, *, typed: bool = True) -> pl.DataFrame:
        """Return a polars frame: keys, and for each estimate its value, `_low` and `_high`; `typed` as in Arrow."""
        return to_polars(self, typed=typed)

    def plot(self: AnswerTable, axes: Axes | None = None) -> Axes:
        """Draw the values with their intervals; needs the `plot` extra."""
        from dodona.answer import picture

        return picture.plot(self, axes)

    def __str__(self: AnswerTable) -> str:
        return to_text(self)

    __repr__ = __str__  # so that a prompt shows the table

    def _repr_html_(self: AnswerTable) -> str:
        from dodona.answer import picture

        return picture.to_html(self)


# --- Answers as text: a plain table, and JSON in a stable format. ---


_ROWS_OF_TEXT = 60
JSON_FORMAT = 1


def to_text(answer: AnswerTable) -> str:
    """Return a plain table, followed by notes on the numbers."""
    cells = [[cell_text(cell) for cell in row.cells] for row in answer.rows[:_ROWS_OF_TEXT]]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    aligned = [_line(heads, widths, answer.estimated), "  ".join("-" * width for width in widths)]
    aligned += [_line(row, widths, answer.estimated) for row in cells]
    if len(answer.rows) > _ROWS_OF_TEXT:
        aligned.append(f"... and {len(answer.rows) - _ROWS_OF_TEXT:,} more rows")
    return "\n".join([*aligned, "", *answer_notes(answer)])


def answer_notes(answer: AnswerTable) -> list[str]:
    """Return notes on an answer: the meaning of its numbers, their source and their price."""
    of = "the population's value" if answer.coverage.against is Against.POPULATION else "the exact value"
    each = "All intervals together hold" if answer.coverage.together else "Each interval holds"
    if answer.coverage.any_choice:
        each = "Whatever the question was chosen by, all intervals together hold"
    over = " over the rows that count" if answer.about else ""
    if_named = " if its row was named beforehand" if answer.coverage.beforehand else ""
    sure = f"with probability {answer.confidence:.15g} or more{if_named}"
    stated = f"{each} {of}{over} {sure}. {answer.about}".rstrip()
    notes = [stated] if any(answer.estimated) else []
    notes.append(f"Source: {answer.source}. Price: {answer.price}. Mechanism: {answer.mechanism}.")
    return [printable(line) for line in notes + [f"Note: {warning}" for warning in answer.warnings]]


def cell_text(cell: Cell) -> str:
    """Return a cell in readable form."""
    if isinstance(cell, Estimate):
        return str(cell)
    return "NULL" if cell is None else label_text(cell)


def interval_text(estimate: Estimate) -> str:
    """Return the interval of an estimate in readable form."""
    digits = decimal_places(estimate.within) if math.isfinite(estimate.within) else 3
    return f"{format_number(estimate.low, digits)} to {format_number(estimate.high, digits)}"


def to_json(answer: AnswerTable) -> str:
    """Return the answer as JSON text. Unknown bounds and unknown values are null."""
    columns = [_json_column(answer, number) for number in range(len(answer.columns))]
    document = {
        "format": JSON_FORMAT,
        "question": answer.question.text,
        "columns": columns,
        "rows": [[_json_cell(cell) for cell in row.cells] for row in answer.rows],
        "confidence": answer.confidence,
        "against": answer.coverage.against.value,
        "simultaneous": answer.coverage.together,
        "accuracy": [
            {"column": column.column, "worst": _finite(column.worst), "typical": _finite(column.typical)}
            for column in column_accuracy(answer.columns, answer.estimated, answer.rows)
        ],
        "source": answer.source,
        "price": answer.price.to_document(),
        "mechanism": answer.mechanism,
        "theorem": answer.theorem,
        "receipt": answer.receipt,
        "head": answer.head,
        "version": answer.version,
        "stale": answer.stale,
        "about": answer.about,
        "warnings": list(answer.warnings),
        "any_choice": answer.coverage.any_choice,
        "selected": answer.coverage.selected,
        "reused": answer.reused,
        "keys": _json_keys(answer),
    }
    return printable_json(json.dumps(document, ensure_ascii=False, allow_nan=False))


def _json_column(answer: AnswerTable, number: int) -> dict[str, object]:
    """Return the name and kind of a column, and what a reader needs to have its values back as they were."""
    column: dict[str, object] = {
        "name": answer.columns[number],
        "kind": "estimate" if answer.estimated[number] else "label",
    }
    cells = [row.cells[number] for row in answer.rows]
    if any(isinstance(cell.value if isinstance(cell, Estimate) else cell, date) for cell in cells):
        column["type"] = "date"
    if answer.approximate[number]:
        column["approximate"] = True
    if answer.key_places[number] is not None:
        column["key"] = answer.key_places[number]
    if math.isfinite(answer.lower_bounds[number]):
        column["lower"] = answer.lower_bounds[number]
    return column


def _json_keys(answer: AnswerTable) -> list[dict[str, object]]:
    """Return the typed values of each key, and the labels of keys that no column shows."""
    keys: list[dict[str, object]] = []
    for place in range(len(answer.rows[0].keys) if answer.rows else 0):
        values = [row.values[place] for row in answer.rows]  # noqa: PD011  a row of ours
        key: dict[str, object] = {"values": [_json_value(value) for value in values]}
        if any(isinstance(value, date) for value in values):
            key["type"] = "date"
        if place not in answer.key_places:
            labels = [row.keys[place] for row in answer.rows]
            key["labels"] = [_json_value(label) for label in labels]
            if any(isinstance(label, date) for label in labels):
                key["label_type"] = "date"
        keys.append(key)
    return keys


def _line(cells: tuple[str, ...] | list[str], widths: list[int], estimated: tuple[bool, ...]) -> str:
    pairs = zip(cells, widths, estimated, strict=True)
    return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in pairs).rstrip()


def _json_cell(cell: Cell) -> object:
    if isinstance(cell, Estimate):
        return {"value": _json_value(cell.value), "low": _json_value(cell.low), "high": _json_value(cell.high)}
    return _json_value(cell)


def _json_value(value: EstimateValue | Label | None) -> object:
    """Return a value as JSON represents it; fractions are rounded to doubles, dates are texts."""
    match value:
        case date():
            return value.isoformat()
        case Fraction():
            return float(value)
        case float():
            return _finite(value)
        case _:
            return value


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


# --- Answers as tables of other libraries. ---


PlainValue = float | int | str | bool | date | None


def to_pandas(answer: AnswerTable, *, typed: bool) -> pd.DataFrame:
    """Return a pandas frame; with `typed`, each key column has one type, and missing values are missing.

    Otherwise labels keep their types, so a column may mix numbers and `<missing>`.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InvalidRequest("A pandas frame needs pandas: install dodona[frames].") from error
    columns: dict[str, pd.Series] = {}
    for name, kind, values in _columns(answer, typed=typed, spell=_plain_value):
        if kind == "key":
            columns[name] = _series(pd, values)
        else:
            columns[name] = pd.Series(values, dtype=object) if kind == "label" else pd.Series(values)
    return pd.DataFrame(columns)


def _series(pd: Any, values: list[PlainValue]) -> pd.Series:  # noqa: ANN401  the module, which need not be installed
    """Return keys in the pandas type that supports missing values."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pd.Series(values, dtype="boolean")
    if known and all(isinstance(value, int) for value in known):
        return pd.Series(values, dtype="Int64")
    if known and all(isinstance(value, date) for value in known):
        return pd.Series(values, dtype="datetime64[s]")
    return pd.Series(values, dtype="float64" if known and isinstance(known[0], float) else object)


def to_polars(answer: AnswerTable, *, typed: bool) -> pl.DataFrame:
    """Return a polars frame; labels are texts, or typed values with `typed`."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise InvalidRequest("A polars frame needs polars: install dodona[frames].") from error
    return pl.DataFrame(plain_columns(answer, typed=typed))


def to_arrow(answer: AnswerTable, *, typed: bool) -> pa.Table:
    """Return an Arrow table; labels are texts, or typed values with `typed`."""
    import pyarrow as pa

    return pa.table(plain_columns(answer, typed=typed))


def plain_columns(answer: AnswerTable, *, typed: bool = False) -> dict[str, list[PlainValue]]:
    """Return the columns with one type each: labels become texts, as a number may appear next to `<missing>`.

    With `typed`, keys are typed values, and None if missing.
    """
    return {name: values for name, _, values in _columns(answer, typed=typed, spell=label_text)}


def _columns(
    answer: AnswerTable, *, typed: bool, spell: Callable[[Label | float], PlainValue]
) -> Iterator[tuple[str, Literal["key", "label", "estimate"], list[PlainValue]]]:
    """Yield each column's name, kind and values; an estimate is three columns: the value and both ends."""
    for number, name, estimated in _names(answer):
        cells, place = [row.cells[number] for row in answer.rows], answer.key_places[number]
        if estimated:
            known = [cell if isinstance(cell, Estimate) else None for cell in cells]
            yield name, "estimate", _unify_types([None if cell is None else cell.value for cell in known])
            yield f"{name}_low", "estimate", _unify_types([None if cell is None else cell.low for cell in known])
            yield f"{name}_high", "estimate", _unify_types([None if cell is None else cell.high for cell in known])
        elif typed and place is not None:
            yield name, "key", [row.values[place] for row in answer.rows]  # noqa: PD011  a row of ours
        else:
            labels = [cell for cell in cells if not isinstance(cell, Estimate)]
            yield name, "label", [None if label is None else spell(label) for label in labels]


def _names(answer: AnswerTable) -> list[tuple[int, str, bool]]:
    """Return the index, name and kind of each column, with distinct names."""
    taken = set[str]()
    names = []
    for number, (name, estimated) in enumerate(zip(answer.columns, answer.estimated, strict=True)):
        free, times = name, 1
        while not taken.isdisjoint({free, f"{free}_low", f"{free}_high"} if estimated else {free}):
            times += 1
            free = f"{name}_{times}"
        taken |= {free, f"{free}_low", f"{free}_high"} if estimated else {free}
        names.append((number, free, estimated))
    return names


def _unify_types(values: list[EstimateValue | None]) -> list[PlainValue]:
    """Return integers if all values are integers, dates if there are dates, floats otherwise.

    An end of dates that is unbounded is None.

    >>> _unify_types([date(2024, 1, 1), -math.inf])
    [datetime.date(2024, 1, 1), None]
    """
    if any(isinstance(value, date) for value in values):
        return [value if isinstance(value, date) else None for value in values]
    if all(value is None or isinstance(value, int) for value in values):
        return [None if value is None else _plain_value(value) for value in values]
    return [None if value is None or isinstance(value, date) else float(value) for value in values]


def _plain_value(value: EstimateValue | Label | float) -> PlainValue:
    return float(value) if isinstance(value, Fraction) else value
