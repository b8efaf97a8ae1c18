"""Answers as tables of other libraries."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dodona.answer.estimate import Estimate, Measure
from dodona.answer.labels import KeyValue
from dodona.answer.rows import key_order, shown_columns
from dodona.answer.written import label_text
from dodona.domain.attribute import Label
from dodona.errors import InvalidRequest
from dodona.query.expression import KeyOf

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dodona.answer.answer import Answer

Plain = float | int | str | bool | date | None


def to_pandas(answer: Answer, *, typed: bool = False) -> pd.DataFrame:
    """Return a pandas frame; labels keep their own types, so a column may hold numbers and `<missing>`.

    With `typed` each column of keys has one type, and what is missing is missing.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InvalidRequest("A pandas frame needs pandas: install dodona[frames].") from error
    labels, estimates = _labels(answer), _estimates(answer)
    values = _values(answer) if typed else {}
    found: dict[str, pd.Series] = {}
    for name in _order(answer):
        if name in values:
            found[name] = _series(pd, values[name])
        elif name in labels:
            found[name] = pd.Series([_plain(label) for label in labels[name]], dtype=object)
        else:
            found[name] = pd.Series(estimates[name])
    return pd.DataFrame(found)


def _series(pd: Any, values: list[KeyValue]) -> pd.Series:  # noqa: ANN401  the module, which need not be installed
    """Return keys as the type of pandas that knows missing values."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pd.Series(values, dtype="boolean")
    if known and all(isinstance(value, int) for value in known):
        return pd.Series(values, dtype="Int64")
    if known and all(isinstance(value, date) for value in known):
        return pd.Series(values, dtype="datetime64[s]")
    return pd.Series(values, dtype="float64" if known and isinstance(known[0], float) else object)


def to_polars(answer: Answer, *, typed: bool = False) -> pl.DataFrame:
    """Return a polars frame; labels are texts, or with `typed` what they stand for."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise InvalidRequest("A polars frame needs polars: install dodona[frames].") from error
    return pl.DataFrame(plain_columns(answer, typed=typed))


def to_arrow(answer: Answer, *, typed: bool = False) -> pa.Table:
    """Return an Arrow table; labels are texts, or with `typed` what they stand for."""
    import pyarrow as pa

    return pa.table(plain_columns(answer, typed=typed))


def plain_columns(answer: Answer, *, typed: bool = False) -> dict[str, list[Plain]]:
    """Return the columns with one type each: labels become texts, as a number may stand beside `<missing>`.

    With `typed`, keys are what they stand for, and None where that is missing.
    """
    labels, estimates = _labels(answer), _estimates(answer)
    texts: dict[str, list[Plain]] = {name: [label_text(label) for label in column] for name, column in labels.items()}
    found = texts | estimates | (_values(answer) if typed else {})
    return {name: found[name] for name in _order(answer)}


def _names(answer: Answer) -> list[tuple[int, str, bool]]:
    """Return the number, name and kind of each column, with names that differ from each other."""
    taken = set[str]()
    found = []
    for number, (name, estimated) in enumerate(zip(answer.columns, answer.estimated, strict=True)):
        free, times = name, 1
        while not taken.isdisjoint({free, f"{free}_low", f"{free}_high"} if estimated else {free}):
            times += 1
            free = f"{name}_{times}"
        taken |= {free, f"{free}_low", f"{free}_high"} if estimated else {free}
        found.append((number, free, estimated))
    return found


def _order(answer: Answer) -> list[str]:
    return [
        full
        for _, name, estimated in _names(answer)
        for full in ((name, f"{name}_low", f"{name}_high") if estimated else (name,))
    ]


def _labels(answer: Answer) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = {}
    for number, name, estimated in _names(answer):
        if not estimated:
            cells = (row.cells[number] for row in answer.rows)
            found[name] = [cell for cell in cells if not isinstance(cell, Estimate)]
    return found


def _values(answer: Answer) -> dict[str, list[KeyValue]]:
    """Return what the keys that are shown stand for, by the names of their columns."""
    order, shown = key_order(answer.question), shown_columns(answer.question)
    found: dict[str, list[KeyValue]] = {}
    for number, name, _ in _names(answer):
        expression = shown[number].expression
        if isinstance(expression, KeyOf):
            place = order.index(expression.key)
            found[name] = [row.values[place] for row in answer.rows]  # noqa: PD011  a row of ours
    return found


def _estimates(answer: Answer) -> dict[str, list[Plain]]:
    """Return three columns for each estimate: the value, and the ends of its interval."""
    found: dict[str, list[Plain]] = {}
    for number, name, estimated in _names(answer):
        if estimated:
            cells = [cell for row in answer.rows if isinstance(cell := row.cells[number], Estimate)]
            found[name] = _typed([cell.value for cell in cells])
            found[f"{name}_low"] = _typed([cell.low for cell in cells])
            found[f"{name}_high"] = _typed([cell.high for cell in cells])
    return found


def _typed(values: list[Measure | None]) -> list[Plain]:
    """Return whole numbers where all are whole, dates where they are dates, floats otherwise."""
    if all(isinstance(value, int | date) for value in values):
        return [_plain(value) for value in values if value is not None]
    return [None if value is None else float(value) for value in values if not isinstance(value, date)]


def _plain(value: Measure | Label) -> Plain:
    return float(value) if isinstance(value, Fraction) else value
